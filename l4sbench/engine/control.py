# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Reasons to stop a run (errors, bugs, signals, lost places), and the listener that is told of them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from l4sbench.engine.crew import GRACE_S
from l4sbench.engine.testbed import TrialStopped
from l4sbench.engine.worker import describe
from l4sbench.errors import PlaceLost, TestbedError
from l4sbench.facts import events

if TYPE_CHECKING:
    from types import FrameType

    from l4sbench.engine.crew import Crew

_Facts = ParamSpec("_Facts")


class Teller:
    """Tells a listener what happens, and when by the run's own clock."""

    def __init__(self, on_event: events.OnEvent) -> None:
        self._on_event = on_event
        self._began_s = time.monotonic()

    def __call__(
        self,
        kind: Callable[Concatenate[float, _Facts], events.Event],
        *facts: _Facts.args,
        **named: _Facts.kwargs,
    ) -> None:
        """Tell of an event of this kind."""
        self._on_event(kind(time.monotonic() - self._began_s, *facts, **named))


class Control:
    """Reasons to stop a run: the first error of the testbed, the first bug, or a signal.

    Attributes:
        jobs: Number of workers, which decreases when places are lost.
        lost: These places.
        error, bug: The first of each, if any.
        stopping: No trial is started any more.
        interrupted: A signal has come. It may be True some moments before `stopping` is.
    """

    def __init__(self, crew: Crew, tell: Teller, jobs: int) -> None:
        self._crew = crew
        self._tell = tell
        self.jobs = jobs
        self.lost: list[PlaceLost] = []
        self.error: TestbedError | None = None
        self.bug: BaseException | None = None
        self.stopping = False
        self.interrupted = False

    def attend(self) -> None:
        """Have one call of the crew made, or wait a moment for it.

        Raises:
            TrialStopped: the testbed does not end its work, which nobody waits for any longer.
        """
        if (work := self._crew.attend()) is not None:
            message = f"the testbed does not end {work.name}"
            self.fail(TestbedError(message, "look for processes that it left behind"))
            raise TrialStopped

    def require_going(self) -> None:
        """Raise TrialStopped if the run stops."""
        if self.stopping:
            raise TrialStopped

    def continues_without(self, answer: object) -> bool:
        """Take note of a place that was lost; True when the run continues in others."""
        if not isinstance(answer, PlaceLost):
            return False
        self.lost.append(answer)
        self.jobs = min(self.jobs, answer.left or self.jobs)
        return bool(answer.left)

    def fail(self, error: BaseException) -> None:
        """Stop the run because of an error, unless a stop is what the error reports."""
        match error:
            case TrialStopped():
                return
            case TestbedError():
                self.error = self.error or error
            case _:
                self.bug = self.bug or error
        self._stop(describe(error))

    def _stop(self, reason: str) -> None:
        if self.stopping:
            return
        self.stopping = True
        self._crew.end()
        self._tell(events.RunStopping, reason, self._crew.trials)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP stop the run; Python delivers signals only to the main thread.

        SIGHUP stays ignored where it was (nohup). A terminal that closes may send it twice, so that only a
        second SIGINT or SIGTERM ends the process at once.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, _frame: FrameType | None) -> None:
            if self.interrupted:
                if number == signal.SIGHUP:
                    return
                raise KeyboardInterrupt
            self.interrupted = True
            self._crew.leave(partial(self._stop, "interrupted"))

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, interrupt) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def was_interrupted(self) -> bool:
        """Return True if a signal has come, in a thread of a trial.

        A terminal's signal reaches processes of trials, too, and one may fail of it before the main thread
        knows of it. By the time the main thread takes a call it has handled earlier signals.
        """
        taken = threading.Event()
        self._crew.leave(taken.set)
        taken.wait(GRACE_S)
        return self.interrupted
