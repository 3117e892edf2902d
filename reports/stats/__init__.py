# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Statistics as pure functions of numbers; docs/statistics.md says which and why."""

from __future__ import annotations

from reports.stats.estimate import CONFIDENCE, Estimate, estimate, half_width, t_quantile
from reports.stats.modes import MODES_FLOOR, bimodal

__all__ = [
    "CONFIDENCE",
    "MODES_FLOOR",
    "Estimate",
    "bimodal",
    "estimate",
    "half_width",
    "t_quantile",
]
