# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The choice of a kernel for every host and cell. Pure.

The inventory lists the kernels that a host may boot, the preferred one first; a host without a list is never
changed:

    l4sbench_kernels: [debian-stock, debian-backports]     # names in kernels/images, or entries in full

or names the only one by `l4sbench_kernel: images/debian-backports`, or allows all that can be installed on
the host's distribution by `l4sbench_kernel: distribution`.

The kernel of a cell depends on the cell and on that list, never on what is running: otherwise a resumed run
would find other kernels under its trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from l4sbench.disk import assets
from l4sbench.disk.document import Document, Tree
from l4sbench.disk.trust import read_code
from l4sbench.errors import BadValueError, InputError, Problem, suggest
from l4sbench.facts.kernels import DISTRIBUTION, KernelWish
from l4sbench.testbeds.ssh.dkms import package
from l4sbench.testbeds.ssh.facts import NodeNeeds, entries_of, node_needs, parts_of_linux, tc_parts
from l4sbench.testbeds.ssh.hosts import MODULES_VARIABLE
from l4sbench.testbeds.ssh.images import BUILD_COMMAND, Image, Offers
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.ssh.facts import HostFacts
    from l4sbench.testbeds.ssh.hosts import Host

VARIABLE: Final = "l4sbench_kernels"
ALWAYS_VARIABLE: Final = "l4sbench_kernel"

Allowed = Mapping[str, tuple[Image, ...]]
"""Host -> kernels that it may boot, the preferred one first; without hosts that are never changed."""


def allowed(
    variables: Mapping[str, Mapping[str, object]], images: Sequence[Image], hosts: Iterable[Host], where: str
) -> Allowed:
    """Return the kernels that the hosts of an inventory may boot.

    Raises:
        InputError: all invalid variables.
    """
    known = {image.name: image for image in images}
    found: dict[str, tuple[Image, ...]] = {}
    problems: list[Problem] = []
    for host in hosts:
        given = variables.get(host.name, {})
        listed = given.get(VARIABLE)
        place = f"{quoted(host.name)}.{VARIABLE}"
        if listed is None:
            named = _named(given.get(ALWAYS_VARIABLE), known, where, f"{quoted(host.name)}.{ALWAYS_VARIABLE}")
            if isinstance(named, Image):
                found[host.name] = (named,)
            elif named is not None:
                problems += named
            continue
        if given.get(ALWAYS_VARIABLE) is not None:
            message = f"{ALWAYS_VARIABLE} names the only kernel to boot, and this variable lists allowed ones"
            problems.append(Problem(where, place, message, "set only one of them"))
        if not isinstance(listed, list):
            message = "must be a list of kernels, the preferred one first"
            problems.append(Problem(where, place, message, f"{VARIABLE}: [debian-backports]"))
            continue
        read = [_image(item, known, where, f"{place}[{number}]") for number, item in enumerate(listed)]
        own = tuple(image for image in read if isinstance(image, Image))
        problems += [problem for wrong in read if not isinstance(wrong, Image) for problem in wrong]
        names = [image.name for image in own]
        for name in sorted({name for name in names if names.count(name) > 1}):
            problems.append(Problem(where, place, f"{quoted(name)} is listed twice"))
        if own:
            found[host.name] = own
    if problems:
        raise InputError(problems)
    return found


def _named(given: object, known: Mapping[str, Image], where: str, place: str) -> Image | list[Problem] | None:
    """Return the entry of kernels/images that `l4sbench_kernel` names, or why it cannot; None without one."""
    if given is None or isinstance(given, Mapping):  # an entry in full is the playbook's
        return None
    try:
        wish = KernelWish.parse(str(given))
    except BadValueError as error:
        return [Problem(where, place, error.message, f"{error.hint}, or an entry in full")]
    return None if wish.entry is None else _image(wish.entry, known, where, place)


def anything(variables: Mapping[str, Mapping[str, object]], hosts: Iterable[Host], *, own: bool) -> set[str]:
    """Return the hosts that may boot all that can be installed on them.

    Args:
        variables: Of all hosts of the inventory.
        hosts: The hosts.
        own: Hosts were made for the run, so those of which the inventory says nothing may do so, too.
    """
    found = set()
    for host in hosts:
        given = variables.get(host.name, {})
        silent = given.get(VARIABLE) is None and given.get(ALWAYS_VARIABLE) is None
        if given.get(ALWAYS_VARIABLE) == DISTRIBUTION or (own and silent):
            found.add(host.name)
    return found


def _image(item: Tree, known: Mapping[str, Image], where: str, place: str) -> Image | list[Problem]:
    if isinstance(item, str):
        if item in known:
            return known[item]
        return [Problem(where, place, f"kernels/images has no {quoted(item)}", suggest(item, known))]
    try:
        return Document("", item).validate(Image)
    except InputError as error:
        return [
            replace(problem, where=where, path=f"{place}.{problem.path}".rstrip("."))
            for problem in error.problems
        ]


