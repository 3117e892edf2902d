# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of a flow group in a trial, as one row: means over its flows, and figures between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from reports.published.claims.bursts import BURSTS, bursts
from reports.published.claims.courses import COURSES, courses
from reports.published.claims.fields import FIELDS, fields
from reports.published.claims.losses import LOSSES, losses
from reports.published.claims.samples import SAMPLES, samples
from reports.published.claims.selections import of_group, parts_asked, quotient
from reports.result.load import BULK, COUNTED, sum_of_known, with_means_of_others

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from reports.published.claims.samples import Windows
    from reports.result.load import RunTables

PACKETS: Final[Mapping[str, str]] = {
    "length_mean_bytes": "mean packet length, bytes",
    "length_sd_bytes": "standard deviation of packet lengths, bytes",
    "retransmits_packets": "packets sent again",
    "retransmits_percent": "packets sent again, % of data packets",
    "lost_percent": "packets that the queue drops, % of data packets",
    "marked_percent": "packets that leave the queue with a CE mark, % of data packets",
    "throughput_mbps": "IP packets that leave the queue, Mbit/s",
    "rtt_mean_ms": "mean RTT, ms",
    "gap_mean_ms": "mean time between packets, ms",
    "gap_sd_ms": "standard deviation of the time between packets, ms",
    "ack_gap_mean_ms": "mean time between ACKs, ms",
    "ack_gap_sd_ms": "standard deviation of the time between ACKs, ms",
    "packets_per_rtt": "packets per RTT",
    "acks_per_rtt": "ACKs per RTT",
    "throughput_cv": "coefficient of variation of throughput over 50 ms",
    "sojourn_p50_ms": "queuing delay, median, ms",
    "sojourn_p95_ms": "queuing delay, 95 %, ms",
    "sojourn_p99_ms": "queuing delay, 99 %, ms",
    "sojourn_p999_ms": "queuing delay, 99.9 %, ms",
    "sojourn_mean_ms": "mean queuing delay, ms",
}
"""Measures of a flow group in a trial whose packets were captured, with their names in tables."""

_SUMS: Final[Mapping[str, pl.Expr]] = {
    "retransmits_packets": pl.col("retransmits_packets").sum(),
    **{
        name: quotient(pl.col(packets).sum(), pl.col("data_packets").sum()) * 100
        for name, packets in (
            ("retransmits_percent", "retransmits_packets"),
            ("lost_percent", "lost_packets"),
            ("marked_percent", "ce_packets"),
        )
    },
    "throughput_mbps": pl.when(pl.col("throughput_mbps").null_count() == 0).then(
        pl.col("throughput_mbps").sum()
    ),
}
"""Those of them that are about the packets of all flows; the others are means over the flows."""

_OF_FLOWS: Final[Mapping[str, str]] = {
    "goodput_mbps": "goodput of all flows, Mbit/s",
    "normalised_goodput": "goodput over an equal share of the link's rate",
    "jain": "Jain's index of the goodputs",
    "jain_all": "Jain's index of the goodputs of all groups' flows",
    "ratio_per_flow": "mean goodput of a flow over that of a flow of other groups",
    "ratio_of_sums": "goodput of all flows over that of other groups",
    "tcp_retransmits_packets": "packets that TCP sent again, as it counts",
    "srtt_minus_base_ms": "mean smoothed RTT less the base RTT, ms",
    "completed_ms": "mean time until all of a flow's bytes had arrived, ms",
    "tcp_retransmits_percent": "packets that TCP sent again, % of those delivered",
    "accecn_percent": "flows that negotiated AccECN, %",
    "utilisation_percent": "goodput of all groups, % of the link's rate",
    "arrived_mbps": "rate of the frames that arrived, of paced flows and floods, Mbit/s",
}

MEASURES: Final[Mapping[str, str]] = {
    **PACKETS,
    **_OF_FLOWS,
    **COURSES,
    **SAMPLES,
    **FIELDS,
    **BURSTS,
    **LOSSES,
}
"""Measures of a flow group in a trial, with their names in tables."""

_SIGNED: Final = frozenset({"harm_percent", "srtt_minus_base_ms"})


def least_of(measure: str) -> float:
    """Return the smallest value that a measure can have, where confidence intervals are cut."""
    return -math.inf if measure in _SIGNED else 0.0


