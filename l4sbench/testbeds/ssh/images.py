# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernels that can be installed, and which one every node needs for a matrix. The data is kernels/images.

Which image offers an entry of the catalog: one that names it, or one whose release is as new as the entry
needs and that can build the entry's module, if that is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench import assets
from l4sbench.errors import InputError, Problem
from l4sbench.testbeds.ssh.facts import node_needs, older

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.testbeds.ssh.facts import HostFacts, NodeNeeds

SHA256: Final = r"[0-9a-f]{64}"
Assignment = Mapping[str, str]
"""Node -> name of its image."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class File(_Strict):
    """A package file, or an archive of such; `sha256` where one is known."""

    url: str = Field(pattern=r"https://\S+")
    sha256: str | None = Field(default=None, pattern=SHA256)


class Repository(_Strict):
    """Sources to add, as ansible.builtin.deb822_repository takes them.

    `uris`: None where they are those of the archive that the host itself uses.
    """

    uris: str | None = None
    suites: str
    components: str = "main"
    signed_by: str | None = None


class Offers(_Strict):
    """What runs on it.

    Attributes:
        kernel: Release, as entries of the catalog state what they need.
        accecn: Whether it negotiates AccECN.
        builds: Kernel modules of ours that can be built for it.
        entries: Catalog entries it brings whatever its release.
        not_entries: Catalog entries that mean something else on it.
    """

    kernel: str
    accecn: bool
    builds: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    not_entries: tuple[str, ...] = ()


class Image(_Strict):
    """An installable kernel: one file of kernels/images.

    Attributes:
        name: The file's name.
        about: One sentence.
        rank: Of several that would do, the lowest is taken.
        distributions: What it can be installed on.
        release: Regular expression for the whole of `uname -r`.
        repository: Sources of its packages, where the distribution's own do not have them.
        packages: Packages to install.
        files: Files to install; without packages and files it is installed by hand, see `page`.
        page: Where it is to be had.
        offers: What runs on it.
        studies: Published studies that ran it.
        evidence: How well it is known to work.
        defects: What is known to be wrong with it.
    """

    name: str = Field(pattern=r"[a-z0-9][a-z0-9-]*")
    about: str
    rank: int = Field(ge=1)
    distributions: tuple[str, ...] = Field(min_length=1)
    release: str
    repository: Repository | None = None
    packages: tuple[str, ...] | None = None
    files: tuple[File, ...] | None = None
    page: str | None = None
    offers: Offers
    studies: tuple[str, ...] = ()
    evidence: str
    defects: tuple[str, ...] = ()

    def fits(self, needs: NodeNeeds) -> bool:
        """Whether everything a node needs runs on it."""
        if needs.accecn and not self.offers.accecn:
            return False
        if not needs.modules <= {*self.offers.builds, *self.offers.entries}:
            return False
        return all(
            name in self.offers.entries
            or (
                name not in self.offers.not_entries
                and not (need.kernel and older(self.offers.kernel, need.kernel))
            )
            for name, need in needs.needs.items()
        )

    def runs(self, release: str) -> bool:
        """Whether `uname -r` says that it runs."""
        return re.fullmatch(self.release, release) is not None

    def variables(self) -> dict[str, object]:
        """As the role `kernel` takes it."""
        kept = {"name", "release", "repository", "packages", "files"}
        return self.model_dump(mode="json", include=kept, exclude_none=True)


def load_images(folder: Path | None = None) -> tuple[Image, ...]:
    """All images, the preferred ones first.

    Raises:
        InputError: a file is wrong; all problems are told.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    found: list[Image] = []
    problems: list[Problem] = []
    for path in sorted((folder or assets.folder("kernels") / "images").glob("*.yml")):
        try:
            image = Image.model_validate(YAML(typ="safe").load(path))
            re.compile(image.release)
        except ValidationError as error:
            problems += [Problem(str(path), ".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        except (YAMLError, re.error) as error:
            problems.append(Problem(str(path), "", str(error)))
        else:
            if image.name != path.stem:
                problems.append(Problem(str(path), "name", f"{image.name} is not the file's name"))
            found.append(image)
    if problems:
        raise InputError(problems)
    return tuple(sorted(found, key=lambda image: (image.rank, image.name)))


@dataclass(frozen=True)
class KernelGroup:
    """Cells that run on one assignment of images to nodes, and how many hosts restart before them."""

    images: Assignment
    cells: tuple[str, ...]
    restarts: int


@dataclass(frozen=True)
class KernelPlan:
    """The order in which cells run with the fewest restarts, and the nodes for which no image is known."""

    groups: tuple[KernelGroup, ...]
    lacking: Mapping[str, tuple[str, ...]]

    @property
    def restarts(self) -> int:
        """Of all groups together."""
        return sum(group.restarts for group in self.groups)


def plan_kernels(
    cells: Sequence[Cell],
    catalog: Catalog,
    images: Sequence[Image],
    told: Mapping[str, HostFacts] | None = None,
) -> KernelPlan:
    """Pick an image per node and cell, and put cells of the same images together.

    Every node gets as few images as its cells allow, preferred ones first. Groups follow one another so that
    each next one changes the fewest nodes.

    Args:
        cells: What is to run.
        catalog: What they are made from.
        images: In order of preference.
        told: Node -> what its host told, as far as known. What runs there counts as an image that needs no
            restart, and only images for the host's distribution do.
    """
    now = {node: _as_it_is(facts) for node, facts in (told or {}).items()}
    distributions = {node: facts.distribution for node, facts in (told or {}).items()}
    needs = {cell.id: node_needs([cell], catalog) for cell in cells}
    nodes = list(dict.fromkeys(node for wanted in needs.values() for node in wanted))
    chosen: dict[str, dict[str, str]] = {cell.id: {} for cell in cells}
    lacking: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        offered = [i for i in images if node not in distributions or distributions[node] in i.distributions]
        if node in now:
            offered.insert(0, now[node])
        fits = {
            cell: [i.name for i in offered if i.fits(of[node])] for cell, of in needs.items() if node in of
        }
        missing = tuple(cell for cell, names in fits.items() if not names)
        if missing:
            lacking[node] = missing
        for cell, name in _cover(fits, [image.name for image in offered]).items():
            chosen[cell][node] = name
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for cell, images_of in chosen.items():
        if not any(cell in cells_without for cells_without in lacking.values()):
            groups.setdefault(tuple(images_of.items()), []).append(cell)
    return KernelPlan(tuple(_in_order(groups, {node: image.name for node, image in now.items()})), lacking)


def _cover(fits: Mapping[str, Sequence[str]], order: Sequence[str]) -> dict[str, str]:
    """Cell -> image: again and again the image that does for most of the cells that are left."""
    left = {cell for cell, names in fits.items() if names}
    found: dict[str, str] = {}
    while left:
        best = max(order, key=lambda name: (sum(name in fits[cell] for cell in left), -order.index(name)))
        covered = {cell for cell in left if best in fits[cell]}
        found |= dict.fromkeys(covered, best)
        left -= covered
    return found


def _as_it_is(facts: HostFacts) -> Image:
    """The kernel that a host runs, as an image."""
    modules = tuple(facts.modules)
    return Image(
        name="as-it-is",
        about=f"Linux {facts.kernel_release}, which runs there.",
        rank=1,
        distributions=(facts.distribution or "?",),
        release=re.escape(facts.kernel_release),
        offers=Offers(kernel=facts.kernel_release, accecn=facts.accecn, builds=modules),
        evidence="The host told.",
    )


def _in_order(
    groups: Mapping[tuple[tuple[str, str], ...], list[str]], now: Mapping[str, str]
) -> Iterable[KernelGroup]:
    left = dict(groups)
    state = dict(now)
    while left:
        nearest = min(left, key=lambda key: sum(state.get(node) != name for node, name in key))
        restarts = sum(state.get(node) != name for node, name in nearest)
        yield KernelGroup(dict(nearest), tuple(left.pop(nearest)), restarts)
        state |= dict(nearest)
