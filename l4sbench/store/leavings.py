# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The raw files of a trial once its programs have ended: regular files, not too many, without odd rights.

Programs of a trial may leave anything in its folder: links to files of the user, FIFOs that never end and,
where the user is root, devices and files that run as root. None of it may stay in a run directory, which is
read, reported on and bundled.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from l4sbench.disk.files import remove_tree
from l4sbench.disk.plain import kind_of

MOST_FILES: Final = 10_000
"""Largest accepted number of files and folders of a trial; one of 100 flows has about 500 files."""

MOST_NAMED: Final = 5
"""Number of things that the reason names."""

TOO_MANY: Final = f"its programs left more than {MOST_FILES} files; none is kept"
"""Why a trial with more than `MOST_FILES` has failed."""

_DEEPEST: Final = 8
_RIGHTS: Final = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def tidy(raw: Path) -> str:
    """Remove what may not stay in a folder of raw files, and give files and folders usual modes.

    Of more than `MOST_FILES` nothing stays. No process may write there any more.

    Returns:
        Why the trial has failed, naming what was removed; empty if nothing was.
    """
    mode = raw.lstat().st_mode
    wrong: list[str] = []
    waiting, count = [""], 0
    while waiting:
        place = waiting.pop()
        with os.scandir(raw / place) as entries:
            for entry in entries:
                count += 1
                if count > MOST_FILES:
                    _empty(raw)
                    return TOO_MANY
                name = f"{place}{entry.name}"
                if problem := _problem(entry, name, mode):
                    wrong.append(f"{_quoted(name)} {problem}")
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
    if not wrong:
        return ""
    more = f", and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    return f"its programs left what is no raw file: {', '.join(sorted(wrong)[:MOST_NAMED])}{more}; removed"


def holds_too_many(raw: Path) -> bool:
    """Return True once there are more than `MOST_FILES` in a folder; programs may write there meanwhile."""
    waiting, count = [raw], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > MOST_FILES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError:  # too deep for a path
            return True
    return False


def _problem(entry: os.DirEntry[str], name: str, mode: int) -> str:
    """Set the mode of an entry, or remove it and return what was wrong with it."""
    found = entry.stat(follow_symlinks=False).st_mode
    folder = stat.S_ISDIR(found)
    odd = found & _RIGHTS & ~mode  # folders take some from the one above
    if folder and (odd or name.count("/") >= _DEEPEST):
        remove_tree(Path(entry.path))
        return "is a folder with special rights" if odd else "is too deep"
    if not folder and (odd or not stat.S_ISREG(found)):
        Path(entry.path).unlink()
        return f"is {kind_of(found)}" if not stat.S_ISREG(found) else "is a file with special rights"
    wanted = (mode & 0o777) | 0o700 if folder else (mode & 0o666) | 0o600
    if stat.S_IMODE(found) & ~_RIGHTS != wanted:
        Path(entry.path).chmod(wanted | (found & _RIGHTS))
    return ""


def _empty(raw: Path) -> None:
    """Remove all that is in a folder, and keep the folder."""
    mode = stat.S_IMODE(raw.lstat().st_mode)
    remove_tree(raw)
    raw.mkdir()
    raw.chmod(mode)


def _quoted(name: str) -> str:
    return name if name.isprintable() and len(name) <= 200 else ascii(name[:100])
