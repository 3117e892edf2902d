# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The locks of a run directory.

`hold`: one process adds trials at a time, and the error for others names it. `steady`: tables and report do
not change while a process reads or writes them; others wait.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from l4sbench.disk.files import remove_tree, write_whole
from l4sbench.disk.plain import open_plain
from l4sbench.disk.userfiles import read_bytes
from l4sbench.errors import InputError, L4sbenchError
from l4sbench.store.files import RunMoved, as_json, as_utc, room

if TYPE_CHECKING:
    from filelock import FileLock

_MAKING_S: Final = 30.0
_LOOK_POLL_S: Final = 0.01
_MOST_LOOKS: Final = 500

_STEADY_S: Final = 1800.0
"""Time to wait for a process that writes tables or a report; those of the largest runs take minutes."""

_STEADY_POLL_S: Final = 0.05
_STEADY: Final[ContextVar[frozenset[Path]]] = ContextVar("_STEADY", default=frozenset())
"""Run directories whose tables and reports this thread keeps steady."""


class RunLocked(L4sbenchError):  # noqa: N818  (named like the other errors)
    """Another process writes into this run directory."""

    exit_code: ClassVar[int] = 2


@contextmanager
def hold(folder: Path, command: str = "") -> Iterator[None]:
    """Hold the lock of `folder`. The system releases it when this process ends, however it ends.

    Raises:
        RunLocked: another process holds it; the message names it.
        RunMoved: there is no such folder any more.
        DiskFull: there is no space to record this process.
    """
    from filelock import FileLock, Timeout  # slow to import, and most commands lock nothing

    try:
        before = folder.stat()
    except FileNotFoundError as error:
        raise RunMoved(folder) from error
    lock = FileLock(folder / ".lock", blocking=False)
    holder = folder / "lock.json"
    try:
        _acquire(lock, folder)
        if not os.path.samestat(before, folder.stat()):  # it was moved, and FileLock has made another
            lock.release()
            if [path.name for path in folder.iterdir()] == [".lock"]:
                remove_tree(folder)
            raise RunMoved(folder)
    except Timeout:
        raise RunLocked(
            f"{folder} is in use by {_holder(holder)}",
            "wait for it or stop it, or use --new for a separate run",
        ) from None
    try:
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": as_utc(datetime.now(UTC)),
            "command": command or " ".join(sys.argv),
        }
        with room(folder):
            write_whole(holder, as_json(me))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock, folder: Path) -> None:
    """Acquire the lock of `folder`; wait for those who only look who holds it, which takes an instant.

    Raises:
        Timeout: another process holds it.
    """
    from filelock import Timeout

    for _ in range(_MOST_LOOKS):
        try:
            lock.acquire()
        except Timeout:
            if user_of(folder) is not None:
                raise
            time.sleep(_LOOK_POLL_S)
        else:
            return
    lock.acquire()


def user_of(folder: Path) -> str | None:
    """Return which process holds the lock of `folder`, as messages name it; None if none does.

    It changes nothing, and works for folders that cannot be written.
    """
    try:
        file = open_plain(folder / ".lock")
    except OSError:
        return None  # nobody has held it, or nobody can
    with file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            busy = error.errno in {errno.EWOULDBLOCK, errno.EAGAIN}
            return _holder(folder / "lock.json") if busy else None
    return None


@contextmanager
def making_runs(home: Path) -> Iterator[None]:
    """Hold the lock for making run directories of one matrix, which takes an instant.

    Raises:
        RunLocked: another process holds it for long.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(home / ".lock", timeout=_MAKING_S)
    try:
        lock.acquire()
    except Timeout:
        raise RunLocked(
            f"{home} is in use: another process makes a run directory in it", "try again"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def steady(*runs: Path) -> Iterator[None]:
    """Let no other process change the tables and reports of runs meanwhile; waits for one that does.

    It works for run directories that cannot be written, too, as the lock is on the folder itself.

    Raises:
        RunLocked: another process holds one for long.
    """
    held = _STEADY.get()
    wanted = sorted({run.resolve() for run in runs} - held)  # in order, so that no two wait for each other
    with ExitStack() as stack:
        for run in wanted:
            stack.enter_context(_locked_folder(run))
        token = _STEADY.set(held.union(wanted))
        try:
            yield
        finally:
            _STEADY.reset(token)


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _STEADY_S
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise RunLocked(
                    f"{folder} is in use: another process writes its tables or report", "wait until it ends"
                )
            time.sleep(_STEADY_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a folder; True as well where the file system has no locks for folders (NFS)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.EWOULDBLOCK, errno.EAGAIN}
    return True


def _holder(path: Path) -> str:
    try:
        plain = json.loads(read_bytes(path, plain=True))
        pid, host, since, command = (plain[key] for key in ("pid", "host", "since", "command"))
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return "an unknown process"
    return f"process {pid} on {host} since {since}: {command}"
