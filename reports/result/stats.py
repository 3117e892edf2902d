# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Statistics as pure functions of numbers; docs/statistics.md explains the choices.

Estimates of a mean are by Student's t: three to ten trials leave nothing to resample. For n trials of mean m
and standard deviation s the interval is m ± t(n-1) s / √n ("Student", The Probable Error of a Mean,
Biometrika 6, 1908), cut to the range that the quantity can have. Where a result is looked at several times
while trials are added, each look gets its part of the error (Bonferroni), so that all of a cell's intervals
together hold with the stated confidence.

Harm is the share that a competitor takes from a flow. Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's
Fairness Index: Setting the Bar for the Deployment of Congestion Control Algorithms", HotNets 2019: with x the
performance alone and y the performance beside the competitor, harm is (x - y) / x where more is better and
(y - x) / y where less is better. 0 is no harm, 1 is all; a negative harm is a gain. Two equal flows that
share a link do a harm of 0.5 to each other's goodput.

Two modes: of three to ten values no general test of unimodality can say much. In practice two modes are
drastic - a flow gets 30 % in some trials and 85 % in others - and one number shows them: the widest gap
between neighbouring values, as a part of the whole range. Two groups are reported when that part is larger
than in 99 % of samples of one group, whichever of uniform, normal and exponential it is, and when the gap
matters at all. A lone value is an outlier and not a group.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        """The remainder to 100 % of an estimate in percent."""
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
    """Return the ends of the confidence interval of a mean, cut at `least` and `most`; None without `sd`.

    A mean beyond these, by an error of measurement, is an end itself.
    """
    if sd is None or trials < 2:
        return None
    half = half_width(trials, 1.0, looks, confidence) * sd
    return max(min(least, mean), mean - half), min(max(most, mean), mean + half)


