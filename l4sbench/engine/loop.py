# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The one loop that runs trials.

    with locked(run) as writer:
        result = execute(plan, writer, testbed, judge, on_event=print)

Trials are taken up in an order shuffled by the run's own seed, by `jobs` workers, one part of the plan after
the other: between two parts the testbed changes what it runs. No result depends on that order or on the
number of workers. A trial that fails is kept as failed and the run goes on; a testbed that
fails, or a full disk, stops the run. Ctrl-C once takes up no new trials and discards those under way; twice,
it stops at once.

Everything is decided in one thread, which also emits all events; a worker runs one trial and reports.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from l4sbench import events
from l4sbench.engine.testbed import TrialStopped
from l4sbench.engine.work import Broken, Entered, Entering, Interrupted, Look, Looked, Waiting, workers
from l4sbench.engine.worker import Dropped, Judge, Kept, NotReady, Task, Worker, told
from l4sbench.errors import PlaceLost, TestbedError, TrialFailed
from l4sbench.events import Status
from l4sbench.planning.inputs import Inputs
from l4sbench.planning.plan import looks

if TYPE_CHECKING:
    from types import FrameType

    from l4sbench.cell import Cell
    from l4sbench.engine.testbed import Testbed
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.plan import Plan
    from l4sbench.program.trial import EndedTrial
    from l4sbench.store import RunWriter
    from l4sbench.traits import Identity, Stage

Decide: TypeAlias = "Callable[[Cell, Sequence[EndedTrial]], Literal['more', 'enough']]"
"""Says whether the ended trials of a cell are enough. The only place where results steer a run."""

Enter: TypeAlias = "Callable[[Stage, threading.Event], Identity]"
"""Brings the testbed into the state that a part of a plan needs, see `l4sbench.engine.testbed.Staged`."""

