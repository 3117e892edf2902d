# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files and folders that appear whole or not at all: the one way in which l4sbench writes them.

They are written under a name of their own beside their place, `.l4sbench-<16 hex digits>.partial`, and then
renamed. The name is never one that exists, so that nothing of a user is overwritten or removed, and its
writer holds a lock (flock) on it: `remove_leftovers` takes only what has such a name and no living writer.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from l4sbench.errors import InputError

PARTIAL: Final = ".partial"
"""Suffix of the name of everything that is not finished."""

_TEMPORARY: Final = re.compile(rf"\.l4sbench-[0-9a-f]{{16}}{re.escape(PARTIAL)}")
_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it appears whole, on the disk, or not at all.

    Raises:
        InputError: something else than a regular file is at `path`.
        OSError: it could not be written.
    """
    with new_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_file(path: Path, *, flush: bool = True) -> Iterator[Path]:
    """Yield an empty file to write into; it becomes `path`, on the disk, unless the block raises an error.

    A symbolic link at `path` is replaced, and not followed. Without `flush`, a power failure may lose the
    content, which is right for what nobody reads after one.

    Raises:
        InputError: something else than a regular file is at `path`.
        OSError: it could not be written.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise InputError(f"{path} is {kind}", "choose the name of a file")
    temporary, descriptor = _claim(path.parent, _make_file)
    try:
        yield temporary
        if flush:
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty folder to fill; it becomes `path`, unless the block raises an error.

    Files in it are not flushed to the disk, see `sync_folder`. With `replace`, the folder that is at `path`
    is removed, otherwise only an empty one may be there.

    Raises:
        OSError: it could not be made or renamed.
    """
    with unfinished_folder(path.parent) as temporary:
        yield temporary
        if replace and path.is_dir() and not path.is_symlink():
            old = path.with_name(temporary_name())
            path.rename(old)
            temporary.rename(path)
            remove_tree(old)
        else:
            temporary.rename(path)


@contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """Yield an empty folder in `parent` with a temporary name; it is removed unless the block renames it."""
    temporary, descriptor = _claim(parent, _make_folder)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            remove_tree(temporary)
        os.close(descriptor)


def temporary_name() -> str:
    """Return a name for something unfinished. No two calls return the same."""
    return f".l4sbench-{secrets.token_hex(8)}{PARTIAL}"


def is_temporary(name: str) -> bool:
    """Return True for a name that `temporary_name` may have returned."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_leftovers(folder: Path, before: Callable[[Path], None] = lambda _: None) -> None:
    """Remove what writers that have died left unfinished in `folder`, and nothing else.

    `before` is called with each of them before its removal; an OSError of it keeps the leftover.
    """
    try:
        left = [path for path in folder.iterdir() if is_temporary(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in left:
        with suppress(OSError):  # another process removes it too, or may remove it where this one may not
            _remove_leftover(path, before)


def _remove_leftover(path: Path, before: Callable[[Path], None]) -> None:
    if path.is_symlink():
        path.unlink()
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while the writer lives
        before(path)
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)


def _make_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _make_folder(path: Path) -> int | None:
    path.mkdir()
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # `remove_leftovers` of another process came between
        return None


def _claim(folder: Path, make: Callable[[Path], int | None]) -> tuple[Path, int]:
    """Make something under a temporary name and lock it; the lock ends when its descriptor is closed."""
    while True:
        path = folder / temporary_name()
        descriptor = make(path)
        if descriptor is None:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return path, descriptor
        except OSError as error:
            if error.errno in _NO_LOCKS:  # NFS, for folders: it works without, and a leftover stays
                return path, descriptor
            if error.errno not in {errno.EWOULDBLOCK, errno.EAGAIN}:
                os.close(descriptor)
                raise
        os.close(descriptor)  # `remove_leftovers` of another process came before the lock


def sync_folder(folder: Path) -> None:
    """Flush every file below to the disk, so that a power failure after the rename finds them complete."""
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            sync(path)


def sync(path: Path) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder, however deep, even if it or folders in it lack the write bit; follows no link."""
    path.chmod(0o700)
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):  # another process removes it, too
            _empty(root)
    finally:
        os.close(root)
    path.rmdir()


def _empty(root: int) -> None:
    """Remove all that is in a folder. Folders in folders are moved up first: none of its paths gets long."""
    numbers = itertools.count()
    waiting = [name for name in os.listdir(root) if not _removed(name, root)]
    while waiting:
        name = waiting.pop()
        os.chmod(name, 0o700, dir_fd=root)
        here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            for inner in os.listdir(here):  # noqa: PTH208  (of a descriptor)
                if not _removed(inner, here):
                    os.chmod(inner, 0o700, dir_fd=here)  # a folder that moves is written to
                    moved = f"{temporary_name()}-{next(numbers)}"
                    os.rename(inner, moved, src_dir_fd=here, dst_dir_fd=root)
                    waiting.append(moved)
        finally:
            os.close(here)
        os.rmdir(name, dir_fd=root)


def _removed(name: str, folder: int) -> bool:
    """Remove a file or link; return False for a folder."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    return True
