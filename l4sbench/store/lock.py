# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The lock of a run directory: one process writes at a time, and the error for others names it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from filelock import FileLock, Timeout

from l4sbench.errors import L4sbenchError
from l4sbench.files import write_whole
from l4sbench.store.files import as_json, as_utc, room

_MAKING_S: Final = 30.0


class RunLocked(L4sbenchError):  # noqa: N818  (named like the other errors)
    """Another process writes into this run directory."""

    exit_code: ClassVar[int] = 2


@contextmanager
def hold(folder: Path, command: str = "") -> Iterator[None]:
    """Hold the lock of `folder`. The system releases it when this process ends, however it ends.

    Raises:
        RunLocked: another process holds it; the message names it.
        DiskFull: there is no space to record this process.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    holder = folder / "lock.json"
    try:
        lock.acquire()
    except Timeout:
        raise RunLocked(
            f"{folder} is in use{_holder(holder)}", "wait for it or stop it, or use --new for a separate run"
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


@contextmanager
def making_runs(home: Path) -> Iterator[None]:
    """Hold the lock for making run directories of one matrix, which takes an instant.

    Raises:
        RunLocked: another process holds it for long.
    """
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


def _holder(path: Path) -> str:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        pid, host, since, command = (plain[key] for key in ("pid", "host", "since", "command"))
    except (OSError, ValueError, KeyError, TypeError):
        return " by an unknown process"
    return f" by process {pid} on {host} since {since}: {command}"
