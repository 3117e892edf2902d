# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Work while a run goes on: done when something has happened, and never beside itself."""

from __future__ import annotations

import threading

from l4sbench.app.meanwhile import Meanwhile
from tests.patience import PATIENCE_S


def test_it_works_when_something_has_happened() -> None:
    worked = threading.Semaphore(0)
    rests: list[float] = []

    def work(rest_s: float) -> None:
        rests.append(rest_s)
        worked.release()

    meanwhile = Meanwhile(work, pause_s=0.001, pauses=2.0)
    with meanwhile.working():
        assert rests == []
        for _ in range(3):
            meanwhile.happened()
            assert worked.acquire(timeout=PATIENCE_S)
    assert len(rests) == 3
    assert min(rests) >= 0.001, "it rests at least that long"


def test_the_end_waits_for_work_that_has_begun() -> None:
    begun, done = threading.Event(), threading.Event()

    def work(_: float) -> None:
        begun.set()
        assert begun.wait(PATIENCE_S)
        done.set()

    with Meanwhile(work, 0.001, 1.0).working():
        pass
    assert not begun.is_set(), "nothing happened"
    meanwhile = Meanwhile(work, 0.001, 1.0)
    with meanwhile.working():
        meanwhile.happened()
        assert begun.wait(PATIENCE_S)
    assert done.is_set()
