# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Harm: what a competitor takes from a flow, as a share of what the flow has or would have.

Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's Fairness Index: Setting the Bar for the Deployment of
Congestion Control Algorithms", HotNets 2019: with x the performance alone and y the performance
beside the competitor, harm is (x - y) / x where more is better and (y - x) / y where less is better. 0 is no
harm, 1 is all; a negative harm is a gain. Two equal flows that share a link do a harm of 0.5 to each other's
goodput.
"""

from __future__ import annotations

from typing import TypeAlias

Ends: TypeAlias = tuple[float, float]
"""The ends of a confidence interval, the lower one first."""


def harm_to_goodput(alone: float, beside: float) -> float | None:
    """Harm to what is better when there is more of it; None when there is nothing even alone."""
    return (alone - beside) / alone if alone > 0 else None


def harm_to_delay(alone: float, beside: float) -> float | None:
    """Harm to what is better when there is less of it; None when there is nothing of it."""
    return (beside - alone) / beside if beside > 0 else None


def harm_interval(alone: Ends, beside: Ends) -> tuple[float | None, float]:
    """The ends of a harm to goodput, from those of both means; no lower end when nothing alone is possible.

    Harm falls as `beside` grows and grows with `alone`, so its ends are at the ends of both. It holds with
    the confidence with which both intervals hold together.

    Raises:
        ValueError: an interval is upside down, or nothing at all is had alone.
    """
    if alone[0] > alone[1] or beside[0] > beside[1] or alone[1] <= 0:
        raise ValueError(f"no harm from {beside} beside and {alone} alone")
    low = (alone[0] - beside[1]) / alone[0] if alone[0] > 0 else None
    return low, (alone[1] - beside[0]) / alone[1]
