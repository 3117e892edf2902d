# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The kernel source: the one the user names, else the newest package, else kernel.org's newest release."""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import Archive
from l4sbench.testbeds.virtual.lab.cache import DIGEST_LENGTH, Cache, digest_of, digest_of_file, read_note
from l4sbench.testbeds.virtual.lab.scratchapt import Package, ScratchApt, why
from l4sbench.text.models import Strict

KERNEL_SUITES = ("trixie-backports", "forky", "sid")
"""Suites that may hold a Linux with AccECN and DualPI2 (7.0 or later), besides the machine's own."""

OLDEST = (7, 0)
"""The first Linux with both AccECN and DualPI2."""

KERNEL_ORG = "https://cdn.kernel.org/pub/linux/kernel/v7.x"
_CONNECT_S = 10
_TARBALL_S = 900
_CHUNK = 1 << 20
_MOST_SUMS_BYTES = 16 << 20

PRODUCTS = (".o", ".a", ".ko", ".cmd", ".mod", ".mod.c", ".order", ".symvers", ".d", ".so", ".s", ".i")
"""Suffixes of files that a build leaves in a tree, which are not part of the source."""


@dataclass(frozen=True)
class Source:
    """A kernel source to build from: a tarball or a folder.

    Attributes:
        path: The tarball or the folder.
        digest: Digest of its content.
        description: The source in words, without a path of this machine.
        version: Its version, as `version_key` reads it; empty if nothing but its Makefile states it.
    """

    path: Path
    digest: str
    description: str
    version: str = ""


class SourceInfo(Strict):
    """The cache's note on a source that was fetched."""

    file: str
    version: str
    description: str


Say = Callable[[str, float | None], None]
"""Receives a progress message and, if known, the share that is done."""


def from_tarball(path: Path) -> Source:
    """Return the source in a tarball that the user names.

    Raises:
        TestbedError: The file does not exist.
    """
    if not path.is_file():
        raise TestbedError(f"no kernel source tarball {path}: no such file")
    return Source(path.absolute(), digest_of(["tarball", digest_of_file(path)]), path.name)


def require_tree(path: Path) -> None:
    """Raise TestbedError if a folder is not a Linux that can be built as a program."""
    if not (path / "arch" / "um" / "Kconfig").is_file():
        raise TestbedError(f"{path} is not a Linux source tree: it has no arch/um/Kconfig")


def from_tree(path: Path) -> Source:
    """Return the source in a folder that the user names.

    Its digest comes from the names, sizes and times of its files, as make sees them.

    Raises:
        TestbedError: It is not a Linux that can be built as a program.
    """
    require_tree(path)
    files: list[str] = []
    for folder, names, entries in os.walk(path):
        names[:] = sorted(name for name in names if name != ".git")
        for entry in sorted(entries):
            if not entry.endswith(PRODUCTS):
                info = Path(folder, entry).lstat()
                files.append(f"{folder}/{entry} {info.st_size} {info.st_mtime_ns}")
    return Source(path.absolute(), digest_of(["tree", *files]), f"kernel tree {_describe(path)}".strip())


