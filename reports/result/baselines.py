# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells beside their baselines: what each group gets alone, what a classic one gets beside its own kind.

Baselines are found by factors: the cell of a group alone is the one with the same factors apart from those of
the other groups, wherever it runs; that of a classic group beside its own kind has in the L4S group's place
what the classic group is. They are cells like others and need nothing but the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from reports.result.cells import ALONE, HARMS, NOT_FACTORS, factors_of, own_kind, totals, within_interval
from reports.result.stats import CONFIDENCE, harm_interval, harm_to_delay, harm_to_goodput

if TYPE_CHECKING:
    from reports.result.load import RunTables

OF_PLACE: Final = ("from", "to")
_BASELINE_SHARE: Final = 0.1
"""Part of the error of a harm's interval that the baseline's mean has, the cell's mean having the rest
(Bonferroni). A flow alone hardly differs between trials, so its interval may be the surer one."""


def with_harm(
    cells: pl.DataFrame,
    tables: RunTables,
    l4s: str,
    classic: str,
    value: str = "goodput_mbps",
    looks: int = 1,
) -> pl.DataFrame:
    """The cells of `cell_means` with the harm that both groups suffer; null where a baseline was not run.

    `l4s_alone_mbps` and `classic_alone_mbps`: mean goodput of the group alone. `l4s_harm_percent` and
    `classic_harm_percent`: harm to goodput, with the ends of its 95 % confidence interval
    in `_low_` and `_high_`. `l4s_delay_harm_percent` and the same for classic: harm to the mean
    smoothed RTT. `classic_same_harm_percent`: what the classic group suffers from its own kind, with its
    interval. Negative harm is gain.
    """
    factors = factors_of(cells)
    for name, group in (("l4s", l4s), ("classic", classic)):
        cells = _beside(cells, _alone(tables, group, value), f"{name}_alone", _keys(factors, group))
        cells = _harmed(cells, name, f"{name}_alone", f"{name}_harm", looks)
        prefix = "" if name == "l4s" else "classic_"
        delays = cells.select("rtt_ms", f"{name}_alone_ms", f"{prefix}delay_ms").iter_rows()
        harms = [_percent(_delay_harm(*row)) for row in delays]
        cells = cells.with_columns(pl.Series(f"{name}_delay_harm_percent", harms, dtype=pl.Float64))
    same = _beside_own_kind(tables, l4s, classic, value)
    keys = [
        name
        for name in factors
        if not name.startswith(f"{l4s}.") or name in {f"{l4s}.count", f"{l4s}.start_s"}
    ]
    cells = _beside(cells, same, "same", keys)
    cells = _harmed(cells, "same", "classic_alone", "classic_same_harm", looks=1)
    helpers = (n for n in cells.columns if n.startswith(("same_", "l4s_alone_", "classic_alone_")))
    return cells.drop([name for name in helpers if name not in {*ALONE, *HARMS}])


def _delay_harm(rtt_ms: float, alone_ms: float | None, beside_ms: float | None) -> float | None:
    """Harm to the smoothed RTT, given its means above the base RTT."""
    if alone_ms is None or beside_ms is None:
        return None
    return harm_to_delay(rtt_ms + alone_ms, rtt_ms + beside_ms)


def baseline_cells(cells: pl.DataFrame, tables: RunTables, l4s: str, classic: str) -> int:
    """How many cells of the run are baselines of these."""
    found: set[str] = set()
    for group in (l4s, classic):
        keys = _keys(factors_of(cells), group)
        alone = _alone(tables, group, "goodput_mbps")
        shared = [key for key in keys if key in alone.columns]
        found |= set(alone.join(cells, on=shared, how="semi", nulls_equal=True)["cell"])
    same = _cells(tables).filter(own_kind(tables, l4s, classic))
    return len(found) + same["cell"].n_unique()


def _cells(tables: RunTables) -> pl.DataFrame:
    """One row per cell of the run with all its factors."""
    return tables.trials.unique("cell", keep="first", maintain_order=True)


def _keys(factors: list[str], group: str) -> list[str]:
    """Factors that a group's cell alone shares with a cell: its own and those of no group, without places."""
    groups = [name.removesuffix(".cc") for name in factors if name.endswith(".cc")]
    others = tuple(f"{other}." for other in groups if other != group)
    places = {f"{group}.{end}" for end in OF_PLACE}
    return [name for name in factors if not name.startswith(others) and name not in places]


