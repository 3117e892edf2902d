# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages about several runs, for everybody: desktop and phone, light and dark, by keyboard, on paper."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import Page, expect

from l4sbench import tables
from reports.compare import compare, load_margins
from reports.page import comparison_page
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from tests.browser.conftest import Open
from tests.browser.test_access import LEVELS, LOW_CONTRAST

pytestmark = pytest.mark.browser

WIDTHS = (1280, 390)
OPEN_ALL = "() => { for (const part of document.querySelectorAll('details')) part.open = true; }"


def changed(source: RunTables, folder: Path) -> RunTables:
    """A copy of a run in which L4S flows have four times the delay behind CoDel, and half behind FIFO."""
    into = folder / "run" / "tables"
    into.mkdir(parents=True)
    for path in source.folder.glob("*.parquet"):
        (into / path.name).write_bytes(path.read_bytes())
    is_of = [pl.col("cell").str.starts_with(name) for name in ("codel_", "fifo_")]
    factor = pl.when(is_of[0]).then(4.0).when(is_of[1]).then(0.5).otherwise(1.0)
    flows = source.flows.with_columns(pl.col("srtt_minus_base_ms") * factor)
    tables.write("flows", [tables.conform("flows", flows).lazy()], into / "flows.parquet")
    return load(folder / "run")


@pytest.fixture(scope="session")
def comparison(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison in which some cells got worse, some better, and most neither."""
    folder = tmp_path_factory.mktemp("compared")
    new = changed(small, folder)
    names = ("runs/small/base", "runs/small/new")
    found = compare(small, new, names=names, margins=load_margins(), rule=load_rule("pam25"))
    page = folder / "compare.html"
    page.write_text(comparison_page(found), encoding="utf-8")
    return page


def check_for_everybody(page: Page) -> None:
    """Nothing is wider than the window, everything is readable, and headings are in order."""
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(LOW_CONTRAST) == []
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_is_for_everybody(visit: Open, comparison: Path, scheme: str, width: int) -> None:
    page = visit(path=comparison, color_scheme=scheme, viewport={"width": width, "height": 800})
    check_for_everybody(page)
    page.evaluate(OPEN_ALL)
    check_for_everybody(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_is_filtered(visit: Open, comparison: Path, width: int) -> None:
    page = visit(path=comparison, viewport={"width": width, "height": 800})
    cells, count = page.locator("details.change:visible"), page.locator("#count")
    expect(count).to_have_text("24 of 24 cells")
    page.get_by_label("Only what changed").check()
    expect(count).to_have_text("8 of 24 cells")
    assert cells.count() == 8
    expect(page.get_by_role("heading", name="No difference found")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("codel_4.0 BDP")
    expect(count).to_have_text("2 of 24 cells")
    page.keyboard.type(" nothing")
    expect(page.get_by_text("No cell matches.")).to_be_visible()


def test_a_cell_of_a_comparison_opens_by_keyboard_and_by_its_address(visit: Open, comparison: Path) -> None:
    page = visit(path=comparison)
    first = page.locator("details.change").first
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    metrics = first.get_by_role("table").first
    expect(metrics.get_by_role("row", name="delay of l4s, ms")).to_contain_text("worse")
    again = visit(f"#{first.get_attribute('id')}", path=comparison)
    expect(again.locator("details.change[open]")).to_have_count(1)


def test_a_comparison_on_paper(visit: Open, comparison: Path) -> None:
    page = visit(path=comparison, color_scheme="dark")
    page.emulate_media(media="print")
    for gone in (".top", ".search"):
        expect(page.locator(gone)).to_be_hidden()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(LOW_CONTRAST) == []
    assert len(page.pdf(format="A4", print_background=True)) > 20_000


def test_without_scripts_a_comparison_has_everything(visit: Open, comparison: Path) -> None:
    page = visit(path=comparison, java_script_enabled=False)
    expect(page.locator(".search")).to_be_hidden()
    first = page.locator("details.change").first
    first.locator("summary").click()
    expect(first.get_by_role("table").first).to_be_visible()
