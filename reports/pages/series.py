# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Time series of every cell, one script each beside the page, which loads it when the cell is looked at.

A page that was opened from disk may not fetch a file, but it may load a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from reports.load import RunTables

POINTS: Final = 300
"""Most points of one line: samples are averaged over equal times until there are no more."""

CELLS_AT_ONCE: Final = 20
"""Cells whose samples are in memory together."""

_OF_LINE: Final = ("cell", "trial", "panel", "line")


def scripts(tables: RunTables) -> Iterator[tuple[str, str]]:
    """Every cell that has series, with the script that hands them to the page.

    Its call is `l4sbenchSeries(cell, {trial: {panel: {line: [[t_s...], [value...]]}}})`. Panels:
    `goodput_mbps`, `srtt_ms`, `queue_ms`, `marks_percent`, `cwnd_packets`.
    """
    cells = tables.trials["cell"].unique(maintain_order=True).to_list()
    for start in range(0, len(cells), CELLS_AT_ONCE):
        some = cells[start : start + CELLS_AT_ONCE]
        lines = pl.concat([_intervals(tables, some), _sockets(tables, some), _queues(tables, some)])
        for (cell,), own in lines.partition_by("cell", as_dict=True, maintain_order=True).items():
            trials: dict[int, dict[str, dict[str, list[list[float]]]]] = {}
            for _, trial, panel, line, times, values in own.sort(*_OF_LINE).iter_rows():
                trials.setdefault(trial, {}).setdefault(panel, {})[line] = [times, values]
            yield str(cell), f"l4sbenchSeries({_json(cell)},{_json(trials)});\n"


def _json(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _of(tables: RunTables, table: str, cells: list[str]) -> pl.LazyFrame:
    return tables.scan(table).filter(pl.col("cell").is_in(cells))


def _intervals(tables: RunTables, cells: list[str]) -> pl.DataFrame:
    """Goodput and marks per second."""
    marks = pl.col("delivered_ce_packets") / pl.col("delivered_packets") * 100
    rows = _of(tables, "intervals", cells).select(
        "cell", "trial", "t_ms", pl.col("flow").alias("line"), "goodput_mbps", marks.alias("marks_percent")
    )
    return _lines(rows)


def _sockets(tables: RunTables, cells: list[str]) -> pl.DataFrame:
    """Smoothed RTT and congestion window of the senders."""
    rows = _of(tables, "sockets", cells).filter(pl.col("side") == "sender")
    rows = rows.select(
        "cell",
        "trial",
        "t_ms",
        pl.col("flow").alias("line"),
        "srtt_ms",
        pl.col("cwnd_packets").cast(pl.Float64),
    )
    return _lines(rows)


def _queues(tables: RunTables, cells: list[str]) -> pl.DataFrame:
    """What is in the queues, as the time their link needs for it, and the delays they report themselves.

    Queues that only hold others, such as htb above a CoDel, are left out.
    """
    rates = tables.trials.lazy().select("cell", "trial", "rate_mbps").unique()
    every = _of(tables, "queues", cells)
    place = ["cell", "trial", "node", "network"]
    parents = (
        every.select(*place, pl.col("parent").str.replace(":.*", ":").alias("handle")).drop_nulls().unique()
    )
    own = every.join(parents, on=[*place, "handle"], how="anti").join(rates, on=["cell", "trial"])
    where = pl.format("{} {}", "node", "kind")
    delays = {
        "backlog_bytes": ("backlog / rate", pl.col("backlog_bytes") * 8 / pl.col("rate_mbps") / 1000),
        "delay_ms": ("its own delay", pl.col("delay_ms")),
        "delay_l4s_ms": ("L4S queue", pl.col("delay_l4s_ms")),
        "delay_classic_ms": ("classic queue", pl.col("delay_classic_ms")),
    }
    parts = [
        own.select(
            "cell",
            "trial",
            "t_ms",
            pl.format("{}: {}", where, pl.lit(words)).alias("line"),
            value.alias("queue_ms"),
        )
        for words, value in delays.values()
    ]
    return _lines(pl.concat(parts))


def _lines(rows: pl.LazyFrame) -> pl.DataFrame:
    """Columns of values by time as one row per line of a panel, thinned out to `POINTS`; nulls left out."""
    long = (
        rows.unpivot(index=["cell", "trial", "line", "t_ms"], variable_name="panel")
        .drop_nulls()
        .drop_nans("value")
    )
    step = (pl.col("t_ms").max() - pl.col("t_ms").min() + 1) / POINTS
    sampled = pl.col("t_ms").sort().diff().median().fill_null(1)
    width = pl.max_horizontal(step.ceil(), sampled).over(_OF_LINE)
    binned = long.with_columns((pl.col("t_ms") // width).alias("bin"))
    thinned = (
        binned.group_by(*_OF_LINE, "bin")
        .agg(pl.col("t_ms").mean(), pl.col("value").mean())
        .sort(*_OF_LINE, "bin")
    )
    points = thinned.group_by(*_OF_LINE, maintain_order=True).agg(
        (pl.col("t_ms") / 1000).round(2), pl.col("value").round_sig_figs(4)
    )
    return points.collect()
