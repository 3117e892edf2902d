# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run that goes on: results so far, and a browser that looks again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reports.page.page import Heading, render
from reports.page.sheet import sheet
from reports.page.writing import write_page

if TYPE_CHECKING:
    from reports.page.live import Live
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.verdicts import Decision


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
