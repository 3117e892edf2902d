# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages about several runs, for everybody: desktop and phone, light and dark, by keyboard, on paper."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import Page, expect

from l4sbench import tables
from reports.compare import compare, load_margins
from reports.compare.history import NightRun, history
from reports.page import NightLinks, comparison_page, conformance_page, history_page
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from tests.browser.conftest import Open
from tests.browser.test_access import LEVELS, LOW_CONTRAST
from tests.unit.reports.page.test_conformance import found as made_up

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


LONG = "prague:version=l4steam-2024:fallback=on:fallback_scaling=published"


@pytest.mark.parametrize("width", WIDTHS)
def test_verdicts_of_a_standard_are_for_everybody(visit: Open, tmp_path: Path, width: int) -> None:
    """The verdict is in sight without scrolling, also of a candidate with a long name."""
    file = tmp_path / "conform-s.html"
    verdicts = made_up(tmp_path, LONG)
    file.write_text(conformance_page(verdicts, "index.html", "l4sbench conform s"), encoding="utf-8")
    page = visit(path=file, viewport={"width": width, "height": 800})
    check_for_everybody(page)
    chip = page.get_by_role("table", name="Verdicts").get_by_text("fail", exact=True).bounding_box()
    assert chip is not None
    assert chip["x"] + chip["width"] < width


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


@pytest.fixture(scope="session")
def nights(small: RunTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a history in which the last but one of five nights was worse, with a module of its own."""
    folder = tmp_path_factory.mktemp("nights")
    worse = changed(small, folder)
    trials = worse.trials.with_columns(modules=pl.concat_list(pl.lit("tcp_prague=CD34")))
    tables.write("trials", [tables.conform("trials", trials).lazy()], worse.folder / "trials.parquet")
    names = [f"2026010{day}T023000Z" for day in range(1, 6)]
    own = [small, small, small, load(folder / "run"), small]
    runs_of = [
        NightRun(name, one, "worse than good" if place == 3 else "ok", (names[0], small) if place else None)
        for place, (name, one) in enumerate(zip(names, own, strict=True))
    ]
    found = history("small", runs_of, load_margins(), load_rule("pam25"))
    # the folder's name is not a night's, as these tables have one place
    dated = (
        replace(night, side=replace(night.side, begun=datetime(2026, 1, day, tzinfo=UTC)))
        for day, night in enumerate(found.nights, 1)
    )
    page = folder / "history.html"
    links = [NightLinks(f"{name}/report/index.html") for name in names]
    page.write_text(history_page(replace(found, nights=tuple(dated)), links), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_history_is_for_everybody(visit: Open, nights: Path, scheme: str, width: int) -> None:
    page = visit(path=nights, color_scheme=scheme, viewport={"width": width, "height": 800})
    check_for_everybody(page)
    page.evaluate(OPEN_ALL)
    check_for_everybody(page)
    for chart in page.locator(".trend > svg").all():
        assert "over 5 nights" in (chart.get_attribute("aria-label") or "")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_of_a_chart_leaves_it(visit: Open, nights: Path, width: int) -> None:
    page = visit(path=nights, viewport={"width": width, "height": 800})
    outside = page.locator(".trend > svg").evaluate_all(
        """charts => charts.flatMap((chart) => {
            const box = chart.getBoundingClientRect();
            return [...chart.querySelectorAll("text")].filter((text) => {
                const own = text.getBoundingClientRect();
                return own.left < box.left - 1 || own.right > box.right + 1;
            }).map((text) => text.textContent);
        })"""
    )
    assert outside == []


def test_what_got_worse_comes_first_and_is_found(visit: Open, nights: Path) -> None:
    page = visit(path=nights)
    first = page.locator("section.course").first
    expect(first).to_contain_text("worse on 04 Jan: delay of classic, ms; delay of l4s, ms")
    expect(first.locator(".bad")).to_have_count(1)
    expect(first.locator(".mark")).to_have_count(4)
    expect(page.locator(".changes-list")).to_contain_text("module tcp_prague")
    page.get_by_label("Only what got worse").check()
    expect(page.locator("#count")).to_have_text("4 of 24 cells")
    night = page.get_by_role("link", name="04 Jan 2026: worse than good, 4 cells worse").first
    assert night.get_attribute("href") == "20260104T023000Z/report/index.html"


def test_a_history_on_paper(visit: Open, nights: Path) -> None:
    page = visit(path=nights, color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator(".search")).to_be_hidden()
    assert page.evaluate(LOW_CONTRAST) == []
    assert len(page.pdf(format="A4", print_background=True)) > 20_000
