# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quantiles that samples can support."""

from __future__ import annotations

import math
from typing import Final

BEYOND: Final = 10
"""Samples that must lie beyond a quantile: with fewer it is a few chance events."""


def needed(q: float) -> int:
    """How many samples a quantile needs: 10 / (1 - q), so 20 for the median, 1,000 for p99.

    Raises:
        ValueError: q is not between 0 and 1.
    """
    if not 0 < q < 1:
        raise ValueError(f"{q} is no quantile")
    return math.ceil(BEYOND / (1 - q) * (1 - 1e-9))