@dataclass(frozen=True)
class Choice:
    """Cells that get the same kernels; `state` is host -> name of its kernel."""

    state: Mapping[str, str]
    cells: frozenset[str]


def choose(
    cells: Sequence[Cell], catalog: Catalog, hosts: Sequence[Host], may: Allowed
) -> tuple[tuple[Choice, ...], tuple[Problem, ...]]:
    """Return a kernel per host and cell, and a problem for every host without a suitable one.

    Every host gets as few kernels as its cells allow, the preferred ones first.
    """
    needs = {cell.id: node_needs([cell], catalog) for cell in cells}
    chosen: dict[str, dict[str, str]] = {cell.id: {} for cell in cells}
    problems: list[Problem] = []
    for host in hosts:
        offered = may.get(host.name)
        if not offered:
            continue
        lacks = {cell: _lacking(offered, together(host, of)) for cell, of in needs.items()}
        fits = {cell: [name for name, what in of.items() if not what] for cell, of in lacks.items()}
        without = [cell for cell, names in fits.items() if not names]
        if without:
            problems.append(_none_will_do(host, without, lacks[without[0]]))
        for cell, name in _cover(fits, [image.name for image in offered]).items():
            chosen[cell][host.name] = name
        for cell in without:
            del chosen[cell], needs[cell]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for cell, kernels in chosen.items():
        groups.setdefault(tuple(kernels.items()), []).append(cell)
    return tuple(Choice(dict(key), frozenset(ids)) for key, ids in groups.items()), tuple(problems)


def together(host: Host, needs: Mapping[str, NodeNeeds]) -> NodeNeeds:
    """Return what all nodes of a host need of its kernel, without modules that are copied there."""
    found = NodeNeeds()
    for node in host.nodes:
        one = needs.get(node, NodeNeeds())
        found.needs |= one.needs
        found.ccs |= one.ccs
        found.modules |= one.modules - host.brings
        found.parts |= one.parts - host.brings
        found.queues |= one.queues
        found.accecn |= one.accecn
        found.traffic = found.traffic or one.traffic
        found.tools |= one.tools
    return found


def _lacking(offered: Sequence[Image], needs: NodeNeeds) -> dict[str, tuple[str, ...]]:
    return {image.name: image.lacks(needs) for image in offered}


def _none_will_do(host: Host, cells: Sequence[str], lacks: Mapping[str, Sequence[str]]) -> Problem:
    each = "; ".join(f"{name} has no {', '.join(what)}" for name, what in lacks.items())
    more = f" and {len(cells) - 1} more cells" if len(cells) > 1 else ""
    message = f"none of its kernels suffices for {cells[0]}{more}: {each}"
    hint = f"kernels/images lists others, and {MODULES_VARIABLE} copies modules (l4sbench docs ssh)"
    return Problem("", f"{host.name}.{VARIABLE}", message, hint)


def _cover(fits: Mapping[str, Sequence[str]], order: Sequence[str]) -> dict[str, str]:
    """Return cell -> kernel: repeatedly the kernel that suffices for most of the remaining cells."""
    left = {cell for cell, names in fits.items() if names}
    found: dict[str, str] = {}
    while left:
        best = max(order, key=lambda name: (sum(name in fits[cell] for cell in left), -order.index(name)))
        covered = {cell for cell in left if best in fits[cell]}
        found |= dict.fromkeys(covered, best)
        left -= covered
    return found


