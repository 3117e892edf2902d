# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run while it goes on: written again as trials end, and reloaded by the browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from l4sbench.app.meanwhile import Meanwhile
from l4sbench.errors import L4sbenchError
from l4sbench.facts import events

if TYPE_CHECKING:
    from l4sbench.app.stored import StoredRun
    from reports.page import Live

PAUSE_S: Final = 4.0
PAUSES: Final = 19.0
"""Least time between two pages, and as a multiple of a page's processor time: a twentieth of a core."""


class LivePage:
    """A listener that writes a run's page while it goes on.

    `run_of` returns the run directory once the run has begun. After the end the caller writes the ordinary
    page, or calls `stopped` where there is none.
    """

    def __init__(self, run_of: Callable[[], StoredRun]) -> None:
        self.problem = ""
        self._run_of = run_of
        self._progress = events.Progress()
        self._begun_s = time.monotonic()
        self._meanwhile = Meanwhile(self._write, PAUSE_S, PAUSES)

    def __call__(self, event: events.Event) -> None:
        """Take note of an event of the run."""
        self._progress = self._progress.after(event)
        if isinstance(event, events.RunPlanned):
            self._begun_s = time.monotonic() - event.at_s
        if isinstance(event, events.RunPlanned | events.TrialEnded) and self._progress.trials:
            self._meanwhile.happened()

    @contextmanager
    def working(self) -> Iterator[LivePage]:
        """Write pages until the end of the block."""
        with self._meanwhile.working():
            yield self

    def stopped(self) -> None:
        """Write the page of a run that has stopped before its end; it reloads no more."""
        if self._progress.trials:
            self._write(0.0)

    def _write(self, every_s: float) -> None:
        from l4sbench.app import api
        from l4sbench.app.reporting import Report
        from reports.result import verdicts  # noqa: F401  (now, and not as a part of the first page's time)

        try:
            run = self._run_of()
            api.catch_up(run.path)
            Report(run).write_live(self._state(every_s))
            self.problem = ""
        except L4sbenchError as error:
            self.problem = error.message
        except OSError as error:  # the run is worth more than its page
            self.problem = f"{error.filename}: {error.strerror}"

    def _state(self, every_s: float) -> Live:
        from reports.page import Live

        now = self._progress
        return Live(
            ended=now.ended,
            trials=now.trials,
            invalid=now.invalid,
            failed=now.failed,
            left_s=now.left_s(time.monotonic() - self._begun_s),
            every_s=every_s,
            at=datetime.now(UTC),
            stopping=now.stopping or "",
        )