def measures(
    tables: RunTables, group: str = "l4s", asked: Collection[str] = (), windows: Windows | None = None
) -> pl.DataFrame:
    """Return a row per valid trial that has the flow group: all factors, `flows` and the columns `MEASURES`.

    Packet lengths, times and the like are means over the group's flows; packets sent again, dropped or
    marked, and `throughput_mbps` are those of all its flows. Without captures they are null. `goodput_mbps`
    is the group's sum; `normalised_goodput` the mean of its flows' goodput over the link's rate divided by
    the number of all flows. `jain` is Jain's index over its flows, (sum x)^2 / (n sum x^2);
    `jain_all` the same over the flows of all groups. Flows that are left out count in sums of goodput with
    the mean of their group's others, and otherwise only in `accecn_percent` and in counts of captured
    packets. `ratio_per_flow` and `ratio_of_sums` are null without other groups; like all quotients they are
    null for 0 of 0, and infinite for more of 0. Goodputs and what is made of them are null where that of a
    bulk flow is not known, as of one that was over before the warm-up was. `completed_ms` is null where any
    flow's bytes had not all arrived, `arrived_mbps` of TCP, and `tcp_retransmits_*` where TCP does not send
    or has many connections. `utilisation_percent` is of all groups. Group `all` is all flows. The samples of
    each trial are read only for measures that are `asked` for: the columns `COURSES`, `SAMPLES`, `FIELDS`,
    `BURSTS` and `LOSSES` are null otherwise. `windows` are two parts of a trial for the measures that compare
    them.
    """
    own = ["cell", "trial"]
    factors = [*own, *tables.factors]
    goodput = pl.col("goodput_mbps")
    counted = goodput.filter(COUNTED)
    mine = of_group(group)
    all_flows = tables.flows.with_columns(map(with_means_of_others, ("goodput_mbps", "arrived_mbps")))
    every = all_flows.group_by(own).agg(
        pl.len().alias("all_flows"),
        _known(_jain(counted)).alias("jain_all"),
        _known(goodput.sum()).alias("all_mbps"),
    )
    others = (
        all_flows.filter(~mine)
        .group_by(own)
        .agg(_known(counted.mean()).alias("other_mean_mbps"), _known(goodput.sum()).alias("other_mbps"))
    )
    joined = (
        tables.valid.select(factors)
        .join(_totals(all_flows.filter(mine)), on=own)
        .join(_packets(tables, mine), on=own, how="left")
        .join(every, on=own)
        .join(others, on=own, how="left")
    )
    parts = ((COURSES, courses), (BURSTS, bursts), (LOSSES, losses))
    for found in (
        parts_asked(parts, asked, tables, group),
        samples(tables, group, asked, windows),
        fields(tables, group, asked),
    ):
        joined = joined.join(found, on=own)
    joined = joined.with_columns(
        (pl.col("mean_mbps") / (pl.col("rate_mbps") / pl.col("all_flows"))).alias("normalised_goodput"),
        quotient(pl.col("mean_mbps"), pl.col("other_mean_mbps")).alias("ratio_per_flow"),
        quotient(goodput, pl.col("other_mbps")).alias("ratio_of_sums"),
        (pl.col("all_mbps") / pl.col("rate_mbps") * 100).alias("utilisation_percent"),
    )
    missing = [pl.lit(None, pl.Float64).alias(name) for name in MEASURES if name not in joined.columns]
    return joined.with_columns(missing).select(*factors, "flows", *MEASURES).sort(own)


def _totals(flows: pl.DataFrame) -> pl.DataFrame:
    """Return sums and means over a group's flows in each trial."""
    goodput, arrived = pl.col("goodput_mbps"), pl.col("arrived_mbps")
    counted, completed, delay, retransmits, delivered = (
        pl.col(name).filter(COUNTED)
        for name in (
            "goodput_mbps",
            "completed_ms",
            "srtt_minus_base_ms",
            "retransmits_packets",
            "delivered_packets",
        )
    )
    of_tcp = delivered.filter(retransmits.is_not_null())  # receivers of paced flows count, too
    return flows.group_by("cell", "trial", maintain_order=True).agg(
        pl.len().alias("flows"),
        _known(goodput.sum()),
        _known(counted.mean()).alias("mean_mbps"),
        _known(_jain(counted)).alias("jain"),
        sum_of_known("retransmits_packets", COUNTED).alias("tcp_retransmits_packets"),
        (quotient(retransmits.sum(), of_tcp.sum()) * 100).alias("tcp_retransmits_percent"),
        pl.when(arrived.null_count() == 0).then(arrived.sum()),
        ((pl.col("ecn") == "accecn").mean() * 100).alias("accecn_percent"),
        delay.mean(),
        pl.when(completed.null_count() == 0).then(completed.mean()),
    )


def _known(value: pl.Expr) -> pl.Expr:
    """Return a value of flows' goodputs; null where one that sends bulk has none, which is not zero."""
    mbps = pl.col("goodput_mbps")
    return pl.when((mbps.filter(BULK).null_count() == 0) & (mbps.count() > 0)).then(value)


def _jain(values: pl.Expr) -> pl.Expr:
    return quotient(values.sum() ** 2, values.count() * (values**2).sum())


def _packets(tables: RunTables, mine: pl.Expr) -> pl.DataFrame:
    without = tables.flows_left_out.with_columns(pl.lit("left out").alias("left_out"))
    return (
        tables.packet_flows.filter(mine)
        .join(without, on=["cell", "trial", "flow"], how="left", maintain_order="left")
        .group_by(["cell", "trial"], maintain_order=True)
        .agg(
            *[sums.alias(name) for name, sums in _SUMS.items()],
            *[pl.col(name).filter(COUNTED).mean() for name in PACKETS if name not in _SUMS],
        )
    )
