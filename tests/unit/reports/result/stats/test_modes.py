# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two groups of trials are told from one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.result.stats import GAP_LIMITS, bimodal, widest_gap


def test_by_hand() -> None:
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
