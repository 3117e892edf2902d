# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Further figures of cells, beside those of verdicts: fairness, steadiness, quantiles of delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import empty
from reports.result.load import BULK, COUNTED, with_means_of_others
from reports.result.stats import Samples, binned_rates, jain, needed, throughput_ratio, utilisation, variation

if TYPE_CHECKING:
    from reports.result.load import RunTables

BINS_MS: Final = (50, 100, 200, 500, 1000)

START_S: Final = 5
"""Length of a flow's start. Behind FQ-CoDel with its own limit of 10,240 packets, at 50 Mbit/s and 10 or
40 ms, the delay of a flow of Prague falls in this time from 60 ms to what it stays at."""

_COARSE_MS: Final = 500
"""An interval that ends less than this behind a flow's start belongs to it; the next ends 1 s later."""

_STARTS: Final = (f"delay_first_{START_S}s_ms", f"delay_after_{START_S}s_ms")

QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Of the delay of all samples of a cell's valid trials together."""


def cell_metrics(
    tables: RunTables,
    l4s: str = "l4s",
    classic: str = "classic",
    value: str = "goodput_mbps",
    started: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return one row per cell with a valid trial, each figure a mean over its trials.

    `jain` over all `flows` of the cell that send bulk; `utilisation` of the link; `ratio`: mean goodput of
    one L4S flow over that of one classic flow. Of both groups, `l4s_` and `classic_`: `variation_<bin>ms`;
    `sojourn_<quantile>_ms`, queuing delay per packet where packets were captured; `srtt_<quantile>_ms`, the
    smoothed RTT, base RTT included, which is not queuing delay. Quantiles are of all samples of the cell's
    trials together. `delay_first_5s_ms` and `delay_after_5s_ms` part the delay into start-up and the rest.
    Null: the cell has no such group, its packets were not captured, there are too few samples, or a goodput
    is not known, as of a flow that was over before the warm-up was. Of flows that are left out there are no
    samples, and their goodput is the mean of their group's others.

    `started` is what `starts` returns of these tables, if the caller has it.
    """
    found = _shares(tables, l4s, classic, value)
    srtt, sojourn, varied = _srtt(tables), _sojourn(tables), variations(tables)
    started = starts(tables) if started is None else started
    columns = [_variation_column(bin_ms) for bin_ms in BINS_MS]
    # sums of floats depend on their order, and equal tables must give equal files
    of_cell = varied.group_by("cell", "group", maintain_order=True).agg(pl.col(*columns))
    of_cell = of_cell.with_columns(pl.col(*columns).list.mean())
    started = started.group_by("cell", "group", maintain_order=True).agg(pl.col(*_STARTS).mean())
    for frame in (of_cell, sojourn, srtt, started):
        for name, group in (("l4s", l4s), ("classic", classic)):
            own = frame.filter(pl.col("group") == group).drop("group")
            named = own.rename({column: f"{name}_{column}" for column in own.columns if column != "cell"})
            found = found.join(named, on="cell", how="left", maintain_order="left")
    return found


def starts(tables: RunTables) -> pl.DataFrame:
    """Return the delay of every valid trial's flow groups at their start, and after it.

    As everywhere delay is the mean of the 1 s samples of the smoothed RTT minus the base RTT, averaged over
    the group's flows. `delay_first_5s_ms` is of the samples in a flow's first `START_S` seconds, those of a
    warm-up included, `delay_after_5s_ms` of the later samples that count. Null: a flow was over by then.
    """
    keys, flow_keys = ["cell", "trial", "group"], ["cell", "trial", "flow"]
    # iperf3's intervals end milliseconds after whole seconds
    first, counts = pl.col("t_ms") < START_S * 1000 + _COARSE_MS, ~pl.col("warmup")
    srtt = pl.col("srtt_ms")
    means = (
        tables.scan("intervals")
        .group_by(flow_keys)
        .agg(
            srtt.filter(first).mean().alias(_STARTS[0]),
            srtt.filter(~first, counts).mean().alias(_STARTS[1]),
            srtt.filter(counts).mean().alias("srtt"),
            pl.col("t_ms").max().alias("end_ms"),
        )
        .collect()
    )
    flows = tables.flows.filter(COUNTED).join(means, on=flow_keys, maintain_order="left")
    base = pl.col("srtt") - pl.col("srtt_minus_base_ms")
    lasts = pl.col("end_ms") >= 2 * START_S * 1000
    parted = flows.with_columns(pl.when(lasts).then(pl.col(name) - base) for name in _STARTS)
    return parted.group_by(keys, maintain_order=True).agg(pl.col(*_STARTS).mean())


def _srtt(tables: RunTables) -> pl.DataFrame:
    """Return quantiles of the senders' samples of the smoothed RTT after the warm-up, by cell and group."""
    windows = _windows(tables)
    parts = (_samples(part, "sender", "srtt_ms", windows) for part in tables.parts("sockets"))
    return pl.concat(_quantiles(samples, "srtt_ms", "srtt") for samples in parts)


def _sojourn(tables: RunTables) -> pl.DataFrame:
    """Return quantiles of the sojourn times of single packets after the warm-up, by cell and group."""
    try:
        parts = list(tables.parts("packets"))
    except InputError:  # older tables
        return _quantiles(empty("packets").lazy(), "sojourn_ms", "sojourn")
    windows, known = _windows(tables), pl.col("sojourn_ms").is_not_null()
    packets = (_within(windows, part.scan("packets").filter(known)) for part in parts)
    return pl.concat(_quantiles(samples, "sojourn_ms", "sojourn") for samples in packets)


def _quantiles(samples: pl.LazyFrame, column: str, name: str) -> pl.DataFrame:
    found = (
        pl.when(pl.len() >= needed(q))
        .then(pl.col(column).quantile(q, "linear"))
        .alias(f"{name}_{quantile}_ms")
        for quantile, q in QUANTILES.items()
    )
    return samples.group_by("cell", "group").agg(found).collect()


def _samples(tables: RunTables, side: str, column: str, windows: pl.DataFrame) -> pl.LazyFrame:
    """Return the socket samples of one side after the warm-up that have this column."""
    own = tables.scan("sockets").filter(pl.col("side") == side, pl.col(column).is_not_null())
    return _within(windows, own)


def _within(windows: pl.DataFrame, samples: pl.LazyFrame) -> pl.LazyFrame:
    """Return the samples of valid trials' flows from the end of the warm-up to the flow's end."""
    inside = pl.col("t_ms").is_between(pl.col("from_ms"), pl.col("to_ms"))
    return samples.join(windows.lazy(), on=["cell", "trial", "flow"]).filter(inside)


def _shares(tables: RunTables, l4s: str, classic: str, value: str) -> pl.DataFrame:
    rates = dict(tables.trials.select("cell", "rate_mbps").unique("cell").iter_rows())
    flows = tables.flows.with_columns(with_means_of_others(value))
    trials = flows.group_by("cell", "trial", maintain_order=True).agg(
        pl.col("group"), pl.col(value), COUNTED.alias("counted"), BULK.alias("bulk")
    )
    rows: list[dict[str, object]] = []
    for cell, _, groups, goodputs, counted, bulk in trials.iter_rows():
        fair = [mbps for mbps, *both in zip(goodputs, counted, bulk, strict=True) if all(both)]
        known = None not in fair
        got = [mbps or 0.0 for mbps in goodputs]
        row: dict[str, object] = {
            "cell": cell,
            "flows": sum(bulk),
            "utilisation": utilisation(got, rates[cell]) if known else None,
            "jain": jain(fair) if known else None,
        }
        for name, group in (("l4s", l4s), ("classic", classic)):
            own = [mbps for whose, mbps in zip(groups, goodputs, strict=True) if whose == group]
            row |= {name: sum(own) if own and None not in own else None, f"{name}_flows": len(own)}
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
    """Return the ratio of mean goodputs per flow; None without both groups."""
    if l4s is None or classic is None:
        return None
    return throughput_ratio(l4s, l4s_flows, classic, classic_flows)


def variations(tables: RunTables) -> pl.DataFrame:
    """Return the coefficient of variation of goodput by valid trial, flow group and length of bin.

    Arrivals are counted by the receiver's socket samples after the warm-up; bins of the same time are added
    up over a group's flows, from when all of them count until the first one ends. Null where samples are
    farther apart than the bin, or there are not two bins.
    """
    windows = _windows(tables)
    rows = [row for part in tables.parts("sockets") for row in _variations(part, windows)]
    real = {_variation_column(bin_ms): pl.Float64() for bin_ms in BINS_MS}
    schema = {"cell": pl.String(), "trial": pl.Int64(), "group": pl.String(), **real}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _variations(tables: RunTables, windows: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    samples = (
        _samples(tables, "receiver", "received_bytes", windows)
        .group_by("cell", "trial", "group", "flow")
        .agg(pl.col("t_ms").sort(), pl.col("received_bytes").sort_by("t_ms"))
        .sort("cell", "trial", "group", "flow")
        .collect()
    )
    keys = samples.select("cell", "trial", "group").iter_rows()
    flows = zip(keys, samples["t_ms"], samples["received_bytes"], strict=True)
    for key, own in groupby(flows, key=itemgetter(0)):
        series = [(times.to_numpy(), counts.to_numpy()) for _, times, counts in own]
        yield *key, *(_variation(series, bin_ms) for bin_ms in BINS_MS)


def _windows(tables: RunTables) -> pl.DataFrame:
    """Return from the end of a flow's warm-up until its end, of the flows that count."""
    flows = tables.flows.filter(COUNTED).select("cell", "trial", "flow", "start_ms", "seconds")
    begin = pl.col("start_ms").fill_null(0.0)
    return flows.join(tables.warmups(), on=["cell", "trial"]).select(
        "cell",
        "trial",
        "flow",
        (begin + pl.col("warmup_ms")).alias("from_ms"),
        (begin + pl.col("seconds") * 1000).alias("to_ms"),
    )


def _variation_column(bin_ms: int) -> str:
    return f"variation_{bin_ms}ms"


def _variation(series: Sequence[tuple[Samples, Samples]], bin_ms: int) -> float | None:
    begin_ms = max(float(times[0]) for times, _ in series)
    every = [binned_rates(times, counts, bin_ms, begin_ms) for times, counts in series]
    rates = [found for found in every if found is not None]
    if not rates or len(rates) < len(every):
        return None
    return variation(rates[0] if len(rates) == 1 else [sum(all_own) for all_own in zip(*rates, strict=False)])
