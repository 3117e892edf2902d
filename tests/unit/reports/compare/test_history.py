# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs one after the other: numbers night by night, what got worse, and what ran otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench import tables
from reports.compare import load_margins
from reports.compare.history import History, NightRun, history
from reports.page import NightLinks, history_page
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import Word
from tests.unit.reports.conftest import Make

DUALPI2: dict[str, Any] = {"aqm": "dualpi2", "l4s": [47.0, 48.0, 46.5], "classic": [47.0, 46.0, 47.5]}
FIFO: dict[str, Any] = {"aqm": "fifo", "l4s": [45.0, 45.5, 46.0], "classic": [50.0, 49.5, 49.0]}
STARVED = {**DUALPI2, "l4s": [11.0, 12.0, 10.5]}

Nights = Callable[..., History]


@pytest.fixture
def nights(make: Make, tmp_path: Path) -> Nights:
    """Makes the history of runs, each given by its cells; every one is compared with the first."""

    def made(*runs: Sequence[Mapping[str, Any]], loaded: Sequence[str] = (), rule: bool = True) -> History:
        found: list[NightRun] = []
        for number, cells in enumerate(runs, 1):
            folder = tmp_path / "runs" / f"202601{number:02d}T023000Z" / "tables"
            shutil.copytree(make(cells).folder, folder)
            if loaded:
                trials = pl.read_parquet(folder / "trials.parquet")
                trials = trials.with_columns(modules=pl.concat_list(pl.lit(loaded[number - 1])))
                conformed = tables.conform("trials", trials)
                tables.write("trials", [conformed.lazy()], folder / "trials.parquet")
            base = (found[0].name, found[0].tables) if found else None
            found.append(NightRun(folder.parent.name, RunTables(folder), "", base))
        return history("mine", found, load_margins(), load_rule("pam25") if rule else None)

    return made


def test_what_got_worse_is_known_night_by_night(nights: Nights) -> None:
    found = nights([DUALPI2, FIFO], [DUALPI2, FIFO], [STARVED, FIFO])
    dualpi2, fifo = found.cells
    assert dualpi2.words == (Word.OK, Word.OK, Word.L4S_STARVED)
    assert (dualpi2.regressed, fifo.regressed) == ((2,), ())
    assert {metric.metric for metric in dualpi2.worse[2]} == {"unfairness_percent", "utilisation_percent"}
    assert [found.worse_in(place) for place in range(3)] == [0, 0, 1]
    (l4s, classic) = dualpi2.groups
    assert [point and round(point.value, 1) for point in l4s.goodput] == [47.2, 47.2, 11.2]
    assert [point and point.value for point in classic.delay] == [7.0, 7.0, 7.0]
    assert found.nights[2].against == "20260101T023000Z"


def test_a_lost_cell_is_no_good_news(nights: Nights) -> None:
    """A cell that has no valid trial any more is a regression, as `compare` has it."""
    lost = {**DUALPI2, "status": ["invalid"] * 3}
    found = nights([DUALPI2, FIFO], [lost, FIFO])
    dualpi2, fifo = found.cells
    assert (dualpi2.lost, dualpi2.regressed, fifo.regressed) == ((False, True), (1,), ())
    assert (found.worse_in(1), found.lost_in(1)) == (1, 1)
    page = history_page(found, [NightLinks()] * 2)
    assert "No worse" not in page
    assert "no cell got worse by more than noise; 1 cell lost." in page
    assert "worse: no valid trial any more" in page


def test_what_ran_otherwise_is_marked(nights: Nights) -> None:
    found = nights([FIFO], [FIFO], [FIFO], loaded=["tcp_prague=AB12", "tcp_prague=AB12", "tcp_prague=CD34"])
    assert [night.marks for night in found.nights] == [(), (), ("module tcp_prague AB12 → CD34",)]
    page = history_page(found, [NightLinks()] * 3)
    assert "module tcp_prague AB12 → CD34" in page
    assert page.count('class="mark"') == 2, "in both charts"


def test_cells_come_and_go(nights: Nights) -> None:
    found = nights([FIFO, DUALPI2], [FIFO], rule=False)
    assert found.rule is None
    fifo, dualpi2 = found.cells
    assert [point is None for point in dualpi2.groups[0].goodput] == [False, True]
    assert [point is None for point in fifo.groups[0].goodput] == [False, False]
    page = history_page(found, [NightLinks()] * 2)
    assert "Verdict" not in page
    assert '<td class="n">\N{EN DASH}</td>' in page


def test_a_single_night_has_a_page(nights: Nights) -> None:
    page = history_page(nights([FIFO]), [NightLinks()])
    assert "Nights of mine" in page
    assert page.count('<figure class="trend">') == 2


def test_hostile_words_are_escaped(nights: Nights) -> None:
    script = "<script>alert(1)</script>\x1b[31m"
    found = nights([DUALPI2, FIFO], [STARVED, FIFO])
    cells = tuple(replace(cell, cell=f'"{script}', label=script) for cell in found.cells)
    night = replace(found.nights[1], outcome=script, against=script, marks=(script,))
    night = replace(night, side=replace(night.side, name=script, kernels=(script,), begun=None))
    page = history_page(
        replace(found, matrix=script, cells=cells, nights=(found.nights[0], night)),
        [NightLinks('x" onclick="alert(1)', script)] * 2,
    )
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert 'onclick="' not in page
