# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Estimates of a mean from a few trials, by Student's t: three to ten trials leave nothing to resample.

For n trials of mean m and standard deviation s the interval is m ± t(n-1) s / √n ("Student", The Probable
Error of a Mean, Biometrika 6, 1908), cut to the range that the quantity can have. Where a result is looked at
several times while trials are added, each look gets its part of the error (Bonferroni), so that all of a
cell's intervals together hold with the stated confidence.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, final

CONFIDENCE: Final = 0.95
"""Confidence of all intervals, over the seeds of trials in the virtual testbed."""


@final
@dataclass(frozen=True)
class Estimate:
    """A quantity of a cell, estimated from its trials.

    Attributes:
        value: Arithmetic mean over the trials.
        unit: Unit of all its figures: `Mbit/s`, `ms`, `%`.
        trials: Number of trials.
        low: Lower end of the confidence interval of the mean; None when it is not known, as with one trial.
        high: Upper end.
        sd: Standard deviation with n-1; None with one trial, and for what is computed from other estimates.
        median: Median over the trials; None for what is computed from other estimates.
    """

    value: float
    unit: str
    trials: int
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    median: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the confidence interval; None unless both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def percent_of(self, whole: float) -> Estimate:
        """Return the estimate in percent of a known whole in the same unit."""
        low, high, sd, median = (
            None if part is None else part / whole * 100
            for part in (self.low, self.high, self.sd, self.median)
        )
        return Estimate(self.value / whole * 100, "%", self.trials, low, high, sd, median)

    @property
    def rest(self) -> Estimate:
        """What an estimate in percent leaves of 100 %."""
        low, high = (None if end is None else 100 - end for end in (self.high, self.low))
        return Estimate(100 - self.value, self.unit, self.trials, low, high, self.sd)


def estimate(
    values: Sequence[float],
    unit: str = "",
    *,
    least: float = -math.inf,
    most: float = math.inf,
    looks: int = 1,
) -> Estimate:
    """Estimate a quantity from its values, one per trial.

    Args:
        values: One per trial.
        unit: Unit of the values.
        least: The smallest value that the quantity can have; the interval is cut there.
        most: The largest one.
        looks: How often the cell may have been looked at while trials were added.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("an estimate needs a value")
    mean = statistics.fmean(values)
    sd = statistics.stdev(values, mean) if len(values) > 1 else None
    low, high = interval(mean, sd, len(values), least=least, most=most, looks=looks) or (None, None)
    return Estimate(mean, unit, len(values), low, high, sd, statistics.median(values))


def interval(
    mean: float,
    sd: float | None,
    trials: int,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    looks: int = 1,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Return the ends of the confidence interval of a mean, cut at `least` and `most`; None without `sd`."""
    if sd is None or trials < 2:
        return None
    half = half_width(trials, 1.0, looks, confidence) * sd
    return max(least, mean - half), min(most, mean + half)


def half_width(n: int, sd: float, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Return half the width of the confidence interval of a mean of n > 1 values, before it is cut."""
    return t_quantile(n - 1, looks, confidence) * sd / math.sqrt(n)


@cache
def t_quantile(freedom: int, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t for one of `looks` looks with this confidence together."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - (1 - confidence) / looks / 2))
