# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How many samples a quantile needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.result.stats import needed


@pytest.mark.parametrize(("q", "samples"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10000)])
def test_by_hand(q: float, samples: int) -> None:
    assert needed(q) == samples


@pytest.mark.parametrize("q", [0, 1, 1.5, -0.1])
def test_what_is_no_quantile(q: float) -> None:
    with pytest.raises(ValueError, match="not a valid quantile"):
        needed(q)


@given(st.floats(0.01, 0.9999))
def test_ten_samples_lie_beyond_it(q: float) -> None:
    assert needed(q) * (1 - q) >= 10 * (1 - 1e-6)
    assert (needed(q) - 1) * (1 - q) < 10
