# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Events of a run, as values.

The library never prints: it reports events to listeners such as the command line. Times `at_s` are seconds
since the start of the run. Events come from one thread, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.facts.estimate import NO_ESTIMATE

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.facts.estimate import TimeRange


class Status(StrEnum):
    """Status of a trial. `ok` and `invalid` are final; the next run repeats `failed` trials."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"


@dataclass(frozen=True)
class RunPlanned:
    """The run begins.

    `work_s` is the estimated work of all its trials, wall seconds of one worker, `estimate` the range of the
    wall time with all workers.
    """

    at_s: float
    trials: int
    cells: int
    jobs: int
    work_s: float
    estimate: TimeRange = NO_ESTIMATE


@dataclass(frozen=True)
class TrialStarted:
    """A worker started a trial."""

    at_s: float
    cell_id: str
    trial: int
    work_s: float


@dataclass(frozen=True)
class TrialEnded:
    """A trial ended and is stored at `path`; `reasons` say why it is invalid or failed."""

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
    """A trial was stopped, or its outputs could not be written. None of it is kept."""

    at_s: float
    cell_id: str
    trial: int
    work_s: float
    reason: str


@dataclass(frozen=True)
class TrialsAdded:
    """An adaptive cell is still undecided and gets more trials."""

    at_s: float
    cell_id: str
    trials: tuple[int, ...]
    work_s: float


@dataclass(frozen=True)
class StageBegun:
    """The testbed starts to change kernels for the next trials; `kernels` maps hosts to them."""

    at_s: float
    kernels: Mapping[str, str]
    restarts: tuple[str, ...]
    trials: int


@dataclass(frozen=True)
class StageEntered:
    """The testbed runs these kernels; with a `reason` it does not, and trials that need them will fail.

    `more_trials` and `more_work_s` correct the numbers of `RunPlanned`, which did not know what the trials
    run on. `work_s` is the estimated work of the change.
    """

    at_s: float
    reason: str
    more_trials: int
    more_work_s: float
    work_s: float


@dataclass(frozen=True)
class RunStopping:
    """No new trials start from here on."""

    at_s: float
    reason: str
    running: int


@dataclass(frozen=True)
class RunEnded:
    """No trial of the run is left; unless it was interrupted, its tables are written next."""

    at_s: float


@dataclass(frozen=True)
class TrialParsed:
    """Raw files of so many trials have become rows of tables, after the run has ended."""

    at_s: float
    parsed: int


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
    | TrialParsed
)
OnEvent: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Progress:
    """Progress of a run: a pure fold over its events that yields rate and remaining time.

    `work_s` is the estimated work of the run, `done_s` that of its ended trials, both in wall seconds of
    one worker; `running` counts the trials in progress; `estimate` is the range before the first trial;
    `over` is True once no trial is left, and `parsed` counts the trials that are in tables since then.
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
    estimate: TimeRange = NO_ESTIMATE
    at_s: float = 0.0
    stopping: str | None = None
    over: bool = False
    parsed: int = 0

    @property
    def ended(self) -> int:
        """Number of trials that ended, with any status."""
        return self.ok + self.invalid + self.failed

    @property
    def fraction(self) -> float:
        """Fraction of the estimated work that is done, 0 to 1."""
        if self.work_s > 0:
            return min(1.0, self.done_s / self.work_s)
        return 1.0 if self.ended >= self.trials else 0.0

    def rate_per_min(self, now_s: float | None = None) -> float | None:
        """Return ended trials per minute until `now_s` (default: the last event); None if none has ended."""
        elapsed_s = max(self.at_s, now_s or 0.0)
        return self.ended / elapsed_s * 60.0 if self.ended and elapsed_s > 0 else None

    def left_s(self, now_s: float | None = None) -> float:
        """Return the wall seconds left at `now_s`: the estimate, scaled by the pace of the ended trials.

        Before the first trial has ended it is the plain estimate.
        """
        elapsed_s = max(self.at_s, now_s or 0.0)
        todo_s = max(0.0, self.work_s - self.done_s)
        if self.done_s <= 0:
            return max(0.0, todo_s / max(1, self.jobs) - elapsed_s)
        pace = self.at_s / self.done_s  # wall seconds per second of estimated work, all workers together
        return max(0.0, todo_s * pace - (elapsed_s - self.at_s))

    def left(self, now_s: float | None = None) -> TimeRange:
        """Return the range of the wall seconds left: that of the plan, narrower as more trials have ended."""
        planned_s = self.work_s / max(1, self.jobs)
        left_s = self.left_s(now_s)
        if planned_s <= 0 or self.estimate.low_s <= 0:
            return self.estimate.between(left_s, left_s)
        certain = math.sqrt(1 + self.ended)
        low, high = ((end_s / planned_s) ** (1 / certain) for end_s in self.estimate.ends_s)
        return self.estimate.between(left_s * min(1.0, low), left_s * max(1.0, high))

    def after(self, event: Event) -> Progress:
        """Return the progress after `event`."""
        now = replace(self, at_s=max(self.at_s, event.at_s))
        match event:
            case RunPlanned():
                now = replace(now, trials=event.trials, jobs=event.jobs, work_s=event.work_s)
                now = replace(now, estimate=event.estimate)
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
            case RunEnded():
                now = replace(now, over=True)
            case TrialParsed():
                now = replace(now, parsed=event.parsed)
            case StageBegun():
                pass
        return now
