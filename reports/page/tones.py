# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Which step of a colour scale a number gets. The colours themselves stand in `page.css`.

Colour only repeats what number and glyph say.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final

STEPS: Final = 5
"""Steps of the diverging scale on each side of the fair share."""

DELAY_LIMITS_MS: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Where a step of the delay scale ends. 1 ms and 5 ms are what L4S promises and what CoDel aims at."""


def share_tone(percent: float | None, fair_percent: float) -> int | None:
    """Step of the diverging scale, 0 (starved) by `STEPS` (the fair share) to 2 * `STEPS` (everything).

    `fair_percent` is the group's fair share of the link's rate: linear up to it, and from it to all.
    """
    if percent is None:
        return None
    side = fair_percent if percent < fair_percent else 100 - fair_percent
    away = (percent - fair_percent) / side if side > 0 else 0.0
    return STEPS + round(max(-1.0, min(1.0, away)) * STEPS)


def difference_tone(percent: float) -> int:
    """Step of the diverging scale for a difference in percent of the link's rate; its ends are 50 % away."""
    return STEPS + round(max(-1.0, min(1.0, percent / 50)) * STEPS)


def fair_percent(l4s_flows: int, classic_flows: int) -> float:
    """Percent of the link's rate that a group of flows gets when every flow gets the same."""
    flows = l4s_flows + classic_flows
    return 100.0 * l4s_flows / flows if flows else 50.0


def delay_tone(delay_ms: float | None) -> int | None:
    """Step of the delay scale, 0 (below the first of `DELAY_LIMITS_MS`) upwards."""
    return None if delay_ms is None else bisect_right(DELAY_LIMITS_MS, delay_ms)


def delay_steps() -> tuple[str, ...]:
    """The steps of the delay scale in words, for a legend."""
    limits = [f"{limit:g}" for limit in DELAY_LIMITS_MS]
    between = [f"{low} to {high}" for low, high in pairwise(limits)]
    return (f"below {limits[0]}", *between, f"{limits[-1]} and more")
