# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run that goes on: it reloads itself, and the reader stays where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from reports.page import Heading, Live, write, write_live, write_waiting
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.browser.conftest import Open
from tests.browser.test_page import STARVED
from tests.browser.test_sheets import WIDTHS, check_for_everybody

pytestmark = pytest.mark.browser

HEADING = Heading("small", "Is it okay to switch?")
STATE = Live(37, 84, 1, 2, left_s=75.0, every_s=1.0, at=datetime(2026, 1, 2, tzinfo=UTC))
SCROLLED = "() => { scrollTo(0, 700); return scrollY; }"

Rewrite = Callable[..., Path]


@pytest.fixture
def rewrite(small: RunTables, tmp_path: Path) -> Rewrite:
    """Writes the page, of a run that goes on or, without a state, of one that has ended."""

    def written(**state: object) -> Path:
        decision = decide(small, load_rule("pam25"))
        if not state:
            return write(small, decision, HEADING, tmp_path)
        live = replace(STATE, **{"at": datetime.now(UTC), **state})  # type: ignore[arg-type]
        return write_live(small, decision, HEADING, tmp_path, live)

    return written


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_for_everybody(visit: Open, rewrite: Rewrite, scheme: str, width: int) -> None:
    page = visit(path=rewrite(every_s=600.0), color_scheme=scheme, viewport={"width": width, "height": 800})
    state = page.get_by_role("region", name="State of the run")
    expect(state).to_contain_text("37 of 84 trials have ended, 1 invalid, 2 failed, about 1 min")
    check_for_everybody(page)


def later(page: Page) -> None:
    """Let the time come at which the page looks again."""
    page.clock.fast_forward("11:00")


def test_it_reloads_and_the_reader_stays(visit: Open, rewrite: Rewrite) -> None:
    page = visit(f"#cell/{STARVED}", path=rewrite(every_s=600.0))
    page.clock.install()
    page.reload()
    expect(page.get_by_text("Time series are written when the run has ended.")).to_be_visible()
    page.locator("#find-words").fill("codel")
    page.locator("#cell summary").first.click()
    stop = page.locator("#cell table a").first
    stop.focus()
    at = page.evaluate(SCROLLED)
    rewrite(ended=39, every_s=600.0)
    later(page)
    expect(page.locator("#going")).to_contain_text("39 of 84")
    expect(stop).to_be_focused()
    expect(page.locator("#find-words")).to_have_value("codel")
    expect(page.locator("#cell details").first).to_have_attribute("open", "")
    expect(page.locator("#cell-title")).to_be_visible()
    assert page.evaluate("() => scrollY") == at


def test_at_the_end_it_is_the_ordinary_page(visit: Open, rewrite: Rewrite) -> None:
    page = visit(f"#cell/{STARVED}", path=rewrite(every_s=600.0))
    page.clock.install()
    page.reload()
    expect(page.locator("#cell-title")).to_be_visible()
    at = page.evaluate(SCROLLED)
    rewrite()
    later(page)
    expect(page.locator(".charts[data-drawn]")).to_be_visible()
    expect(page.locator("#going")).to_have_count(0)
    assert page.evaluate("() => scrollY") == at
    assert page.evaluate("() => history.state") is None


def test_reloading_stops_on_demand(visit: Open, rewrite: Rewrite) -> None:
    page = visit(path=rewrite(every_s=600.0))
    page.clock.install()
    page.reload()
    page.get_by_role("button", name="Stop reloading").focus()
    page.keyboard.press("Enter")
    again = page.get_by_role("button", name="Reload again")
    expect(again).to_have_attribute("aria-pressed", "true")
    rewrite(ended=39, every_s=600.0)
    later(page)
    expect(page.locator("#going")).to_contain_text("37 of 84")
    page.keyboard.press("Enter")
    later(page)
    expect(page.locator("#going")).to_contain_text("39 of 84")


def test_a_run_that_is_gone_is_noticed(visit: Open, rewrite: Rewrite) -> None:
    page = visit(path=rewrite(at=datetime.now(UTC) - timedelta(minutes=10), every_s=4.0))
    expect(page.locator("#going-age")).to_contain_text("ago: the run may be gone.")


@pytest.mark.parametrize("width", WIDTHS)
def test_before_the_first_result(visit: Open, tmp_path: Path, width: int) -> None:
    hostile = Heading("<script>alert(1)</script>", "<img src=x onerror=alert(1)>")
    live = replace(STATE, ended=0, every_s=600.0, at=datetime.now(UTC), stopping="<b>no</b>")
    page = visit(path=write_waiting(hostile, tmp_path, live), viewport={"width": width, "height": 800})
    expect(page.get_by_role("heading", name="No result yet")).to_be_visible()
    expect(page.locator(".state")).to_contain_text("it is stopping: <b>no</b>")
    check_for_everybody(page)


def test_without_scripts_it_reloads_too(visit: Open, rewrite: Rewrite) -> None:
    page = visit(path=rewrite(every_s=1.0), java_script_enabled=False)
    expect(page.locator("#going")).to_contain_text("37 of 84")
    rewrite(ended=40, every_s=600.0)
    expect(page.locator("#going")).to_contain_text("40 of 84")
