# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Threads that do one piece of work each, and the calls that they leave for the thread that decides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

GRACE_S: Final = 30.0
"""The run gives up a testbed that takes longer than this to end a trial after a stop was requested."""
_TICK_S: Final = 0.5

_Answer = TypeVar("_Answer")


@dataclass(eq=False)
class UnderWay:
    """Work in a thread of its own, and the means to end it.

    Attributes:
        name: In messages.
        limit_s: Wall-clock seconds after which the testbed should have ended it.
        is_trial: False for the work of changing a testbed.
        interrupted: Tells whether the run was interrupted, even if `stop` is not set yet.
        stop: Set to end the work.
        overran: It was ended because of its limit.
    """

    name: str
    limit_s: float
    is_trial: bool = False
    interrupted: Callable[[], bool] = lambda: False
    stop: threading.Event = field(default_factory=threading.Event)
    overran: bool = False
    _patience_until_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._patience_until_s = time.monotonic() + self.limit_s + GRACE_S

    def end(self) -> None:
        """Have the work end soon."""
        if not self.stop.is_set():
            self._patience_until_s = time.monotonic() + GRACE_S
            self.stop.set()

    def does_not_end(self) -> bool:
        """End the work if it overran although the testbed should have; True if that was long ago."""
        if time.monotonic() <= self._patience_until_s:
            return False
        if self.stop.is_set():
            return True
        self.overran = True
        self.end()
        return False


class Crew:
    """All threads that work. Only `leave` may be called from other threads than the deciding one."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._watched: list[UnderWay] = []
        self.busy = 0

    @property
    def trials(self) -> int:
        """Number of trials that run."""
        return sum(work.is_trial for work in self._watched)

    def start(
        self,
        work: Callable[[], _Answer],
        then: Callable[[_Answer | BaseException], None],
        watched: UnderWay | None = None,
    ) -> None:
        """Do `work` in a thread, then have `then` called with its result or its error.

        A thread costs nothing beside a trial, and a daemon does not delay the end of the process.
        """

        def run() -> None:
            try:
                answer: _Answer | BaseException = work()
            except BaseException as error:  # noqa: BLE001  (handled by the thread that decides)
                answer = error
            self.leave(partial(ended, answer))

        def ended(answer: _Answer | BaseException) -> None:
            self.busy -= 1
            if watched is not None:
                self._watched.remove(watched)
            then(answer)

        self.busy += 1
        if watched is not None:
            self._watched.append(watched)
        threading.Thread(target=run, name="l4sbench-trial", daemon=True).start()

    def leave(self, call: Callable[[], None]) -> None:
        """Have the deciding thread make a call."""
        self._calls.put(call)

    def attend(self) -> UnderWay | None:
        """Make the next call, or wait a moment for it; returns work that does not end although it should."""
        try:
            call = self._calls.get(timeout=_TICK_S)
        except Empty:
            pass
        else:
            call()
        return next((work for work in self._watched if work.does_not_end()), None)

    def end(self) -> None:
        """Have all trials and changes end soon."""
        for work in self._watched:
            work.end()
