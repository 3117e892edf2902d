# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Means over the trials of every cell: what verdicts and comparisons start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import SCHEMAS, empty
from reports.result.stats import CONFIDENCE, MODES_FLOOR, bimodal, half_width

if TYPE_CHECKING:
    from reports.result.load import RunTables

NOT_FACTORS: Final = frozenset(SCHEMAS["trials"].columns())
_OF_PLACE: Final = frozenset({"count", "start_s", "from", "to"})
"""Factors of a group that do not say of which kind its flows are."""


MEANS: Final = ("l4s_mbps", "classic_mbps", "delay_ms", "classic_delay_ms", "sojourn_p99_ms")
"""What `cell_means` estimates of every cell."""


HARMS: Final = (
    *tuple(
        f"{whose}{end}_percent"
        for whose in ("l4s_harm", "classic_harm", "classic_same_harm")
        for end in ("", "_low", "_high")
    ),
    "l4s_delay_harm_percent",
    "classic_delay_harm_percent",
)
"""Columns that `reports.result.baselines.with_harm` adds, beside `ALONE`."""

ALONE: Final = ("l4s_alone_mbps", "classic_alone_mbps")


def beside(name: str, what: str) -> str:
    """`l4s_mbps`, `low` -> `l4s_low_mbps`: the column of what belongs to a mean."""
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{what}_{unit}"


ESTIMATES: Final = frozenset(
    (
        *(
            "cell",
            "valid",
            "left_out",
            "percent",
            "percent_low",
            "percent_high",
            "bimodal",
        ),
        *MEANS,
        *(beside(name, what) for name in MEANS for what in ("sd", "low", "high", "median")),
        *HARMS,
        *ALONE,
    )
)
"""Columns of cells that are no factors."""


def cell_means(
    tables: RunTables, l4s: str, classic: str, value: str = "goodput_mbps", looks: int = 1
) -> pl.DataFrame:
    """One row per cell that has both flow groups, baselines aside, in order, with all its factors.

    `valid`, `left_out`: trials that count, and invalid and failed ones. `l4s_mbps`, `classic_mbps`,
    `percent` (of the link's rate): means over the valid trials of the groups' summed goodputs. `delay_ms`,
    `classic_delay_ms`: the groups' mean smoothed RTT minus base RTT. `sojourn_p99_ms`: the 99 % quantile of
    the L4S flows' queuing delay per packet, null unless packets were captured. Without a valid trial all are
    null.

    `l4s_low_mbps` and `l4s_high_mbps`, `percent_low` and so on: the ends of the means' 95 % confidence
    intervals, `l4s_sd_mbps` and so on: standard deviations; null with fewer than two valid trials.
    `l4s_median_mbps` and so on: medians. `bimodal`: whether the trials fall into two groups by the
    L4S group's goodput; null with fewer than four.

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
    both = trials.filter(
        pl.col(ccs[0]).is_not_null() & pl.col(ccs[1]).is_not_null() & ~own_kind(tables, l4s, classic)
    )
    if not both.height:
        raise InputError(f"no cell has both flow groups {l4s} and {classic}")
    valid = both.filter(pl.col("status") == "ok").select("cell", "trial")
    wide = valid.join(_of_group(tables, l4s, value, "l4s"), on=["cell", "trial"])
    wide = wide.join(_of_group(tables, classic, value, "classic"), on=["cell", "trial"])
    wide = wide.join(_sojourns(tables, l4s), on=["cell", "trial"], how="left", maintain_order="left")
    means = wide.group_by("cell", maintain_order=True).agg(
        pl.len().alias("valid"),
        *[pl.col(name).mean() for name in MEANS],
        *[pl.col(name).std().alias(beside(name, "sd")) for name in MEANS],
        *[pl.col(name).median().alias(beside(name, "median")) for name in MEANS],
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


def _with_intervals(cells: pl.DataFrame, looks: int) -> pl.DataFrame:
    """The ends of the confidence intervals; goodputs end at zero and at the link's rate, delays nowhere."""
    ends: list[pl.Expr] = []
    for name in MEANS:
        bound = pl.col("rate_mbps") if name.endswith("_mbps") else None
        low, high = within_interval(name, beside(name, "sd"), "valid", cells, looks, bound)
        ends += [low.alias(beside(name, "low")), high.alias(beside(name, "high"))]
    percents = [
        (pl.col(f"l4s_{end}_mbps") / pl.col("rate_mbps") * 100).alias(f"percent_{end}")
        for end in ("low", "high")
    ]
    return cells.with_columns(ends).with_columns(percents)


