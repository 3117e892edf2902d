# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The map of rate and RTT: what a tile says of its cells, and which runs have a plane."""

from __future__ import annotations

from typing import Any

import pytest

from l4sbench.errors import InputError
from reports.colours import WCAG_AA, contrast, ink
from reports.figures import specification, the_plane
from reports.figures.plane import tile_of
from reports.result.judging import Word
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make


def tile(*words: Word) -> tuple[str, str]:
    found = tile_of(words)
    assert contrast(found.ground, ink(found.ground)) >= WCAG_AA
    return found.text, found.ground


def test_a_tile_counts_what_is_ok_among_what_is_decided() -> None:
    ok, l4s, classic, both = Word.OK, Word.L4S_STARVED, Word.CLASSIC_STARVED, Word.BOTH
    assert tile(ok, ok)[0] == "2/2"
    assert tile(ok, ok, Word.UNDECIDED, Word.INVALID)[0] == "2/2"
    assert tile(ok, l4s)[0] == "\u25bc1/2"
    assert tile(ok, classic, classic)[0] == "\u25b21/3"
    assert tile(l4s, classic)[0] == "\u25c60/2"
    assert tile(both)[0] == "\u25c60/1"
    assert tile(Word.UNDECIDED)[0] == "?"
    grounds = [tile(*([ok] * good), *([l4s] * (4 - good)))[1] for good in range(5)]
    assert len(set(grounds)) == 5
    assert tile(ok)[1] == grounds[4]


def test_a_run_at_one_rate_has_no_plane(published: Decision) -> None:
    with pytest.raises(InputError, match="needs at least two of both; put them on axes"):
        the_plane(published)


def test_every_cell_is_in_a_tile_of_its_panel(make: Make) -> None:
    points = [(10.0, 5.0, "codel"), (10.0, 20.0, "codel"), (100.0, 5.0, "dualpi2")]
    cells = [
        {
            "aqm": aqm,
            "buffer_bdp": buffer,
            "rate_mbps": rate,
            "rtt_ms": rtt,
            "l4s": [rate * 0.5, rate * 0.51, rate * 0.49],
            "classic": [rate * 0.45] * 3,
        }
        for rate, rtt, aqm in points
        for buffer in (1.0, 2.0)
    ]
    decision = decide(make(cells), load_rule("l4sbench1"))
    spec: Any = specification(the_plane(decision).chart)
    rows = [row for rows in spec["datasets"].values() for row in rows if row.get("rate")]
    assert sorted((row["rate"], row["rtt"], row["text"], row["cells"]) for row in rows) == [
        ("10", "20", "2/2", 2),
        ("10", "5", "2/2", 2),
        ("100", "5", "2/2", 2),
    ]
    assert len(spec["vconcat"]) == 2  # a row for each family of queues
    assert "6 cells, 18 trials" in spec["title"]["subtitle"][0]
