# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One process at a time writes into a run directory, and whoever comes second learns who it is."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from filelock import FileLock, Timeout

from l4sbench.errors import L4sbenchError
from l4sbench.store.files import as_json, as_utc, room, write_whole


class RunLocked(L4sbenchError):  # noqa: N818  (named like the other errors)
    """Another process runs in this directory."""

    exit_code: ClassVar[int] = 2


@contextmanager
def hold(folder: Path, command: str = "") -> Iterator[None]:
    """Hold the lock of `folder`. The system frees it when this process ends, however it ends.

    Raises:
        RunLocked: another process holds it; the message says which.
        DiskFull: there is no room to say who holds it.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    holder = folder / "lock.json"
    try:
        lock.acquire()
    except Timeout:
        raise RunLocked(
            f"{folder} is in use{_holder(holder)}", "wait for it or stop it; --new starts a run of its own"
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


def _holder(path: Path) -> str:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        pid, host, since, command = (plain[key] for key in ("pid", "host", "since", "command"))
    except (OSError, ValueError, KeyError, TypeError):
        return " by a process that has not said yet who it is"
    return f" by process {pid} on {host} since {since}: {command}"
