# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Means over the trials of every cell: what verdicts and comparisons start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import SCHEMAS

if TYPE_CHECKING:
    from reports.load import RunTables

NOT_FACTORS: Final = frozenset(SCHEMAS["trials"].columns())


def cell_means(tables: RunTables, l4s: str, classic: str, value: str = "goodput_mbps") -> pl.DataFrame:
    """One row per cell that has both flow groups, in the order of cells, with all its factors.

    `valid`, `left_out`: trials that count, and invalid and failed ones. `l4s_mbps`, `classic_mbps`,
    `percent` (of the link's rate): means over the valid trials of the groups' summed goodputs. `delay_ms`,
    `classic_delay_ms`: the groups' mean smoothed RTT minus base RTT. Without a valid trial these are null.

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
        *[pl.col(name).mean() for name in ("l4s_mbps", "classic_mbps", "delay_ms", "classic_delay_ms")],
        pl.col("l4s_mbps").std().alias("l4s_sd_mbps"),
    )
    factors = [name for name in trials.columns if name not in NOT_FACTORS]
    cells = both.group_by("cell", maintain_order=True).agg(
        *[pl.col(name).first() for name in factors], pl.len().alias("trials")
    )
    found = cells.join(means, on="cell", how="left", maintain_order="left")
    valid_count = pl.col("valid").fill_null(0).cast(pl.Int64)
    return found.with_columns(
        valid_count.alias("valid"),
        (pl.col("trials").cast(pl.Int64) - valid_count).alias("left_out"),
        (pl.col("l4s_mbps") / pl.col("rate_mbps") * 100).alias("percent"),
    ).drop("trials")


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
    own = ("cell", "valid", "left_out", "percent", "l4s_mbps", "classic_mbps", "delay_ms", "classic_delay_ms")
    return [name for name in cells.columns if name not in (*own, "l4s_sd_mbps")]


def varying(cells: pl.DataFrame, names: list[str], within: str) -> list[str]:
    """Those of the columns that differ among cells with the same value of `within`, null counted as a value.

    So a parameter that only some queues have does not count as differing because of that.
    """
    counts = cells.group_by(within).agg(pl.col(name).n_unique() for name in names)
    return [name for name in names if counts.select((pl.col(name) > 1).any()).item()]
