# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From decision table to program: with the mouse, with the keyboard, and by links."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, expect

from collectors.assemble import collect
from l4sbench.catalog import Catalog
from l4sbench.store import Run
from reports.page import Heading, write
from reports.result.applications import ApplicationVerdict
from reports.result.load import RunTables, load
from reports.result.measured import FRAME_DELAY, FRAME_MEDIAN, FREEZES, measure
from reports.result.stats import estimate
from tests.browser import runs
from tests.browser.conftest import HEADING, Open, page_of
from tests.captured import captured_trial

pytestmark = pytest.mark.browser

RTTS = (2, 5, 10, 15, 20, 30, 40, 60, 80, 100)
ENTRY = "#entry/prague/single-queue-ecn/cubic-ecn-off"
HEAT = "Single queue (ECN) against CUBIC, ECN off"


def cell_of(**factors: Any) -> str:
    wanted = {name.replace("__", "."): value for name, value in factors.items()}
    return next(cell.cell for cell in runs.small() if dict(cell.factors) == wanted)


STARVED = cell_of(aqm="fifo-ecn", buffer_bdp=4.0, classic__ecn="off")
MODES = cell_of(aqm="fifo", buffer_bdp=4.0, classic__ecn="off")
LEFT_OUT = cell_of(aqm="codel-drop", buffer_bdp=4.0, classic__ecn="classic")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')"))


