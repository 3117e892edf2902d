# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Statistics against SciPy and against answers worked out by hand."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from reports.result.stats import (
    GAP_LIMITS,
    bimodal,
    binned_rates,
    estimate,
    half_width,
    harm_interval,
    harm_to_delay,
    harm_to_goodput,
    jain,
    needed,
    throughput_ratio,
    utilisation,
    variation,
    widest_gap,
)

GOODPUTS = st.lists(st.floats(0, 100), min_size=2, max_size=12)


def test_an_estimate_by_hand() -> None:
    """1, 2, 3: mean 2, sd 1, t(2 degrees, 97.5 %) = 4.30265; 4.30265 / sqrt(3) = 2.48414."""
    found = estimate([3, 1, 2], "ms")
    assert (found.value, found.median, found.sd, found.trials, found.unit) == (2, 2, 1, 3, "ms")
    assert found.low == pytest.approx(2 - 2.48414, abs=1e-5)
    assert found.high == pytest.approx(2 + 2.48414, abs=1e-5)


def test_it_is_cut_to_what_can_be() -> None:
    found = estimate([1, 2, 3], least=0, most=4)
    assert (found.low, found.high) == (0, 4)


def test_a_mean_beyond_the_range_is_an_end_itself() -> None:
    """A smoothed RTT may be shorter than a path that was measured."""
    assert estimate([-0.3, -0.1], least=0).low == pytest.approx(-0.2)


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


ENDS = st.tuples(st.floats(1, 100), st.floats(0, 20)).map(lambda ends: (ends[0], ends[0] + ends[1]))


def test_harm_by_hand() -> None:
    assert harm_to_goodput(alone=95, beside=47.5) == 0.5
    assert harm_to_goodput(alone=95, beside=0) == 1
    assert harm_to_goodput(alone=0, beside=0) is None
    assert harm_to_delay(alone=10, beside=40) == 0.75
    assert harm_to_delay(alone=10, beside=0) is None


def test_a_gain_is_negative() -> None:
    gains = harm_to_goodput(50, 60), harm_to_delay(20, 10)
    assert gains == (-0.2, -1)


def test_the_interval_by_hand() -> None:
    low, high = harm_interval((80, 100), (20, 40))
    assert (low, high) == (0.5, 0.8)
    assert harm_interval((0, 100), (20, 40)) == (None, 0.8)


@pytest.mark.parametrize("ends", [((5, 4), (1, 2)), ((4, 5), (2, 1)), ((0, 0), (1, 2))])
def test_what_is_no_interval_is_refused(ends: tuple[tuple[float, float], tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="no harm"):
        harm_interval(*ends)


@given(ENDS, ENDS, st.floats(0, 1), st.floats(0, 1))
def test_every_harm_from_within_is_within(
    alone: tuple[float, float], beside: tuple[float, float], a: float, b: float
) -> None:
    low, high = harm_interval(alone, beside)
    harm = harm_to_goodput(alone[0] + a * (alone[1] - alone[0]), beside[0] + b * (beside[1] - beside[0]))
    assert low is not None
    assert harm is not None
    assert low - 1e-9 <= harm <= high + 1e-9


def test_modes_by_hand() -> None:
    assert widest_gap([30, 86, 31, 85, 84]) == (53, 56)
    assert bimodal([30, 86, 31, 85, 84], floor=10) is True
    assert bimodal([30, 45, 58, 71, 86], floor=10) is False


def test_a_lone_value_is_no_group() -> None:
    assert bimodal([30, 85, 86, 84, 85], floor=10) is False


def test_a_gap_that_does_not_matter_is_none() -> None:
    assert bimodal([44.0, 44.1, 46.0, 46.1, 46.05], floor=10) is False
    assert bimodal([44.0, 44.1, 46.0, 46.1, 46.05]) is True


def test_fewer_than_four_do_not_tell() -> None:
    assert bimodal([1, 1, 99]) is None
    with pytest.raises(ValueError, match="four values"):
        widest_gap([1, 2, 3])


@given(st.lists(st.floats(0, 100), min_size=4, max_size=15), st.randoms())
def test_order_does_not_matter(values: list[float], source: random.Random) -> None:
    shuffled = source.sample(values, len(values))
    assert bimodal(shuffled, 10) == bimodal(values, 10)


@given(
    st.lists(st.floats(0, 5), min_size=2, max_size=5),
    st.lists(st.floats(95, 100), min_size=2, max_size=5),
)
def test_two_far_groups_are_two(low: list[float], high: list[float]) -> None:
    assert bimodal(low + high, 10) is True


@pytest.mark.parametrize("n", sorted(GAP_LIMITS))
def test_one_group_is_seldom_taken_for_two(n: int) -> None:
    """Of 4,000 uniform samples at most 1 % may be; 60 is 1 % and three standard deviations."""
    source = random.Random(n)
    assert sum(bool(bimodal([source.random() for _ in range(n)])) for _ in range(4000)) <= 60


@pytest.mark.parametrize(("q", "samples"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10000)])
def test_needed_samples_by_hand(q: float, samples: int) -> None:
    assert needed(q) == samples


@pytest.mark.parametrize("q", [0, 1, 1.5, -0.1])
def test_what_is_no_quantile(q: float) -> None:
    with pytest.raises(ValueError, match="not a valid quantile"):
        needed(q)


@given(st.floats(0.01, 0.9999))
def test_ten_samples_lie_beyond_it(q: float) -> None:
    assert needed(q) * (1 - q) >= 10 * (1 - 1e-6)
    assert (needed(q) - 1) * (1 - q) < 10


POSITIVE = st.lists(st.floats(0.001, 1000), min_size=1, max_size=20)


def test_jain_by_hand() -> None:
    """20 and 80: 100^2 / (2 (400 + 6400)) = 0.7353."""
    assert jain([20, 80]) == pytest.approx(10000 / 13600)
    assert jain([0, 0]) is None
    assert jain([]) is None
    with pytest.raises(ValueError, match="negative"):
        jain([1, -1])


@given(POSITIVE, st.floats(0.01, 100))
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


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=300))
def test_variation_is_exact_to_the_last_bit(values: list[float]) -> None:
    mean = statistics.fmean(values)
    assert variation(values) == (statistics.stdev(values, mean) / mean if mean > 0 else None)