def _describe(tree: Path) -> str:
    """Run `git describe` in a tree, without touching its index; empty if it is not a work tree."""
    if not (tree / ".git").exists():
        return ""
    argv = ["git", "--no-optional-locks", "-C", str(tree), "describe", "--always", "--dirty"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()
    return ""


def chosen(
    cache: Cache,
    tarball: Path | None,
    tree: Path | None,
    archives: Callable[[], tuple[Archive, ...]],
    say: Say,
    *,
    anew: bool = False,
) -> Source:
    """Return the source that the user names, else the newest that was fetched before, else fetch it.

    Args:
        cache: The cache.
        tarball: The tarball that the user names, if one.
        tree: The folder that the user names, if one.
        archives: Returns where to fetch it from.
        say: Receives progress messages.
        anew: Fetch it even if one was fetched before.

    Raises:
        TestbedError: What the user names is no source, or none is available.
    """
    if tarball is not None:
        return from_tarball(tarball)
    if tree is not None:
        say("reading the kernel tree", None)
        return from_tree(tree)
    known = None if anew else cached(cache)
    return known or fetch(cache, archives(), say)


def cached(cache: Cache) -> Source | None:
    """Return the newest source that was fetched before."""
    found: list[tuple[tuple[int, ...], Source]] = []
    for part in (cache.root / "source").glob("*"):
        info = read_note(part / "info.json", SourceInfo)
        if info is not None and (part / info.file).is_file():
            found.append((version_key(info.version), _source(part, info)))
    return max(found, key=lambda pair: (pair[0], pair[1].digest))[1] if found else None


def fetch(cache: Cache, archives: tuple[Archive, ...], say: Say) -> Source:
    """Fetch the newest packaged source that this machine can reach, else kernel.org's newest release.

    Raises:
        TestbedError: Neither is available; the message lists the attempts and why they failed.
    """
    failures = [] if archives else ["this machine's apt configuration has no Debian archive"]
    for archive in archives:
        offers = _offers(cache, archive, say, failures)
        if offers:
            package, apt = max(offers, key=lambda offer: version_key(offer[0].version))
            return _fetch_package(cache, package, apt, say)
    try:
        return fetch_kernel_org(cache, say)
    except TestbedError as error:
        tried = "".join(f"\n  {line}" for line in (*failures, error.message))
        raise TestbedError(
            f"could not obtain kernel sources; tried:{tried}",
            hint="name a source with `l4sbench lab build --tarball FILE` or `--kernel-tree DIR`",
        ) from error


def _offers(
    cache: Cache, archive: Archive, say: Say, failures: list[str]
) -> list[tuple[Package, ScratchApt]]:
    """Return the kernel sources in an archive that are new enough, each with the apt that can download it."""
    offers: list[tuple[Package, ScratchApt]] = []
    for suite in dict.fromkeys([*archive.suites, *_backports(archive), *KERNEL_SUITES]):
        say(f"looking for a kernel source in {suite}", None)
        try:
            apt = ScratchApt.open(cache.root / "apt", archive, suite, cache.logs / f"source-{suite}.log")
            found = apt.offered(r"^linux-source-[0-9]+\.[0-9.]+$")
        except TestbedError as error:
            failures.append(f"{suite} at {archive.uri}: {why(error)}")
            continue
        fitting = [package for package in found if version_key(package.version) >= OLDEST]
        if not fitting:
            failures.append(f"{suite} at {archive.uri}: no linux-source-7.0 or later")
        offers += [(package, apt) for package in fitting]
    return offers


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of an upstream version, for ordering: `7.3.4-1~bpo13+1` gives (7, 3, 4)."""
    upstream = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in upstream[1].split(".")) if upstream else ()


def _backports(archive: Archive) -> list[str]:
    return [f"{suite}-backports" for suite in archive.suites if "-" not in suite]


def _fetch_package(cache: Cache, package: Package, apt: ScratchApt, say: Say) -> Source:
    digest = digest_of(["package", package.name, package.version, package.digest])
    part = cache.part("source", digest)
    info = read_note(part / "info.json", SourceInfo)
    if info is None:
        description = f"{package.name} {package.version}"
        say(f"downloading {description}", None)
        with cache.stage("source", digest) as stage:
            (deb,) = apt.download([package], stage)
            flat = ["--transform", "s,.*/,,", "--wildcards", "*.tar.*"]
            apt.commands.pipe(
                ["dpkg-deb", "--fsys-tarfile", deb],
                ["tar", "-x", "-C", stage, "--no-same-owner", *flat],
                what=f"unpacking {deb.name}",
                timeout_s=_TARBALL_S,
            )
            deb.unlink()
            info = _note(stage, next(stage.glob("linux-source-*.tar.*")), package.version, description)
    return _source(part, info)


def fetch_kernel_org(cache: Cache, say: Say, url: str | None = None) -> Source:
    """Fetch the newest release of kernel.org, and check it against the checksums published there.

    Their signature is not verified, as nothing on this machine vouches for the key: docs/security.md says so.

    Raises:
        TestbedError: kernel.org cannot be reached, or the file does not match its checksum.
    """
    from http.client import HTTPException  # slow to import

    url = url or KERNEL_ORG
    say("looking at kernel.org", None)
    try:
        with _open(f"{url}/sha256sums.asc") as stream:
            sums = stream.read(_MOST_SUMS_BYTES).decode(errors="replace")
        listed = re.findall(r"^([0-9a-f]{64})  (linux-([0-9.]+)\.tar\.xz)$", sums, re.MULTILINE)
        if not listed:
            raise TestbedError(f"{url}/sha256sums.asc lists no tarball")
        checksum, name, version = max(listed, key=lambda row: version_key(row[2]))
        digest = checksum[:DIGEST_LENGTH]
        part = cache.part("source", digest)
        info = read_note(part / "info.json", SourceInfo)
        if info is None:
            with cache.stage("source", digest) as stage, _open(f"{url}/{name}") as stream:
                _download(stream, stage / name, checksum, say)
                info = _note(stage, stage / name, version, f"{name} from kernel.org")
    except (OSError, HTTPException) as error:  # whoever answers may speak another protocol
        raise TestbedError(f"kernel.org: {error}") from error
    return _source(part, info)


def _open(url: str) -> IO[bytes]:
    if not url.startswith(("https://", "http://", "file://")):
        raise ValueError(f"not an address: {url}")
    from urllib.request import urlopen  # slow to import

    return urlopen(url, timeout=_CONNECT_S)  # type: ignore[no-any-return]  # noqa: S310


def _download(stream: IO[bytes], to: Path, checksum: str, say: Say) -> None:
    length = int(getattr(stream, "length", None) or 0)
    seen, sha256 = 0, hashlib.sha256()
    with to.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            out.write(chunk)
            sha256.update(chunk)
            seen += len(chunk)
            say(f"downloading {to.name}", min(1.0, seen / length) if length else None)
    if sha256.hexdigest() != checksum:
        raise TestbedError(f"{to.name} does not match its checksum: damaged in transit")


def _note(stage: Path, tarball: Path, version: str, description: str) -> SourceInfo:
    info = SourceInfo(file=tarball.name, version=version, description=description)
    write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return info


def _source(part: Path, info: SourceInfo) -> Source:
    return Source(part / info.file, part.name, info.description, info.version)
