# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A kernel package of our own for hosts: one Linux for Debian 12 and 13 and Ubuntu 22.04 and 24.04.

It is made from the lab's source, by the kernel's own packaging, with Debian's configuration for clouds and
the additions in `kernels/hosts/kernel.config`. Equal inputs give equal packages: they are kept by the digest
of the inputs below `host-kernels/` in the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field

from l4sbench.disk import assets
from l4sbench.disk.files import remove_leftovers, unfinished_folder, write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.images import SHA256
from l4sbench.testbeds.virtual.lab.builder import compiler_version
from l4sbench.testbeds.virtual.lab.cache import digest_of, digest_of_file, read_note
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.doctor import Check, program_checks, require
from l4sbench.testbeds.virtual.lab.kernel import REPEATABLE, make, missing_options
from l4sbench.testbeds.virtual.lab.source import version_key
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from l4sbench.testbeds.virtual.lab.aptsources import Archive
    from l4sbench.testbeds.virtual.lab.cache import Cache
    from l4sbench.testbeds.virtual.lab.scratchapt import Package, ScratchApt
    from l4sbench.testbeds.virtual.lab.source import Say, Source

FOLDER: Final = "host-kernels"
RELEASE: Final = "l4sbench"
"""Suffix of the kernel's release, after the version."""

_RECIPE: Final = "2"
_EPOCH: Final = "1767225600"  # 2026-01-01, the time of every file in the packages
_DATE: Final = "Thu, 01 Jan 2026 00:00:00 +0000"
_ENVIRONMENT: Final[Mapping[str, str]] = {
    **REPEATABLE,
    "SOURCE_DATE_EPOCH": _EPOCH,
    "KBUILD_BUILD_TIMESTAMP": _DATE,
    "KBUILD_BUILD_HOST": "host",
    # or objtool, a file of the headers, names the folder of the build for debuggers
    "HOSTLDFLAGS": "-s",
}
"""Variables that make equal inputs give equal packages."""
_BASE: Final = "config.amd64_none_cloud-amd64"
_UNPACK_S: Final = 1800
_BUILD_S: Final = 6 * 3600

_PROGRAMS: Final[Mapping[str, str]] = {
    **{name: name for name in ("gcc", "make", "flex", "bison", "bc", "rsync", "patch", "cpio")},
    "dpkg-parsechangelog": "dpkg-dev",
    "dh_builddeb": "debhelper",
    "xz": "xz-utils",
    "depmod": "kmod",
}
"""Programs that the kernel's packaging needs -> the Debian packages that contain them."""

_HEADERS: Final[Mapping[str, str]] = {
    "openssl/opensslv.h": "libssl-dev",
    "libelf.h": "libelf-dev",
    "elfutils/libdw.h": "libdw-dev",
}
"""Headers of libraries that it needs -> the Debian packages that contain them."""

_INCLUDES: Final = (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))


class PackageFileNote(Strict):
    """A package file and its checksum."""

    name: str
    sha256: str = Field(pattern=SHA256)


class PackageNote(Strict):
    """The cache's note on built packages: the kernel's release, what they were made from, and the files."""

    release: str
    source: str
    config: str
    files: tuple[PackageFileNote, ...]


@dataclass(frozen=True)
class KernelPackage:
    """The packages of a kernel, image and headers, in a folder of the cache."""

    path: Path
    note: PackageNote

    @property
    def files(self) -> tuple[Path, ...]:
        """The package files."""
        return tuple(self.path / file.name for file in self.note.files)


def built(cache: Cache) -> KernelPackage | None:
    """Return the newest kernel package in the cache; None if there is none."""
    found = [
        KernelPackage(file.parent, note)
        for file in (cache.root / FOLDER).glob("[!.]*/info.json")
        if (note := read_note(file, PackageNote)) is not None
    ]
    return max(found, key=_age, default=None)


def _age(package: KernelPackage) -> tuple[tuple[int, ...], int]:
    return version_key(package.note.release), package.path.stat().st_mtime_ns


