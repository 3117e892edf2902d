# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Harm by hand and by its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.result.stats import harm_interval, harm_to_delay, harm_to_goodput

ENDS = st.tuples(st.floats(1, 100), st.floats(0, 20)).map(lambda ends: (ends[0], ends[0] + ends[1]))


def test_by_hand() -> None:
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
