# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Decision tables and the tables of a run as notebooks show them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from reports.render.notebook import decision_html, tables_html
from reports.render.words import notes
from reports.result.basis import Former
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make

CELLS: list[dict[str, Any]] = [
    {"aqm": "fifo", "l4s": [45.9] * 3, "classic": [49.0] * 3},
    {"aqm": "dualpi2", "l4s": [42.0], "classic": [53.0]},
]


def shown(value: Decision | RunTables) -> str:
    """The HTML that a notebook shows for a value, which itself has a short repr."""
    assert len(repr(value)) < 500
    return decision_html(value) if isinstance(value, Decision) else tables_html(value)


def test_a_decision_is_its_table(make: Make) -> None:
    decision = decide(make(CELLS), load_rule("pam25"))
    text = shown(decision)
    assert text.index("Is it okay to switch to ") < text.index("<table>")
    assert len(re.findall("<th ", text)) == 2
    assert "✓ ok, unsure (1 trial)<br>DualPI2" in text
    assert "l4sbench.run(matrix, sure=True)" in text
    assert "l4sbench run" not in text
    for note in notes(decision):
        assert note.text.startswith("to make it sure") or note.text.split("'")[0] in text


def test_former_cells_are_counted_by_an_argument(make: Make) -> None:
    decision = replace(decide(make(CELLS), load_rule("pam25")), former=Former(4, 1))
    text = shown(decision)
    assert "4 trials of 1 former cell, not in the matrix now; every=True counts them" in text
    assert "--" not in text


def test_tables_are_listed_with_their_rows(make: Make) -> None:
    text = shown(make(CELLS))
    assert "2 cells, 4 ok" in text
    assert re.search(r">trials</td><td[^>]*>4</td><td[^>]*>One row per trial", text)


def test_what_a_file_says_is_text(make: Make) -> None:
    cells = [{"aqm": "<b>fifo\x1b[31m", "l4s": [45.9] * 3, "classic": [49.0] * 3}]
    text = shown(decide(make(cells), load_rule("pam25")))
    assert "<b>" not in text
    assert "\x1b" not in text
