# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parts that measures share: those asked for, a group's rows, packets that arrive, ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from reports.result.load import RunTables

ALL: Final = "all"
"""The flows of every group as one group."""

KEY: Final = ("cell", "trial")
FLOW: Final = (*KEY, "flow")


def parts_asked(
    parts: Iterable[tuple[Collection[str], Callable[..., pl.DataFrame]]],
    asked: Collection[str],
    tables: RunTables,
    *of: object,
) -> pl.DataFrame:
    """Return a row per valid trial: `cell`, `trial`, and the measures of those parts that are asked for.

    A part is names of measures, and the function of `tables` and `of` that returns them by trial.
    """
    found = tables.valid.select(KEY)
    for names, measure in parts:
        if not set(names).isdisjoint(asked):
            found = found.join(measure(tables, *of), on=KEY, how="left")
    return found


def of_group(group: str) -> pl.Expr:
    """Return which rows are a group's; group `ALL` has all."""
    return pl.lit(value=True) if group == ALL else pl.col("group") == group


def quotient(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole, infinite for something of nothing; null for nothing of nothing."""
    return pl.when((whole > 0) | (part > 0)).then(part / whole)


def arrivals(tables: RunTables, group: str, *of_trial: str) -> pl.LazyFrame:
    """Return the packets of a group that arrive after the warm-up of valid trials.

    The columns are those of table `packets`, and those of table `trials` that are named.
    """
    packets = tables.scan("packets").filter(of_group(group))
    trials = tables.warmups(*of_trial).lazy()
    return packets.join(trials, on=KEY).filter(pl.col("t_ms") >= pl.col("warmup_ms")).drop("warmup_ms")