def half_width(n: int, sd: float, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Return half the width of the confidence interval of a mean of n > 1 values, before it is cut."""
    return t_quantile(n - 1, looks, confidence) * sd / math.sqrt(n)


@cache
def t_quantile(freedom: int, looks: int = 1, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t for one of `looks` looks with this confidence together."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - (1 - confidence) / looks / 2))


Ends: TypeAlias = tuple[float, float]
"""The ends of a confidence interval, the lower one first."""


def harm_to_goodput(alone: float, beside: float) -> float | None:
    """Return the harm to what is better when there is more of it; None when there is nothing even alone."""
    return (alone - beside) / alone if alone > 0 else None


def harm_to_delay(alone: float, beside: float) -> float | None:
    """Return the harm to what is better when there is less of it; None when there is nothing of it."""
    return (beside - alone) / beside if beside > 0 else None


def harm_interval(alone: Ends, beside: Ends) -> tuple[float | None, float]:
    """Return the ends of a harm to goodput, from those of both means; no lower one if none alone is possible.

    Harm falls as `beside` grows and grows with `alone`, so its ends are at the ends of both. It holds with
    the confidence with which both intervals hold together.

    Raises:
        ValueError: an interval is upside down, or the goodput alone is zero.
    """
    if alone[0] > alone[1] or beside[0] > beside[1] or alone[1] <= 0:
        raise ValueError(f"no harm from {beside} beside and {alone} alone")
    low = (alone[0] - beside[1]) / alone[0] if alone[0] > 0 else None
    return low, (alone[1] - beside[0]) / alone[1]


MODES_FLOOR: Final = 10.0
"""Percent of the link's rate that two groups of trials must be apart."""

LEAST_IN_GROUP: Final = 2

GAP_LIMITS: Final[Mapping[int, float]] = MappingProxyType(
    {4: 0.90, 5: 0.83, 6: 0.77, 7: 0.72, 8: 0.68, 9: 0.65, 10: 0.63}
)
"""By number of values: the part of the range that the widest gap exceeds in less than 1 % of samples of one
group. `tools/calibrate.py modes` computes them; above ten values the last one holds all the more."""


def bimodal(values: Sequence[float], floor: float = 0.0) -> bool | None:
    """Return True if the values fall into two groups of at least two, more than `floor` apart.

    None with fewer than four values, which are too few.
    """
    n = len(values)
    if n < min(GAP_LIMITS):
        return None
    gap, whole = widest_gap(values)
    limit = GAP_LIMITS.get(n, GAP_LIMITS[max(GAP_LIMITS)])
    return gap > floor and gap > limit * whole


def widest_gap(values: Sequence[float]) -> tuple[float, float]:
    """Return the widest gap between neighbours with two values on either side, and the whole range.

    Raises:
        ValueError: there are fewer than four values.
    """
    if len(values) < 2 * LEAST_IN_GROUP:
        raise ValueError("a gap between two groups needs four values")
    ordered = sorted(values)
    inner = range(LEAST_IN_GROUP, len(ordered) - LEAST_IN_GROUP + 1)
    return max(ordered[i] - ordered[i - 1] for i in inner), ordered[-1] - ordered[0]


BEYOND: Final = 10
"""Samples that must be beyond a quantile: with fewer it is a few chance events."""


def needed(q: float) -> int:
    """Return the number of samples that a quantile needs: 10 / (1 - q), so 20 for the median, 1,000 for p99.

    Raises:
        ValueError: q is not between 0 and 1.
    """
    if not 0 < q < 1:
        raise ValueError(f"{q} is not a valid quantile; expected more than 0 and less than 1")
    return math.ceil(BEYOND / (1 - q) * (1 - 1e-9))


def jain(goodputs: Sequence[float]) -> float | None:
    """Return Jain's index, (Σx)² / (n Σx²): 1 when all flows get the same, 1/n when one gets everything.

    Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
    Shared Computer Systems", DEC-TR-301, 1984. None when no flow gets anything.

    Raises:
        ValueError: a goodput is negative.
    """
    if any(value < 0 for value in goodputs):
        raise ValueError("a goodput is not negative")
    most = max(goodputs, default=0.0)
    if most <= 0:
        return None
    shares = [value / most for value in goodputs]  # squares of very small and very large numbers stay numbers
    total = math.fsum(shares)
    return total * total / (len(shares) * math.fsum(x * x for x in shares))


def throughput_ratio(
    l4s_mbps: float, l4s_flows: int, classic_mbps: float, classic_flows: int
) -> float | None:
    """Return the goodput of one L4S flow over that of a classic one, from the goodputs of both groups.

    None when the classic flows get nothing.
    """
    return (l4s_mbps / l4s_flows) / (classic_mbps / classic_flows) if classic_mbps > 0 else None


def utilisation(goodputs: Sequence[float], rate_mbps: float) -> float:
    """Return all goodput together as a part of the link's rate; headers keep it below 1."""
    return math.fsum(goodputs) / rate_mbps


Samples: TypeAlias = "Sequence[float] | NDArray[np.int64]"


def binned_rates(
    times_ms: Samples, total_bytes: Samples, bin_ms: float, begin_ms: float | None = None
) -> list[float] | None:
    """Return Mbit/s in consecutive bins, from a counter's samples; None when they are too far apart.

    Between samples the counter is taken to grow evenly, so a bin must not be finer than the usual distance
    of samples. What is left at the end is no bin.

    Args:
        times_ms: When the samples were taken, growing.
        total_bytes: The counter, never falling.
        bin_ms: Length of a bin.
        begin_ms: Beginning of the first bin, not before the first sample; None: with it.

    Raises:
        ValueError: the two are of different lengths.
    """
    if len(times_ms) != len(total_bytes):
        raise ValueError("every sample has a time and a count")
    if len(times_ms) < 2:
        return None
    times, totals = np.asarray(times_ms), np.asarray(total_bytes)
    if bin_ms < 0.999 * statistics.median((times[1:] - times[:-1]).tolist()):
        return None
    begin = times[0] if begin_ms is None else begin_ms
    count = max(0, math.floor((times_ms[-1] - begin) / bin_ms * (1 + 1e-9)))
    edges = begin + np.arange(count + 1) * bin_ms
    after = np.maximum(np.minimum(times.searchsorted(edges), len(times) - 1), 1)
    before = after - 1
    part = np.minimum((edges - times[before]) / (times[after] - times[before]), 1.0)
    at = totals[before] + part * (totals[after] - totals[before])
    rates: list[float] = ((at[1:] - at[:-1]) * 8e-3 / bin_ms).tolist()
    return rates


def variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation, sd over mean; None with fewer than two values or mean 0."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return _deviation(values, mean) / mean if mean > 0 else None


def _deviation(values: Sequence[float], mean: float) -> float:
    """Return what `statistics.stdev` does, to the last bit, of hundreds of values in a tenth of its time."""
    off = np.subtract(values, mean)
    squares: list[float] = (off * off).tolist()
    total = math.fsum(squares)
    rest = math.fsum((*squares, -total))
    return _root((Fraction(total) + Fraction(rest)) / (len(values) - 1))


def _root(square: Fraction) -> float:
    """Return the square root, correctly rounded."""
    above, below = square.as_integer_ratio()
    # so many bits that the integer root has more of them than a float
    shift = max(0, 2 * _FLOAT_BITS + below.bit_length() - above.bit_length()) // 2 + 1
    above <<= 2 * shift
    root = math.isqrt(above // below)
    if root * root * below != above:
        root |= 1  # keeps a root that is not exact off the middle between two floats
    return root / (1 << shift)


_FLOAT_BITS: Final = 56
