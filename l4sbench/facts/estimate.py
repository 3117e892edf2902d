# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Estimates of how long trials take, and the load of the machine that they depend on."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from l4sbench.text.wording import as_range, counted

_LOOKS: Final = 5
_PAUSE_S: Final = 0.01
_STATE: Final = 0
_SESSION: Final = 3
_NICE: Final = 16
"""Places in /proc/PID/stat after the name: proc_pid_stat(5)."""

_PER_NICE: Final = 1.25
"""Weight by which processes differ that differ by 1 in niceness: sched(7)."""


@dataclass(frozen=True)
class LocalMachine:
    """This machine without our trials.

    Attributes:
        cores: That this process may use.
        load: Number of other processes that want one.
        weight: What each counts beside one of ours: less than 1 for those that are nice or share a session.
    """

    cores: int
    load: float
    weight: float = 1.0

    @classmethod
    def now(cls) -> Self:
        """Return it as it is.

        The load average still has what ended a minute ago, perhaps a run of ours, and what runs at an instant
        is little of what comes and goes; so the lower of both counts.
        """
        cores = len(os.sched_getaffinity(0))
        with suppress(OSError, ValueError, IndexError):
            load = os.getloadavg()[0]
            running, weight = _running()
            return cls(cores, min(load, running), weight)
        return cls(cores, 0.0)

    @property
    def busy(self) -> bool:
        """True if clearly more processes want a core than there are."""
        return self.load >= self.cores + 0.5

    def stretch(self, jobs: int) -> float:
        """Return how many times longer than alone each of so many trials takes."""
        return max(1.0, (jobs + self.load * self.weight) / self.cores)


def _running() -> tuple[float, float]:
    """Return the mean number of other processes that want a core during some moments, and their weight."""
    found, weights = 0, []
    for look in range(_LOOKS):
        time.sleep(_PAUSE_S if look else 0.0)
        found += int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
        weights += _weights()
    return found / _LOOKS, sum(weights) / len(weights) if weights else 1.0


def _weights() -> list[float]:
    """Return the weights beside ours of the processes that want a core, as far as we may see them.

    The scheduler is fair among sessions where it groups by them, and every guest has one of its own;
    elsewhere it weighs by niceness.
    """
    grouped, own = _by_session(), os.getpriority(os.PRIO_PROCESS, 0)
    found: list[tuple[str, int]] = []
    for process in (path for path in Path("/proc").iterdir() if path.name.isdecimal()):
        with suppress(OSError, IndexError):  # it has ended
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[_STATE] == "R" and int(process.name) != os.getpid():
                found.append((fields[_SESSION], int(fields[_NICE])))
    if grouped:
        sessions = Counter(session for session, _ in found)
        return [1 / sessions[session] for session, _ in found]
    return [_PER_NICE ** (own - nice) for _, nice in found]


def _by_session() -> bool:
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    except OSError:
        return False


@dataclass(frozen=True)
class TimeRange:
    """The range in which the wall time of trials lies in 8 of 10 runs.

    Attributes:
        low_s, high_s: Its ends.
        machine: The load that it counts on; None where load does not matter.
        measured: False if no trial was measured here yet.
    """

    low_s: float = 0.0
    high_s: float = 0.0
    machine: LocalMachine | None = None
    measured: bool = True

    def __str__(self) -> str:
        return as_range(self.low_s, self.high_s)

    @property
    def ends_s(self) -> tuple[float, float]:
        """Both ends."""
        return self.low_s, self.high_s

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons for which the range is wide, in words."""
        found = []
        if self.machine is not None and self.machine.busy:
            cores = counted(self.machine.cores, "core")
            found.append(f"the machine is busy (load {self.machine.load:.0f} on {cores})")
        if not self.measured:
            found.append("no trial was measured here yet")
        return tuple(found)

    def between(self, low_s: float, high_s: float) -> TimeRange:
        """Return it with other ends."""
        return replace(self, low_s=max(0.0, low_s), high_s=max(0.0, high_s))


NO_ESTIMATE: Final = TimeRange()
"""No range, where nothing is to run."""
