# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packets that arrive at the queue, which measures of captures are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from reports.result.load import RunTables

_KEY = ("cell", "trial")


def arrivals(tables: RunTables, group: str, *of_trial: str) -> pl.LazyFrame:
    """Return the packets of a group that arrive after the warm-up of valid trials; group `all` is all flows.

    The columns are those of table `packets`, and those of table `trials` that are named.
    """
    valid = tables.trials.filter(pl.col("status") == "ok")
    warmup = pl.col("warmup_s").fill_null(0.0) if "warmup_s" in valid.columns else pl.lit(0.0)
    trials = valid.select(*_KEY, *of_trial, (warmup * 1000).alias("warmup_ms"))
    own = pl.lit(value=True) if group == "all" else pl.col("group") == group
    packets = tables.scan("packets").filter(own).join(trials.lazy(), on=_KEY)
    return packets.filter(pl.col("t_ms") >= pl.col("warmup_ms")).drop("warmup_ms")