def running(may: Allowed, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """Return host -> name of the kernel of its list that it runs, for hosts that run one."""
    return {
        host: name
        for host, images in may.items()
        if host in facts
        and (name := next((i.name for i in images if i.runs(facts[host].kernel_release)), None))
    }


def unfit_kernels(may: Allowed, facts: Mapping[str, HostFacts]) -> Iterator[Problem]:
    """Return a problem for every kernel that is not for a host's distribution."""
    for host, images in may.items():
        distribution = facts[host].distribution
        for image in images:
            if distribution and distribution not in image.distributions:
                message = (
                    f"{image.name} is for {', '.join(image.distributions)}, and the host runs {distribution}"
                )
                yield Problem("", f"{host}.{VARIABLE}", message)


def advice(
    cells: Sequence[Cell],
    catalog: Catalog,
    hosts: Sequence[Host],
    facts: Mapping[str, HostFacts],
    images: Sequence[Image],
    may: Allowed,
) -> Iterator[str]:
    """Yield, for hosts that are never changed and cannot run the cells, the kernels that would suffice."""
    needs = node_needs(cells, catalog)
    wanted: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        if host.name in may or host.name not in facts:
            continue
        seen, own = facts[host.name], together(host, needs)
        lacks = _as_it_is(seen).lacks(own)
        if not lacks:
            continue
        there = [image for image in images if seen.distribution in image.distributions]
        will_do = [(i, "") for i in there if not i.lacks(own)]
        will_do += [(i, ", ".join(sorted(own.modules))) for i in there if not {*i.lacks(own)} - own.modules]
        will_do.sort(key=lambda image: bool(image[0].obstacle))
        release = f"Linux {seen.kernel_release} without {', '.join(lacks)}"
        image, modules = will_do[0] if will_do else (None, "")
        wanted.setdefault((release, image.name if image else "", modules), []).append(host.name)
    obstacles = {image.name: image.obstacle for image in images}
    built = {image.name for image in images if image.built}
    for (release, name, modules), names in wanted.items():
        who = f"{', '.join(names)}: {release}"
        if obstacles.get(name):
            yield f"{who}; of kernels/images only {name} suffices, which is {obstacles[name]}"
        elif name:
            brought = f" and {modules} by `{MODULES_VARIABLE}` (l4sbench docs ssh)" if modules else ""
            allow = f"with `{VARIABLE}: [{name}]`{brought} in the inventory"
            first = f", after `{BUILD_COMMAND}`" if name in built else ""
            yield f"{who}; {allow} a run boots a suitable one{first}"
        else:
            yield f"{who}, and kernels/images has no suitable kernel"


def not_installable(may: Allowed, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Yield the kernels of an inventory's lists that hosts do not run and cannot install."""
    now = running(may, facts)
    hosts: dict[Image, list[str]] = {}
    for host, listed in may.items():
        for image in listed:
            if image.obstacle and now.get(host) != image.name:
                hosts.setdefault(image, []).append(host)
    for image, names in hosts.items():
        yield f"{', '.join(names)}: {image.name} is {image.obstacle}"


def own_kernels(
    cells: Sequence[Cell],
    catalog: Catalog,
    hosts: Sequence[Host],
    facts: Mapping[str, HostFacts],
    images: Sequence[Image],
) -> Allowed:
    """Return what hosts that were made for the run may boot: all that can be installed on them.

    Hosts whose kernel suffices for all cells are left out.
    """
    needs = node_needs(cells, catalog)
    lacking = [host for host in hosts if _as_it_is(facts[host.name]).lacks(together(host, needs))]
    found = {
        host.name: tuple(
            image
            for image in images
            if facts[host.name].distribution in image.distributions and (image.packages or image.files)
        )
        for host in lacking
    }
    return {host: offered for host, offered in found.items() if offered}


@dataclass(frozen=True)
class ModuleSource:
    """A module that hosts can build by DKMS.

    Attributes:
        name: Its name.
        version: Its version for DKMS, which changes with the source.
        folder: Folder with its source.
        kernel: Oldest release that it builds for.
        tc: Queues of which the folder has tc's part.
        linux_file: For a part of Linux, its C source there; otherwise empty.
        linux_option: The option of Linux that builds it in, without CONFIG_; empty for others.
    """

    name: str
    version: str
    folder: Path
    kernel: str
    tc: tuple[str, ...]
    linux_file: str = ""
    linux_option: str = ""

    def variables(self) -> dict[str, object]:
        """Return it as roles/module takes it."""
        given = {**asdict(self), "folder": str(self.folder), "tc": list(self.tc)}
        return {name: value for name, value in given.items() if value != ""}


def module_sources(catalog: Catalog, names: Iterable[str]) -> list[ModuleSource]:
    """Return those of these modules that DKMS can build: ours, and the parts of Linux that it can."""
    folders = {entry.module.name: entry.module.source for entry in entries_of(catalog) if entry.module}
    folders |= parts_of_linux()
    found: list[ModuleSource] = []
    for name in dict.fromkeys(names):
        source = folders.get(name)
        made = source and package(read_code(source, links_below=assets.folder("kernels")))
        if source and made:
            found.append(
                ModuleSource(
                    name=name,
                    version=made.version,
                    folder=source,
                    kernel=made.kernel,
                    tc=tuple(tc_parts(source)),
                    linux_file=made.linux_file,
                    linux_option=made.linux_option,
                )
            )
    return found


def _as_it_is(seen: HostFacts) -> Image:
    """Return the kernel that a host runs, as an image."""
    return Image(
        name="as-it-is",
        about="The running kernel.",
        rank=1,
        distributions=(seen.distribution or "?",),
        release=".*",
        offers=Offers(kernel=seen.kernel_release, accecn=seen.accecn, builds=tuple(seen.modules)),
        evidence="Reported by the host.",
    )
