# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a few trials say about a mean: Student's t, because three to ten trials leave nothing to resample.

For n trials of mean m and standard deviation s the interval is m ± t(n-1) s / √n ("Student", The Probable
Error of a Mean, Biometrika 6, 1908), cut to what the quantity can be. Where a result is looked at several
times while trials are added, each look gets its part of the error (Bonferroni), so that all of a cell's
intervals together hold with the stated confidence.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from reports.result.stats.modes import bimodal

CONFIDENCE: Final = 0.95
"""Of all intervals, over the seeds of trials in the virtual testbed."""


@dataclass(frozen=True)
class Estimate:
    """A quantity over the trials of a cell, in the unit of its values.

    Attributes:
        mean: Arithmetic mean.
        median: Middle value, or mean of the two middle ones.
        sd: Standard deviation with n-1; None for one value.
        low: Lower end of the confidence interval of the mean; None for one value.
        high: Upper end.
        n: Values.
        bimodal: Whether they fall into two groups; None when they are too few to tell.
    """

    mean: float
    median: float
    sd: float | None
    low: float | None
    high: float | None
    n: int
    bimodal: bool | None


def estimate(
    values: Sequence[float],
    *,
    least: float = -math.inf,
    most: float = math.inf,
    looks: int = 1,
    confidence: float = CONFIDENCE,
    modes_floor: float = 0.0,
) -> Estimate:
    """What the trials of one cell say.

    Args:
        values: One per trial.
        least: What the quantity cannot be below: the interval is cut there.
        most: What it cannot be above.
        looks: How often the cell may have been looked at before no more trials were added.
        confidence: Of the interval, over all looks.
        modes_floor: Least distance of two groups of values to count as two modes, in the values' unit.

    Raises:
        ValueError: there are no values.
    """
    n = len(values)
    if not n:
        raise ValueError("an estimate needs a value")
    mean = statistics.fmean(values)
    sd = statistics.stdev(values, mean) if n > 1 else None
    half = None if sd is None else half_width(n, sd, looks, confidence)
    return Estimate(
        mean=mean,
        median=statistics.median(values),
        sd=sd,
        low=None if half is None else max(least, mean - half),
        high=None if half is None else min(most, mean + half),
        n=n,
        bimodal=bimodal(values, modes_floor),
    )


def half_width(n: int, sd: float, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Half the width of the confidence interval of a mean of n > 1 values, before it is cut."""
    return t_quantile(n - 1, looks, confidence) * sd / math.sqrt(n)


@cache
def t_quantile(freedom: int, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t for one of `looks` looks that together have this confidence."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - (1 - confidence) / looks / 2))
