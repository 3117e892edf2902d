# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""JSON files with a format version, and errors for full disks."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from l4sbench.disk.userfiles import read_json
from l4sbench.errors import InputError, TestbedError
from l4sbench.version import __version__

FORMAT: Final = 1
"""Version of the run directory's format. Newer ones are rejected, older ones are read."""

MOVE_AWAY: Final = "move it away, and `l4sbench run` runs that trial again"
"""The remedy for the folder of a damaged trial."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFull(TestbedError):  # noqa: N818  (named like the other errors)
    """The disk is full. Every ended trial is complete."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            f"the disk is full: {place}",
            "ended trials are complete; free some space and run the same command again",
        )


class RunMoved(TestbedError):  # noqa: N818  (named like the other errors)
    """The run directory was moved or removed while it was written. Every ended trial in it is complete."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            f"the run directory was moved or removed: {place}",
            "its ended trials are complete; move it back and run the same command again",
        )


def is_full(error: OSError) -> bool:
    """Return True if a write failed because the disk or a quota is full."""
    return error.errno in _NO_ROOM


@contextmanager
def room(place: Path) -> Iterator[None]:
    """Turn the error for a full disk into DiskFull."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise DiskFull(place) from error


class NewerFormat(InputError):  # noqa: N818  (named like the other errors)
    """A newer l4sbench wrote a file."""


def refuse_newer(path: Path) -> None:
    """Raise NewerFormat for a JSON file of a newer l4sbench; whoever needs it finds what else is wrong."""
    try:
        read_object(path)
    except NewerFormat:
        raise
    except InputError:
        return


def read_trial_object(folder: Path) -> dict[str, Any]:
    """Read the file `trial.json` in the folder of an ended trial.

    Raises:
        NewerFormat: a newer l4sbench wrote it.
        InputError: it is missing or damaged; the hint is what to do with the folder.
    """
    try:
        return read_object(folder / "trial.json", name="trial.json")
    except NewerFormat:
        raise
    except InputError as error:
        raise InputError(f"{folder} is damaged: {error.message}", MOVE_AWAY) from error


def read_object(path: Path, *, name: str = "") -> dict[str, Any]:
    """Read a JSON object with a supported format version.

    Args:
        path: The file.
        name: What messages about damage call it; its path by default.

    Raises:
        NewerFormat: a newer l4sbench wrote it.
        InputError: it is missing or damaged.
    """
    name = name or str(path)
    plain = read_json(path, name=name, plain=True)
    version = plain.get("format") if isinstance(plain, dict) else None
    if not isinstance(version, int):
        raise InputError(f"{name} has no format version")
    if version > FORMAT:
        raise NewerFormat(
            f"{path} has format {version}, and this l4sbench ({__version__}) reads formats up to {FORMAT}",
            "install the newer l4sbench that wrote it",
        )
    return dict(plain)


def as_utc(time: datetime) -> str:
    """Return the ISO form with a fixed width, which sorts like the time itself."""
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_json(plain: object) -> str:
    """Return JSON for files: sorted keys, a final newline."""
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
