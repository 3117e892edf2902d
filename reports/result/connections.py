# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of connections and pages that begin one after the other: slowdown, and round trips per minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import empty
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from reports.result.load import RunTables

RPM_WITHOUT_DELAY: Final = 60_000
"""Milliseconds of a minute: round trips per minute of a path with 1 ms."""

_TRIAL: Final = ("cell", "trial")
_KEY: Final = (*_TRIAL, "group")
_ONE_SEGMENT_BYTES: Final = min(family.mss_bytes for family in Family)


def begun(tables: RunTables) -> pl.DataFrame:
    """Return the rows of table `requests` that began after the warm-up, of flows that count.

    Tables without it have none.
    """
    try:
        found = tables.requests.filter(~pl.col("warmup"))
    except InputError:  # older tables
        return empty("requests")
    return found.join(tables.flows_left_out, on=[*_TRIAL, "flow"], how="anti", maintain_order="left")


def slowdowns(tables: RunTables) -> pl.DataFrame:
    """Return `slowdown` of every valid trial and flow group that has connections or pages, as key and value.

    It is the median of their completion times, each by its `fair_ms`. One that had not come to its end with
    the flow counts with the time that it had taken so far, unless that is less than its `fair_ms`.
    """
    ends = tables.flows.select(
        *_TRIAL, "flow", (pl.col("start_ms") + pl.col("seconds") * 1000).alias("end_ms")
    )
    so_far = pl.col("end_ms") - pl.col("t_ms")
    took = pl.when(pl.col("response_ms").is_null() & (so_far >= pl.col("fair_ms"))).then(so_far)
    slowdown = took.otherwise(pl.col("response_ms")) / pl.col("fair_ms")
    return (
        begun(tables)
        .join(ends, on=[*_TRIAL, "flow"])
        .group_by(_KEY, maintain_order=True)
        .agg(slowdown.median().alias("slowdown"))
        .drop_nulls()
    )


def responsiveness(tables: RunTables) -> pl.DataFrame:
    """Return `rpm` of every valid trial and flow group that has requests of one segment, as key and value.

    Responsiveness by draft-ietf-ippm-responsiveness: a minute over the mean of the round trips of new
    connections and of those of connections under load. The former are the handshakes and the exchanges after
    them, without the slowest 5 % of each; the latter the smoothed RTT of the other groups' flows, after the
    warm-up. Null without these.
    """
    ended = begun(tables).filter(pl.col("payload_bytes") <= _ONE_SEGMENT_BYTES).drop_nulls("response_ms")
    probed = (
        ended.with_columns((pl.col("response_ms") - pl.col("handshake_ms")).alias("exchange_ms"))
        .group_by(_KEY, maintain_order=True)
        .agg(_without_slowest("handshake_ms"), _without_slowest("exchange_ms"))
    )
    loads = (
        tables.scan("intervals")
        .filter(~pl.col("warmup"))
        .join(tables.flows_left_out.lazy(), on=[*_TRIAL, "flow"], how="anti")
        .select(*_TRIAL, pl.col("group").alias("load"), "srtt_ms")
    )
    loaded = (
        probed.lazy()
        .select(_KEY)
        .join(loads, on=_TRIAL)
        .filter(pl.col("load") != pl.col("group"))
        .group_by(_KEY)
        .agg(pl.col("srtt_ms").mean())
        .collect()
    )
    new_ms = (pl.col("handshake_ms") + pl.col("exchange_ms")) / 2
    rpm = RPM_WITHOUT_DELAY / ((new_ms + pl.col("srtt_ms")) / 2)
    found = probed.join(loaded, on=_KEY, how="left", maintain_order="left")
    return found.select(*_KEY, rpm.alias("rpm"))


def _without_slowest(name: str) -> pl.Expr:
    """Return the mean of the values up to their 95 % quantile."""
    values = pl.col(name)
    return values.filter(values <= values.quantile(0.95, "lower")).mean()
