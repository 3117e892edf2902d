# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How flows share a link, and how steadily each gets its part."""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Jain:
    """Jain's fairness index with its number of flows, without which it says little: the least is 1/n."""

    index: float
    flows: int


def jain(goodputs: Sequence[float]) -> Jain | None:
    """Jain's index, (Σx)² / (n Σx²): 1 when all flows get the same, 1/n when one gets everything.

    Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
    Shared Computer Systems", DEC-TR-301, 1984. None when nobody gets anything.

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
    return Jain(total * total / (len(shares) * math.fsum(x * x for x in shares)), len(shares))


def throughput_ratio(
    l4s_mbps: float, l4s_flows: int, classic_mbps: float, classic_flows: int
) -> float | None:
    """What one L4S flow gets for each bit of a classic one, from the goodputs of both groups.

    None when the classic flows get nothing.
    """
    return (l4s_mbps / l4s_flows) / (classic_mbps / classic_flows) if classic_mbps > 0 else None


def utilisation(goodputs: Sequence[float], rate_mbps: float) -> float:
    """All goodput together as a part of the link's rate; headers keep it below 1."""
    return math.fsum(goodputs) / rate_mbps


def binned_rates(
    times_ms: Sequence[float], total_bytes: Sequence[float], bin_ms: float
) -> list[float] | None:
    """Mbit/s in consecutive bins, from a counter's samples; None when the samples are too far apart.

    Between samples the counter is taken to grow evenly, so a bin must not be finer than the usual distance
    of samples. The bins begin with the first sample; what is left at the end is no bin.

    Args:
        times_ms: When the samples were taken, growing.
        total_bytes: The counter, never falling.
        bin_ms: Length of a bin.

    Raises:
        ValueError: the two are of different lengths.
    """
    if len(times_ms) != len(total_bytes):
        raise ValueError("every sample has a time and a count")
    if len(times_ms) < 2:
        return None
    distances = [after - before for before, after in itertools.pairwise(times_ms)]
    if bin_ms < 0.999 * statistics.median(distances):
        return None
    count = math.floor((times_ms[-1] - times_ms[0]) / bin_ms * (1 + 1e-9))
    edges = [times_ms[0] + number * bin_ms for number in range(count + 1)]
    at = [_at(edge, times_ms, total_bytes) for edge in edges]
    return [(after - before) * 8e-3 / bin_ms for before, after in itertools.pairwise(at)]


def _at(time_ms: float, times_ms: Sequence[float], total_bytes: Sequence[float]) -> float:
    after = min(max(bisect_left(times_ms, time_ms), 1), len(times_ms) - 1)
    before = after - 1
    part = (time_ms - times_ms[before]) / (times_ms[after] - times_ms[before])
    return total_bytes[before] + min(part, 1.0) * (total_bytes[after] - total_bytes[before])


def variation(values: Sequence[float]) -> float | None:
    """Coefficient of variation, standard deviation over mean; None with fewer than two values or mean 0."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return statistics.stdev(values, mean) / mean if mean > 0 else None
