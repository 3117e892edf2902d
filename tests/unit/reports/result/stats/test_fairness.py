# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Shares, ratios and steadiness, by hand and by their properties."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reports.result.stats import binned_rates, jain, throughput_ratio, utilisation, variation

GOODPUTS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=20)


def test_jain_by_hand() -> None:
    """20 and 80: 100^2 / (2 (400 + 6400)) = 0.7353."""
    assert jain([20, 80]) == pytest.approx(10000 / 13600)
    assert jain([0, 0]) is None
    assert jain([]) is None
    with pytest.raises(ValueError, match="negative"):
        jain([1, -1])


@given(GOODPUTS, st.floats(0.01, 100))
def test_jain_lies_between_one_nth_and_one_and_has_no_unit(values: list[float], factor: float) -> None:
    one, other = jain(values), jain([factor * value for value in values])
    assert one is not None
    assert other is not None
    assert 1 / len(values) - 1e-9 <= one <= 1 + 1e-9
    assert other == pytest.approx(one)


@given(st.integers(1, 30))
def test_jain_at_its_ends(n: int) -> None:
    assert jain([3.5] * n) == pytest.approx(1)
    assert jain([3.5, *[0.0] * (n - 1)]) == pytest.approx(1 / n)


def test_the_ratio_is_per_flow() -> None:
    """Ten L4S flows with 60 Mbit/s together have 6 each, two classic ones with 30 have 15 each."""
    assert throughput_ratio(60, 10, 30, 2) == pytest.approx(0.4)
    assert throughput_ratio(60, 10, 0, 2) is None
    assert utilisation([60, 35], 100) == pytest.approx(0.95)


def test_bins_by_hand() -> None:
    """100,000 bytes in 100 ms are 8 Mbit/s; the last half bin is left out."""
    times = [0.0, 100, 200, 300, 350]
    assert binned_rates(times, [0, 1e5, 3e5, 3e5, 4e5], 100) == pytest.approx([8, 16, 0])
    assert binned_rates(times, [0, 1e5, 3e5, 3e5, 4e5], 200) == pytest.approx([12])


def test_bins_finer_than_samples_are_none() -> None:
    times = [0.0, 100, 200, 300]
    assert binned_rates(times, [0, 1, 2, 3], 50) is None
    assert binned_rates([0.0], [0], 100) is None
    with pytest.raises(ValueError, match="every sample"):
        binned_rates(times, [0], 100)


@given(st.lists(st.floats(0, 1e6), min_size=4, max_size=40), st.sampled_from([100.0, 250.0, 1000.0]))
def test_bins_lose_no_byte(steps: list[float], bin_ms: float) -> None:
    times = [100.0 * number for number in range(len(steps) + 1)]
    counter = [math.fsum(steps[:number]) for number in range(len(steps) + 1)]
    assume(times[-1] >= bin_ms)
    rates = binned_rates(times, counter, bin_ms)
    assert rates is not None
    whole = len(rates) * bin_ms
    at = int(whole // 100)
    part = (whole - 100 * at) / 100
    expected = counter[at] + (part * steps[at] if part else 0)
    assert sum(rate * bin_ms / 8e-3 for rate in rates) == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_variation_by_hand() -> None:
    assert variation([8, 16, 12]) == pytest.approx(4 / 12)
    assert variation([5, 5, 5]) == 0
    assert variation([5]) is None
    assert variation([0, 0]) is None


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=20))
def test_variation_is_sd_over_mean(values: list[float]) -> None:
    assert variation(values) == pytest.approx(statistics.stdev(values) / statistics.mean(values), abs=1e-9)
