# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One trial, from its programs to its folder in the store."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from l4sbench.disk.files import write_whole
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import L4sbenchError, TrialFailed
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.program import programs
from l4sbench.program.trial import Judgement, TrialSpec, draw_conditions, seed_of
from l4sbench.store import Ending, is_full
from l4sbench.store.leavings import tidy

if TYPE_CHECKING:
    from l4sbench.engine.crew import UnderWay
    from l4sbench.engine.testbed import Testbed
    from l4sbench.facts.traits import TestbedTraits
    from l4sbench.planning.inputs import TrialInputs
    from l4sbench.planning.plan import CellPlan, Plan
    from l4sbench.store import Partial, RunWriter

Judge: TypeAlias = Callable[[TrialSpec, Path], Judgement]
"""Judges from a trial's raw files whether the apparatus did what the cell asks for. May raise TrialFailed."""

LEAST_LIMIT_S: Final = 180.0
LIMIT_FACTOR: Final = 10.0
"""A trial's wall-clock limit as a multiple of its estimate, since machines become slower."""
LENGTH_FACTOR: Final = 5.0
"""The same as a multiple of its length: programs that nobody has estimated, such as media, take that long."""


class Task(NamedTuple):
    """One trial to run."""

    planned: CellPlan
    trial: int

    def limit_s(self, traits: TestbedTraits) -> float:
        """Return the wall-clock seconds after which the trial has failed."""
        planned = self.planned
        generous_s = max(LIMIT_FACTOR * planned.trial_s, LENGTH_FACTOR * planned.cell.length.s)
        return max(LEAST_LIMIT_S, generous_s) * traits.slowdown


@dataclass(frozen=True)
class Kept:
    """A trial that ended and is in the store. With a `bug` it has failed, and the run must stop.

    `cost_s` is processor time, the testbed's and our own, where the testbed's traits say so; else `wall_s`.
    """

    status: Status
    faults: tuple[Fault, ...]
    wall_s: float
    cost_s: float
    outcome: Outcome | None
    path: Path
    bug: Exception | None = None


@dataclass(frozen=True)
class Worker:
    """Runs trials of one plan on one testbed, in any thread. With `not_ready` all fail for that reason."""

    plan: Plan
    writer: RunWriter
    testbed: Testbed
    judge: Judge
    inputs: TrialInputs
    not_ready: str = ""

    def run(self, task: Task, under_way: UnderWay) -> Kept:
        """Run one trial and keep it.

        Raises:
            TrialStopped: it was ended early. Nothing of it is kept, as with any other error.
            TestbedError: no further trial can run.
        """
        own_s = time.thread_time()
        with self.writer.begin(self._spec(task)) as partial:
            return self._ended(under_way, partial, own_s)

    def _spec(self, task: Task) -> TrialSpec:
        matrix = self.plan.matrix
        cell = task.planned.cell
        seed = seed_of(matrix.seed, task.trial)
        place = matrix.catalog.topology(cell.topology)
        conditions = draw_conditions(cell, seed, self.testbed.traits, capture=self.plan.capture)
        programmed = programs(cell, place, matrix.catalog, conditions)
        (digest,) = self.inputs.digests(cell, (task.trial,))
        placed = place.of_family(cell.family)
        limit_s = task.limit_s(self.testbed.traits)
        return TrialSpec(cell, task.trial, seed, programmed, placed, digest, limit_s)

    def _ended(self, under_way: UnderWay, partial: Partial, own_s: float) -> Kept:
        started, began = datetime.now(UTC), time.monotonic()
        outcome: Outcome | None = None
        bug: Exception | None = None
        try:
            if self.not_ready:
                raise TrialFailed(self.not_ready)
            outcome = self.testbed.run(partial.spec, partial.raw, under_way.stop)
            if left := tidy(partial.raw):
                raise TrialFailed(left)
            judgement = self.judge(partial.spec, partial.raw)
            status, found = judgement.status, judgement.faults
        except TrialStopped:
            if not under_way.overran:
                raise
            limit = f"{partial.spec.wall_limit_s:g} s of wall time"
            status, found = Status.FAILED, _failed(f"no end within {limit}")
        except TrialFailed as failure:
            stopped = under_way.stop.is_set() or under_way.interrupted()
            if stopped and not under_way.overran:
                raise TrialStopped from failure
            status, found = Status.FAILED, _failed(failure.reason)
        except L4sbenchError:
            raise
        except OSError as error:
            if is_full(error):
                raise
            status, found = Status.FAILED, _failed(f"the testbed could not continue: {error}")
        except Exception as error:  # noqa: BLE001  (raised again once the other trials have ended)
            bug = error
            write_whole(partial.raw / "traceback.txt", traceback.format_exc())
            status, found = Status.FAILED, _failed(describe(error))
        if status is Status.FAILED and (left := tidy(partial.raw)):
            found = tuple(dict.fromkeys((*found, *_failed(left))))  # the testbed may have found the same
        wall_s = time.monotonic() - began
        ran = outcome or Outcome(wall_s=wall_s, cpu_s=0.0, virtual_s=0.0)
        path = partial.end(
            Ending(
                status,
                found,
                self.inputs.identity.of(partial.spec.cell.lab),
                started,
                wall_s,
                ran.cpu_s,
                ran.virtual_s,
                ran.skew_ms,
            )
        )
        computed_s = ran.cpu_s + time.thread_time() - own_s
        cost_s = computed_s if self.testbed.traits.processor_bound else wall_s
        return Kept(status, found, wall_s, cost_s, outcome, path, bug)


def _failed(reason: str) -> tuple[Fault, ...]:
    return (Fault.of(FaultKind.FAILED, problem=reason),)


def describe(bug: BaseException) -> str:
    """Describe a bug in one line."""
    return bug.message if isinstance(bug, L4sbenchError) else f"internal error: {bug!r}"
