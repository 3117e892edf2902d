# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One trial, from its programs to its place in the store. Knows nothing of other trials."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import L4sbenchError, TestbedError, TrialFailed
from l4sbench.events import Status
from l4sbench.program import programs
from l4sbench.program.trial import Judgement, TrialSpec, draw_conditions, seed_of
from l4sbench.store import Ending, is_full
from l4sbench.topology import topology

if TYPE_CHECKING:
    from l4sbench.engine.testbed import Testbed
    from l4sbench.errors import Problem
    from l4sbench.planning.plan import CellPlan, Plan
    from l4sbench.store import Partial, RunWriter
    from l4sbench.traits import Identity, Needs, TestbedTraits

Judge: TypeAlias = Callable[[TrialSpec, Path], Judgement]
"""Says whether a trial's raw files show that the apparatus did what the cell says. May raise TrialFailed."""

LEAST_LIMIT_S: Final = 180.0
LIMIT_FACTOR: Final = 10.0
"""A trial's wall-clock limit in estimates of its cost: a machine may be this much slower than it was."""


@dataclass(eq=False)
class Task:
    """One trial to run. `told`: when it was told to stop; `overran`: because it ran past its limit."""

    planned: CellPlan
    trial: int
    digest: str
    stop: threading.Event = field(init=False)  # made when it is taken up: a plan may have 300,000 tasks
    began: float = 0.0
    told: float | None = None
    overran: bool = False

    @property
    def limit_s(self) -> float:
        """Wall-clock seconds after which it has failed."""
        return max(LEAST_LIMIT_S, LIMIT_FACTOR * self.planned.trial_s)


@dataclass(frozen=True)
class Kept:
    """A trial that ended and stands in the store. With a `bug` it is failed, and the run must stop."""

    task: Task
    status: Status
    reasons: tuple[str, ...]
    wall_s: float
    outcome: Outcome | None
    path: Path
    bug: Exception | None = None


@dataclass(frozen=True)
class Dropped:
    """A trial of which nothing is kept; with an `error` no further one can run."""

    task: Task
    reason: str
    error: TestbedError | None = None


@dataclass(frozen=True)
class Worker:
    """Runs trials of one plan on one testbed, in whatever thread."""

    plan: Plan
    writer: RunWriter
    testbed: Testbed
    judge: Judge
    identity: Identity

    def run(self, task: Task) -> Kept | Dropped:
        """Run one trial and keep it, or nothing of it. Raises what is a bug before the trial began."""
        try:
            with self.writer.begin(self._spec(task)) as partial:
                return self._ended(task, partial)
        except TrialStopped:
            return Dropped(task, "stopped")
        except TestbedError as error:
            return Dropped(task, error.message, error)

    def _spec(self, task: Task) -> TrialSpec:
        matrix = self.plan.matrix
        cell = task.planned.cell
        seed = seed_of(matrix.seed, task.trial)
        place = topology(cell.topology)
        conditions = draw_conditions(cell, seed, self.testbed.traits)
        programmed = programs(cell, place, matrix.catalog, conditions)
        return TrialSpec(cell, task.trial, seed, programmed, place, task.digest, task.limit_s)

    def _ended(self, task: Task, partial: Partial) -> Kept:
        started, began = datetime.now(UTC), time.monotonic()
        outcome: Outcome | None = None
        bug: Exception | None = None
        try:
            outcome = self.testbed.run(partial.spec, partial.raw, task.stop)
            judgement = self.judge(partial.spec, partial.raw)
            status, reasons = judgement.status, judgement.reasons
        except TrialStopped:
            if not task.overran:
                raise
            status, reasons = Status.FAILED, (f"no end within {task.limit_s:g} s of wall time",)
        except TrialFailed as failure:
            if task.stop.is_set() and not task.overran:
                raise TrialStopped from failure
            status, reasons = Status.FAILED, (failure.reason,)
        except L4sbenchError:
            raise
        except OSError as error:
            if is_full(error):
                raise
            status, reasons = Status.FAILED, (f"the testbed could not go on: {error}",)
        except Exception as error:  # noqa: BLE001  (raised again once the other trials have ended)
            bug = error
            (partial.raw / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
            status, reasons = Status.FAILED, (told(error),)
        wall_s = time.monotonic() - began
        ran = outcome or Outcome(wall_s=wall_s, cpu_s=0.0, virtual_s=0.0)
        path = partial.end(
            Ending(status, reasons, self.identity, started, wall_s, ran.cpu_s, ran.virtual_s, ran.skew_ms)
        )
        return Kept(task, status, reasons, wall_s, outcome, path, bug)


@dataclass(frozen=True)
class NotReady:
    """A testbed that could not be brought into the state that trials need: each fails, and says why."""

    testbed: Testbed
    reason: str

    @property
    def name(self) -> str:
        """The testbed's."""
        return self.testbed.name

    @property
    def traits(self) -> TestbedTraits:
        """The testbed's."""
        return self.testbed.traits

    def identity(self) -> Identity:
        """The testbed's."""
        return self.testbed.identity()

    def check(self, needs: Needs) -> Sequence[Problem]:
        """The testbed's."""
        return self.testbed.check(needs)

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:  # noqa: ARG002
        """Raises TrialFailed with the reason."""
        raise TrialFailed(self.reason)


def told(bug: BaseException) -> str:
    """A bug in one line."""
    return bug.message if isinstance(bug, L4sbenchError) else f"internal error: {bug!r}"