def _alone(tables: RunTables, group: str, value: str) -> pl.DataFrame:
    """The cells in which a group is alone, with the means of what it gets."""
    trials = _cells(tables)
    ccs = [name for name in trials.columns if name.endswith(".cc")]
    others = [pl.col(name).is_null() for name in ccs if name != f"{group}.cc"]
    alone = trials.filter(pl.col(f"{group}.cc").is_not_null(), *others)
    return alone.join(_means(tables, group, value), on="cell", how="inner").drop(_not_factors(alone))


def _beside_own_kind(tables: RunTables, l4s: str, classic: str, value: str) -> pl.DataFrame:
    """The cells in which a classic group runs beside its own kind, with the means of what it gets."""
    same = _cells(tables).filter(own_kind(tables, l4s, classic))
    return same.join(_means(tables, classic, value), on="cell", how="inner").drop(_not_factors(same))


def _not_factors(trials: pl.DataFrame) -> list[str]:
    return [name for name in trials.columns if name in NOT_FACTORS and name != "cell"]


def _means(tables: RunTables, group: str, value: str) -> pl.DataFrame:
    return (
        totals(tables, group, value)
        .group_by("cell")
        .agg(
            pl.col("mbps").mean(),
            pl.col("mbps").std().alias("sd_mbps"),
            pl.len().alias("valid"),
            pl.col("delay_ms").mean().alias("ms"),
        )
    )


def _beside(cells: pl.DataFrame, baselines: pl.DataFrame, name: str, keys: list[str]) -> pl.DataFrame:
    """The cells with the figures of the baseline whose `keys` are theirs, under that name."""
    figures = ("mbps", "sd_mbps", "valid", "ms")
    there = baselines.select(
        *[pl.col(key) if key in baselines.columns else pl.lit(None).alias(key) for key in keys],
        *[pl.col(figure).alias(f"{name}_{figure}") for figure in figures],
    ).unique(keys, keep="first", maintain_order=True)
    typed = [pl.col(key).cast(cells.schema[key]) for key in keys]
    return cells.join(there.with_columns(typed), on=keys, how="left", nulls_equal=True, maintain_order="left")


def _harmed(cells: pl.DataFrame, name: str, alone: str, harm: str, looks: int) -> pl.DataFrame:
    """The cells with the harm to the goodput `<name>_mbps`, measured by `<alone>_mbps`, and its interval."""
    count = "valid" if name in {"l4s", "classic"} else f"{name}_valid"
    rate = pl.col("rate_mbps")
    error = 1 - CONFIDENCE
    beside = within_interval(
        f"{name}_mbps", f"{name}_sd_mbps", count, cells, looks, rate, 1 - error * (1 - _BASELINE_SHARE)
    )
    baseline = within_interval(
        f"{alone}_mbps", f"{alone}_sd_mbps", f"{alone}_valid", cells, 1, rate, 1 - error * _BASELINE_SHARE
    )
    ends = [end.alias(f"end {number}") for number, end in enumerate((*baseline, *beside))]
    figures = cells.select(f"{alone}_mbps", f"{name}_mbps", *ends)
    rows = [_harm(*row) for row in figures.iter_rows()]
    columns = (f"{harm}_percent", f"{harm}_low_percent", f"{harm}_high_percent")
    found = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Float64()), orient="row")
    return cells.hstack(found)


def _harm(
    alone: float | None,
    beside: float | None,
    alone_low: float | None,
    alone_high: float | None,
    beside_low: float | None,
    beside_high: float | None,
) -> tuple[float | None, float | None, float | None]:
    """Harm with the ends of its interval, in percent; None what is not known."""
    if alone is None or beside is None:
        return None, None, None
    harm = harm_to_goodput(alone, beside)
    low = high = None
    known = alone_low is not None and alone_high is not None and alone_high > 0
    if known and beside_low is not None and beside_high is not None:
        low, high = harm_interval((alone_low or 0.0, alone_high or 0.0), (beside_low, beside_high))
    return _percent(harm), _percent(low), _percent(high)


def _percent(part: float | None) -> float | None:
    return None if part is None else part * 100
