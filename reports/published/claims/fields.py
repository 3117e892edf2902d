# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of the ECN field of a trial's packets, as one row; they need captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from reports.published.claims.selections import KEY, of_group, parts_asked, quotient

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from reports.result.load import RunTables

_SENT: Final[Mapping[str, str]] = {
    "ect1_percent": "packets with payload that the sender sends first with ECT(1), %",
    "ect1_packets": "packets with payload and ECT(1) that the sender sends",
    "marked_not_ect_packets": "packets without ECT that the queue marks",
}
_COUNTED: Final[Mapping[str, str]] = {
    "ce_counted_percent": "CE marks that the receiver reports, % of those applied",
    "ce_taken_percent": "CE marks that the sender takes from it, % of those applied",
    "ce_between_acks_packets": "most CE marks between two packets of the receiver",
}
_COUPLED: Final[Mapping[str, str]] = {
    "coupling_factor": "share of packets marked, over the root of the share of other groups' signalled"
}
_WAITING: Final[Mapping[str, str]] = {
    "unmarked_wait_packets": "most packets in a row that queue for more than 2 ms and leave without a mark"
}
_CHANGED: Final[Mapping[str, str]] = {
    "recoloured_packets": "packets that leave the queue with Not-ECT, ECT(0) or ECT(1) and came with another"
}

FIELDS: Final[Mapping[str, str]] = {**_SENT, **_COUNTED, **_COUPLED, **_WAITING, **_CHANGED}
"""Measures of ECN fields, with their names in tables."""

LONG_WAIT_MS: Final = 2.0
"""Queuing delay above which an L4S queue has had a reason to mark: twice the step of DualPI2 in Linux."""

_CODEPOINTS: Final = ("not_ect_packets", "ect0_packets", "ect1_packets")


def fields(tables: RunTables, group: str, asked: Collection[str]) -> pl.DataFrame:
    """Return a row per valid trial: `cell`, `trial` and the columns `FIELDS` of parts that are `asked` for.

    They are null where a trial has no captures. Group `all` is all flows. They are

    - `ect1_percent`: of the packets with payload that are no repetitions, as they arrive at the queue.
    - `ect1_packets`, `marked_not_ect_packets`: counts of packets with payload, repetitions among them.
    - `ce_counted_percent`: marks that the ACE field reports, of those of packets that left the queue; null
      without marks. Marks that were under way at the end are not reported, so that it is a little below 100.
    - `ce_taken_percent`: what the senders' sockets counted, of the same marks; where ACKs are lost on the way
      back it differs from what receivers report. Null with a warm-up, as marks before it are not counted.
    - `ce_between_acks_packets`: of all flows' connections with AccECN; the marks after the last packet of a
      receiver do not count.
    - `coupling_factor`: k of RFC 9332 section 2.1, p_L / sqrt(p_C), after the warm-up: the share of packets
      that the queue marks, by the share of those of other groups that it drops or marks.
    - `unmarked_wait_packets`: of a flow's ECN-capable packets that left after more than `LONG_WAIT_MS`, the
      longest run without a mark; the greatest of the group's flows, and 0 where none waited.
    - `recoloured_packets`: for each codepoint but CE, by how many packets more leave the queue with it than
      came with it, which nothing but a change of the field can make. Drops may hide some.
    """
    parts = (
        (_SENT, _sent),
        (_COUNTED, _counted),
        (_COUPLED, _coupled),
        (_WAITING, _waiting),
        (_CHANGED, _changed),
    )
    return parts_asked(parts, asked, tables, group)


def _sent(tables: RunTables, group: str) -> pl.DataFrame:
    is_ect1 = pl.col("ecn") == "ect1"
    unlawful = (pl.col("ecn") == "not-ect") & pl.col("marked").fill_null(value=False)
    return (
        tables.scan("packets")
        .filter(of_group(group))
        .group_by(KEY)
        .agg(
            (is_ect1.filter(~pl.col("retransmit")).mean() * 100).alias("ect1_percent"),
            is_ect1.sum().cast(pl.Float64).alias("ect1_packets"),
            unlawful.sum().cast(pl.Float64).alias("marked_not_ect_packets"),
        )
        .collect()
    )


