# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures at both sides of the bottleneck's queue -> tables `codepoints` and `accecn`: ECN of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.packets import ACK, CE, FIRST_BYTES, RST, SYN, read_packets, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from l4sbench.program.trial import EndedTrial

_CODEPOINTS: Final[Mapping[str, int]] = {
    "not_ect_packets": 0,
    "ect1_packets": 1,
    "ect0_packets": 2,
    "ce_packets": CE,
}
_FIRST_ACE: Final = 5
"""Value of the ACE field before any CE mark (RFC 9768 section 3.2.2, `r.cep`)."""
_OPTION: Final[Mapping[str, str]] = {
    "e0_bytes": "option_ect0_bytes",
    "ce_bytes": "option_ce_bytes",
    "e1_bytes": "option_ect1_bytes",
}
_COUNTER_BITS: Final = 24
_ACE_UNIT: Final = 0x040
"""Lowest bit of the ACE field among the flags of TCP."""


def parse_codepoints(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `codepoints`: what each flow's packets carry in their ECN field; None without captures."""
    capture = read_packets(trial.programs, trial.raw)
    if capture is None:
        return None
    sides = (
        ("forward", "before", capture.arrived),
        ("forward", "behind", capture.left),
        ("backward", "behind", capture.returned),
    )
    counts = [
        ((pl.col("ecn") == code).sum().cast(pl.Int64)).alias(name) for name, code in _CODEPOINTS.items()
    ]
    return pl.concat(
        [
            packets.group_by("flow", "group")
            .agg(counts)
            .with_columns(pl.lit(direction).alias("direction"), pl.lit(place).alias("place"))
            for direction, place, packets in sides
        ]
    )


def parse_accecn(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `accecn`: flows' CE marks, and those that receivers report; None without captures."""
    capture = read_packets(trial.programs, trial.raw)
    if capture is None:
        return None
    flows = [run.flow for program in trial.programs.values() for run in program.flows if run.ecn == "accecn"]
    there = pl.col("flow").is_in(flows)
    payload = pl.col("payload_bytes").cast(pl.Int64)
    marks = (
        capture.left.filter(there)
        .group_by("flow", "group")
        .agg(
            pl.struct("src_port", "connection").n_unique().cast(pl.Int64).alias("connections"),
            (pl.col("ecn") == CE).sum().cast(pl.Int64).alias("ce_packets"),
            *(
                payload.filter(pl.col("ecn") == code).sum().alias(f"{name}_bytes")
                for name, code in (("ect0", 2), ("ect1", 1), ("ce", CE))
            ),
        )
    )
    if not flows:
        return None
    left, returned = capture.left.filter(there), capture.returned.filter(there)
    for found in (_reported(returned), _between(left, returned)):
        marks = marks.join(found, on="flow", how="left")
    return marks


def _reported(returned: pl.DataFrame) -> pl.DataFrame:
    """Return what receivers report of each flow by the ACE field and the AccECN option of their packets.

    Counters are unwrapped over the packets of a connection, without packets that others overtook. The ACE
    field counts modulo 8: of 8 marks between two packets it shows none (RFC 9768 section 3.2.2.5).
    """
    flags, own = pl.col("flags"), ["flow", "src_port", "connection"]
    acks = returned.filter((flags & (SYN | RST) == 0) & (flags & ACK > 0))
    acked = wrapped(pl.col("ack").cast(pl.Int64).diff().fill_null(0), 32).cum_sum().over(own)
    acks = acks.with_columns(acked.alias("acked")).filter(
        pl.col("acked") >= pl.col("acked").cum_max().over(own)
    )
    ace = (flags.cast(pl.Int64) // _ACE_UNIT) % 8
    found = acks.group_by(own, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("acks_packets"),
        pl.col("ce_bytes").count().cast(pl.Int64).alias("option_acks_packets"),
        ((ace - ace.shift(1, fill_value=_FIRST_ACE)) % 8).sum().alias("ace_packets"),
        *(_unwrapped(name, first).alias(_OPTION[name]) for name, first in FIRST_BYTES.items()),
    )
    sums = (pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in found.columns[len(own) :])
    return found.group_by("flow").agg(*sums)


def _between(left: pl.DataFrame, returned: pl.DataFrame) -> pl.DataFrame:
    """Return the most marks of each flow that pass the router between two packets of its receiver.

    Marks after the last of these were under way at the end.
    """
    own = ["flow", "src_port", "connection"]
    marks = left.filter(pl.col("ecn") == CE).select(*own, "time_ns", pl.lit(value=False).alias("back"))
    acks = returned.select(*own, "time_ns", pl.lit(value=True).alias("back"))
    both = pl.concat([marks, acks]).sort(*own, "time_ns", "back")
    answered = both.with_columns(pl.col("back").cum_sum(reverse=True).over(own).alias("number"))
    gaps = answered.filter(pl.col("number") > 0).group_by(*own, "number").agg((~pl.col("back")).sum())
    most = pl.col("back").max().cast(pl.Int64).alias("ce_between_acks_packets")
    return gaps.group_by("flow").agg(most)


def _unwrapped(name: str, first: int) -> pl.Expr:
    """Return how far a counter of the AccECN option has come since its first value; null if there is none."""
    shown = pl.col(name).cast(pl.Int64).drop_nulls()
    return shown.first() - first + wrapped(shown.diff(), _COUNTER_BITS).sum()
