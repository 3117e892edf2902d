# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Folders as values that travel to workers, with a checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from l4sbench.errors import TestbedError


@dataclass(frozen=True)
class Member:
    """One entry of a folder: a file with its `content`, a symbolic `link`, or, without both, a folder.

    `name` is its path below the folder, with slashes; `mode` are its permissions.
    """

    name: str
    mode: int
    content: bytes | None = None
    link: str | None = None


@dataclass(frozen=True)
class Packed:
    """The entries of a folder, sorted by name, and their checksum, which was made where they come from."""

    entries: tuple[Member, ...]
    checksum: str


def read(folder: Path, name: str, *, links: bool = False) -> Iterator[Member]:
    """Yield an entry of a folder and all that is below it; without `links` only files and folders.

    Raises:
        OSError: it cannot be read.
    """
    path = folder / name
    if path.is_symlink():
        if links:
            yield Member(name, 0o777, link=os.readlink(path))  # noqa: PTH115  (as it is, not as a path)
    elif path.is_dir():
        yield Member(name, path.stat().st_mode & 0o777)
        for below in sorted(os.listdir(path)):  # noqa: PTH208  (names)
            yield from read(folder, f"{name}/{below}", links=links)
    elif path.is_file():
        yield Member(name, path.stat().st_mode & 0o777, content=path.read_bytes())


def checksum_of(entries: Iterable[Member]) -> str:
    """Return the SHA-256 of entries: names, permissions, contents."""
    total = hashlib.sha256()
    for entry in entries:
        content = None if entry.content is None else hashlib.sha256(entry.content).hexdigest()
        total.update(f"{entry.name}\0{entry.mode:o}\0{content}\0{entry.link}\n".encode())
    return total.hexdigest()


def pack(folder: Path) -> Packed:
    """Pack the files and folders in a folder.

    Raises:
        OSError: they cannot be read.
    """
    names = sorted(os.listdir(folder))  # noqa: PTH208  (names)
    entries = tuple(entry for name in names for entry in read(folder, name))
    return Packed(entries, checksum_of(entries))


def unpack(packed: Packed, folder: Path, *, links: bool = False) -> None:
    """Write packed entries into a folder, which may have some of them already.

    Raises:
        TestbedError: the checksum does not match, or an entry does not belong into the folder.
        OSError: they cannot be written.
    """
    if checksum_of(packed.entries) != packed.checksum:
        raise TestbedError("the files do not match their checksum", "run the same command again")
    if strange := [entry.name for entry in packed.entries if not _belongs(entry, links)]:
        raise TestbedError(f"the files are not those of a trial: {strange[0]!r}")
    # links come last, so that nothing is written through one
    for entry in sorted(packed.entries, key=lambda entry: (entry.link is not None, entry.name)):
        path = folder / entry.name
        if entry.link is not None:
            path.symlink_to(entry.link)
        elif entry.content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
    for entry in reversed(packed.entries):  # a folder may be read-only, once all is in it
        if entry.content is None and entry.link is None:
            (folder / entry.name).chmod(entry.mode)


def _belongs(entry: Member, links: bool) -> bool:
    parts = PurePosixPath(entry.name).parts
    inside = bool(parts) and ".." not in parts and not entry.name.startswith("/") and "\0" not in entry.name
    return inside and (links or entry.link is None)