def test_clicks_from_table_to_program(visit: Open) -> None:
    page = visit()
    expect(page.get_by_role("heading", level=1)).to_have_text("Is it okay to switch to Prague?")
    entry = page.get_by_role("gridcell").filter(has_text="both")
    expect(entry).to_contain_text("4 cells, 3 trials each")
    expect(entry.locator(".of-share .queue")).to_have_text(
        [re.compile(r"▲ CoDel \(\+ECN\), . BDP: classic-starved"), "▼ FIFO (+ECN), 1 BDP: l4s-starved"]
    )
    expect(entry.locator(".of-share .got")).to_have_text([re.compile("8.* v .* Mbit/s"), "0.1 v 9.4 Mbit/s"])
    expect(entry.locator(".bar:visible")).to_have_count(2)
    expect(page.locator("#map")).to_be_hidden()
    entry.click()

    expect(page).to_have_url(re.compile(re.escape(ENTRY)))
    heat = page.get_by_role("grid", name=HEAT)
    expect(heat.get_by_role("rowheader")).to_have_text(["CoDel (+ECN)", "FIFO (+ECN)"])
    expect(heat.get_by_role("columnheader")).to_have_text(["Queue", "1 BDP", "4 BDP"])
    starved = heat.get_by_role("link", name=re.compile("FIFO .*4 BDP: l4s-starved; 1.4 percent"))
    expect(starved).to_contain_text("▼")
    starved.click()

    cell = page.locator("#cell")
    expect(cell.get_by_role("heading", level=2)).to_contain_text("FIFO (+ECN), 4 BDP")
    tiles = cell.locator(".numbers li")
    expect(tiles).to_have_count(4)
    expect(tiles.nth(0)).to_have_text(
        re.compile("▼ l4s-starved.*Prague 1.4 %.*limits 20 and 80; CUBIC 93.6 %")
    )
    expect(tiles.nth(1)).to_have_text(re.compile("1.4 v 93.6.%of the link: Prague .*v CUBIC"))
    expect(tiles.nth(2)).to_have_text(re.compile("6.0 v 6.0 msdelay: "))
    expect(tiles.nth(3)).to_contain_text("of the link used in 3 valid trials")
    expect(cell.get_by_role("table", name="All figures")).to_be_hidden()
    cell.get_by_text("All figures").click()
    figures = cell.get_by_role("table", name="All figures")
    expect(figures.get_by_role("columnheader")).to_have_text(["Figure", "Prague", "CUBIC"])
    expect(figures.get_by_role("row").filter(has_text="Goodput, Mbit/s")).to_contain_text("0.1")
    trials = cell.get_by_role("table", name="Trials of this cell")
    expect(trials.get_by_role("link")).to_have_text(["1", "2", "3"])
    expect(trials.locator("tbody").first).to_contain_text("CUBIC")
    expect(cell.locator(".charts[data-drawn] svg.marks")).to_have_count(6)
    expect(cell).to_contain_text(re.compile(r"router +tc qdisc replace dev @net-rx"))
    program = cell.get_by_role("group").filter(has_text="Program of tx-l4s")
    program.get_by_text("Program of tx-l4s").click()
    expect(program.get_by_text(re.compile(r"netem .* seed [0-9]{9,}"))).to_be_visible()
    expect(program.get_by_text("sysctl -w net.ipv4.tcp_ecn=3")).to_be_visible()
    expect(cell).to_contain_text("l4sbench run matrix.yaml cell=")

    cell.get_by_role("link", name="Trial 2").click()
    expect(page).to_have_url(re.compile(f"{re.escape(STARVED)}/2$"))
    expect(cell).to_contain_text("Time series of trial 2")
    page.go_back()
    expect(cell).to_contain_text("Time series of trial 1")
    page.go_back()
    expect(cell).to_be_hidden()
    expect(heat).to_be_visible()
    page.go_back()
    expect(page.locator("#map")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_answer_is_seen_without_scrolling(visit: Open, width: int) -> None:
    page = visit(viewport={"width": width, "height": 800})
    answer = page.locator("p.answer")
    expect(answer).to_have_text(re.compile(r"Not everywhere ok in \d of \d entries"))
    box, table = answer.bounding_box(), page.locator("table.decision tbody td").first.bounding_box()
    assert box is not None
    assert table is not None
    assert box["x"] + box["width"] <= width
    assert table["y"] < 450, "the table begins on the first screen"
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    expect(page.locator("p.scope")).to_be_hidden()
    page.get_by_text("what this does not say").click()
    expect(page.locator("p.scope")).to_have_text(re.compile("^This says nothing about short or"))
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_the_switch_is_in_the_address(visit: Open, width: int) -> None:
    page = visit(viewport={"width": width, "height": 800})
    entry = page.get_by_role("gridcell").filter(has_text="both")
    expect(entry.locator(".got:visible").last).to_have_text("0.1 v 9.4 Mbit/s")
    page.get_by_role("radio", name="goodput").focus()
    page.keyboard.press("ArrowRight")
    expect(entry.locator(".got:visible").last).to_have_text("6.0 v 6.0 ms")
    expect(page).to_have_url(re.compile(r"#\?delay$"))
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    entry.get_by_role("link").click()
    expect(page).to_have_url(re.compile(re.escape(f"{ENTRY}?delay")))
    expect(page.get_by_role("grid", name=HEAT)).to_contain_text("6.0 (6.0)")
    page.go_back()
    expect(page.locator("#map")).to_be_hidden()
    expect(page.get_by_role("radio", name="delay")).to_be_checked()
    page = visit(f"{ENTRY}?delay")
    expect(page.get_by_role("radio", name="delay")).to_be_checked()
    page.get_by_role("radio", name="goodput").check()
    expect(page).to_have_url(re.compile(f"{re.escape(ENTRY)}$"))


def test_the_switch_needs_no_script(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    expect(page.locator("table.decision .got:visible").first).to_contain_text("Mbit/s")
    page.get_by_role("radio", name="delay").check()
    expect(page.locator("table.decision .got:visible").first).to_contain_text(" ms")
    context.close()


def test_the_keyboard_alone(visit: Open) -> None:
    page = visit()
    table = page.get_by_role("grid", name=re.compile("okay to switch"))
    for _ in range(10):
        page.keyboard.press("Tab")
        if table.locator(":focus").count():
            break
    assert "Single" not in focused(page), "a row's head is no stop"
    assert focused(page).startswith("✓ ok")
    page.keyboard.press("ArrowDown")
    assert focused(page).startswith("◆ both")
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("▲ classic-starved")
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("▲ classic-starved"), "nothing is there"
    page.keyboard.press("Home")
    assert focused(page).startswith("◆ both")
    page.keyboard.press("Control+End")
    assert focused(page).startswith("✓ ok ★")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")

    expect(page.locator("#live")).to_have_text(f"Heat map of {HEAT}, 4 cells")
    assert focused(page) == HEAT
    page.keyboard.press("Tab")  # the worst cell's link
    page.keyboard.press("Tab")
    assert focused(page).startswith("▲ 8.0"), "the grid's first cell"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("Cell FIFO (+ECN), 4 BDP: l4s-starved, 3 trials")
    assert focused(page).startswith("FIFO (+ECN), 4 BDP")

    page.keyboard.press("Escape")
    expect(page.locator("#cell")).to_be_hidden()
    assert focused(page).startswith("▼ 0.1"), "back where it came from"
    page.keyboard.press("Escape")
    expect(page.locator("#map")).to_be_hidden()
    assert focused(page).startswith("◆ both")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find-words"


def test_links_into_the_page(visit: Open) -> None:
    page = visit(f"#cell/{STARVED}/3")
    expect(page.locator("#cell")).to_contain_text("Time series of trial 3")
    expect(page.get_by_role("grid", name=HEAT)).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(
        ["Decision table", HEAT, "FIFO (+ECN), 4 BDP"]
    )
    page = visit("#cell/no-such-cell")
    expect(page.locator("#live")).to_have_text("This page has no cell no-such-cell.")
    page = visit("#entry/%")
    expect(page.locator("#live")).to_have_text("This page has no entry %.")


def test_what_was_left_out_and_what_is_uncertain(visit: Open) -> None:
    page = visit()
    expect(page.get_by_role("table", name="Trials left out")).to_contain_text("queue read back otherwise")
    expect(page.locator("#evidence")).to_contain_text("low-utilisation: 2 valid trials")
    expect(page.locator("#evidence")).to_contain_text("2 to 10 per cell")
    page = visit(f"#cell/{MODES}")
    expect(page.locator("#cell")).to_contain_text("two modes")
    expect(page.locator("#cell")).to_contain_text("10 of 10")
    page = visit(f"#cell/{LEFT_OUT}/2")
    expect(page.locator("#cell")).to_contain_text("Trial 2 has no samples in the tables: it is invalid.")
    page = visit(ENTRY)
    open_still = page.locator("td.hatched")
    expect(open_still).to_have_count(1)
    expect(open_still).to_contain_text(re.compile("Prague may get .* of the link, limit 80"))
    assert "CUBIC" in str(open_still.get_by_role("link").get_attribute("title"))


def test_colours_of_delay(visit: Open) -> None:
    page = visit("#entry/prague/dualpi2/cubic-ecn-off")
    shown = page.get_by_role("grid", name=re.compile("DualPI2.*heat map")).get_by_role("gridcell").first
    expect(shown).to_contain_text("4.5 (5.0)")
    before = shown.evaluate("cell => getComputedStyle(cell).backgroundColor")
    page.get_by_role("radio", name="delay").check()
    expect(shown.locator(".of-delay")).to_have_text("0.4 (6.0)")
    assert shown.evaluate("cell => getComputedStyle(cell).backgroundColor") is not None
    page.get_by_role("radio", name="goodput").check()
    assert shown.evaluate("cell => getComputedStyle(cell).backgroundColor") == before


@pytest.mark.parametrize("width", [1280, 390])
def test_a_cell_draws_its_path(visit: Open, width: int) -> None:
    page = visit(f"#cell/{STARVED}", viewport={"width": width, "height": 800})
    drawn = page.locator("#cell .path svg")
    expect(drawn).to_have_attribute(
        "aria-label",
        re.compile(r"^Path: .*Prague \(1 flow, ECN accecn\).*RTT \d.*FIFO \(\+ECN\).*4 BDP.* Mbit/s$"),
    )
    expect(drawn.locator("text").first).to_have_text("Prague")
    expect(drawn.locator("text").filter(has_text="4 BDP")).to_be_visible()
    inside = drawn.bounding_box()
    assert inside is not None
    for box in (text.bounding_box() for text in drawn.locator("text").all()):
        assert box is not None
        assert inside["x"] <= box["x"]
        assert box["x"] + box["width"] <= inside["x"] + inside["width"] <= width
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_links_to_what_is_beside_the_page(visit: Open, tmp_path: Path) -> None:
    tables = runs.make(tmp_path, runs.small())
    folders = tables.trials.filter(pl.col("cell") == STARVED).sort("trial")["folder"].to_list()
    run = tables.folder.parent
    (run / "cells" / STARVED / folders[0]).mkdir(parents=True)
    (run / "report").mkdir()
    (run / "report" / "cells.csv").write_text("cell\n")
    (run / "report" / "decision.csv").symlink_to("cells.csv")
    page = visit(f"#cell/{STARVED}", path=page_of(tables, run / "report"))
    files = page.get_by_role("navigation", name="Files beside this page").get_by_role("link")
    expect(files).to_have_text(["cells.csv", "tables (Parquet)", "raw files"])
    for link in files.all():
        assert (run / "report" / str(link.get_attribute("href"))).exists()
    raw = page.locator("#cell").get_by_role("link", name=f"cells/{STARVED}/{folders[0]}/")
    expect(raw).to_have_attribute("href", f"../cells/{STARVED}/{folders[0]}/")
    page.evaluate("cell => { location.hash = `#cell/${cell}`; }", MODES)
    expect(page.locator("#cell")).to_contain_text(f"raw files in cells/{MODES}/")
    expect(page.locator("#cell a").filter(has_text="cells/")).to_have_count(0)
    page = visit(path=page_of(tables, tmp_path / "elsewhere"))
    expect(page.get_by_role("navigation", name="Files beside this page")).to_have_count(0)


def test_finding_cells(visit: Open) -> None:
    page = visit()
    expect(page.locator("#find-count")).to_have_text("24 cells")
    expect(page.locator("#find-list tbody tr")).to_have_count(20)
    page.get_by_role("button", name="Show all 24").click()
    expect(page.locator("#find-list tbody tr")).to_have_count(24)
    page.get_by_label("Find cells").fill("buffer_bdp=4 l4s-starved")
    expect(page.locator("#find-count")).to_have_text("1 of 24 cells")
    page.locator("#find-list").get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("FIFO .*4 BDP"))).to_be_visible()
    page.get_by_label("Find cells").fill("nothing like it")
    expect(page.locator("#find-list")).to_contain_text("No cell has all these words.")


