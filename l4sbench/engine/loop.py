# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The one loop that runs trials.

    with locked(run) as writer:
        result = execute(Order(plan, writer, testbed, judge, on_event=print))

Up to `jobs` trials run at once, in an order shuffled by the run's own seed. No result depends on that order
or on the number of workers. A trial that fails is kept as failed and the run continues; a testbed that fails,
or a full disk, stops the run. After the first Ctrl-C, SIGTERM or SIGHUP no trial is started and the running
ones are discarded; the second one ends the process at once.

One thread decides everything and emits all events. Trials and looks at adaptive cells each run in a thread of
their own, which leaves a call for the deciding thread.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from l4sbench.engine.control import Control, Teller
from l4sbench.engine.crew import Crew, UnderWay
from l4sbench.engine.looks import CellLook, Decide, Looks
from l4sbench.engine.testbed import TrialStopped
from l4sbench.engine.worker import Judge, Kept, Task, Worker, describe
from l4sbench.errors import PlaceLost, TestbedError, TrialFailed
from l4sbench.facts import events
from l4sbench.facts.events import Status
from l4sbench.facts.faults import texts
from l4sbench.planning.estimating import carried_mbps, kind_of
from l4sbench.planning.plan import Batch, ReadyBatch
from l4sbench.planning.trials import PlannedTrial, Reason

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from pathlib import Path

    from l4sbench.engine.testbed import Testbed
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.inputs import TrialInputs
    from l4sbench.planning.plan import CellPlan, Plan
    from l4sbench.store import RunWriter

_Answer = TypeVar("_Answer")
_Batch = TypeVar("_Batch", bound=Batch)


@dataclass(frozen=True)
class Order:
    """A plan to run, the testbed to run it on, and the listener that is told.

    Attributes:
        plan: Made with an identity of `testbed`.
        writer: Of the run that `plan` was made for.
        testbed: Where trials run.
        judge: Called once for every trial that ran to its end.
        decide: Decides whether an adaptive cell has enough trials; without it each gets the least number.
        on_event: Called from the thread that executes the order, in order.
        jobs: Number of workers; None: one per core.
        costs: Learns the cost of the trials.
    """

    plan: Plan
    writer: RunWriter
    testbed: Testbed
    judge: Judge
    decide: Decide | None = None
    on_event: events.OnEvent = lambda _: None
    jobs: int | None = None
    costs: CostBook | None = None


@dataclass(frozen=True)
class RunResult:
    """The end of a run.

    Attributes:
        ok, invalid, failed: Numbers of trials that ended so.
        left: Number of trials that were not started or were discarded.
        given_up: Number of trials that failed too often in earlier runs and were not tried again.
        interrupted: By SIGINT, SIGTERM or SIGHUP.
        error: What stopped the run early. Tables can be made from the trials that ended.
        lost: Places of the testbed that were lost; the run continued without them.
    """

    ok: int
    invalid: int
    failed: int
    left: int
    interrupted: bool = False
    error: TestbedError | None = None
    lost: tuple[PlaceLost, ...] = ()
    given_up: int = 0

    @property
    def exit_code(self) -> int:
        """Exit code of the command line."""
        if self.interrupted:
            return 130
        if self.error is not None:
            return self.error.exit_code
        return 1 if self.invalid or self.failed or self.given_up else 0


class RunInterrupted(KeyboardInterrupt):
    """A second interrupt, which does not wait for the trials that run.

    Attributes:
        run: The run directory.
        result: How trials have ended until then.
    """

    def __init__(self, run: Path, result: RunResult) -> None:
        super().__init__()
        self.run = run
        self.result = result


def execute(order: Order) -> RunResult:
    """Run the trials of a plan, as many at once as the testbed and `jobs` allow.

    A TestbedError or a full disk ends the run early and is in the result, as is an interrupt; a second
    interrupt raises RunInterrupted. Any other error is a bug, and is raised once the running trials have
    ended.
    """
    match order.plan.batches:
        case (ReadyBatch() as batch,):
            with under_way(order) as engine:
                engine.run(batch)
            return engine.result
        case _:
            raise ValueError("a plan that was made without a testbed's identity cannot be run")


