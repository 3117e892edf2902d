# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Work that is done again and again while a run goes on, without slowing its trials down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Meanwhile:
    """A thread that does some work whenever something has happened, and rests most of the time.

    `work` gets the seconds that the thread will rest after it, as far as they are known: at least `pause_s`,
    and `pauses` times the processor time that the work took last time. The first time does not count, as
    modules are imported then.
    """

    def __init__(self, work: Callable[[float], None], pause_s: float, pauses: float) -> None:
        self._work = work
        self._pause_s = pause_s
        self._pauses = pauses
        self._wake = threading.Event()
        self._over = threading.Event()

    def happened(self) -> None:
        """Take note that there is something to do."""
        self._wake.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work until the end of the block."""
        worker = threading.Thread(target=self._run, daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._over.set()
            self._wake.set()
            worker.join()

    def _run(self) -> None:
        rest_s, first = self._pause_s, True
        while self._wake.wait() and not self._over.is_set():
            self._wake.clear()
            began_s = time.thread_time()
            self._work(rest_s)
            if not first:
                rest_s = max(self._pause_s, self._pauses * (time.thread_time() - began_s))
            first = False
            self._over.wait(rest_s)
