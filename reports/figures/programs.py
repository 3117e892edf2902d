# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The course of flows of users' programs: their packets in bins of time, and what their qlogs report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import empty
from reports.result.load import OF_PROGRAMS

if TYPE_CHECKING:
    from reports.result.load import RunTables

LOGGED: Final[Mapping[str, str]] = {
    "inflight_packets": "in flight, packets",
    "lost_packets": "lost, packets",
}
"""Columns of `of_programs` that only qlogs have -> titles of their panels."""

_COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    "at": pl.UInt32,
    "group": pl.String,
    "flow": pl.String,
    "bin_ms": pl.Int64,
    "goodput_mbps": pl.Float64,
    "ce_percent": pl.Float64,
    "srtt_ms": pl.Float64,
    "cwnd_packets": pl.Float64,
    **dict.fromkeys(LOGGED, pl.Float64),
}


def of_programs(tables: RunTables, spans: pl.DataFrame, sockets: pl.DataFrame) -> pl.DataFrame:
    """Return the course of flows of users' programs whose sockets nobody samples, in bins.

    Goodput and marks are counted by packets, as they leave the bottleneck; in a bin without any goodput is
    zero. The rest is from qlogs, whose bytes are here packets as large as the flow's largest.
    """
    nothing = pl.DataFrame(schema=dict(_COLUMNS))
    places = spans.select("at", "cell", "trial", "end_s", pl.col("bin_ms").alias("wide"))
    keys = ["cell", "trial", "flow"]
    own = tables.flows.filter(OF_PROGRAMS).select(*keys).join(places, on=keys[:2])
    own = own.join(sockets.select("at", "flow").unique(), on=["at", "flow"], how="anti")
    if own.is_empty():
        return nothing
    left_ms, arrived = pl.col("t_ms") + pl.col("sojourn_ms").fill_null(0.0), ~pl.col("lost")
    by = ["at", "group", "flow"]
    counted = (
        tables.scan("packets")
        .join(own.lazy(), on=keys)
        .with_columns((left_ms / pl.col("wide")).ceil().cast(pl.Int64).alias("bin"))
        .filter(pl.col("bin") * pl.col("wide") <= pl.col("end_s") * 1000)
        .group_by(*by, "wide", "bin")
        .agg(
            (pl.col("payload_bytes").filter(arrived).sum() * 8 / 1000).alias("kilobits"),
            (pl.col("marked").filter(arrived).mean() * 100).alias("ce_percent"),
            pl.col("payload_bytes").max().alias("full_bytes"),
        )
        .collect()
    )
    ends = pl.int_ranges(pl.col("bin").min(), pl.col("bin").max() + 1)
    full = pl.col("full_bytes").max()
    every = counted.group_by(*by, "wide").agg(full, ends.first().alias("bin")).explode("bin")
    found = (
        every.join(counted.drop("full_bytes"), on=[*by, "wide", "bin"], how="left")
        .join(_logged(tables, own, keys), on=["at", "flow", "bin"], how="left")
        .select(
            *by,
            "ce_percent",
            "srtt_ms",
            "lost_packets",
            (pl.col("bin") * pl.col("wide")).alias("bin_ms"),
            (pl.col("kilobits").fill_null(0.0) / pl.col("wide")).alias("goodput_mbps"),
            (pl.col("cwnd_bytes") / pl.col("full_bytes")).alias("cwnd_packets"),
            (pl.col("inflight_bytes") / pl.col("full_bytes")).alias("inflight_packets"),
        )
    )
    return found.select(nothing.columns).cast(nothing.schema)


def _logged(tables: RunTables, own: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return what qlogs have in each bin: means, and the number of packets that were declared lost in it."""
    try:
        log = tables.scan("qlog")
    except InputError:  # older tables
        log = empty("qlog").lazy()
    return (
        log.join(own.lazy(), on=keys)
        .with_columns((pl.col("t_ms") / pl.col("wide")).ceil().cast(pl.Int64).alias("bin"))
        .group_by("at", "flow", "bin")
        .agg(pl.col("srtt_ms", "cwnd_bytes", "inflight_bytes").mean(), pl.col("lost_packets").max())
        .sort("at", "flow", "bin")
        .with_columns(pl.col("lost_packets").fill_null(0))
        .with_columns(pl.col("lost_packets").diff().over("at", "flow").alias("more"))
        .with_columns(pl.coalesce("more", "lost_packets").alias("lost_packets"))
        .collect()
    )
