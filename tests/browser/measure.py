# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Times to write and to open a page of a thousand cells.

    python -m tests.browser.measure RUN

replicates the trials of RUN into 1,000 cells of three trials each.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from l4sbench.app.api import load
from tests.browser import runs
from tests.browser.conftest import chromium, page_of

TIMES = 5
LISTED = "() => document.querySelectorAll('#find-list tbody tr').length > 0"
FIRST_CELL = "() => { location.hash = document.querySelector('.heat a[data-cell]').getAttribute('href'); }"


def opening(browser: Browser, page: Path) -> tuple[float, float, float]:
    """Seconds until the page is loaded, until its list of cells is complete, and until a cell is drawn."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    tab = context.new_page()
    began = time.perf_counter()
    tab.goto(page.as_uri())
    loaded = time.perf_counter() - began
    tab.wait_for_function(LISTED)
    listed = time.perf_counter() - began
    began = time.perf_counter()
    tab.evaluate(FIRST_CELL)
    tab.wait_for_selector(".charts[data-drawn]")
    drawn = time.perf_counter() - began
    context.close()
    return loaded, listed, drawn


def main(run: str) -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        tables = runs.replicate(load(run), runs.large(), folder / "run")
        began = time.perf_counter()
        page = page_of(tables, folder / "report")
        print(f"written in {time.perf_counter() - began:.1f} s")
        series = list((folder / "report" / "data").glob("*/*.js"))
        size_mb = sum(path.stat().st_size for path in series) / 1e6
        print(
            f"index.html {page.stat().st_size / 1e6:.1f} MB, {len(series)} files of series {size_mb:.1f} MB"
        )
        browser = chromium(playwright)
        times = [opening(browser, page) for _ in range(TIMES)]
        browser.close()
        for words, own in zip(
            ("loaded", "cells listed", "a cell drawn"), zip(*times, strict=True), strict=True
        ):
            print(f"{words}: median {statistics.median(own):.2f} s, longest {max(own):.2f} s of {TIMES}")


if __name__ == "__main__":
    main(sys.argv[1])
