# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Regular files where somebody else may have left anything: the one way to open those of a run directory.

A run directory may come from elsewhere, and the programs of a trial write into it. So no link in it is
followed, and nothing in it is waited for: a link may lead to a secret, and a FIFO has no end.

    data = read_plain(path)      # NotPlain, an OSError: it is a link, a FIFO, a folder ...
    if is_plain(path): ...       # before the path is handed to a library that opens it itself
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

_KINDS: Final = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_CAREFULLY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotPlain(OSError):  # noqa: N818  (named like the errors of the store)
    """Something else than a regular file is at a path; `strerror` says what it is."""


def kind_of(mode: int) -> str:
    """Return the kind of file that a mode is of, such as `a link`; empty for a regular file."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "")


def is_plain(path: str | Path) -> bool:
    """Return True if a regular file is at `path`, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):  # too long a name, a NUL
        return False


def is_real_folder(path: str | Path) -> bool:
    """Return True if a folder is at `path`, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def open_plain(path: str | Path, *, folder: int | None = None) -> BinaryIO:
    """Open a regular file for reading; `folder` is the descriptor that a relative path begins at.

    Raises:
        NotPlain: something else is there.
        OSError: it cannot be opened.
    """
    if kind := _kind_at(path, folder):  # before it is opened, which may rewind a tape
        raise NotPlain(errno.EINVAL, f"it is {kind}", str(path))
    # opened by the file that closes it: after an interrupt in between, a second close would be an OSError,
    # and the interrupt a file that cannot be read
    file = open(path, "rb", opener=partial(_opened, folder))  # noqa: SIM115  (the caller's to close)
    try:
        if kind := kind_of(os.fstat(file.fileno()).st_mode):
            raise NotPlain(errno.EINVAL, f"it is {kind}", str(path))
    except BaseException:
        file.close()
        raise
    return file


def _opened(folder: int | None, path: str, flags: int) -> int:
    return os.open(path, flags | _CAREFULLY, dir_fd=folder)


def _kind_at(path: str | Path, folder: int | None) -> str:
    try:
        return kind_of(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return ""


def open_below(root: int, name: str) -> BinaryIO:
    """Open the regular file `name` below the folder of descriptor `root`, through real folders only.

    Raises as `open_plain`.
    """
    *folders, last = name.split("/")
    here = os.dup(root)
    try:
        for part in folders:
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _CAREFULLY, dir_fd=here)
            except NotADirectoryError as error:  # of a link, too
                kind = _kind_at(part, here) or "a file"
                raise NotPlain(errno.EINVAL, f"{part} is {kind}", name) from error
            here, outer = inner, here  # first, as an interrupt may come between
            os.close(outer)
        return open_plain(last, folder=here)
    finally:
        os.close(here)


def read_plain(path: str | Path, most_bytes: int = -1) -> bytes:
    """Return the content of a regular file, of a longer one the first `most_bytes`.

    Raises as `open_plain`.
    """
    with open_plain(path) as file:
        return file.read(most_bytes)


def plain_text(path: str | Path) -> str:
    """Return the text of a regular file, with U+FFFD for what is not UTF-8.

    Raises as `open_plain`.
    """
    return read_plain(path).decode(errors="replace")
