# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Processes that outlive their starter, remembered such that no other process is mistaken for them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

_STAT_STATE, _STAT_START = 0, 19
"""Fields of /proc/PID/stat after the program's name: `state` and `starttime` of proc_pid_stat(5)."""


class Process(BaseModel):
    """A process by its id and start time, as ids are reused.

    Attributes:
        pid: Its id.
        start: Start time in clock ticks since the boot.
        boot: Id of the machine's boot.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    pid: int
    start: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the process with this id; None when there is none, or only a zombie."""
        fields = _stat(pid)
        if fields is None or fields[_STAT_STATE] in "ZX":
            return None
        return cls(pid=pid, start=int(fields[_STAT_START]), boot=_boot_id())

    def runs(self) -> bool:
        """Return True if it still runs."""
        return type(self).of(self.pid) == self

    def kill(self) -> None:
        """Kill it, if it still runs."""
        try:
            handle = os.pidfd_open(self.pid)  # from here on the id is unambiguous
        except OSError:
            return
        try:
            if self.runs():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os.close(handle)

    def wait(self, limit_s: float) -> bool:
        """Wait for its end; return True if it ended in time."""
        deadline = time.monotonic() + limit_s
        while self.runs():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name may contain blanks and brackets


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
