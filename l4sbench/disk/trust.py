# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Code from outside the project, and the user's consent to build and load it (docs/security.md).

Consent is for exact bytes. They are copied to `trusted/<digest>/` below the user's state folder, which only
the user may write to, and it is the copy that is built: a folder that changes afterwards needs new consent.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final

from l4sbench.disk.files import new_folder, remove_leftovers
from l4sbench.disk.places import state_folder
from l4sbench.disk.userfiles import MAX_BYTES, read_bytes
from l4sbench.errors import InputError, Problem

SOURCES: Final = ("Kbuild", "Makefile", "*.c", "*.h", "*.S")
"""Files of a folder with C that a build reads; objects of a build by hand do not count."""

EVERY: Final = ("*",)
"""Files that the build of a sender reads: all of its folder but hidden ones and results of builds by hand."""

_MADE_BY_HAND: Final = frozenset({"target"})
"""Folders with results of a build by hand, as cargo names them."""

_DKMS: Final = "dkms.conf"
"""DKMS executes it as a shell script, as root."""
_DESCRIPTION: Final = "module.yml"
"""Says how the code is loaded, and with which parameters; not code by itself."""

_LOCK: Final = ".lock"
_PROGRAM: Final = "program"
"""File of a program in the folder of its digest."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_FILES: Final = 1000
_MOST_NAMES: Final = 20_000


@dataclass(frozen=True)
class Code:
    """The files of one folder with code, as they were when they were read.

    Attributes:
        folder: Where they were read.
        files: Their content by path below the folder.
        patterns: Names of files that count; empty: those of a kernel module.
    """

    folder: Path
    files: Mapping[str, bytes]
    patterns: Sequence[str] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 over names and contents, whatever the folder is called."""
        listed = [[name, hashlib.sha256(data).hexdigest()] for name, data in sorted(self.files.items())]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that are compiled or executed."""
        return tuple(name for name in sorted(self.files) if is_code(Path(name).name))

    def write(self, folder: Path, *, private: bool = False) -> None:
        """Write the files below a folder; `private` ones only the user may read."""
        for name, data in self.files.items():
            path = folder / name
            _make_folder(path.parent, 0o700 if private else 0o777)
            with os.fdopen(os.open(path, _NEW, 0o600 if private else 0o666), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())


def is_code(name: str) -> bool:
    """Return True for the name of a file that a build compiles or executes."""
    return any(fnmatchcase(name, pattern) for pattern in (*SOURCES, _DKMS))


def read_code(folder: Path, links_below: Path | None = None, patterns: Sequence[str] = ()) -> Code:
    """Read the files below a folder that a build, DKMS or the catalog reads; skip hidden folders.

    Args:
        folder: The folder.
        links_below: Links to files may lead to what is below this folder; None: there must be none.
        patterns: Names of files that count; empty: those of a kernel module.

    Raises:
        InputError: A link is among them, one cannot be read, or they are too many or too large.
    """
    files: dict[str, bytes] = {}
    for path in _walk(folder, patterns or (*SOURCES, _DKMS, _DESCRIPTION)):
        files[path.relative_to(folder).as_posix()] = _read(path, links_below)
        if len(files) > _MOST_FILES or sum(map(len, files.values())) > MAX_BYTES:
            limit = f"{_MOST_FILES} source files or {MAX_BYTES >> 20} MiB of them"
            raise InputError(f"{folder} has more than {limit}", "name the folder of one module")
    return Code(folder, files, patterns)


def trusted_copy(code: Code) -> Path | None:
    """Return the copy that was kept when the user trusted exactly this code; None without such consent.

    Raises:
        InputError: Others may write to the folder of such copies.
    """
    copy = _home() / code.digest
    if not copy.is_dir() or copy.is_symlink():
        return None
    _require_private(_home(), copy, *copy.rglob("*"))
    with suppress(InputError):  # a damaged copy does not count
        if read_code(copy, patterns=code.patterns).digest == code.digest:
            return copy
    return None


def trust(code: Code) -> Path:
    """Remember that the user trusts this code, and return the copy to build.

    Raises:
        InputError: The user's state folder cannot be written, or others may write to it.
    """
    return _kept(
        code.digest,
        lambda partial: code.write(partial, private=True),
        lambda: trusted_copy(code) is not None,
    )


def trusted_program(digest: str) -> Path | None:
    """Return the copy that was kept when the user trusted the program of this SHA-256; None without it.

    Raises:
        InputError: Others may write to the folder of such copies.
    """
    copy = _home() / digest
    if not copy.is_dir() or copy.is_symlink():
        return None
    file = copy / _PROGRAM
    _require_private(_home(), copy, *([file] if os.path.lexists(file) else []))
    try:
        with file.open("rb") as content:
            return file if hashlib.file_digest(content, "sha256").hexdigest() == digest else None
    except OSError:
        return None


def trust_program(content: bytes) -> Path:
    """Remember that the user trusts this program, and return the copy to run.

    Raises:
        InputError: The user's state folder cannot be written, or others may write to it.
    """
    digest = hashlib.sha256(content).hexdigest()

    def write(partial: Path) -> None:
        with os.fdopen(os.open(partial / _PROGRAM, _NEW, 0o700), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return _kept(digest, write, lambda: trusted_program(digest) is not None) / _PROGRAM


def _kept(digest: str, write: Callable[[Path], None], there: Callable[[], bool]) -> Path:
    """Return the private folder of that digest, which `write` fills unless it is there."""
    from filelock import FileLock

    home = _home()
    copy = home / digest
    try:
        _make_folder(home, 0o700)
        _require_private(home)
        with FileLock(home / _LOCK):
            if not there():
                remove_leftovers(home)
                with new_folder(copy, replace=True) as partial:  # a copy that is there is damaged
                    partial.chmod(0o700)
                    write(partial)
    except OSError as error:
        message = f"cannot remember in {home} what is trusted: {error.strerror}"
        raise InputError(message, "set XDG_STATE_HOME to a folder that you can write to") from error
    return copy


def _home() -> Path:
    return state_folder() / "trusted"


def _make_folder(folder: Path, mode: int) -> None:
    """Make a folder and those above it that are missing, with these permissions."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=mode, exist_ok=True)


