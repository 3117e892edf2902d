# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Whether a cell's trials fall into two groups, which a mean would hide.

Of three to ten values no general test of unimodality can say much. What happens in practice is drastic - a
flow gets 30 % in some trials and 85 % in others - and seen by one number: the widest gap between neighbouring
values, as a part of the whole range. Two groups are told from one when that part is larger than in 99 % of
samples of one group, whichever of uniform, normal and exponential it is, and when the gap matters at all.
A lone value is an outlier and not a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

MODES_FLOOR: Final = 10.0
"""Percent of the link's rate that two groups of trials must be apart."""

LEAST_IN_GROUP: Final = 2

GAP_LIMITS: Final[Mapping[int, float]] = MappingProxyType(
    {4: 0.90, 5: 0.83, 6: 0.77, 7: 0.72, 8: 0.68, 9: 0.65, 10: 0.63}
)
"""By number of values: the part of the range that the widest gap exceeds in less than 1 % of samples of one
group. `tools/calibrate.py modes` computes them; above ten values the last one holds all the more."""


def bimodal(values: Sequence[float], floor: float = 0.0) -> bool | None:
    """Whether the values fall into two groups of at least two, more than `floor` apart.

    None with fewer than four values, of which nobody can tell.
    """
    n = len(values)
    if n < min(GAP_LIMITS):
        return None
    gap, whole = widest_gap(values)
    limit = GAP_LIMITS.get(n, GAP_LIMITS[max(GAP_LIMITS)])
    return gap > floor and gap > limit * whole


def widest_gap(values: Sequence[float]) -> tuple[float, float]:
    """The widest gap between neighbours with two values on either side, and the whole range.

    Raises:
        ValueError: there are fewer than four values.
    """
    if len(values) < 2 * LEAST_IN_GROUP:
        raise ValueError("a gap between two groups needs four values")
    ordered = sorted(values)
    inner = range(LEAST_IN_GROUP, len(ordered) - LEAST_IN_GROUP + 1)
    return max(ordered[i] - ordered[i - 1] for i in inner), ordered[-1] - ordered[0]