def _counted(tables: RunTables, group: str) -> pl.DataFrame:
    marked = pl.col("ce_packets").sum()
    reported = pl.when(marked > 0).then(pl.col("ace_packets").sum() / marked * 100)
    found = (
        tables.accecn.filter(of_group(group))
        .group_by(KEY)
        .agg(
            reported.alias("ce_counted_percent"),
            marked.alias("marked"),
            pl.col("ce_between_acks_packets").max().cast(pl.Float64),
        )
    )
    whole = (
        tables.trials.filter(pl.col("warmup_s") == 0)
        if "warmup_s" in tables.trials.columns
        else tables.trials
    )
    counted = pl.col("delivered_ce_packets")
    senders = (
        tables.flows.filter(of_group(group))
        .join(whole.select(KEY), on=KEY)
        .group_by(KEY)
        .agg(pl.when(counted.null_count() == 0).then(counted.sum()).alias("taken"))
    )
    taken = pl.when(pl.col("marked") > 0).then(pl.col("taken") / pl.col("marked") * 100)
    return found.join(senders, on=KEY, how="left").select(
        *KEY, "ce_counted_percent", taken.alias("ce_taken_percent"), "ce_between_acks_packets"
    )


def _coupled(tables: RunTables, group: str) -> pl.DataFrame:
    packets, marked, lost = (pl.col(f"{name}_packets").sum() for name in ("data", "ce", "lost"))
    sides = [
        tables.packet_flows.filter(which).group_by(KEY).agg(quotient(signalled, packets).alias(name))
        for name, which, signalled in (
            ("own", of_group(group), marked),
            ("others", ~of_group(group), marked + lost),
        )
    ]
    factor = pl.when(pl.col("others") > 0).then(pl.col("own") / pl.col("others").sqrt())
    return sides[0].join(sides[1], on=KEY).select(*KEY, factor.alias("coupling_factor"))


def _waiting(tables: RunTables, group: str) -> pl.DataFrame:
    flow = (*KEY, "flow")
    waited = pl.col("ecn").is_in(["ect0", "ect1"]) & (pl.col("sojourn_ms") > LONG_WAIT_MS)
    unmarked = ~pl.col("marked").fill_null(value=False)
    runs = (
        tables.scan("packets")
        .filter(of_group(group))
        .select(*flow, "packet", waited.fill_null(value=False).alias("waited"), unmarked.alias("unmarked"))
        .sort(*flow, "packet")
        .collect()
    )
    trials = runs.select(KEY).unique()
    among = runs.filter("waited").with_columns(pl.col("unmarked").rle_id().over(flow).alias("run"))
    longest = (
        among.filter("unmarked")
        .group_by(*flow, "run")
        .len()
        .group_by(KEY)
        .agg(pl.col("len").max().cast(pl.Float64).alias("unmarked_wait_packets"))
    )
    return trials.join(longest, on=KEY, how="left").with_columns(
        pl.col("unmarked_wait_packets").fill_null(0.0)
    )


def _changed(tables: RunTables, group: str) -> pl.DataFrame:
    forward = tables.codepoints.filter(of_group(group) & (pl.col("direction") == "forward"))
    sides = [
        forward.filter(pl.col("place") == place).group_by(KEY).agg(pl.col(_CODEPOINTS).sum())
        for place in ("before", "behind")
    ]
    both = sides[0].join(sides[1], on=KEY, suffix="_behind")
    gained = [
        (pl.col(f"{name}_behind").cast(pl.Int64) - pl.col(name).cast(pl.Int64)).clip(lower_bound=0)
        for name in _CODEPOINTS
    ]
    return both.select(*KEY, pl.sum_horizontal(gained).cast(pl.Float64).alias("recoloured_packets"))
