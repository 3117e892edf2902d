# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The one loop that runs trials.

    with locked(run) as writer:
        result = execute(plan, writer, testbed, judge, on_event=print)

Up to `jobs` trials run at once, in an order shuffled by the run's own seed, one batch of the plan after the
other; between two batches the testbed changes its kernels. No result depends on that order or on the number
of workers. A trial that fails is kept as failed and the run continues; a testbed that fails, or a full disk,
stops the run. After the first Ctrl-C, SIGTERM or SIGHUP no trial is started and the running ones are
discarded; the second one ends the process at once.

One thread decides everything and emits all events. Trials, looks at adaptive cells, and changes of kernels
each run in a thread of their own, which puts one message into a queue: a call for the deciding thread.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from l4sbench import events
from l4sbench.engine.looks import CellLook, Decide, Looks
from l4sbench.engine.testbed import TrialStopped
from l4sbench.engine.worker import Judge, Kept, Task, UnderWay, Worker, describe
from l4sbench.errors import PlaceLost, TestbedError, TrialFailed
from l4sbench.events import Status
from l4sbench.faults import texts
from l4sbench.planning.cost import carried_mbps
from l4sbench.planning.plan import ReadyBatch, StagedBatch

if TYPE_CHECKING:
    from types import FrameType

    from l4sbench.engine.testbed import Testbed
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.inputs import TrialInputs
    from l4sbench.planning.plan import Batch, Plan
    from l4sbench.store import RunWriter
    from l4sbench.traits import Identity, Stage

Enter: TypeAlias = "Callable[[Stage, threading.Event], Identity]"
"""Brings the testbed into the state that a batch of a plan needs, see `l4sbench.engine.testbed.Staged`."""

GRACE_S: Final = 30.0
"""The run gives up a testbed that takes longer than this to end a trial after a stop was requested."""
_TICK_S: Final = 0.5

_Answer = TypeVar("_Answer")


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
    """Run the trials of `plan`, as many at once as the testbed and `jobs` allow.

    A TestbedError or a full disk ends the run early and is in the result, as is an interrupt; a second
    interrupt raises KeyboardInterrupt. Any other error is a bug, and is raised once the running trials have
    ended.

    Args:
        plan: Made with an identity of `testbed`.
        writer: Of the run that `plan` was made for.
        testbed: Where trials run.
        judge: Called once for every trial that ran to its end.
        enter: For a testbed that changes between the batches of the plan. When it raises TrialFailed, the
            trials of the batch fail with that reason and the next batch is entered; with PlaceLost it is
            called again.
        decide: Decides whether an adaptive cell has enough trials; without it each gets the least number.
        on_event: Called from this thread, in order.
        jobs: Number of workers; None: one per core.
        costs: Learns the cost of the trials.
    """
    return _Loop(plan, writer, testbed, judge, enter, decide, on_event, jobs, costs).run()


@dataclass(eq=False)
class _Waiting:
    """The rest of a batch."""

    batch: Batch
    queue: deque[Task | CellLook] = field(default_factory=deque)

    @property
    def tasks(self) -> list[Task]:
        """Trials that wait."""
        return [work for work in self.queue if isinstance(work, Task)]


@dataclass(eq=False)
class _Ready(_Waiting):
    """The rest of a batch that the testbed can run now."""

    worker: Worker = field(kw_only=True)


