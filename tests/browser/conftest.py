# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run in a real browser: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from reports.page import Heading, write
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.browser import runs

Open = Callable[..., Page]

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 300_000
"""Time that something may take to appear. Commands have more of it, but a test that fails waits that long.

A page needs at most some 3 s of processor time: 25 s on two cores with a load of 15, and this is ten times as
long.
"""

expect.set_options(timeout=PATIENCE_MS)
HEADING = Heading("small", "Is it okay to switch?")


def chromium(playwright: Playwright) -> Browser:
    """The system's browser, started."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH: apt-get install chromium")
    # as root Chromium runs only without its sandbox; what it opens here is our own
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=path, args=flags)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = chromium(playwright)
        yield started
        started.close()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    return runs.make(tmp_path_factory.mktemp("small"), runs.small())


def page_of(tables: RunTables, folder: Path, heading: Heading = HEADING) -> Path:
    return write(tables, decide(tables, load_rule("pam25")), heading, folder)


@pytest.fixture(scope="session")
def report(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the small run."""
    return page_of(small, tmp_path_factory.mktemp("report"))


@pytest.fixture
def visit(browser: Browser, report: Path) -> Iterator[Open]:
    """Opens a page at a place in it; afterwards nothing may have gone wrong, nor left this machine."""
    contexts = []
    wrong: list[str] = []

    def opened(place: str = "", path: Path = report, missing: bool = False, **choices: Any) -> Page:
        choices = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce", **choices}
        context = browser.new_context(**choices)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith(("file:", "data:")) else wrong.append(sent.url),
        )
        if not missing:
            page.on(
                "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
            )
        page.goto(path.as_uri() + place)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