def build(
    cache: Cache, source: Source, base: Path, jobs: int, say: Say, *, force: bool = False
) -> KernelPackage:
    """Build the packages of a kernel for hosts, unless they are built.

    Args:
        cache: The cache.
        source: The kernel source.
        base: The configuration to start from, such as `base_config` returns.
        jobs: Compilations at a time.
        say: Receives progress messages.
        force: Build them again.

    Raises:
        TestbedError: This machine lacks a program, an option of the configuration did not take effect, or a
            step failed.
    """
    fragment = assets.folder("kernels") / "hosts" / "kernel.config"
    configs = [digest_of_file(path) for path in (base, fragment)]
    inputs = digest_of([_RECIPE, source.digest, *configs, compiler_version() or ""])
    target = cache.root / FOLDER / inputs
    note = read_note(target / "info.json", PackageNote)
    if note is not None and not force:
        return KernelPackage(target, note)
    require(_checks(), "build a kernel package")
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    commands = Commands.logging_to(cache.logs / "host-kernel.log", _ENVIRONMENT)
    with unfinished_folder(target.parent) as stage:
        tree = stage / "tree"
        _unpack(commands, source, tree, say)
        _configure(commands, base, fragment, tree, say)
        _package(commands, tree, jobs, say)
        release = (tree / "include" / "config" / "kernel.release").read_text(encoding="utf-8").strip()
        packages = stage / "packages"
        packages.mkdir()
        for deb in sorted(stage.glob("linux-*.deb")):
            deb.rename(packages / deb.name)
        note = PackageNote(
            release=release,
            source=source.description,
            config=base.name,
            files=tuple(_noted(deb) for deb in sorted(packages.iterdir())),
        )
        write_whole(packages / "info.json", note.model_dump_json(indent=1))
        if target.exists():
            target.rename(stage / "old")
        packages.rename(target)
    return KernelPackage(target, note)


def base_config(cache: Cache, archives: tuple[Archive, ...], source: Source, say: Say) -> Path:
    """Fetch Debian's configuration for clouds for the series of a source, such as 7.3; return its file.

    Raises:
        TestbedError: No archive that this machine uses has it, or the source states no version.
    """
    from l4sbench.testbeds.virtual.lab.scratchapt import ScratchApt, why
    from l4sbench.testbeds.virtual.lab.source import KERNEL_SUITES

    series = ".".join(map(str, version_key(source.version)[:2]))
    if not series:
        raise TestbedError(
            f"no configuration is known for {source.description}", "name one with --config FILE"
        )
    name = f"linux-config-{series}"
    target = cache.root / "apt" / f"{name}.{_BASE}"
    if target.is_file():
        return target
    failures = []
    for archive in archives:
        for suite in dict.fromkeys([*KERNEL_SUITES, *archive.suites]):
            say(f"looking for {name} in {suite}", None)
            try:
                apt = ScratchApt.open(cache.root / "apt", archive, suite, cache.logs / f"config-{suite}.log")
                if offered := apt.offered(f"^{re.escape(name)}$"):
                    _fetch_config(apt, offered[0], target)
                    return target
                failures.append(f"{suite} at {archive.uri}: no {name}")
            except TestbedError as error:
                failures.append(f"{suite} at {archive.uri}: {why(error)}")
    tried = "".join(f"\n  {line}" for line in failures) or " no Debian archive is configured"
    raise TestbedError(f"could not obtain {name}:{tried}", "name a file with --config FILE")


