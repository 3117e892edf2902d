# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of the events in which a queue drops packets, as one row; they need captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from reports.published.claims.selections import KEY, arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reports.result.load import RunTables

LOSSES: Final[Mapping[str, str]] = {
    "synchronised_percent": "flows that lose packets in a loss event, mean over the events, %"
}
"""Measures of loss events, with their names in tables."""


def losses(tables: RunTables, group: str) -> pl.DataFrame:
    """Return a row per valid trial with drops: `cell`, `trial` and the columns `LOSSES`.

    `synchronised_percent` is the global synchronisation ratio of RFC 7928 section 2.4: the share of a group's
    flows that lose packets in a loss event, as a mean over the events. An event begins when a packet of the
    group is dropped that belongs to no earlier event, and lasts one base RTT, as long as a sender needs to
    react. The warm-up does not count. Group `all` is all flows. Null are groups of a single flow.
    """
    packets = arrivals(tables, group, "rtt_ms")
    flows = packets.group_by(KEY).agg(pl.col("flow").n_unique().alias("flows")).collect()
    lost = packets.filter("lost").select(*KEY, "flow", "t_ms", "rtt_ms").sort(*KEY, "t_ms").collect()
    events = [
        (*key, len(losing))
        for key, drops in lost.partition_by(KEY, as_dict=True).items()
        for losing in _events(drops.select("flow", "t_ms").iter_rows(), drops["rtt_ms"][0])
    ]
    schema = {name: lost.schema[name] for name in KEY} | {"losing": pl.Int64()}
    share = pl.when(pl.col("flows") > 1).then(pl.col("losing") / pl.col("flows") * 100)
    return (
        pl.DataFrame(events, schema=schema, orient="row")
        .join(flows, on=KEY)
        .group_by(KEY)
        .agg(share.mean().alias("synchronised_percent"))
    )


def _events(drops: Iterable[tuple[str, float]], lasts_ms: float) -> Iterator[set[str]]:
    """Yield the flows that lose packets in each event, from the flows and times of the drops in order."""
    losing: set[str] = set()
    begin_ms = float("-inf")
    for flow, t_ms in drops:
        if t_ms >= begin_ms + lasts_ms:
            if losing:
                yield losing
            losing, begin_ms = set(), t_ms
        losing.add(flow)
    if losing:
        yield losing
