# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell has enough trials as soon as it is decided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.result.adaptive import UNDECIDED_AFTER, decided, forecast, still_undecided
from reports.result.cells import cells as results
from reports.result.rules import load_rule
from reports.result.stats import half_width
from reports.result.verdicts import decide
from tests.unit.reports.conftest import Make

PAM25, OURS = load_rule("pam25"), load_rule("l4sbench1")


def test_by_hand() -> None:
    """Mean 30, sd 2: with three looks the interval at 3 trials is 30 ± 8.8, all above 20; 2.5 give ± 11."""
    assert half_width(3, 2.0, looks=3) == pytest.approx(8.83, abs=0.01)
    assert decided(PAM25, [28, 30, 32], [60, 60, 60], 100.0, looks=3)
    assert not decided(PAM25, [27.5, 30, 32.5], [60, 60, 60], 100.0, looks=3)
    assert decided(PAM25, [27.5, 30, 32.5], [60, 60, 60], 100.0, looks=1)


def test_percent_is_of_the_rate_and_limits_of_the_flows() -> None:
    assert not decided(PAM25, [2.8, 3.0, 3.2], [6, 6, 6], 15.0, looks=3)
    assert decided(PAM25, [2.8, 3.0, 3.2], [6, 6, 6], 10.0, looks=3)
    assert decided(OURS, [50.0, 50.5, 51], [43.0, 43.5, 44], 100.0)
    assert not decided(OURS, [44.5, 45, 45.5], [48.0, 49, 50], 100.0, l4s_flows=9, classic_flows=1)


def test_too_few_trials_decide_nothing() -> None:
    assert not decided(PAM25, [], [], 100.0)
    assert not decided(PAM25, [50.0], [45.0], 100.0)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0, 60), st.floats(0, 40)), min_size=2, max_size=6),
    st.sampled_from(["pam25", "anrw24", "l4sbench1"]),
    st.sampled_from([1, 3]),
)
def test_the_report_says_the_same(
    make: Make, trials: list[tuple[float, float]], rule: str, looks: int
) -> None:
    l4s, classic = [a for a, _ in trials], [b for _, b in trials]
    cell = {"aqm": "fifo", "l4s": l4s, "classic": classic}
    (found,) = decide(make([cell]), load_rule(rule), looks).cells
    assert found.judged.decided == decided(load_rule(rule), l4s, classic, 100.0, looks=looks)


def test_a_forecast_is_the_first_look_that_would_be_enough(make: Make) -> None:
    def cell(aqm: str, *l4s: float) -> dict[str, Any]:
        return {"aqm": aqm, "l4s": list(l4s), "classic": [90 - mbps for mbps in l4s]}

    cells = [
        cell("fifo", 44.9, 45, 45.1),
        cell("codel", 29, 32, 35),
        cell("pie", 22, 25, 28),
        cell("fq", 18, 20, 22),
        cell("red", 45),
    ]
    means = results(make(cells), "l4s", "classic", looks=3)
    found = forecast(PAM25, means, (3, 5, 10))
    names = {own.id: own.value("aqm") for own in means}
    assert {names[cell]: trials for cell, trials in found.items()} == {
        "fifo": 3,
        "codel": 5,
        "pie": 10,
        "fq": 10,
    }


def test_of_unknown_cells_the_published_ones_tell() -> None:
    assert still_undecided(3) == still_undecided(4) == UNDECIDED_AFTER[3]
    assert still_undecided(2) == 1
    assert still_undecided(7) == UNDECIDED_AFTER[5]
