# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Further figures of cells, beside those that verdicts go by: fairness, steadiness, quantiles of delay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import polars as pl

from reports.cells import captured
from reports.stats import binned_rates, jain, throughput_ratio, utilisation, variation

if TYPE_CHECKING:
    from reports.load import RunTables

BINS_MS: Final = (50, 100, 200, 500, 1000)

SRTT_QUANTILES: Final = ("srtt_p50_ms", "srtt_p95_ms", "srtt_p99_ms")
"""Of the smoothed RTT, base RTT included, and under its own name: it is no queuing delay."""

SOJOURN_QUANTILES: Final = ("sojourn_p50_ms", "sojourn_p95_ms", "sojourn_p99_ms", "sojourn_p999_ms")
"""Of queuing delay per packet, where packets were captured."""


def cell_metrics(
    tables: RunTables, l4s: str = "l4s", classic: str = "classic", value: str = "goodput_mbps"
) -> pl.DataFrame:
    """One row per cell with a valid trial, each figure a mean over its trials.

    `jain` over all `flows` of the cell; `utilisation` of the link; `ratio`: mean goodput of one L4S flow over
    that of one classic flow. Of both groups, `l4s_` and `classic_`: `variation_<bin>ms`, and the quantiles
    `SOJOURN_QUANTILES` and `SRTT_QUANTILES`, which are means over a group's flows. Null: the cell has no
    such group, its packets were not captured, or there are too few samples.
    """
    frames = [_shares(tables, l4s, classic, value)]
    varied = variations(tables)
    for name, group in (("l4s", l4s), ("classic", classic)):
        figures = (
            (tables.flows, SRTT_QUANTILES),
            (captured(tables), SOJOURN_QUANTILES),
            (varied, tuple(_variation_column(bin_ms) for bin_ms in BINS_MS)),
        )
        for frame, columns in figures:
            own = frame.filter(pl.col("group") == group)
            of_trial = own.group_by("cell", "trial").agg(pl.col(*columns).mean())
            frames.append(
                of_trial.group_by("cell").agg(
                    pl.col(column).mean().alias(f"{name}_{column}") for column in columns
                )
            )
    found = frames[0]
    for frame in frames[1:]:
        found = found.join(frame, on="cell", how="left", maintain_order="left")
    return found


def _shares(tables: RunTables, l4s: str, classic: str, value: str) -> pl.DataFrame:
    rates = dict(tables.trials.select("cell", "rate_mbps").unique("cell").iter_rows())
    trials = tables.flows.group_by("cell", "trial", maintain_order=True).agg(pl.col("group"), pl.col(value))
    rows: list[dict[str, object]] = []
    for cell, _, groups, goodputs in trials.iter_rows():
        got = [mbps or 0.0 for mbps in goodputs]
        index = jain(got)
        row: dict[str, object] = {
            "cell": cell,
            "flows": len(got),
            "utilisation": utilisation(got, rates[cell]),
        }
        row["jain"] = None if index is None else index.index
        for name, group in (("l4s", l4s), ("classic", classic)):
            own = [mbps for whose, mbps in zip(groups, got, strict=True) if whose == group]
            row |= {name: sum(own) if own else None, f"{name}_flows": len(own)}
        rows.append(row)
    whole = dict.fromkeys(("flows", "l4s_flows", "classic_flows"), pl.Int64())
    real = dict.fromkeys(("jain", "utilisation", "l4s", "classic"), pl.Float64())
    frame = pl.DataFrame(rows, schema={"cell": pl.String(), **whole, **real})
    means = frame.group_by("cell", maintain_order=True).agg(pl.col(*whole).first(), pl.col(*real).mean())
    ratios = [
        _ratio(*row) for row in means.select("l4s", "l4s_flows", "classic", "classic_flows").iter_rows()
    ]
    ratio = pl.Series("ratio", ratios, dtype=pl.Float64)
    return means.select("cell", "flows", "jain", "utilisation").with_columns(ratio)


def _ratio(l4s: float | None, l4s_flows: int, classic: float | None, classic_flows: int) -> float | None:
    """Of mean goodputs; None without both groups."""
    if l4s is None or classic is None:
        return None
    return throughput_ratio(l4s, l4s_flows, classic, classic_flows)


def variations(tables: RunTables) -> pl.DataFrame:
    """One row per valid trial and flow group: the coefficient of variation of its goodput by length of bin.

    What arrived is counted by the receiver's socket samples after the warm-up; the bins of a group's flows
    are added up. Null where samples are farther apart than the bin, or there are not two bins.
    """
    samples = (
        tables.scan("sockets")
        .filter(pl.col("side") == "receiver", pl.col("received_bytes").is_not_null())
        .join(_windows(tables).lazy(), on=["cell", "trial", "flow"])
        .filter(pl.col("t_ms") >= pl.col("from_ms"), pl.col("t_ms") <= pl.col("to_ms"))
        .sort("cell", "trial", "group", "flow", "t_ms")
        .group_by("cell", "trial", "group", "flow", maintain_order=True)
        .agg(pl.col("t_ms"), pl.col("received_bytes"))
        .collect()
    )
    rows: list[dict[str, object]] = []
    for (cell, trial, group), own in samples.group_by("cell", "trial", "group", maintain_order=True):
        series = list(own.select("t_ms", "received_bytes").iter_rows())
        found = {_variation_column(bin_ms): _variation(series, bin_ms) for bin_ms in BINS_MS}
        rows.append({"cell": cell, "trial": trial, "group": group, **found})
    real = {_variation_column(bin_ms): pl.Float64() for bin_ms in BINS_MS}
    return pl.DataFrame(rows, schema={"cell": pl.String(), "trial": pl.Int64(), "group": pl.String(), **real})


def _windows(tables: RunTables) -> pl.DataFrame:
    """From the end of a flow's warm-up until its end."""
    flows = tables.flows.select("cell", "trial", "flow", "start_ms", "seconds")
    warmup = tables.trials.select("cell", "trial", _or_zero(tables.trials, "warmup_s").alias("warmup_s"))
    begin = pl.col("start_ms").fill_null(0.0)
    return flows.join(warmup, on=["cell", "trial"]).select(
        "cell",
        "trial",
        "flow",
        (begin + pl.col("warmup_s") * 1000).alias("from_ms"),
        (begin + pl.col("seconds") * 1000).alias("to_ms"),
    )


def _or_zero(frame: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name).fill_null(0.0) if name in frame.columns else pl.lit(0.0)


def _variation_column(bin_ms: int) -> str:
    return f"variation_{bin_ms}ms"


def _variation(series: Iterable[tuple[list[int], list[int]]], bin_ms: int) -> float | None:
    every = [binned_rates(times, counts, bin_ms) for times, counts in series]
    rates = [found for found in every if found is not None]
    if not rates or len(rates) < len(every):
        return None
    return variation([sum(together) for together in zip(*rates, strict=False)])
