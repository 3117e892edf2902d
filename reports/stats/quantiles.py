# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quantiles that samples can support."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def quantile(samples: Sequence[float], q: float) -> float | None:
    """The q quantile by linear interpolation (Hyndman and Fan's type 7); None with too few samples.

    Raises:
        ValueError: q is not between 0 and 1.
    """
    if len(samples) < needed(q):
        return None
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    part = place - below
    return ordered[below] * (1 - part) + ordered[above] * part
