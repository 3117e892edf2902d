# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a comparison as a file: its order, its links, and that nothing in it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from l4sbench.app.sheets import write_comparison
from l4sbench.errors import InputError
from reports.compare import Comparison, compare, load_margins
from reports.page import Links, comparison_page
from reports.result.rules import load_rule
from tests.unit.reports.conftest import Make

CELLS: tuple[dict[str, Any], ...] = (
    {"aqm": "dualpi2", "l4s": [47.0, 48.0, 46.5], "classic": [47.0, 47.5, 47.2]},
    {"aqm": "fifo", "l4s": [45.0, 45.5, 46.0], "classic": [50.0, 49.5, 49.0]},
    {"aqm": "codel", "l4s": [12.0, 12.1, 12.2], "classic": [80.0, 80.5, 79.0]},
    {"aqm": "fq-codel", "l4s": [47.0, 48.0, 46.5], "classic": [47.0, 47.5, 47.2]},
)
CHANGED: tuple[dict[str, Any], ...] = (
    {**CELLS[0], "l4s": [11.0, 12.0, 10.5], "classic": [82.0, 81.0, 82.5]},
    CELLS[1],
    {**CELLS[2], "l4s": [46.0, 46.1, 46.2]},
    {**CELLS[3], "l4s": [], "classic": [], "status": ["failed"]},
)
SCRIPT = "<script>alert(1)</script>\x1b[31m"


def compared(make: Make, base: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Comparison:
    first = make(base)
    _ = first.trials, first.flows, first.catalog
    return compare(first, make(new), names=("base", "new"), margins=load_margins(), rule=load_rule("pam25"))


def test_what_changed_comes_first_with_verdicts(make: Make) -> None:
    page = comparison_page(compared(make, CELLS, CHANGED))
    heads = re.findall(r'<h3 id="[a-z]+-title">([^<]+?) <span class="many">([0-9]+)', page)
    assert heads == [
        ("Worse by more than noise", "1"),
        ("No valid trial any more", "1"),
        ("Better by more than noise", "1"),
        ("No difference found", "1"),
    ]
    first = page.split('<details class="change"')[1]
    assert re.search(r'w-ok">ok</span> <span aria-label="became">→</span> <span class="chip w-l4s-s', first)
    assert "data-changed" in first
    assert "data-changed" not in page.split('id="neither"')[1].split("<summary>")[0]


def test_numbers_are_there_where_nothing_is_worse(make: Make) -> None:
    page = comparison_page(compared(make, CELLS, CELLS))
    assert "Nothing got worse" in page
    assert page.count("<details") == len(CELLS)
    assert "goodput, Mbit/s" in page
    assert re.search(r"<b>45\.50</b> <span class=\"ends\">\(44\.26 to 46\.74\)</span>", page)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", ""), "nothing is fetched"


def test_metrics_where_more_is_better_are_drawn_the_other_way(make: Make) -> None:
    """To the right is worse."""
    less = [{**cell, "classic": [value - 20 for value in cell["classic"]]} for cell in CELLS[1:2]]
    page = comparison_page(compared(make, CELLS[1:2], less))
    assert '<path class="arrow" d="M196' in page.split("utilisation, %")[1].split("</summary>")[0]


def test_hostile_names_are_escaped(make: Make) -> None:
    found = compared(make, CELLS, CHANGED)
    numbered = enumerate(found.cells)
    cells = tuple(replace(cell, cell=f'"{SCRIPT}{number}', label=SCRIPT) for number, cell in numbered)
    side = replace(found.new, name=SCRIPT, sources=(SCRIPT,), modules=(SCRIPT,))
    found = replace(found, cells=cells, new=side, undecidable=SCRIPT)
    page = comparison_page(found, Links(f"javascript:{SCRIPT}", 'x" onclick="alert(1)'))
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert 'onclick="' not in page


def test_somebody_elses_file_stays(make: Make, tmp_path: Path) -> None:
    found = compared(make, CELLS, CELLS)
    file = write_comparison(found, tmp_path / "a" / "compare.html")
    assert write_comparison(found, file) == file, "its own may be replaced"
    file.write_text("mine")
    with pytest.raises(InputError, match="is not a page of l4sbench"):
        write_comparison(found, file)
    assert file.read_text() == "mine"
