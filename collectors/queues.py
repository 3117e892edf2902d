# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of queues -> table `queues`: by netlink (lab-sampler, `queues.jsonl`) or as JSON of `tc -s -j`.

Both kinds carry the names and units of `tc -j`. What a queue calls a mark, a delay or a flow differs from
kind to kind; here it is made one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError
from collectors.timed import timed_rows
from l4sbench import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from l4sbench.program import Program
    from l4sbench.program.trial import EndedTrial

NETLINK_FILE: Final = "queues.jsonl"
TC_FILE: Final = "tc-{network}.txt"

MARK_FIELDS: Final = ("ecn_mark", "ecn-mark", "ce_mark", "marked")
"""Counters of CE marks; each qdisc has one or two of them, which count different packets."""

_OWN_COUNTS: Final = (
    *MARK_FIELDS,
    *("step_mark", "step-mark", "step_marks"),
    *("pkts_in_c", "pkts-in-c", "pkts_in_l", "pkts-in-l"),
    *("flows", "inactive", "new_flows_len", "old_flows_len"),
)
_OWN_REALS: Final = ("ldelay", "delay", "prob", "delay_c", "delay-c", "delay_l", "delay-l")

TC_SCHEMA: Final[Mapping[str, type[pl.DataType]]] = {
    "t_ms": pl.Float64,
    "node": pl.String,
    "ifname": pl.String,
    "kind": pl.String,
    "handle": pl.String,
    "parent": pl.String,
    **dict.fromkeys(
        ("bytes", "packets", "drops", "overlimits", "requeues", "backlog_bytes", "qlen"), pl.Int64
    ),
    **dict.fromkeys(_OWN_COUNTS, pl.Int64),
    **dict.fromkeys(_OWN_REALS, pl.Float64),
}


def parse_queues(trial: EndedTrial) -> pl.DataFrame | None:
    """Table `queues` from netlink samples; None without the file."""
    return _netlink_rows(trial.raw)


def parse_tc(trial: EndedTrial) -> pl.DataFrame | None:
    """Table `queues` from samples of tc on every node; None without such files."""
    return _tc_rows(trial.programs, trial.raw)


def queue_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame:
    """The samples of a trial however they were taken, in order; without rows when there are none."""
    found = _netlink_rows(raw)
    if found is None:
        found = _tc_rows(programs, raw)
    return found if found is not None else tables.empty("queues")


def _netlink_rows(raw: Path) -> pl.DataFrame | None:
    path = raw / NETLINK_FILE
    return _as_table(read_netlink(path)) if path.is_file() else None


def _tc_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    rows: list[dict[str, object]] = []
    for node, program in programs.items():
        for link in program.links:
            path = raw / node / TC_FILE.format(network=link.network)
            if path.is_file():
                found = parse_tc_text(path.read_text(encoding="utf-8", errors="replace"), path.name)
                rows += ({"node": node, "ifname": link.network, **row} for row in found)
    return _as_table(pl.DataFrame(rows, schema=dict(TC_SCHEMA))) if rows else None


def read_netlink(path: Path) -> pl.DataFrame:
    """Samples of lab-sampler under tc's names. Raises BadRawError."""
    if not path.stat().st_size:
        return pl.DataFrame(schema=dict(TC_SCHEMA))
    try:
        return pl.read_ndjson(path, schema=dict(TC_SCHEMA))
    except pl.exceptions.PolarsError as error:
        raise BadRawError(f"{path.name}: {error}") from error


def parse_tc_text(text: str, name: str = "tc") -> Iterator[dict[str, object]]:
    """Rows of a file of samples of `tc -s -j qdisc`.

    A sample is a line `@ <milliseconds since the start instant>`, then tc's JSON on one line.

    Raises:
        BadRawError: a line is neither; the last line may be cut short.
    """
    return timed_rows(text, name, _qdiscs, "a sample without its time")


def _qdiscs(line: str) -> list[dict[str, object]]:
    try:
        return [
            {
                "backlog_bytes": qdisc.get("backlog"),
                **{key.strip(): value for key, value in qdisc.items() if key.strip() in TC_SCHEMA},
            }
            for qdisc in json.loads(line)
        ]
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error


def _as_table(samples: pl.DataFrame) -> pl.DataFrame:
    return (
        samples.select(_columns())
        .sort("node", "network", "handle", "t_ms", maintain_order=True)
        .unique(["node", "network", "handle", "t_ms"], keep="last", maintain_order=True)
    )


def _columns() -> list[pl.Expr]:
    kind = pl.col("kind")
    step = pl.coalesce("step-mark", "step_mark", "step_marks")
    any_marks = pl.any_horizontal(pl.col(name).is_not_null() for name in MARK_FIELDS)
    two_lists = pl.col("new_flows_len") + pl.col("old_flows_len")
    return [
        pl.col("node"),
        pl.col("ifname").alias("network"),
        pl.col("handle"),
        pl.col("t_ms").round().cast(pl.Int64),
        kind,
        pl.when(pl.col("parent") != "root").then(pl.col("parent")).alias("parent"),
        pl.col("bytes").alias("sent_bytes"),
        pl.col("packets").alias("sent_packets"),
        *[pl.col(name).alias(f"{name}_packets") for name in ("drops", "overlimits", "requeues")],
        pl.col("backlog_bytes"),
        pl.col("qlen").alias("backlog_packets"),
        pl.when(any_marks).then(pl.sum_horizontal(MARK_FIELDS)).alias("marks_packets"),
        pl.coalesce(step, "ce_mark").alias("threshold_marks_packets"),
        (pl.coalesce("ldelay", "delay") / 1e3).alias("delay_ms"),
        pl.col("prob"),
        (pl.coalesce("delay-c", "delay_c") / 1e3).alias("delay_classic_ms"),
        (pl.coalesce("delay-l", "delay_l") / 1e3).alias("delay_l4s_ms"),
        pl.coalesce("pkts-in-c", "pkts_in_c").alias("classic_packets"),
        pl.coalesce("pkts-in-l", "pkts_in_l").alias("l4s_packets"),
        pl.coalesce(pl.col("flows") - pl.col("inactive"), two_lists).alias("flows"),
    ]
