# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run that goes on: how far it is, and a browser that looks again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.text.wording import as_duration
from reports.page.page import Heading, render
from reports.page.sheet import sheet
from reports.page.writing import write_page

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.verdicts import Decision


@dataclass(frozen=True)
class Live:
    """The state of a run that goes on, or that stopped before its end.

    Attributes:
        ended: Number of trials that have ended.
        trials: Number of all trials.
        invalid, failed: Number of those among the ended ones.
        left_s: Estimated seconds left.
        every_s: Seconds until the page is written again; 0 for a run that has stopped.
        at: When this was so.
        stopping: Why no further trial starts; empty while they do.
    """

    ended: int
    trials: int
    invalid: int
    failed: int
    left_s: float
    every_s: float
    at: datetime
    stopping: str = ""

    @property
    def left_text(self) -> str:
        """The time left, for people."""
        return as_duration(self.left_s)

    @property
    def at_ms(self) -> int:
        """The time of the state, in milliseconds since the epoch."""
        return round(self.at.timestamp() * 1000)


def write_live(
    tables: RunTables, result: Decision | Measurements, heading: Heading, report: Path, live: Live
) -> Path:
    """Write the page of a run that goes on, without time series, and return the page's file.

    Raises:
        InputError: a table is not that of a run.
        DiskFull: no room is left.
    """
    return write_page(report, render(tables, result, heading, live=live), ())


def write_waiting(heading: Heading, report: Path, live: Live) -> Path:
    """Write the page of a run before its first result, and return the page's file. Raises DiskFull."""
    page = sheet(
        "waiting.html.j2", ("live.css",), ("base.js", "keep.js", "live.js"), heading=heading, live=live
    )
    return write_page(report, page, ())
