# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs while their tables are read and their reports written: locked, and damage reported by name."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from l4sbench.errors import InputError, Problem

_NOT_WRITABLE: Final = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
    }
)

_PAGE: Final = "index.html"
_SERIES: Final = "data"
_GZIP: Final = b"\x1f\x8b"
_HEAD_BYTES: Final = 1 << 16
_MARKS: Final = (b'name="generator" content="l4sbench', b"<p>Drawn by <code>l4sbench report")
"""The beginning of every page of reports and of figures."""


@contextmanager
def reading(*runs: Path) -> Iterator[None]:
    """Let tables and reports of runs not change meanwhile, and report tables that are damaged.

    Raises:
        InputError: what failed failed because a table is missing or damaged; the message names it.
        RunLocked: another process writes a run's tables or report for long.
    """
    from l4sbench import tables
    from l4sbench.store import steady

    with steady(*runs), tables.blaming(*(run / tables.FOLDER for run in runs)):
        yield


def writable(run: Path) -> bool:
    """Return True if the tables and the report of a run can be written."""
    places = (run, run / "tables", run / "report", run / "report" / "data")
    return all(os.access(place, os.W_OK | os.X_OK) for place in places if place.exists())


@contextmanager
def writing(folder: Path, hint: str) -> Iterator[None]:
    """Turn errors of a folder that cannot be written into an InputError with a hint."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        raise InputError(f"{error.filename or folder} cannot be written: {error.strerror}", hint) from error


def refuse_others(folder: Path, names: Iterable[str] = ()) -> None:
    """Refuse a folder that a user gave for a report or figures if files of others would be replaced in it.

    Files that are there belong to l4sbench if a page of l4sbench is beside them.

    Raises:
        InputError: the page, or a file of `names`, is somebody else's, or the series' folder is a link.
    """
    from l4sbench.store.links import linked

    if (folder / _SERIES).is_symlink():
        raise linked(folder / _SERIES)
    ours = _has(folder / _PAGE, *_MARKS)
    taken = [] if ours else [name for name in (_PAGE, *names) if os.path.lexists(folder / name)]
    if taken:
        raise _others(folder / taken[0], "of a report")


def refuse_other(file: Path, mark: bytes, what: str) -> None:
    """Refuse to replace a file at a place that a user gave, unless it is empty or l4sbench wrote it.

    Args:
        file: the place.
        mark: what the beginning of such a file of l4sbench has; of a compressed one, its content.
        what: the kind of file, for the message, such as `a bundle`.

    Raises:
        InputError: the file is somebody else's, or a link.
    """
    if file.is_symlink() or (file.is_file() and file.stat().st_size and not _has(file, mark)):
        raise _others(file, what)


def refuse_page(file: Path) -> None:
    """Refuse to replace a file at a place that a user gave for a page, unless it is a page of l4sbench.

    Raises:
        InputError: the file is somebody else's, or a link.
    """
    refuse_other(file, _MARKS[0], "a page")


def remove_ours(folder: Path, beginnings: Mapping[str, bytes]) -> list[str]:
    """Remove the files of these names that begin as ours do; return their names."""
    from l4sbench.disk.plain import read_plain

    removed = []
    for name, beginning in beginnings.items():
        with suppress(OSError):  # there is none, or no file
            if read_plain(folder / name, _HEAD_BYTES).startswith(beginning):
                (folder / name).unlink()
                removed.append(name)
    return removed


def _has(file: Path, *marks: bytes) -> bool:
    """Return True if a file begins with one of the marks, more or less."""
    from l4sbench.disk.plain import read_plain

    try:
        head = read_plain(file, _HEAD_BYTES)
        if head.startswith(_GZIP):
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    except (OSError, zlib.error):
        return False
    return any(mark in head for mark in marks)


def _others(file: Path, what: str) -> InputError:
    hint = "choose another place, or remove it"
    return InputError(f"{file} exists, and is not {what} of l4sbench", hint)


def copy_description(run: Path, folder: Path) -> Path:
    """Copy what describes a run, but no trial, into a folder that is empty or was made so; return the folder.

    Raises:
        InputError: something else is in the folder, or something in the run is no regular file.
        OSError: it cannot be written.
    """
    from l4sbench.catalog.outside import CATALOG, EXECUTABLES, SENDERS, TOPOLOGIES
    from l4sbench.disk.files import new_folder, write_whole
    from l4sbench.disk.plain import is_plain
    from l4sbench.disk.userfiles import read_bytes

    files = {name: read_bytes(run / name, plain=True) for name in ("matrix.yaml", "manifest.json")}
    manifest, kept = files["manifest.json"], folder / "manifest.json"
    there = read_bytes(kept, plain=True) if is_plain(kept) else None
    if there != manifest and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", "choose another folder")
    if (folder / "cells").exists():
        raise InputError(f"{folder} is a run directory with trials", "choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    for name in (CATALOG, EXECUTABLES, SENDERS, TOPOLOGIES):
        if (run / name).is_dir():
            with new_folder(folder / name, replace=True) as made:
                shutil.copytree(run / name, made, copy_function=_copy, dirs_exist_ok=True)
    return folder


def _copy(source: str, target: str) -> None:
    """Copy a regular file with its mode. Raises InputError for anything else, which may have no end."""
    from l4sbench.disk.plain import NotPlain, open_plain

    try:
        with open_plain(source) as file, Path(target).open("xb") as copy:
            shutil.copyfileobj(file, copy)
    except NotPlain as error:
        raise InputError([Problem(source, "", f"cannot be read: {error.strerror}")]) from error
    shutil.copymode(source, target)