def test_a_run_without_verdicts(visit: Open, small: RunTables, tmp_path: Path) -> None:
    page = visit(path=write(small, measure(small), HEADING, tmp_path / "report"))
    expect(page.locator("h1")).to_have_text("What l4s and classic got")
    expect(page.locator("table.decision, .heat, dl.legend")).to_have_count(0)
    page.fill("#find-words", "aqm=dualpi2")
    rows = page.locator("#find-list tbody").first.locator("tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("44.1 (42.9 to 45.3)")
    page.locator("#find-list a").first.click()
    expect(page.locator("#cell-title")).to_contain_text("DualPI2")
    expect(page.locator("#cell .numbers")).to_contain_text("of the link's rate, l4s")
    expect(page.locator("#cell .charts canvas, #cell .charts svg").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#cell")).to_be_hidden()


def test_media_has_a_verdict_on_its_frames(visit: Open, small: RunTables, tmp_path: Path) -> None:
    found = measure(small)
    delays = {FRAME_MEDIAN: estimate([30.0, 31.0]), FRAME_DELAY: estimate([160.0, 161.0])}
    media: dict[str, Any] = {
        "own": delays | {FREEZES: estimate([2.0, 2.0])},
        "verdicts": (ApplicationVerdict(("frozen", "late"), "frames1 v1", "frames"),),
        "frame_rate": estimate([29.0, 29.0]),
    }
    cells = tuple(
        replace(
            cell, groups=tuple(replace(one, **media) if one.name == "l4s" else one for one in cell.groups)
        )
        for cell in found.cells
    )
    page = visit(path=write(small, replace(found, cells=cells), HEADING, tmp_path / "report"))
    for words in ("frame p50 ms", "frame p95 ms", "frames/s", "freezes", "Verdict"):
        expect(page.locator("#find-list thead")).to_contain_text(words)
    expect(page.locator("#find-list tbody tr").first).to_contain_text("frozen, late")
    expect(page.locator("#find-list tbody tr").nth(1)).not_to_contain_text("frozen")
    page.locator("#find-list a").first.click()
    for words in ("frozen, late", "by rule frames1", "95 % of l4s's frames", "freezes in a trial"):
        expect(page.locator("#cell .numbers")).to_contain_text(words)


def test_links_to_raw_files_and_captures(visit: Open, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "a run", "captured", b"", 1, {})
    captured_trial("captured-dualpi2").store(run)
    collect(run, Catalog.load())
    tables = load(run.path)
    place = f"#cell/{tables.trials['cell'][0]}"
    page = visit(place, path=page_of(tables, run.report))
    links = page.locator("#cell a[href^='../cells/']")
    expect(links).to_have_text([re.compile("^cells/"), "raw/router/"])
    folders = [run.report / unquote(link.get_attribute("href") or "") for link in links.all()]
    assert [sorted(path.name for path in folder.glob("*.pcap.gz")) for folder in folders] == [
        [],
        ["net-mid.pcap.gz", "net-rx.pcap.gz"],
    ]
    elsewhere = visit(place, path=page_of(tables, tmp_path / "elsewhere"))
    expect(elsewhere.get_by_text("captures (pcap) in raw/router/")).to_be_visible()
    expect(elsewhere.locator("#cell a[href^='../']")).to_have_count(0)


def test_without_the_files_beside_it(visit: Open, report: Path, tmp_path: Path) -> None:
    alone = tmp_path / "index.html"
    shutil.copy(report, alone)
    page = visit(f"#cell/{STARVED}", path=alone, missing=True)
    expect(page.get_by_role("alert")).to_contain_text("The time series are not beside this page")
    expect(page.get_by_role("alert")).to_contain_text("specifications.js")
    expect(page.locator("#cell")).to_contain_text("l4sbench run matrix.yaml")
    expect(page.get_by_role("grid")).to_have_count(2)

    shutil.copytree(report.parent / "data", tmp_path / "data", ignore=shutil.ignore_patterns("vega*"))
    page = visit(f"#cell/{STARVED}", path=alone, missing=True)
    expect(page.get_by_role("alert")).to_contain_text("vega")
    page.get_by_text("The same as numbers").click()
    expect(page.get_by_role("table", name="goodput, Mbit/s").get_by_role("rowheader")).to_have_text(
        ["l4s-0", "classic-0"]
    )


def test_strings_from_a_matrix_stay_strings(visit: Open, tmp_path: Path) -> None:
    evil = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&"
    cells = [
        runs.Wanted(
            {"aqm": evil, "buffer_bdp": 1.0, "classic.ecn": "off", "classic.cc": evil},
            [40.0, None],
            [evil],
            evil,
            "evil-1",
        ),
        runs.Wanted(
            {"aqm": "fifo", "buffer_bdp": 1.0, "classic.ecn": "off", "classic.cc": evil},
            [50.0],
            [evil],
            evil,
            "evil-2",
        ),
    ]
    tables: RunTables = runs.make(tmp_path, cells)
    path = page_of(tables, tmp_path / "report", Heading(evil, evil))
    page = visit("#cell/evil-1", path=path)
    expect(page).to_have_title(re.compile(re.escape(evil)))
    expect(page.locator(".about")).to_have_text(evil)
    expect(page.locator("#cell h2")).to_contain_text(evil)
    expect(page.locator("#cell .trials tbody").first).to_contain_text(evil)
    expect(page.locator("#left-out ~ div")).to_contain_text(evil)
    page.get_by_label("Find cells").fill("onerror=alert(1)>")
    expect(page.locator("#find-count")).to_have_text("2 of 2 cells")
    expect(page.locator("img")).to_have_count(0)


def test_a_thousand_cells(visit: Open, tmp_path: Path) -> None:
    path = page_of(runs.make(tmp_path, runs.large([0.0], sampled=False)), tmp_path / "report")
    assert path.stat().st_size < 5_000_000
    page = visit(path=path)
    expect(page.locator("#find-count")).to_have_text("1,000 cells")
    expect(page.locator("#find-list tbody tr")).to_have_count(20)
    assert page.locator("script[src]").count() == 0, "no series is loaded before a cell is opened"
    page.get_by_label("Find cells").fill("aqm=dualpi2 rtt_ms=100 buffer_bdp=5 classic.ecn=classic")
    expect(page.locator("#find-count")).to_have_text("1 of 1,000 cells")
    page.locator("#find-list").get_by_role("link").click()
    expect(page.locator("#cell").get_by_role("heading", level=2)).to_contain_text("5 BDP, rtt 100 ms")
    expect(page.locator(".charts[data-drawn]")).to_be_visible()
    grid = page.get_by_role("grid", name=re.compile("DualPI2.*heat map"))
    expect(grid.get_by_role("columnheader")).to_have_count(1 + 10)
    expect(grid.get_by_role("rowheader")).to_have_text([re.compile(f"rtt {rtt} ms") for rtt in RTTS])
    assert page.locator("script[src]").count() == 3, "specifications, its own series, what draws"