def within_interval(
    mean: str,
    sd: str,
    count: str,
    cells: pl.DataFrame,
    looks: int,
    most: pl.Expr | None,
    confidence: float = CONFIDENCE,
) -> tuple[pl.Expr, pl.Expr]:
    """The ends of the confidence intervals of a column of means; null where there are fewer than two trials.

    With `most`, which is what cannot be exceeded, they are cut there and at zero.
    """
    of_one = {n: half_width(n, 1.0, looks, confidence) for n in cells[count].unique().drop_nulls() if n > 1}
    half = pl.col(count).replace_strict(of_one, default=None, return_dtype=pl.Float64) * pl.col(sd)
    low, high = pl.col(mean) - half, pl.col(mean) + half
    if most is None:
        return low, high
    cut = pl.max_horizontal(low, pl.lit(0.0)), pl.min_horizontal(high, most)
    return pl.when(low.is_not_null()).then(cut[0]), pl.when(high.is_not_null()).then(cut[1])


def own_kind(tables: RunTables, l4s: str, classic: str) -> pl.Expr:
    """Whether a cell's classic group is beside its own kind: a baseline, and nobody's question.

    Both groups have the same settings, their sizes, starts and places aside, and they are not L4S.
    """
    columns = tables.trials.columns
    groups = (f"{l4s}.", f"{classic}.")
    kinds = {name.partition(".")[2] for name in columns if name.startswith(groups)} - _OF_PLACE
    catalog = tables.catalog.filter((pl.col("kind") == "cc") & pl.col("l4s"))

    def factor(name: str) -> pl.Expr:
        return pl.col(name) if name in columns else pl.lit(None)

    same = [factor(f"{l4s}.{kind}").eq_missing(factor(f"{classic}.{kind}")) for kind in sorted(kinds)]
    return pl.all_horizontal(~pl.col(f"{l4s}.cc").is_in(catalog["name"].to_list()), *same)


def _with_modes(cells: pl.DataFrame) -> pl.DataFrame:
    found = [
        None if values is None else bimodal(values, MODES_FLOOR / 100 * rate_mbps)
        for values, rate_mbps in cells.select("l4s_trials_mbps", "rate_mbps").iter_rows()
    ]
    return cells.drop("l4s_trials_mbps").with_columns(pl.Series("bimodal", found, dtype=pl.Boolean))


def totals(tables: RunTables, group: str, value: str = "goodput_mbps") -> pl.DataFrame:
    """One row per valid trial of a flow group: `cell`, `trial`, `mbps` (summed goodput), `delay_ms`.

    Trials of which some flow's goodput is not known are left out.
    """
    of_group = tables.groups.filter((pl.col("group") == group) & pl.col(value).is_not_null())
    return of_group.select(
        "cell", "trial", pl.col(value).alias("mbps"), pl.col("srtt_minus_base_ms").alias("delay_ms")
    )


def captured(tables: RunTables) -> pl.DataFrame:
    """The table `packet_flows`; without rows where the run's tables are older than it."""
    try:
        return tables.packet_flows
    except InputError:
        return empty("packet_flows")


def _sojourns(tables: RunTables, group: str) -> pl.DataFrame:
    """One row per trial with captured packets: the mean of the p99 sojourn times of a group's flows."""
    own = captured(tables).filter(pl.col("group") == group)
    return own.group_by("cell", "trial").agg(pl.col("sojourn_p99_ms").mean())


def _of_group(tables: RunTables, group: str, value: str, name: str) -> pl.DataFrame:
    prefix = "" if name == "l4s" else f"{name}_"
    return totals(tables, group, value).rename({"mbps": f"{name}_mbps", "delay_ms": f"{prefix}delay_ms"})


def factors_of(cells: pl.DataFrame) -> list[str]:
    """The columns of `cell_means` that are factors."""
    return [name for name in cells.columns if name not in ESTIMATES]


def varying(cells: pl.DataFrame, names: list[str], within: str) -> list[str]:
    """Those of the columns that differ among cells with the same value of `within`, null counted as a value.

    So a parameter that only some queues have does not count as differing because of that.
    """
    counts = cells.group_by(within).agg(pl.col(name).n_unique() for name in names)
    return [name for name in names if counts.select((pl.col(name) > 1).any()).item()]