@contextmanager
def under_way(order: Order) -> Iterator[Engine]:
    """Begin and end a run, for batches that are run one by one; ends quietly when the run stops."""
    engine = Engine(order)
    try:
        with engine.control.signals(), suppress(TrialStopped):
            yield engine
    except KeyboardInterrupt:
        raise RunInterrupted(order.writer.run.path, replace(engine.result, interrupted=True)) from None
    finally:
        engine.crew.end()  # only after a second interrupt, or when a listener raised, does anything run
        engine.learn()
    engine.tell(events.RunEnded)
    if engine.control.bug is not None:
        raise engine.control.bug


@dataclass
class _Tally:
    """Numbers of trials: those that the run should do, those given up before, and those that ended.

    `first_s` is when the first one started, `last_s` when the latest ended, by the clock of the machine.
    """

    wanted: int
    given_up: int
    first_s: float = 0.0
    last_s: float = 0.0
    ended: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))


@dataclass(frozen=True)
class _Part:
    """The rest of a batch."""

    worker: Worker
    looks: Looks
    queue: deque[Task | CellLook]


class Engine:
    """A run under way. Made by `under_way`.

    Attributes:
        tell: Tells the listener of an event.
        crew: Who works.
        control: Whether the run goes on.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self.tell = Teller(order.on_event)
        self.crew = Crew()
        self.control = Control(self.crew, self.tell, order.testbed.traits.workers(order.jobs))
        batches = order.plan.batches
        self._tally = _Tally(sum(batch.to_run for batch in batches), sum(batch.given_up for batch in batches))
        cells = sum(planned.to_run > 0 for batch in batches for planned in batch.cells)
        work_s = order.plan.work_s + self.control.jobs * order.plan.change_s
        estimate = order.plan.estimate(self.control.jobs)
        self.tell(events.RunPlanned, self._tally.wanted, cells, self.control.jobs, work_s, estimate)

    @property
    def result(self) -> RunResult:
        """Numbers of trials that have ended, and of those that have not."""
        ended = self._tally.ended
        return RunResult(
            ok=ended[Status.OK],
            invalid=ended[Status.INVALID],
            failed=ended[Status.FAILED],
            left=self._tally.wanted - sum(ended.values()),
            interrupted=self.control.interrupted,
            error=self.control.error,
            lost=tuple(self.control.lost),
            given_up=self._tally.given_up,
        )

    def learn(self) -> None:
        """Keep what was learnt of costs."""
        order, tally = self._order, self._tally
        if order.costs is not None:
            whole = not order.plan.staged and not tally.ended[Status.FAILED]  # restarts take time, too
            took_s = tally.last_s - tally.first_s if whole else 0.0
            order.costs.end_run(took_s, self.control.jobs, order.plan.costs.machine)
            order.costs.save()

    # ---- one batch after the other
    def run(self, batch: ReadyBatch, not_ready: str = "") -> None:
        """Run the trials of a batch, and those that its adaptive cells get; with `not_ready` all fail.

        Raises:
            TrialStopped: the run stops.
        """
        order, matrix = self._order, self._order.plan.matrix
        looks = Looks(matrix.trials, order.writer, None if not_ready else order.decide)
        worker = Worker(order.plan, order.writer, order.testbed, order.judge, batch.inputs, not_ready)
        todo = batch.in_order(order.writer.run.manifest.order_seed, matrix.spread)
        tasks = (Task(planned, trial.trial) for planned, trial in todo)
        part = _Part(worker, looks, deque([*looks.begin(batch), *tasks]))
        while self.crew.busy or (part.queue and not self.control.stopping):
            self._take_up(part)
            self.control.attend()
        self.control.require_going()

    def alone(self, name: str, work: Callable[[threading.Event], _Answer]) -> _Answer:
        """Do work that no trial runs beside, in a thread, and return its result.

        Args:
            name: In messages.
            work: Ends soon after the event that it is given was set.

        Raises:
            TrialStopped: the run stops, perhaps because of an error of this work.
            TrialFailed: the work raised it.
            PlaceLost: the work raised it; the testbed has other places, where it can be done again.
        """
        self.control.require_going()
        one = UnderWay(name, math.inf)
        answers: list[_Answer | BaseException] = []
        self.crew.start(partial(work, one.stop), answers.append, one)
        while self.crew.busy:
            self.control.attend()
        (answer,) = answers
        if not isinstance(answer, BaseException):
            self.control.require_going()
            return answer
        if not self.control.continues_without(answer) and not isinstance(answer, TrialFailed):
            self.control.fail(answer)
        self.control.require_going()
        raise answer

    def with_further(self, batch: _Batch, inputs: TrialInputs) -> _Batch:
        """Return a batch with the trials that those of its adaptive cells get next that have all of theirs.

        Raises:
            TrialStopped: the run stops.
        """
        looks = Looks(self._order.plan.matrix.trials, self._order.writer, self._order.decide)
        found: dict[str, list[PlannedTrial]] = {}

        def look(stop: threading.Event) -> list[tuple[CellPlan, list[Task]]]:
            due = looks.begin(batch)
            return [(one.planned, looks.further(one, inputs)) for one in due if not stop.is_set()]

        for planned, tasks in self.alone("its looks at cells", look):
            self._tell_of_more(planned, tasks)
            found[planned.cell.id] = [PlannedTrial(task.trial, Reason.NEW) for task in tasks]
        cells = (
            planned._replace(trials=(*planned.trials, *found.get(planned.cell.id, ())))
            for planned in batch.cells
        )
        return replace(batch, cells=tuple(cells))

    def correct(self, before: Batch, after: Batch) -> None:
        """Count the trials of a batch anew, after it was found out which have ended."""
        self._tally.wanted += after.to_run - before.to_run
        self._tally.given_up += after.given_up - before.given_up

    # ---- trials and looks
    def _take_up(self, part: _Part) -> None:
        """Start what may start now."""
        while part.queue and not self.control.stopping and self.crew.busy < self.control.jobs:
            work = part.queue.popleft()
            if isinstance(work, CellLook):
                further = partial(part.looks.further, work, part.worker.inputs)
                self.crew.start(further, partial(self._looked, part, work))
            else:
                self._start_trial(part, work)

    def _start_trial(self, part: _Part, task: Task) -> None:
        cell_id = task.planned.cell.id
        traits = self._order.testbed.traits
        limit_s = math.inf if traits.queues else task.limit_s(traits)  # such a testbed keeps to it itself
        name = f"trial {task.trial} of {cell_id}"
        trial = UnderWay(name, limit_s, is_trial=True, interrupted=self.control.was_interrupted)
        self._tally.first_s = self._tally.first_s or time.monotonic()
        self.tell(events.TrialStarted, cell_id, task.trial, task.planned.trial_s)
        self.crew.start(partial(part.worker.run, task, trial), partial(self._trial_ended, part, task), trial)

    def _trial_ended(self, part: _Part, task: Task, answer: Kept | BaseException) -> None:
        if isinstance(answer, Kept):
            self._kept(part, task, answer)
            return
        reason = "stopped" if isinstance(answer, TrialStopped) else describe(answer)
        work_s = task.planned.trial_s
        self.tell(events.TrialDiscarded, task.planned.cell.id, task.trial, work_s, reason)
        if self.control.continues_without(answer):
            part.queue.appendleft(task)
        else:
            self.control.fail(answer)

    def _kept(self, part: _Part, task: Task, kept: Kept) -> None:
        self._tally.ended[kept.status] += 1
        self._tally.last_s = time.monotonic()
        cell, costs = task.planned.cell, self._order.costs
        if kept.outcome is not None and costs is not None:
            kind = kind_of(cell, capture=self._order.plan.capture)
            costs.add(kind, kept.outcome.virtual_s, carried_mbps(cell), kept.cost_s)
        how = (kept.status, texts(kept.faults), kept.wall_s, task.planned.trial_s, kept.path)
        self.tell(events.TrialEnded, cell.id, task.trial, *how)
        if kept.bug is not None:
            self.control.fail(kept.bug)
        if (look := part.looks.ended(task)) is not None:
            part.queue.appendleft(look)

    def _looked(self, part: _Part, look: CellLook, answer: list[Task] | BaseException) -> None:
        if isinstance(answer, BaseException):
            self.control.fail(answer)
        elif answer:
            part.looks.add(answer)
            if self._order.plan.matrix.spread:  # a cell is finished before the next is begun
                part.queue.extendleft(reversed(answer))
            else:
                part.queue.extend(answer)
            self._tell_of_more(look.planned, answer)

    def _tell_of_more(self, planned: CellPlan, tasks: Sequence[Task]) -> None:
        if tasks:
            self._tally.wanted += len(tasks)
            trials = tuple(task.trial for task in tasks)
            self.tell(events.TrialsAdded, planned.cell.id, trials, planned.trial_s * len(tasks))
