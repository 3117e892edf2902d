# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ours minus published as maps: queues down, buffers across, a map per pairing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from reports.against.comparison import Comparison


@dataclass(frozen=True)
class Difference:
    """One place of a map, a mean where the run has several such cells, which differ in what nobody published.

    Attributes:
        cell: The run's cell, the first of several.
        percent: L4S goodput, run minus published, percent of the link's rate.
        l4s_mbps, published_l4s_mbps: Both of them.
        changes_side: Whether some cell is on another side of the study's limits than published.
    """

    cell: str
    percent: float
    l4s_mbps: float
    published_l4s_mbps: float
    changes_side: bool


@dataclass(frozen=True)
class DifferenceMap:
    """The map of one pairing (`Prague against CUBIC, ECN off`); None where the run has no published cell."""

    pairing: str
    buffers: tuple[float, ...]
    rows: tuple[tuple[str, tuple[Difference | None, ...]], ...]


def difference_maps(comparison: Comparison) -> tuple[DifferenceMap, ...]:
    """The maps of all pairings of a comparison, in its order."""
    return tuple(_map(pairing, cells) for pairing, cells in comparison.pairings.items())


def _map(pairing: str, cells: pl.DataFrame) -> DifferenceMap:
    places = cells.group_by("queue", "buffer_bdp", maintain_order=True).agg(
        pl.col("cell").first(),
        pl.col("difference", "l4s_mbps", "published_l4s_mbps").mean(),
        pl.col("changes_side").any(),
    )
    buffers = tuple(sorted(places["buffer_bdp"].unique().to_list()))
    found = {(queue, buffer): Difference(*rest) for queue, buffer, *rest in places.iter_rows()}
    queues = places["queue"].unique(maintain_order=True)
    return DifferenceMap(
        pairing, buffers, tuple((q, tuple(found.get((q, b)) for b in buffers)) for q in queues)
    )