def _fetch_config(apt: ScratchApt, package: Package, target: Path) -> None:
    with unfinished_folder(target.parent) as stage:
        (deb,) = apt.download([package], stage)
        one = ("--transform", "s,.*/,,", "--wildcards", f"*/{_BASE}.xz")
        apt.commands.pipe(
            ["dpkg-deb", "--fsys-tarfile", deb],
            ["tar", "-x", "-C", str(stage), "--no-same-owner", *one],
            what=f"unpacking {deb.name}",
            timeout_s=60,
        )
        apt.commands.run(["xz", "-d", stage / f"{_BASE}.xz"], what=f"unpacking {_BASE}", timeout_s=60)
        (stage / _BASE).rename(target)


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages that this machine lacks for building a kernel package."""
    return tuple(sorted({name for check in _checks() if not check.ok for name in check.packages}))


def _checks() -> list[Check]:
    return program_checks({**_PROGRAMS, **_HEADERS}, _is_there)


def _is_there(name: str) -> bool:
    if name in _HEADERS:
        return any((folder / name).is_file() for folder in _INCLUDES)
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def _unpack(commands: Commands, source: Source, tree: Path, say: Say) -> None:
    """Unpack all of a source: unlike the lab's guests, hosts have drivers."""
    say("unpacking the kernel source", None)
    tree.mkdir()
    if source.path.is_dir():
        commands.pipe(
            ["tar", "-c", "-C", source.path, "--exclude=./.git", "."],
            ["tar", "-x", "-C", tree, "--no-same-owner"],
            what="copying the kernel tree",
            timeout_s=_UNPACK_S,
        )
        make(commands, tree, "mrproper", arch="x86_64", what="cleaning the copy of the kernel tree")
    else:
        unpacking = ["tar", "-x", "-C", str(tree), "--no-same-owner", "--strip-components=1"]
        commands.run([*unpacking, "-f", source.path], what="unpacking the kernel source", timeout_s=_UNPACK_S)


def _configure(commands: Commands, base: Path, fragment: Path, tree: Path, say: Say) -> None:
    say("configuring", None)
    asked = fragment.read_text(encoding="utf-8")
    stated = set(re.findall(r"^(CONFIG_\w+)=", asked, re.MULTILINE)) | {"CONFIG_LOCALVERSION"}
    kept = [line for line in base.read_text(encoding="utf-8").splitlines() if _option(line) not in stated]
    lines = [*kept, f'CONFIG_LOCALVERSION="-{RELEASE}"', asked]
    (tree / ".config").write_text("\n".join(lines), encoding="utf-8")
    make(commands, tree, "olddefconfig", arch="x86_64", what="completing the configuration")
    missing = missing_options(asked, (tree / ".config").read_text(encoding="utf-8"))
    if missing:
        raise TestbedError(
            f"this kernel does not take {len(missing)} options for hosts: {', '.join(missing)}",
            hint=f"each may need another option, or be unknown to this version; they come from {fragment}",
        )


def _option(line: str) -> str:
    """Return the option that a line of a configuration sets, or says not to be set."""
    found = re.match(r"(?:# )?(CONFIG_\w+)(?:=| is not set)", line)
    return found[1] if found else ""


def _package(commands: Commands, tree: Path, jobs: int, say: Say) -> None:
    """Build image and headers by the kernel's own packaging, with a changelog that has no time of day."""
    say("making the packaging", None)
    make(commands, tree, "syncconfig", arch="x86_64", what="preparing the configuration")
    make(commands, tree, "include/config/kernel.release", arch="x86_64", what="writing the release")
    script = "KBUILD_RUN_COMMAND=$(srctree)/scripts/package/mkdebian"
    packaging = ("run-command", script, "KDEB_CHANGELOG_DIST=unstable")
    make(commands, tree, *packaging, arch="x86_64", what="making the packaging")
    changelog = tree / "debian" / "changelog"
    lines = changelog.read_text(encoding="utf-8").splitlines()
    fixed = [re.sub(r"(?<=>  ).*", _DATE, line) if line.startswith(" -- ") else line for line in lines]
    changelog.write_text("\n".join(fixed) + "\n", encoding="utf-8")
    count = 0

    def on_line(line: str) -> None:
        nonlocal count
        if re.match(r"  (CC|LD)( \[M\])? ", line):
            count += 1
            if count % 50 == 0:
                say(f"compiling the kernel, {count} files", None)

    rules = ["make", "-C", str(tree), "-f", "debian/rules", f"-j{jobs}", "DEB_HOST_ARCH=amd64"]
    commands.run(
        ["env", "DEB_BUILD_OPTIONS=terse", *rules, "binary-image", "binary-headers"],
        what="compiling and packaging the kernel",
        timeout_s=_BUILD_S,
        on_line=on_line,
    )


def _noted(deb: Path) -> PackageFileNote:
    with deb.open("rb") as stream:
        return PackageFileNote(name=deb.name, sha256=hashlib.file_digest(stream, "sha256").hexdigest())