GRACE_S: Final = 30.0
"""A testbed that does not end a trial so long after it was told to is given up."""
_TICK_S: Final = 0.5


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `left` counts trials that were not taken up or were discarded.

    `error` is what stopped the run before its end, `lost` what became of places that it went on without.
    Tables can be made of what ended in any case.
    """

    ok: int
    invalid: int
    failed: int
    left: int
    interrupted: bool = False
    error: TestbedError | None = None
    lost: tuple[PlaceLost, ...] = ()

    @property
    def exit_code(self) -> int:
        """What the command line exits with on account of this run."""
        if self.interrupted:
            return 130
        if self.error is not None:
            return self.error.exit_code
        return 1 if self.invalid or self.failed else 0


_Message: TypeAlias = Kept | Dropped | Looked | Entered | Broken | Interrupted


def execute(
    plan: Plan,
    writer: RunWriter,
    testbed: Testbed,
    judge: Judge,
    *,
    enter: Enter | None = None,
    decide: Decide | None = None,
    on_event: events.OnEvent = lambda _: None,
    jobs: int | None = None,
    costs: CostBook | None = None,
) -> RunResult:
    """Run what `plan` says, as many trials at a time as `workers` allows.

    A TestbedError or a full disk ends the run early and stands in the result. So does an interrupt; a second
    one raises KeyboardInterrupt. Whatever else goes wrong is a bug, and raised once the trials under way have
    ended.

    Args:
        plan: Made with an identity of `testbed`.
        writer: Of the run that `plan` was made for.
        testbed: Where trials run.
        judge: Called once for every trial that ran to its end.
        enter: Of a testbed that changes between the parts of the plan. Where a state cannot be had, the
            trials that need it fail with the reason, and the next part is entered; with `PlaceLost` it is
            called again.
        decide: Whether an adaptive cell has enough trials; without it each gets the least number.
        on_event: Called from this thread, in order.
        jobs: Workers; None: one per core.
        costs: Learns what the trials cost.
    """
    return _Loop(plan, writer, testbed, judge, enter, decide, on_event, jobs, costs).run()


class _Loop:
    def __init__(
        self,
        plan: Plan,
        writer: RunWriter,
        testbed: Testbed,
        judge: Judge,
        enter: Enter | None,
        decide: Decide | None,
        on_event: events.OnEvent,
        jobs: int | None,
        costs: CostBook | None,
    ) -> None:
        if any(part.inputs is None and part.stage is None for part in plan.parts):
            raise ValueError("a plan that was made without a testbed's identity cannot be run")
        self._plan = plan
        self._writer = writer
        self._testbed = testbed
        self._judge = judge
        self._enter = enter
        self._decide = decide
        self._on_event = on_event
        self._costs = costs
        self._jobs = workers(testbed.traits, jobs)
        self._looks = looks(plan.matrix.trials) if decide is not None else ()
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._parts: deque[Waiting] = deque()
        self._entering: Entering | None = None
        self._running: list[Task] = []
        self._looking = 0
        self._open: dict[str, int] = {}  # cell id -> trials that must end before the next look
        self._counts = dict.fromkeys(Status, 0)
        self._discarded = 0
        self._stopping = False
        self._interrupted = False
        self._error: TestbedError | None = None
        self._lost: list[PlaceLost] = []
        self._bug: BaseException | None = None
        self._given_up = False
        self._began = time.monotonic()

    # ---- the loop
    def run(self) -> RunResult:
        self._fill()
        try:
            with self._signals():
                while self._busy():
                    self._take_up()
                    self._handle_next()
                    self._watch()
        finally:
            for task in self._running:  # only after a second interrupt, or when a listener raised
                task.stop.set()
            if self._entering is not None:
                self._entering.stop.set()
            if self._costs is not None:
                self._costs.save()
        self._emit(events.RunEnded(self._now()))
        if self._bug is not None:
            raise self._bug
        queued = sum(len(part.tasks) for part in self._parts)
        left = queued + self._discarded + len(self._running)
        counts = self._counts
        return RunResult(
            counts[Status.OK],
            counts[Status.INVALID],
            counts[Status.FAILED],
            left,
            self._interrupted,
            self._error,
            tuple(self._lost),
        )

    def _busy(self) -> bool:
        if self._given_up:
            return False
        if self._running or self._looking or self._entering:
            return True
        return not self._stopping and any(part.queue for part in self._parts)

    def _fill(self) -> None:
        for part in self._plan.parts:
            ready = part.stage is None and part.inputs is not None
            worker = self._worker(part.inputs.identity) if ready and part.inputs else None
            self._parts.append(Waiting(part, worker))
            self._queue_up(self._parts[-1])
        tasks = [task for part in self._parts for task in part.tasks]
        cells = len({task.planned.cell.id for task in tasks})
        work_s = self._plan.work_s + self._jobs * self._plan.change_s
        self._emit(events.RunPlanned(self._now(), len(tasks), cells, self._jobs, work_s))

    def _worker(self, identity: Identity, testbed: Testbed | None = None) -> Worker:
        return Worker(self._plan, self._writer, testbed or self._testbed, self._judge, identity)

    def _queue_up(self, part: Waiting) -> None:
        """The trials of a part, and first the looks at cells that have all of them."""
        order_seed = self._writer.run.manifest.order_seed
        todo = part.plan.in_order(order_seed)
        part.queue = deque(Task(planned, trial.trial, trial.digest) for planned, trial in todo)
        if len(self._looks) <= 1 or part.plan.inputs is None:
            return
        for planned in part.plan.cells:
            self._open[planned.cell.id] = sum(trial.runs for trial in planned.trials)
            if not self._open[planned.cell.id]:
                part.queue.appendleft(Look(planned, self._looks[0]))

    def _take_up(self) -> None:
        idle = not (self._running or self._looking or self._entering)
        while idle and len(self._parts) > 1 and not self._parts[0].queue:
            self._parts.popleft()
        part = self._parts[0]
        while part.queue and not self._stopping and len(self._running) + self._looking < self._jobs:
            work = part.queue[0]
            if isinstance(work, Task) and part.worker is None:
                if not (self._running or self._looking or self._entering):
                    self._start(self._begin_entering(part), None)
                return
            part.queue.popleft()
            self._count_up(work)
            self._start(work, part.worker)

    def _start(self, work: Task | Look | Entering, worker: Worker | None) -> None:
        """A thread costs nothing beside a trial, and a daemon does not hold up the end of the process."""
        threading.Thread(target=self._work, args=(work, worker), name="l4sbench-trial", daemon=True).start()

    def _count_up(self, work: Task | Look) -> None:
        if isinstance(work, Look):
            self._looking += 1
            return
        work.began, work.stop = time.monotonic(), threading.Event()
        self._running.append(work)
        cell_id, cost_s = work.planned.cell.id, work.planned.trial_s
        self._emit(events.TrialStarted(self._now(), cell_id, work.trial, cost_s))

    def _work(self, work: Task | Look | Entering, worker: Worker | None) -> None:
        """In a thread of its own: whatever happens becomes a message."""
        try:
            if isinstance(work, Entering):
                self._messages.put(self._bring(work))
            elif isinstance(work, Look):
                self._messages.put(self._look(work))
            elif worker is not None:
                self._messages.put(worker.run(work))
        except BaseException as bug:  # noqa: BLE001  (raised again in the thread that decides)
            self._messages.put(Broken(work, bug))

    # ---- from part to part
    def _begin_entering(self, part: Waiting) -> Entering:
        self._entering = Entering(part)
        state = part.plan.stage.state if part.plan.stage else {}
        self._emit(events.StageBegun(self._now(), state, part.plan.changes, len(part.tasks)))
        return self._entering

    def _bring(self, entering: Entering) -> Entered:
        """In a thread of its own: hosts restart."""
        stage = entering.part.plan.stage
        assert stage is not None  # noqa: S101  (only such a part is entered)
        assert self._enter is not None  # noqa: S101  (whoever plans with stages can enter them)
        try:
            return Entered(entering, self._enter(stage, entering.stop))
        except TrialStopped:
            return Entered(entering, None, "stopped")
        except TrialFailed as failure:
            return Entered(entering, None, failure.reason)
        except TestbedError as error:
            return Entered(entering, None, error.message, error)

    def _entered(self, message: Entered) -> None:
        self._entering = None
        part = message.entering.part
        before, planned_s = len(part.tasks), part.plan.work_s
        if self._is_left(message.error):
            return  # and the part is entered again, with the places that are left
        if message.error is not None:
            self._error = self._error or message.error
            self._stop(message.error.message)
            return
        if message.entering.stop.is_set():
            return
        if message.identity is not None:
            part.plan = self._plan.entered(part.plan, message.identity, self._writer.view)
            part.worker = self._worker(message.identity)
            self._queue_up(part)
        else:
            self._give_up(part, message.reason)
        more, more_s = len(part.tasks) - before, part.plan.work_s - planned_s
        change_s = self._jobs * part.plan.change_s
        self._emit(events.StageEntered(self._now(), message.reason, more, more_s, change_s))

    def _give_up(self, part: Waiting, reason: str) -> None:
        """The trials that wait in a part all fail with the reason; what is there of others stays."""
        stage = part.plan.stage
        assert stage is not None  # noqa: S101  (only such a part is entered)
        matrix = self._plan.matrix
        inputs = Inputs(matrix.catalog, matrix.seed, stage.identity, self._testbed.traits)
        part.worker = self._worker(stage.identity, NotReady(self._testbed, reason))
        for task in part.tasks:
            (task.digest,) = inputs.digests(task.planned.cell, (task.trial,))
            self._open.pop(task.planned.cell.id, None)

    def _handle_next(self) -> None:
        if not (self._running or self._looking or self._entering):
            return
        try:
            message = self._messages.get(timeout=_TICK_S)
        except Empty:
            return
        match message:
            case Kept():
                self._kept(message)
            case Dropped():
                self._dropped(message)
            case Looked():
                self._looking -= 1
                if message.more:
                    self._add_trials(message.look)
            case Entered():
                self._entered(message)
            case Broken():
                if isinstance(message.work, Task):
                    self._dropped(Dropped(message.work, told(message.bug)))
                elif isinstance(message.work, Look):
                    self._looking -= 1
                else:
                    self._entering = None
                self._break(message.bug)
            case Interrupted():
                self._stop("interrupted")

    def _watch(self) -> None:
        """End what overran its limit although its testbed should have, and give up what will not be ended."""
        now = time.monotonic()
        for task in self._running:
            if task.told is None and now - task.began > task.limit_s + GRACE_S:
                task.overran = True
                self._tell(task)
            if task.told is not None and now - task.told > GRACE_S:
                self._abandon(f"the testbed does not end trial {task.trial} of {task.planned.cell.id}")
        entering = self._entering
        if entering is not None and entering.told is not None and now - entering.told > GRACE_S:
            self._abandon("the testbed does not leave off changing its kernels")

    def _abandon(self, message: str) -> None:
        self._given_up = True
        self._error = self._error or TestbedError(message, "look for processes that it left behind")
        self._stop(message)

    # ---- what becomes of a trial
    def _kept(self, kept: Kept) -> None:
        task = kept.task
        self._running.remove(task)
        self._counts[kept.status] += 1
        cell = task.planned.cell
        if kept.outcome is not None and self._costs is not None:
            self._costs.add(kept.outcome.virtual_s, cell.rate.mbps, kept.wall_s)
        wall_s, planned_s = kept.wall_s, task.planned.trial_s
        ended = (cell.id, task.trial, kept.status, kept.reasons, wall_s, planned_s, kept.path)
        self._emit(events.TrialEnded(self._now(), *ended))
        if kept.bug is not None:
            self._break(kept.bug)
        self._count_down(task)

    def _dropped(self, dropped: Dropped) -> None:
        task, error = dropped.task, dropped.error
        self._running.remove(task)
        self._emit(
            events.TrialDiscarded(
                self._now(), task.planned.cell.id, task.trial, task.planned.trial_s, dropped.reason
            )
        )
        if self._is_left(error):
            self._parts[0].queue.appendleft(Task(task.planned, task.trial, task.digest))
            return
        self._discarded += 1
        if error is not None:
            self._error = self._error or error
            self._stop(error.message)

    def _is_left(self, error: TestbedError | None) -> bool:
        """Whether an error is about one place only; then the run goes on with the others."""
        if not isinstance(error, PlaceLost):
            return False
        self._lost.append(error)
        self._jobs = min(self._jobs, error.left or self._jobs)
        return bool(error.left)

    def _break(self, bug: BaseException) -> None:
        self._bug = self._bug or bug
        self._stop(told(bug))

    def _stop(self, reason: str) -> None:
        if self._stopping:
            return
        self._stopping = True
        for task in self._running:
            self._tell(task)
        if self._entering is not None and self._entering.told is None:
            self._entering.told = time.monotonic()
            self._entering.stop.set()
        self._emit(events.RunStopping(self._now(), reason, len(self._running)))

    def _tell(self, task: Task) -> None:
        if task.told is None:
            task.told = time.monotonic()
            task.stop.set()

    # ---- adaptive trials
    def _count_down(self, task: Task) -> None:
        cell_id = task.planned.cell.id
        if cell_id not in self._open:
            return
        self._open[cell_id] -= 1
        if not self._open[cell_id]:
            reached = next((at for at in self._looks if at >= task.trial), self._looks[-1])
            self._parts[0].queue.appendleft(Look(task.planned, reached))

    def _look(self, look: Look) -> Looked:
        """In a worker's thread: parsing raw files takes time."""
        if look.at >= self._looks[-1] or self._decide is None:
            return Looked(look, more=False)
        cell = look.planned.cell
        numbers = range(1, look.at + 1)
        names = [f"{n}-{d}" for n, d in zip(numbers, self._digests(cell, numbers), strict=True)]
        ended = self._writer.run.ended_as(cell.id, names)
        # Trials that all failed say nothing, and more of them would not either.
        return Looked(look, more=bool(ended) and self._decide(cell, ended) == "more")

    def _digests(self, cell: Cell, numbers: Sequence[int]) -> list[str]:
        """Of trials of the part that is under way."""
        inputs = self._parts[0].plan.inputs
        assert inputs is not None  # noqa: S101  (only then a cell is looked at)
        return inputs.digests(cell, numbers)

    def _add_trials(self, look: Look) -> None:
        cell = look.planned.cell
        until = self._looks[self._looks.index(look.at) + 1]
        numbers = range(look.at + 1, until + 1)
        ended = self._writer.view.of(cell.id)
        added = [
            Task(look.planned, number, digest)
            for number, digest in zip(numbers, self._digests(cell, numbers), strict=True)
            if f"{number}-{digest}" not in ended
        ]
        self._open[cell.id] = len(added)
        if not added:
            self._parts[0].queue.appendleft(Look(look.planned, until))
            return
        self._parts[0].queue.extend(added)
        trials = tuple(task.trial for task in added)
        work_s = look.planned.trial_s * len(added)
        self._emit(events.TrialsAdded(self._now(), cell.id, trials, work_s))

    # ---- outside
    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the run; only a process's main thread may ask for signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            self._messages.put(Interrupted())

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _emit(self, event: events.Event) -> None:
        self._on_event(event)
