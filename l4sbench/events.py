# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What happens in a run, as values.

The library never prints: it tells, and command line, log and tests listen. Times `at_s` are seconds since the
run began. Events come from one thread, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path


class Status(StrEnum):
    """How a trial ended. `ok` and `invalid` stand for good; `failed` is tried again by the next run."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"


@dataclass(frozen=True)
class RunPlanned:
    """The run begins. `work_s` is the estimated work of all its trials, wall seconds of one worker."""

    at_s: float
    trials: int
    cells: int
    jobs: int
    work_s: float


@dataclass(frozen=True)
class TrialStarted:
    """A worker took a trial up."""

    at_s: float
    cell_id: str
    trial: int
    work_s: float


@dataclass(frozen=True)
class TrialEnded:
    """A trial ended and stands in the store at `path`, with the reasons when it is invalid or failed."""

    at_s: float
    cell_id: str
    trial: int
    status: Status
    reasons: tuple[str, ...]
    wall_s: float
    work_s: float
    path: Path


@dataclass(frozen=True)
class TrialDiscarded:
    """A trial did not end: it was stopped, or its outputs could not be written. Nothing of it is kept."""

    at_s: float
    cell_id: str
    trial: int
    work_s: float
    reason: str


@dataclass(frozen=True)
class TrialsAdded:
    """An adaptive cell is not decided yet: it gets more trials."""

    at_s: float
    cell_id: str
    trials: tuple[int, ...]
    work_s: float


@dataclass(frozen=True)
class StageBegun:
    """The testbed is brought into the state that the next trials need: host -> kernel, and who restarts."""

    at_s: float
    kernels: Mapping[str, str]
    restarts: tuple[str, ...]
    trials: int


@dataclass(frozen=True)
class StageEntered:
    """The testbed is in that state, or, with a `reason`, it is not and the trials that need it will fail.

    `more_trials` and `more_work_s` are how many more, or fewer, trials there are than was foreseen before it
    was known what they run on. `work_s` is the estimated work of the change.
    """

    at_s: float
    reason: str
    more_trials: int
    more_work_s: float
    work_s: float


@dataclass(frozen=True)
class RunStopping:
    """No new trials from here on, and why."""

    at_s: float
    reason: str
    running: int


@dataclass(frozen=True)
class RunEnded:
    """The last event of a run."""

    at_s: float


Event: TypeAlias = (
    RunPlanned
    | StageBegun
    | StageEntered
    | TrialStarted
    | TrialEnded
    | TrialDiscarded
    | TrialsAdded
    | RunStopping
    | RunEnded
)
OnEvent: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Progress:
    """How far a run is: a pure fold over its events, the one place where rate and time left are computed.

    `work_s` is the estimated work of the whole run and `done_s` of its ended trials, both in wall seconds of
    one worker; `running` counts the trials under way.
    """

    trials: int = 0
    jobs: int = 1
    work_s: float = 0.0
    done_s: float = 0.0
    running: int = 0
    ok: int = 0
    invalid: int = 0
    failed: int = 0
    discarded: int = 0
    at_s: float = 0.0
    stopping: str | None = None

    @property
    def ended(self) -> int:
        """Trials that ended, however."""
        return self.ok + self.invalid + self.failed

    @property
    def fraction(self) -> float:
        """The part of the estimated work that is done, 0 to 1."""
        if self.work_s > 0:
            return min(1.0, self.done_s / self.work_s)
        return 1.0 if self.ended >= self.trials else 0.0

    def rate_per_min(self, now_s: float | None = None) -> float | None:
        """Ended trials per minute until `now_s` (default: the last event); None when none has ended."""
        elapsed_s = max(self.at_s, now_s or 0.0)
        return self.ended / elapsed_s * 60.0 if self.ended and elapsed_s > 0 else None

    def left_s(self, now_s: float | None = None) -> float:
        """Wall seconds left at `now_s`: the estimate corrected by how the ended trials compared with theirs.

        Before the first trial has ended it is the bare estimate.
        """
        elapsed_s = max(self.at_s, now_s or 0.0)
        todo_s = max(0.0, self.work_s - self.done_s)
        if self.done_s <= 0:
            return max(0.0, todo_s / max(1, self.jobs) - elapsed_s)
        pace = self.at_s / self.done_s  # wall seconds per second of estimated work, all workers together
        return max(0.0, todo_s * pace - (elapsed_s - self.at_s))

    def after(self, event: Event) -> Progress:
        """The progress once `event` has happened."""
        now = replace(self, at_s=max(self.at_s, event.at_s))
        match event:
            case RunPlanned():
                now = replace(now, trials=event.trials, jobs=event.jobs, work_s=event.work_s)
            case TrialsAdded():
                now = replace(now, trials=now.trials + len(event.trials), work_s=now.work_s + event.work_s)
            case StageEntered():
                now = replace(
                    now,
                    trials=now.trials + event.more_trials,
                    work_s=now.work_s + event.more_work_s,
                    done_s=now.done_s + event.work_s,
                )
            case TrialStarted():
                now = replace(now, running=now.running + 1)
            case TrialDiscarded():
                now = replace(now, running=now.running - 1, discarded=now.discarded + 1)
            case TrialEnded():
                now = replace(now, running=now.running - 1, done_s=now.done_s + event.work_s)
                now = replace(
                    now,
                    ok=now.ok + (event.status is Status.OK),
                    invalid=now.invalid + (event.status is Status.INVALID),
                    failed=now.failed + (event.status is Status.FAILED),
                )
            case RunStopping():
                now = replace(now, stopping=event.reason)
            case RunEnded() | StageBegun():
                pass
        return now
