# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quantiles against numpy, and their silence with too few samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.stats import needed, quantile


@pytest.mark.parametrize(("q", "samples"), [(0.5, 20), (0.95, 200), (0.99, 1000), (0.999, 10000)])
def test_samples_that_a_quantile_needs(q: float, samples: int) -> None:
    assert needed(q) == samples
    assert quantile([1.0] * (samples - 1), q) is None
    assert quantile([1.0] * samples, q) == 1


@pytest.mark.parametrize("q", [0, 1, 1.5])
def test_what_is_no_quantile(q: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        needed(q)


@given(st.lists(st.floats(0, 1e6), min_size=20, max_size=60), st.floats(0.05, 0.5))
def test_it_is_numpys(samples: list[float], q: float) -> None:
    assert quantile(samples, q) == pytest.approx(float(np.quantile(samples, q)), rel=1e-9, abs=1e-9)
