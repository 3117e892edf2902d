# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Grids place items by typed keys."""

from __future__ import annotations

import pytest

from l4sbench.errors import InputError
from reports.result.grid import across_of, grid
from reports.result.rules import load_rule
from reports.result.verdicts import decide, heat_grid
from tests.unit.reports.conftest import Make


def test_panels_share_rows_and_columns() -> None:
    words = ["aX1", "bX2", "aY2"]
    found = grid(words, panel=lambda w: w[0], row=lambda w: w[1], column=lambda w: int(w[2]))
    assert (found.rows, found.columns) == (("X", "Y"), (1, 2))
    assert [panel.about for panel in found.panels] == ["a", "b"]
    assert list(found.lines()) == [("X", ("aX1", None)), ("Y", (None, "aY2"))]
    assert list(found.map(str.lower).lines(1)) == [("X", (None, "bx2")), ("Y", (None, None))]


def test_rows_and_columns_in_an_order_of_ones_own() -> None:
    found = grid(
        ["a2", "b1"],
        panel=lambda _: None,
        row=lambda w: w[0],
        column=lambda w: int(w[1]),
        row_order=lambda row: -ord(row),
        column_order=lambda column: column,
    )
    assert list(found.lines()) == [("b", ("b1", None)), ("a", (None, "a2"))]


def test_two_items_in_one_place() -> None:
    with pytest.raises(InputError, match="two cells are in one place: a, 1"):
        grid(["a1x", "a1y"], panel=lambda _: None, row=lambda w: w[0], column=lambda w: w[1])

    def apart(here: str, other: str, row: str) -> str:
        return f"{row}{other[2]}" if here == "a1x" else row

    found = grid(["a1x", "a1y"], panel=len, row=lambda w: w[0], column=lambda w: w[1], clash=apart)
    assert found.rows == ("a", "ay")


def test_no_cell_is_lost_that_lacks_the_factor_across(make: Make) -> None:
    about = {"aqm": "fifo", "l4s": [50], "classic": [40]}
    cells = [about | {"aqm.limit_packets": limit} for limit in (10, 2, None)]
    decision = decide(make(cells), load_rule("pam25"))
    assert across_of([cell.result for cell in decision.cells]) == "buffer_bdp"
    found = heat_grid(decision.cells, "aqm.limit_packets")
    assert [str(row) for row in found.rows] == ["FIFO"]
    assert [at and at.value for at in found.columns] == [2, 10, None]
    apart = heat_grid(decision.cells, "rtt_ms")
    assert len(apart.rows) == 3
    assert sum(len(panel.places) for panel in apart.panels) == 3
