# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a sheet: claims lead to cells, and nothing that a file states is HTML."""

from __future__ import annotations

from pathlib import Path

from reports.page import conformance_page
from reports.published.standards import Conformance, judge
from reports.published.standards.cases import Case, RowOutcome
from tests.unit.reports.published.test_standards import RATIO, place, sheet, tables

SCRIPT = "<script>alert(1)</script>"


def found(folder: Path, candidate: str = "mine") -> Conformance:
    of = sheet(RATIO, requires=SCRIPT, remark=SCRIPT)
    apart = Case(of.rows[0], "other", hindrance=(RowOutcome.NOT_APPLICABLE, "the row is about a sender"))
    case = Case(of.rows[0], candidate, (place("fifo"), place("pie")))
    return judge(tables(folder, {"fifo": [10.0] * 3, "pie": [90.0] * 3}), of, [case, apart])


def test_each_claim_leads_to_the_cell_that_shows_its_trials(tmp_path: Path) -> None:
    page = conformance_page(found(tmp_path), "index.html", "l4sbench conform s")
    assert page.count('<a href="index.html#cell/fifo">') == page.count('<a href="index.html#cell/pie">') == 1
    assert '<span class="chip o-better">pass</span>' in page
    assert page.count('<span class="chip o-worse">fail</span>') == 3  # the row twice, and the claim
    assert "ratio_per_flow 9 [9, 9]" in page
    assert "<code>other</code>" not in page


def test_rows_that_were_not_asked_for_are_no_rows_that_do_not_apply(tmp_path: Path) -> None:
    of = sheet(RATIO, more=2)
    apart = Case(of.rows[1], "mine", hindrance=(RowOutcome.NOT_APPLICABLE, "the row is about a queue"))
    measured = Case(of.rows[0], "mine", (place("fifo"),))
    verdicts = judge(tables(tmp_path, {"fifo": [10.0] * 3}), of, [measured, apart])
    page = conformance_page(verdicts, "index.html", "l4sbench conform s --row A1 --row A2")
    assert "<p>A2: not applicable.</p>" in page
    assert "<p>A3: not asked for here.</p>" in page


def test_nothing_of_a_sheet_is_html(tmp_path: Path) -> None:
    page = conformance_page(found(tmp_path, SCRIPT), "index.html", SCRIPT)
    assert SCRIPT not in page
    assert page.count("&lt;script&gt;") >= 4
