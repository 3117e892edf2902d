# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of the atlas: what it counts, and that nothing of a table is HTML. A browser tests its map."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from l4sbench.app.ranking import ranking
from reports.page import AtlasNames, MapCell, atlas_page
from tests.unit.l4sbench.app.test_asking import FIFO, FQ, plane

DASH = "\u2013"
SCRIPT = "</script><script>alert(1)</script>"
NO_RANKING = ranking(())
NAMES = AtlasNames({"fq-codel": "FQ-CoDel", "fifo": "FIFO"}, {"prague": "Prague", "cubic": "CUBIC"})


class Texts(HTMLParser):
    """The texts of a page, and the JSON that it has for its script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.data: dict[str, Any] = {}
        self._in_data = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_data = ("id", "page-data") in attrs

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data = json.loads(data)
            self._in_data = False
        self.texts.append(data.strip())


def test_counts_are_of_decided_cells() -> None:
    open_cell = replace(next(plane(FIFO)), verdict="undecided")
    cells = [*plane(FQ), *plane(FIFO, "l4s-starved"), open_cell, replace(open_cell, verdict="")]
    page = Texts(atlas_page(list(map(MapCell, cells)), NAMES, NO_RANKING))
    table = [text for text in page.texts if text]
    of_fq, of_fifo = (table[table.index(name) :][:4] for name in ("FQ-CoDel", "FIFO"))
    assert of_fq == ["FQ-CoDel", "8", "8", "8"]
    assert of_fifo == ["FIFO", "0", "8", "10"]
    assert any("17 of 18 cells have been run" in text for text in table)


def test_the_script_has_every_cell_once_and_knows_those_that_have_not_run() -> None:
    cells = [*plane(FQ), *plane(FIFO, "")]
    data = Texts(atlas_page([MapCell(cell, instead={2: "aqm=fq"}) for cell in cells], NAMES, NO_RANKING)).data
    ran, not_run = (column["cells"] for column in data["columns"])
    assert [len(ran), len(not_run)] == [8, 8]
    assert {len(cell) for cell in not_run} == {4}
    assert data["instead"] == ["aqm=fq"]
    assert all([2, 0] in cell[9] for cell in ran)
    assert data["columns"][0]["flows"] == "Prague beside CUBIC"


def test_nothing_of_a_table_is_html() -> None:
    hostile = replace(FQ, aqm=SCRIPT, l4s=SCRIPT)
    cell = replace(next(plane(FQ)), column=hostile, verdict=SCRIPT, made_by=SCRIPT)
    page = atlas_page([MapCell(cell, instead={2: SCRIPT})], NAMES, ranking([cell]))
    assert "<script>alert" not in page
    assert Texts(page).data["columns"][0]["aqm"] == SCRIPT


def test_the_ranking_has_labels_and_a_dash_beside_itself() -> None:
    page = Texts(atlas_page([], NAMES, ranking(plane(FIFO))))
    table = [text for text in page.texts if text]
    assert "These cells are behind FIFO. The first leaves the least." in " ".join(table)
    assert table[table.index("Congestion control") :][:5] == [
        "Congestion control",
        "Leaves",
        "Keeps",
        "Leaves to CUBIC",
        "Leaves to Prague",
    ]
    assert table[table.index("Leaves to Prague") + 1 :][:10] == [
        "CUBIC",
        "90",
        "99",
        DASH,
        "90",
        "Prague",
        "99",
        "90",
        "99",
        DASH,
    ]
