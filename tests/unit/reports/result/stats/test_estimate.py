# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Estimates of means against scipy and against answers worked out by hand."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.result.stats import estimate, half_width

GOODPUTS = st.lists(st.floats(0, 100), min_size=2, max_size=12)


def test_by_hand() -> None:
    """1, 2, 3: mean 2, sd 1, t(2 degrees, 97.5 %) = 4.30265; 4.30265 / sqrt(3) = 2.48414."""
    found = estimate([3, 1, 2], "ms")
    assert (found.value, found.median, found.sd, found.trials, found.unit) == (2, 2, 1, 3, "ms")
    assert found.low == pytest.approx(2 - 2.48414, abs=1e-5)
    assert found.high == pytest.approx(2 + 2.48414, abs=1e-5)


def test_it_is_cut_to_what_can_be() -> None:
    found = estimate([1, 2, 3], least=0, most=4)
    assert (found.low, found.high) == (0, 4)


def test_one_value_has_no_interval_and_none_no_estimate() -> None:
    found = estimate([5.0])
    assert (found.value, found.median, found.sd, found.interval, found.trials) == (5, 5, None, None, 1)
    with pytest.raises(ValueError, match="needs a value"):
        estimate([])


@given(GOODPUTS, st.integers(1, 3))
def test_the_interval_is_scipys(values: list[float], looks: int) -> None:
    found = estimate(values, looks=looks)
    assert found.sd is not None
    assert found.sd == pytest.approx(statistics.stdev(values), abs=1e-9)
    error = found.sd / math.sqrt(len(values))
    if error == 0:
        assert found.low == found.high == found.value
        return
    low, high = stats.t.interval(1 - 0.05 / looks, len(values) - 1, found.value, error)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-6)


@given(GOODPUTS, st.floats(0.1, 10), st.floats(-50, 50))
def test_units_and_origin_do_not_matter(values: list[float], factor: float, shift: float) -> None:
    one, other = estimate(values), estimate([factor * value + shift for value in values])
    assert one.low is not None
    assert other.low == pytest.approx(factor * one.low + shift, abs=1e-6)


def test_percent_and_what_is_left_of_it() -> None:
    found = estimate([10, 20, 30], "Mbit/s", least=0, most=50).percent_of(50)
    assert (found.value, found.median, found.sd, found.unit) == (40, 40, 20, "%")
    assert found.interval == pytest.approx((0, 2 * (20 + 24.8414)), abs=1e-3)
    assert (found.rest.value, found.rest.high) == (60, 100)
    assert found.rest.low == pytest.approx(100 - (found.high or 0))


@given(st.integers(2, 30), st.floats(0.01, 50))
def test_more_looks_and_fewer_trials_make_it_wider(n: int, sd: float) -> None:
    assert half_width(n, sd, looks=3) > half_width(n, sd, looks=1) > half_width(n + 1, sd, looks=1)
