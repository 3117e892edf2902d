# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Statistics as pure functions of numbers; docs/statistics.md says which and why."""

from __future__ import annotations

from reports.result.stats.estimate import CONFIDENCE, Estimate, estimate, half_width, interval, t_quantile
from reports.result.stats.fairness import Jain, binned_rates, jain, throughput_ratio, utilisation, variation
from reports.result.stats.harm import harm_interval, harm_to_delay, harm_to_goodput
from reports.result.stats.modes import MODES_FLOOR, bimodal
from reports.result.stats.quantiles import needed

__all__ = [
    "CONFIDENCE",
    "MODES_FLOOR",
    "Estimate",
    "Jain",
    "bimodal",
    "binned_rates",
    "estimate",
    "half_width",
    "harm_interval",
    "harm_to_delay",
    "harm_to_goodput",
    "interval",
    "jain",
    "needed",
    "t_quantile",
    "throughput_ratio",
    "utilisation",
    "variation",
]