def _require_private(home: Path, *below: Path) -> None:
    """Raise InputError if others can replace the folder of copies, or anything in it that is named.

    These must be the user's own. The folders above may be root's, too, and everybody may write to one where
    only owners rename what is there, as in /tmp (sticky).
    """
    owner = os.geteuid()
    problems: list[Problem] = []
    for path in (*_above(home), home, *below):
        about = path.lstat()
        linked = stat.S_ISLNK(about.st_mode)
        shared = bool(about.st_mode & _OTHERS_WRITE) and not linked
        own = about.st_uid == owner and not linked
        if path != home and path not in below:
            shared = shared and not about.st_mode & stat.S_ISVTX
            own = about.st_uid in {owner, 0}
        if own and not shared:
            continue
        remedy = f"chmod go-w {shlex.quote(str(path))}" if own else "set XDG_STATE_HOME to a folder of yours"
        message = "decides which code is trusted, and others may write to it"
        problems.append(Problem(str(path), "", message, f"look at what is there, then: {remedy}"))
    if problems:
        raise InputError(problems)


def _above(folder: Path) -> Iterator[Path]:
    """Yield the folders above a folder; of links among them also the targets, and the folders above these."""
    seen: set[Path] = set()
    waiting = [folder.absolute().parent]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path
        if path.parent != path:
            waiting.append(path.parent)
        if path.is_symlink():
            waiting.append(path.parent / path.readlink())


def _walk(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder):
        hidden = {name for name in folders if name.startswith(".")}
        folders[:] = sorted(set(folders) - _MADE_BY_HAND - hidden)
        seen += len(folders) + len(names)
        if seen > _MOST_NAMES:
            raise InputError(f"{folder} has more than {_MOST_NAMES} files", "name the folder of one module")
        for name in folders:
            if Path(place, name).is_symlink():
                raise _linked(Path(place, name))
        for name in sorted(names):
            if not name.startswith(".") and any(fnmatchcase(name, pattern) for pattern in patterns):
                yield Path(place, name)


def _read(path: Path, links_below: Path | None) -> bytes:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        if links_below is None or not path.resolve().is_relative_to(links_below.resolve()):
            raise _linked(path)
        path = path.resolve()
        mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is not a plain file")
    return read_bytes(path)


def _linked(path: Path) -> InputError:
    return InputError(f"{path} is a link, and code from outside must not have any", "copy what it points to")
