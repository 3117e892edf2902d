# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of the bursts in which a flow's packets arrive at the queue, as one row; they need captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from reports.published.claims.selections import FLOW, KEY, arrivals
from reports.result.stats import needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.load import RunTables

BURSTS: Final[Mapping[str, str]] = {
    "burst_p99_ms": "length of the burst that a packet arrives in, at the link's rate, 99 % of packets, ms"
}
"""Measures of bursts, with their names in tables."""


def bursts(tables: RunTables, group: str) -> pl.DataFrame:
    """Return a row per valid trial with captures: `cell`, `trial` and the columns `BURSTS`.

    A packet continues the burst of the packet before it in its flow if it arrives within half of the time
    that the one before takes on the link. A burst is as long as its packets take on the link, and each packet
    counts once, so that long bursts weigh more than short ones. The warm-up does not count. Group `all` is
    all flows. Null are trials with too few packets for the quantile.
    """
    took = pl.col("ip_bytes") * 8 / 1000 / pl.col("rate_mbps")
    arrived = (
        arrivals(tables, group, "rate_mbps")
        .select(*FLOW, "t_ms", "ip_bytes", "rate_mbps")
        .sort(*FLOW, "t_ms")
        .with_columns(took.alias("took_ms"))
        .collect()
    )
    begins = (pl.col("t_ms").diff() > pl.col("took_ms").shift() / 2).fill_null(value=True)
    numbered = arrived.with_columns(begins.cum_sum().over(FLOW).alias("burst"))
    lengths = numbered.with_columns(pl.col("took_ms").sum().over(*FLOW, "burst"))
    enough = pl.len() >= needed(0.99)
    return lengths.group_by(KEY).agg(
        pl.when(enough).then(pl.col("took_ms").quantile(0.99, "lower")).alias("burst_p99_ms")
    )
