# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Means over the trials of every cell: what verdicts and comparisons start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import SCHEMAS
from reports.stats import MODES_FLOOR, bimodal, half_width

if TYPE_CHECKING:
    from reports.load import RunTables

NOT_FACTORS: Final = frozenset(SCHEMAS["trials"].columns())


MEANS: Final = ("l4s_mbps", "classic_mbps", "delay_ms", "classic_delay_ms")
"""What `cell_means` estimates of every cell."""


def cell_means(
    tables: RunTables, l4s: str, classic: str, value: str = "goodput_mbps", looks: int = 1
) -> pl.DataFrame:
    """One row per cell that has both flow groups, in the order of cells, with all its factors.

    `valid`, `left_out`: trials that count, and invalid and failed ones. `l4s_mbps`, `classic_mbps`,
    `percent` (of the link's rate): means over the valid trials of the groups' summed goodputs. `delay_ms`,
    `classic_delay_ms`: the groups' mean smoothed RTT minus base RTT. Without a valid trial these are null.

    `l4s_low_mbps` and `l4s_high_mbps`, `percent_low` and so on: the ends of the means' 95 % confidence
    intervals (`reports.stats`), `l4s_sd_mbps` and so on: standard deviations; null with fewer than two valid
    trials. `l4s_median_mbps`: the median. `bimodal`: whether the trials fall into two groups by the L4S
    group's goodput; null with fewer than four.

    Args:
        tables: The run.
        l4s: Name of the L4S flow group.
        classic: Name of the flow group it competes with.
        value: Column of table `flows` that counts as goodput.
        looks: How often a cell may have been looked at while trials were added; the intervals of all looks
            hold together.

    Raises:
        InputError: no cell has both groups.
    """
    trials = tables.trials
    ccs = [f"{l4s}.cc", f"{classic}.cc"]
    lacking = [name.removesuffix(".cc") for name in ccs if name not in trials.columns]
    if lacking:
        raise InputError(
            f"no cell has a flow group {' or '.join(lacking)}",
            f"the rule compares the groups {l4s} and {classic}",
        )
    both = trials.filter(pl.col(ccs[0]).is_not_null() & pl.col(ccs[1]).is_not_null())
    if not both.height:
        raise InputError(f"no cell has both flow groups {l4s} and {classic}")
    valid = both.filter(pl.col("status") == "ok").select("cell", "trial")
    wide = valid.join(_of_group(tables, l4s, value, "l4s"), on=["cell", "trial"])
    wide = wide.join(_of_group(tables, classic, value, "classic"), on=["cell", "trial"])
    means = wide.group_by("cell", maintain_order=True).agg(
        pl.len().alias("valid"),
        *[pl.col(name).mean() for name in MEANS],
        *[pl.col(name).std().alias(_beside(name, "sd")) for name in MEANS],
        pl.col("l4s_mbps").median().alias("l4s_median_mbps"),
        pl.col("l4s_mbps").alias("l4s_trials_mbps"),
    )
    factors = [name for name in trials.columns if name not in NOT_FACTORS]
    cells = both.group_by("cell", maintain_order=True).agg(
        *[pl.col(name).first() for name in factors], pl.len().alias("trials")
    )
    found = cells.join(means, on="cell", how="left", maintain_order="left")
    valid_count = pl.col("valid").fill_null(0).cast(pl.Int64)
    found = found.with_columns(
        valid_count.alias("valid"),
        (pl.col("trials").cast(pl.Int64) - valid_count).alias("left_out"),
        (pl.col("l4s_mbps") / pl.col("rate_mbps") * 100).alias("percent"),
    )
    return _with_modes(_with_intervals(found, looks)).drop("trials")


def _beside(name: str, what: str) -> str:
    """`l4s_mbps` -> `l4s_low_mbps`: the column of what belongs to a mean."""
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{what}_{unit}"


def _with_intervals(cells: pl.DataFrame, looks: int) -> pl.DataFrame:
    """The ends of the confidence intervals; goodputs end at zero and at the link's rate, delays nowhere."""
    counts = [n for n in cells["valid"].unique() if n > 1]
    of_one = {n: half_width(n, 1.0, looks) for n in counts}
    half = pl.col("valid").replace_strict(of_one, default=None, return_dtype=pl.Float64)
    ends: list[pl.Expr] = []
    for name in MEANS:
        wide = half * pl.col(_beside(name, "sd"))
        low, high = pl.col(name) - wide, pl.col(name) + wide
        if name.endswith("_mbps"):
            low = pl.max_horizontal(low, pl.when(low.is_not_null()).then(0.0))
            high = pl.when(high.is_not_null()).then(pl.min_horizontal(high, pl.col("rate_mbps")))
        ends += [low.alias(_beside(name, "low")), high.alias(_beside(name, "high"))]
    percents = [
        (pl.col(f"l4s_{end}_mbps") / pl.col("rate_mbps") * 100).alias(f"percent_{end}")
        for end in ("low", "high")
    ]
    return cells.with_columns(ends).with_columns(percents)


def _with_modes(cells: pl.DataFrame) -> pl.DataFrame:
    found = [
        None if values is None else bimodal(values, MODES_FLOOR / 100 * rate_mbps)
        for values, rate_mbps in cells.select("l4s_trials_mbps", "rate_mbps").iter_rows()
    ]
    return cells.drop("l4s_trials_mbps").with_columns(pl.Series("bimodal", found, dtype=pl.Boolean))


def _of_group(tables: RunTables, group: str, value: str, name: str) -> pl.DataFrame:
    prefix = "" if name == "l4s" else f"{name}_"
    return tables.groups.filter(pl.col("group") == group).select(
        "cell",
        "trial",
        pl.col(value).alias(f"{name}_mbps"),
        pl.col("srtt_minus_base_ms").alias(f"{prefix}delay_ms"),
    )


def factors_of(cells: pl.DataFrame) -> list[str]:
    """The columns of `cell_means` that are factors."""
    about = {_beside(name, what) for name in MEANS for what in ("sd", "low", "high")}
    own = {
        "cell",
        "valid",
        "left_out",
        "percent",
        "percent_low",
        "percent_high",
        "bimodal",
        "l4s_median_mbps",
    }
    return [name for name in cells.columns if name not in own | about | set(MEANS)]


def varying(cells: pl.DataFrame, names: list[str], within: str) -> list[str]:
    """Those of the columns that differ among cells with the same value of `within`, null counted as a value.

    So a parameter that only some queues have does not count as differing because of that.
    """
    counts = cells.group_by(within).agg(pl.col(name).n_unique() for name in names)
    return [name for name in names if counts.select((pl.col(name) > 1).any()).item()]