@dataclass(eq=False)
class _Unready(_Waiting):
    """The rest of a batch that the testbed has to be brought into a state for."""

    batch: StagedBatch


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
        if not all(isinstance(batch, ReadyBatch | StagedBatch) for batch in plan.batches):
            raise ValueError("a plan that was made without a testbed's identity cannot be run")
        self._plan = plan
        self._writer = writer
        self._testbed = testbed
        self._judge = judge
        self._enter = enter
        self._on_event = on_event
        self._costs = costs
        self._jobs = testbed.traits.workers(jobs)
        self._looks = Looks(plan.matrix.trials, writer, decide)
        self._messages: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting: deque[_Ready | _Unready] = deque()
        self._given_up_before = sum(batch.given_up for batch in plan.batches)
        self._running: list[UnderWay] = []
        self._looking = 0
        self._counts = dict.fromkeys(Status, 0)
        self._discarded = 0
        self._stopping = False
        self._interrupted = False
        self._error: TestbedError | None = None
        self._lost: list[PlaceLost] = []
        self._bug: BaseException | None = None
        self._given_up = False
        self._began_s = time.monotonic()

    # ---- the loop
    def run(self) -> RunResult:
        self._fill()
        try:
            with self._signals():
                while self._is_busy():
                    self._take_up()
                    self._handle_next()
                    self._watch()
        finally:
            for work in self._running:  # only after a second interrupt, or when a listener raised
                work.stop.set()
            if self._costs is not None:
                self._costs.save()
        self._emit(events.RunEnded(self._now()))
        if self._bug is not None:
            raise self._bug
        queued = sum(len(waiting.tasks) for waiting in self._waiting)
        return RunResult(
            ok=self._counts[Status.OK],
            invalid=self._counts[Status.INVALID],
            failed=self._counts[Status.FAILED],
            left=queued + self._discarded + self._trials_running(),
            interrupted=self._interrupted,
            error=self._error,
            lost=tuple(self._lost),
            given_up=self._given_up_before,
        )

    def _is_busy(self) -> bool:
        if self._given_up:
            return False
        return not self._is_idle() or (not self._stopping and any(waiting.queue for waiting in self._waiting))

    def _is_idle(self) -> bool:
        return not (self._running or self._looking)

    def _fill(self) -> None:
        for batch in self._plan.batches:
            if isinstance(batch, ReadyBatch):
                self._waiting.append(self._ready(batch))
            elif isinstance(batch, StagedBatch):
                known = batch.stage.known
                self._waiting.append(_Unready(batch, self._queue(batch, looks=known)))
        tasks = [task for waiting in self._waiting for task in waiting.tasks]
        cells = len({task.planned.cell.id for task in tasks})
        work_s = self._plan.work_s + self._jobs * self._plan.change_s
        self._emit(events.RunPlanned(self._now(), len(tasks), cells, self._jobs, work_s))

    def _ready(self, batch: ReadyBatch) -> _Ready:
        return _Ready(batch, self._queue(batch, looks=True), worker=self._worker(batch.inputs))

    def _queue(self, batch: Batch, *, looks: bool) -> deque[Task | CellLook]:
        """Return the trials of a batch, and before them looks at the cells that have all of theirs."""
        todo = batch.in_order(self._writer.run.manifest.order_seed, self._plan.matrix.spread)
        tasks = (Task(planned, trial.trial) for planned, trial in todo)
        return deque([*(self._looks.begin(batch) if looks else ()), *tasks])

    def _take_up(self) -> None:
        """Start what may start now."""
        while self._is_idle() and len(self._waiting) > 1 and not self._waiting[0].queue:
            self._waiting.popleft()
        waiting = self._waiting[0]
        while waiting.queue and not self._stopping and len(self._running) + self._looking < self._jobs:
            work = waiting.queue[0]
            if isinstance(work, CellLook):
                self._looking += 1
                further = partial(self._looks.further, work, self._inputs(waiting))
                self._start(further, partial(self._looked, work))
            elif isinstance(waiting, _Ready):
                self._start_trial(work, waiting.worker)
            else:
                if self._is_idle():
                    self._start_entering(waiting)
                return
            waiting.queue.popleft()

    def _start(self, work: Callable[[], _Answer], then: Callable[[_Answer | BaseException], None]) -> None:
        """Do `work` in a thread, then have the loop call `then` with its result or its error.

        A thread costs nothing beside a trial, and a daemon does not delay the end of the process.
        """

        def run() -> None:
            try:
                answer: _Answer | BaseException = work()
            except BaseException as error:  # noqa: BLE001  (handled by the thread that decides)
                answer = error
            self._messages.put(partial(then, answer))

        threading.Thread(target=run, name="l4sbench-trial", daemon=True).start()

    def _handle_next(self) -> None:
        """Make the call that a thread or a signal has left; wait for one while anything runs."""
        if self._is_idle():
            return
        try:
            call = self._messages.get(timeout=_TICK_S)
        except Empty:
            return
        call()

    def _watch(self) -> None:
        """End trials that overran although the testbed should have; give up on work that does not end."""
        now_s = time.monotonic()
        for work in self._running:
            if now_s - work.began_s > work.limit_s + GRACE_S and work.stopped_s is None:
                work.overran = True
                work.end()
            if work.stopped_s is not None and now_s - work.stopped_s > GRACE_S:
                self._given_up = True
                message = f"the testbed does not end {work.name}"
                self._fail(TestbedError(message, "look for processes that it left behind"))

    # ---- from batch to batch
    def _inputs(self, waiting: _Ready | _Unready) -> TrialInputs:
        if isinstance(waiting, _Ready):
            return waiting.worker.inputs
        return self._plan.inputs(waiting.batch.stage.identity)

    def _start_entering(self, waiting: _Unready) -> None:
        stage = waiting.batch.stage
        assert self._enter is not None  # noqa: S101  (a testbed with stages can enter them)
        change = UnderWay("the change of its kernels", math.inf)
        self._running.append(change)
        self._emit(events.StageBegun(self._now(), stage.state, waiting.batch.changes, len(waiting.tasks)))
        self._start(partial(self._enter, stage, change.stop), partial(self._entered, waiting, change))

    def _entered(self, waiting: _Unready, change: UnderWay, answer: Identity | BaseException) -> None:
        self._running.remove(change)
        if self._continues_without(answer):
            return  # and the batch is entered again, with the places that are left
        if isinstance(answer, BaseException) and not isinstance(answer, TrialFailed):
            self._fail(answer)
            return
        if change.stop.is_set():
            return
        reason = ""
        if isinstance(answer, TrialFailed):  # results of others stay
            reason = answer.reason
            tasks = waiting.tasks
            self._looks.give_up(tasks)
            worker = self._worker(self._inputs(waiting), not_ready=reason)
            ready = _Ready(waiting.batch, deque[Task | CellLook](tasks), worker=worker)
        else:
            batch = self._plan.entered(waiting.batch, answer, self._writer.view)
            self._given_up_before += batch.given_up - waiting.batch.given_up
            ready = self._ready(batch)
        self._waiting[0] = ready
        more = len(ready.tasks) - len(waiting.tasks)
        more_s = ready.batch.work_s - waiting.batch.work_s
        change_s = self._jobs * waiting.batch.change_s
        self._emit(events.StageEntered(self._now(), reason, more, more_s, change_s))

    def _worker(self, inputs: TrialInputs, *, not_ready: str = "") -> Worker:
        return Worker(self._plan, self._writer, self._testbed, self._judge, inputs, not_ready)

    # ---- trials and looks
    def _start_trial(self, task: Task, worker: Worker) -> None:
        cell_id = task.planned.cell.id
        limit_s = math.inf if self._testbed.traits.queues else task.limit_s  # its testbed keeps to it
        name = f"trial {task.trial} of {cell_id}"
        trial = UnderWay(name, limit_s, task, interrupted=self._is_interrupted)
        self._running.append(trial)
        self._emit(events.TrialStarted(self._now(), cell_id, task.trial, task.planned.trial_s))
        self._start(partial(worker.run, task, trial), partial(self._trial_ended, trial, task))

    def _trial_ended(self, trial: UnderWay, task: Task, answer: Kept | BaseException) -> None:
        self._running.remove(trial)
        if isinstance(answer, Kept):
            self._kept(task, answer)
            return
        reason = "stopped" if isinstance(answer, TrialStopped) else describe(answer)
        cell_id, work_s = task.planned.cell.id, task.planned.trial_s
        self._emit(events.TrialDiscarded(self._now(), cell_id, task.trial, work_s, reason))
        if self._continues_without(answer):
            self._waiting[0].queue.appendleft(task)
            return
        self._discarded += 1
        self._fail(answer)

    def _kept(self, task: Task, kept: Kept) -> None:
        self._counts[kept.status] += 1
        cell = task.planned.cell
        if kept.outcome is not None and self._costs is not None:
            self._costs.add(kept.outcome.virtual_s, carried_mbps(cell), kept.wall_s)
        how = (kept.status, texts(kept.faults), kept.wall_s, task.planned.trial_s, kept.path)
        self._emit(events.TrialEnded(self._now(), cell.id, task.trial, *how))
        if kept.bug is not None:
            self._fail(kept.bug)
        if (look := self._looks.ended(task)) is not None:
            self._waiting[0].queue.appendleft(look)

    def _looked(self, look: CellLook, answer: list[Task] | BaseException) -> None:
        self._looking -= 1
        if isinstance(answer, BaseException):
            self._fail(answer)
        elif answer:
            self._looks.add(answer)
            if self._plan.matrix.spread:  # a cell is finished before the next is begun
                self._waiting[0].queue.extendleft(reversed(answer))
            else:
                self._waiting[0].queue.extend(answer)
            trials = tuple(task.trial for task in answer)
            work_s = look.planned.trial_s * len(answer)
            self._emit(events.TrialsAdded(self._now(), look.planned.cell.id, trials, work_s))

    # ---- what stops a run
    def _continues_without(self, answer: object) -> bool:
        """Take note of a place that was lost; True when the run continues in others."""
        if not isinstance(answer, PlaceLost):
            return False
        self._lost.append(answer)
        self._jobs = min(self._jobs, answer.left or self._jobs)
        return bool(answer.left)

    def _fail(self, error: BaseException) -> None:
        """Stop the run because of an error, unless a stop is what the error reports."""
        match error:
            case TrialStopped():
                return
            case TestbedError():
                self._error = self._error or error
            case _:
                self._bug = self._bug or error
        self._stop(describe(error))

    def _stop(self, reason: str) -> None:
        if self._stopping:
            return
        self._stopping = True
        for work in self._running:
            work.end()
        self._emit(events.RunStopping(self._now(), reason, self._trials_running()))

    def _trials_running(self) -> int:
        return sum(work.task is not None for work in self._running)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP stop the run; Python delivers signals only to the main thread.

        SIGHUP stays ignored where it was (nohup). A terminal that closes may send it twice, so that only a
        second SIGINT or SIGTERM ends the process at once.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, _frame: FrameType | None) -> None:
            if self._interrupted:
                if number == signal.SIGHUP:
                    return
                raise KeyboardInterrupt
            self._interrupted = True
            self._messages.put(partial(self._stop, "interrupted"))

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, interrupt) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _is_interrupted(self) -> bool:
        """Return True if a signal has come, in a thread of a trial.

        A terminal's signal reaches processes of trials, too, and one may fail of it before the main thread
        knows of it. By the time the main thread takes a message it has handled earlier signals.
        """
        taken = threading.Event()
        self._messages.put(taken.set)
        taken.wait(GRACE_S)
        return self._interrupted

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _emit(self, event: events.Event) -> None:
        self._on_event(event)
