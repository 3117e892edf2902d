# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files that appear whole or not at all, and disks that are full."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from l4sbench import __version__
from l4sbench.errors import InputError, TestbedError

FORMAT: Final = 1
"""Version of the run directory's form. What is newer than this is refused, what is older is read."""

PARTIAL: Final = ".partial"
"""Ends the name of whatever is not finished."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFull(TestbedError):  # noqa: N818  (named like the other errors)
    """No room is left for results. Every ended trial is whole."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            f"no room is left on the disk for {place}",
            "ended trials are whole; make room and run the same command again",
        )


def is_full(error: OSError) -> bool:
    """Whether the system refused to write for want of room, on the disk or in a quota."""
    return error.errno in _NO_ROOM


@contextmanager
def room(place: Path) -> Iterator[None]:
    """Raises DiskFull for what is refused for want of room."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise DiskFull(place) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it appears whole, on the disk, or not at all."""
    partial = path.with_name(f".{path.name}{PARTIAL}")
    data = content.encode() if isinstance(content, str) else content
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object with a format version that we know."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    version = plain.get("format") if isinstance(plain, dict) else None
    if not isinstance(version, int):
        raise InputError(f"{path} has no format version")
    if version > FORMAT:
        raise InputError(
            f"{path} has format {version}, and this l4sbench ({__version__}) knows formats up to {FORMAT}",
            "a newer l4sbench made it; install that one",
        )
    return dict(plain)


def sync_folder(folder: Path) -> None:
    """Bring every file below to the disk, so that a power cut after the rename finds it whole."""
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            sync(path)


def sync(path: Path) -> None:
    """Bring one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def as_utc(time: datetime) -> str:
    """ISO form of fixed width, so that text sorts as time does."""
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_json(plain: object) -> str:
    """JSON for files: sorted keys, a final line end."""
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
