# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The pictures of docs/reading.md, taken from a run's page.

python -m tests.browser.shots RUN FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, sync_playwright

from l4sbench.app.api import find_run
from tests.browser.conftest import chromium


@dataclass(frozen=True)
class Shot:
    """A picture: its file, the window it is taken in, what is opened, and what is brought to its top."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int
    top: str = "body"
    cell: str = ""


# cells of matrices/quickstart.yaml, by the beginning of their ids
SHOTS = (
    Shot("report-table.png", "light", 1000, 760),
    Shot("report-heat-map.png", "light", 1000, 470, "#map", "fifo-ecn_4bdp"),
    Shot("report-cell.png", "dark", 1000, 1060, "#cell", "dualpi2_4bdp"),
    Shot("report-phone.png", "light", 360, 740, "#decision .decision"),
)


def take(page: Page, shot: Shot, into: Path) -> None:
    """Open what the picture shows, and take it."""
    if shot.cell:
        link = page.locator(f".heat a[data-cell^='{shot.cell}']").first
        address = link.get_attribute("href")
        page.evaluate("address => { location.hash = address; }", address)
        page.wait_for_selector(".charts[data-drawn]")
    page.evaluate("() => document.activeElement.blur()")
    page.locator(shot.top).first.evaluate("element => element.scrollIntoView()")
    page.screenshot(path=into / shot.name)


def main(run: str, folder: str) -> None:
    """Take all of them."""
    report = find_run(run) / "report" / "index.html"
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        for shot in SHOTS:
            page = browser.new_page(
                viewport={"width": shot.width, "height": shot.height},
                color_scheme=shot.scheme,
                reduced_motion="reduce",
            )
            page.goto(report.as_uri())
            take(page, shot, Path(folder))
            page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
