# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Links in a run directory, which nobody's l4sbench makes: they are refused, for reading and for writing.

A link that is a file of a report or a table is replaced when it is written. `tables` and the collectors
refuse it when it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from l4sbench.disk.userfiles import MOST_PROBLEMS
from l4sbench.errors import InputError, Problem

_OWN: Final = (
    *("manifest.json", "matrix.yaml", ".lock"),
    *("cells", "tables", "report", "catalog", "topologies", "executables", "senders"),
)
_READ: Final = ("catalog", "topologies", "executables", "senders")
"""Folders in which every file is read."""
_WRITTEN: Final = ("tables", "report")


def refuse_links(run: Path) -> None:
    """Refuse a run directory with a linked folder, or a linked file that commands read or lock.

    Links below `cells` are refused when these folders are listed.

    Raises:
        InputError: there are links; the error names them.
    """
    found = [run / name for name in _OWN if (run / name).is_symlink()]
    if not found:
        found += [path for name in _READ for path in _links(run / name)]
        found += [path for name in _WRITTEN for path in _links(run / name) if not path.is_file()]
    if found:
        raise InputError([_problem(path) for path in found[:MOST_PROBLEMS]])


def linked(path: str | Path) -> InputError:
    """Return the error for a link in a run directory."""
    return InputError([_problem(path)])


def _problem(path: str | Path) -> Problem:
    message = "is a link, and nothing in a run directory is followed"
    return Problem(str(path), "", message, "replace it by what it leads to, or remove it")


def _links(folder: Path) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield Path(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
