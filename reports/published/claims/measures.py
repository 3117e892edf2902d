# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of a flow group in a trial, as one row: means over its flows, and figures between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.load import RunTables

_MEANS: Final = (
    *("length_mean_bytes", "length_sd_bytes", "rtt_mean_ms", "gap_mean_ms", "gap_sd_ms"),
    *("packets_per_rtt", "acks_per_rtt", "throughput_cv"),
    *("sojourn_p50_ms", "sojourn_p95_ms", "sojourn_p99_ms", "sojourn_p999_ms"),
)

MEASURES: Final[Mapping[str, str]] = {
    "length_mean_bytes": "mean packet length, bytes",
    "length_sd_bytes": "standard deviation of packet lengths, bytes",
    "retransmits_packets": "packets sent again",
    "retransmits_percent": "packets sent again, % of data packets",
    "rtt_mean_ms": "mean RTT, ms",
    "gap_mean_ms": "mean time between packets, ms",
    "gap_sd_ms": "standard deviation of the time between packets, ms",
    "packets_per_rtt": "packets per RTT",
    "acks_per_rtt": "ACKs per RTT",
    "throughput_cv": "coefficient of variation of throughput over 50 ms",
    "sojourn_p50_ms": "queuing delay, median, ms",
    "sojourn_p95_ms": "queuing delay, 95 %, ms",
    "sojourn_p99_ms": "queuing delay, 99 %, ms",
    "sojourn_p999_ms": "queuing delay, 99.9 %, ms",
    "goodput_mbps": "goodput of all flows, Mbit/s",
    "normalised_goodput": "goodput over an equal share of the link's rate",
    "jain": "Jain's index of the goodputs",
}
"""Measures of a flow group in a trial, with their names in tables."""


def measures(tables: RunTables, group: str = "l4s") -> pl.DataFrame:
    """Return a row per valid trial that has the flow group: all factors, `flows` and the columns `MEASURES`.

    Packet lengths, times and the like are means over the group's flows, packets sent again are summed.
    `goodput_mbps` is the group's sum; `normalised_goodput` the mean of its flows' goodput over the link's
    rate divided by the number of all flows. `jain` is Jain's index over its flows, (sum x)^2 / (n sum x^2),
    with n in `flows`.

    Raises:
        InputError: no packets were captured.
    """
    own = ["cell", "trial"]
    if not tables.packet_flows.height:
        raise InputError(
            "the run has no packets", "set capture: headers in its matrix, or run it with --capture --new"
        )
    factors = [*own, *tables.factors]
    trials = tables.trials.filter(pl.col("status") == "ok").select(factors)
    every = tables.flows.group_by(own).agg(pl.len().alias("all_flows"))
    goodput = pl.col("goodput_mbps")
    flows = (
        tables.flows.filter(pl.col("group") == group)
        .group_by(own, maintain_order=True)
        .agg(
            pl.len().alias("flows"),
            goodput.sum(),
            goodput.mean().alias("mean_mbps"),
            (goodput.sum() ** 2 / (pl.len() * (goodput**2).sum())).alias("jain"),
        )
    )
    again, data = pl.col("retransmits_packets").sum(), pl.col("data_packets").sum()
    packets = (
        tables.packet_flows.filter(pl.col("group") == group)
        .group_by(own, maintain_order=True)
        .agg(
            again,
            (again / data * 100).alias("retransmits_percent"),
            *[pl.col(name).mean() for name in _MEANS],
        )
    )
    joined = trials.join(flows, on=own).join(packets, on=own).join(every, on=own)
    share = pl.col("rate_mbps") / pl.col("all_flows")
    return (
        joined.with_columns((pl.col("mean_mbps") / share).alias("normalised_goodput"))
        .select(*factors, "flows", *MEASURES)
        .sort(own)
    )
