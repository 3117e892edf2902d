# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Archives that Linux unpacks into its first root (Documentation/driver-api/early-userspace): "newc" cpio.

They depend on content alone: owners are root, times are 0, names are sorted.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4


@dataclass(frozen=True)
class Entry:
    """A folder, a file, a link or a device, with its type and permissions as in `st_mode`."""

    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)

    @classmethod
    def file(cls, data: bytes, *, executable: bool = False) -> "Entry":
        """Return a regular file."""
        return cls(stat.S_IFREG | (0o755 if executable else 0o644), data)


def of_folder(root: Path) -> Iterator[tuple[str, Entry]]:
    """Yield all below a folder: paths without a leading slash, and what is there."""
    for path in root.rglob("*"):
        status = path.lstat()
        name = path.relative_to(root).as_posix()
        if stat.S_ISDIR(status.st_mode):
            yield name, Entry(status.st_mode)
        elif stat.S_ISLNK(status.st_mode):
            yield name, Entry(status.st_mode, os.fsencode(path.readlink()))
        elif stat.S_ISREG(status.st_mode):
            yield name, Entry(status.st_mode, path.read_bytes())


def archive(entries: Mapping[str, Entry]) -> Iterator[bytes]:
    """Yield an archive in pieces; folders that entries are in come before them."""
    folders = {str(parent): Entry(stat.S_IFDIR | 0o755) for name in entries for parent in Path(name).parents}
    del folders["."]
    for number, (name, entry) in enumerate(sorted({**folders, **entries}.items()), 1):
        yield from _record(number, name, entry)
    yield from _record(0, _END, Entry(0))


def _record(number: int, name: str, entry: Entry) -> Iterator[bytes]:
    encoded = os.fsencode(name) + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    size = len(entry.data)
    # inode, mode, owner, group, links, time, size, device it is on, device it is, length of name, checksum
    fields = (number, entry.mode, 0, 0, links, 0, size, 0, 0, *entry.device, len(encoded), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields) + encoded
    yield head + bytes(-len(head) % _ALIGNMENT)
    yield entry.data + bytes(-len(entry.data) % _ALIGNMENT)
