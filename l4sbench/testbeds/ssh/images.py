# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Installable kernels (data in kernels/images), and the catalog entries that run on each.

An image offers a catalog entry when it names the entry, or when its release is new enough for the entry and
it can build the entry's module, if the module is ours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from l4sbench.disk import assets
from l4sbench.disk.document import Flaw, load_model
from l4sbench.errors import BadValueError, InputError, Problem
from l4sbench.testbeds.ssh.facts import older
from l4sbench.text.expressions import matches, valid_expression
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from l4sbench.testbeds.ssh.facts import NodeNeeds

BUILD_COMMAND: Final = "l4sbench kernel build"
CARRIED: Final = "tc"
"""The program that is brought to hosts whose distribution has none that is new enough."""

SHA256: Final = r"^[0-9a-f]{64}$"
_BRANCH: Final = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/(?![0-9a-f]{40}/)")


def _pinned(url: str) -> str:
    if _BRANCH.match(url):
        raise BadValueError(
            f"{quoted(url)} names a branch or a tag, which moves", "name the commit, all 40 digits"
        )
    return url


class PackageFile(Strict):
    """A package file, or an archive of package files. Hosts install it as root, hence the checksum."""

    url: Annotated[str, Field(pattern=r"^https://\S+$"), AfterValidator(_pinned)]
    sha256: str = Field(pattern=SHA256)


class Repository(Strict):
    """A package repository to add.

    `uris`: None for those of the archive that the host itself uses.
    """

    uris: str | None = None
    suites: str
    components: str = "main"
    signed_by: str | None = None


class Tool(Strict):
    """A program whose version in the distribution is too old.

    Attributes:
        package: Package that contains it.
        program: Its name in a host's facts.
        version: Oldest sufficient version.
        repository: Repository for this package only; None: the lab's program is brought, with its libraries.
    """

    package: str
    program: str
    version: str
    repository: Repository | None = None

    @model_validator(mode="after")
    def _has_a_source(self) -> Tool:
        if self.repository is None and self.program != CARRIED:
            raise ValueError(f"{quoted(self.program)} needs a repository: only {CARRIED} is brought")
        return self


class Offers(Strict):
    """Features of a kernel image.

    Attributes:
        kernel: Release, to be compared with what catalog entries need.
        accecn: True if it negotiates AccECN.
        builds: Kernel modules, ours and parts of Linux, that DKMS can build for it.
        entries: Catalog entries it offers whatever its release.
        not_entries: Catalog entries that behave differently on it, or that it is built without; one whose
            module it builds runs on it nevertheless.
    """

    kernel: str
    accecn: bool
    builds: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    not_entries: tuple[str, ...] = ()


class Image(Strict):
    """An installable kernel: one file of kernels/images.

    Attributes:
        name: The file's name.
        about: One sentence.
        rank: Of several suitable images, the lowest rank is taken.
        distributions: Distributions on which it can be installed.
        release: Regular expression for the whole of `uname -r`.
        repository: Repository of its packages, if the distribution does not contain them.
        packages: Packages to install.
        files: Files to install; an image without packages and files is installed by hand, see `page`.
        built: True if its packages are those that `l4sbench kernel build` makes.
        page: Address of a page that offers it.
        not_installable: Why it has neither packages nor files, such as `no checksum is known`.
        tools: Newer programs that its features need.
        offers: Its features.
        studies: Published studies that ran it.
        evidence: How it was tested.
        defects: Known defects.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    about: str
    rank: int = Field(ge=1)
    distributions: tuple[str, ...] = Field(min_length=1)
    release: Annotated[str, AfterValidator(valid_expression)]
    repository: Repository | None = None
    packages: tuple[str, ...] | None = None
    files: tuple[PackageFile, ...] | None = None
    built: bool = False
    page: str | None = None
    not_installable: str | None = None
    tools: tuple[Tool, ...] | None = None
    offers: Offers
    studies: tuple[str, ...] = ()
    evidence: str
    defects: tuple[str, ...] = ()

    @property
    def obstacle(self) -> str:
        """The reason why hosts cannot install it, and where a person can get it; empty if hosts can."""
        if self.packages or self.files or self.built:
            return ""
        place = f"; install it by hand: {self.page}" if self.page else ""
        return f"not installable: {self.not_installable or 'it has neither packages nor files'}{place}"

    def lacks(self, needs: NodeNeeds) -> tuple[str, ...]:
        """Return the catalog entries and modules of a node's needs that do not run on it."""
        offers = self.offers
        entries = [
            name
            for name, need in needs.needs.items()
            if name not in offers.entries
            and (
                (name in offers.not_entries and not {*need.modules} & {*offers.builds})
                or (need.kernel and older(offers.kernel, need.kernel))
            )
        ]
        modules = sorted(needs.modules - {*offers.builds, *offers.entries})
        accecn = [] if offers.accecn else sorted(needs.accecn)
        return tuple(dict.fromkeys((*entries, *modules, *accecn)))

    def runs(self, release: str) -> bool:
        """Return True if this release, as `uname -r` prints it, is this image."""
        return matches(release, self.release)

    def variables(self) -> dict[str, object]:
        """Return the image as a variable of the role `kernel`."""
        kept = {"name", "release", "repository", "packages", "files", "tools"}
        variables = self.model_dump(mode="json", include=kept, exclude_none=True)
        variables |= {"built": True} if self.built else {}
        return {**variables, **({"obstacle": self.obstacle} if self.obstacle else {})}


def read_image(path: Path) -> Image:
    """Read an image from a file of `kernels/images`.

    Raises:
        InputError: all problems of the file.
    """
    return load_model(path, Image, check=lambda image: _misnamed(image, path.stem))


def _misnamed(image: Image, stem: str) -> Iterator[Flaw]:
    if image.name != stem:
        yield Flaw(("name",), f"expected {stem}, the name of the file, not {quoted(image.name)}")


def load_images() -> tuple[Image, ...]:
    """Read all images of `kernels/images`, and sort them by rank.

    Raises:
        InputError: all problems of all files.
    """
    found: list[Image] = []
    problems: list[Problem] = []
    for path in sorted((assets.folder("kernels") / "images").glob("*.yml")):
        try:
            found.append(read_image(path))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return tuple(sorted(found, key=lambda image: (image.rank, image.name)))
