# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of the bursts in which a flow's packets arrive at the queue, as one row; they need captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from reports.published.claims.selections import arrivals, names_asked
from reports.result.stats import needed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from reports.result.load import RunTables

BURSTS: Final[Mapping[str, str]] = {
    "burst_p99_ms": "length of the burst that a packet arrives in, at the link's rate, 99 % of packets, ms"
}
"""Measures of bursts, with their names in tables."""

_KEY: Final = ("cell", "trial")
_FLOW: Final = (*_KEY, "flow")


def bursts(tables: RunTables, group: str, asked: Collection[str]) -> pl.DataFrame:
    """Return a row per valid trial: `cell`, `trial` and the columns `BURSTS`, null where not asked for.

    A packet continues the burst of the packet before it in its flow if it arrives within half of the time
    that the one before takes on the link. A burst is as long as its packets take on the link, and each packet
    counts once, so that long bursts weigh more than short ones. The warm-up does not count. Group `all` is
    all flows. Null are trials without captures, and those with too few packets for the quantile.
    """
    found = tables.trials.filter(pl.col("status") == "ok")
    if not names_asked(BURSTS, asked):
        return found.select(*_KEY, *(pl.lit(None, pl.Float64).alias(name) for name in BURSTS))
    took = pl.col("ip_bytes") * 8 / 1000 / pl.col("rate_mbps")
    arrived = (
        arrivals(tables, group, "rate_mbps")
        .select(*_FLOW, "t_ms", "ip_bytes", "rate_mbps")
        .sort(*_FLOW, "t_ms")
        .with_columns(took.alias("took_ms"))
        .collect()
    )
    begins = (pl.col("t_ms").diff() > pl.col("took_ms").shift() / 2).fill_null(value=True)
    numbered = arrived.with_columns(begins.cum_sum().over(_FLOW).alias("burst"))
    lengths = numbered.with_columns(pl.col("took_ms").sum().over(*_FLOW, "burst"))
    enough = pl.len() >= needed(0.99)
    each = lengths.group_by(_KEY).agg(
        pl.when(enough).then(pl.col("took_ms").quantile(0.99, "lower")).alias("burst_p99_ms")
    )
    return found.select(_KEY).join(each, on=_KEY, how="left")
