# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cell means with their intervals: the frame says what the pure functions say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from reports.result.cells import cell_means, factors_of
from reports.result.load import RunTables
from reports.result.stats import estimate
from tests.unit.reports.conftest import write

Make = Callable[[Any], RunTables]


@pytest.mark.parametrize("looks", [1, 3])
def test_intervals_are_those_of_the_pure_function(make: Make, looks: int) -> None:
    trials = [12.0, 10.0, 17.0]
    classic = [80.0, 85.0, 82.0]
    cells = [{"aqm": "fifo", "l4s": trials, "classic": classic}]
    (row,) = cell_means(make(cells), "l4s", "classic", looks=looks).to_dicts()
    for name, values in (("l4s", trials), ("classic", classic)):
        found = estimate(values, least=0, most=100, looks=looks)
        means = (
            row[f"{name}_mbps"],
            row[f"{name}_low_mbps"],
            row[f"{name}_high_mbps"],
            row[f"{name}_sd_mbps"],
        )
        assert means == pytest.approx((found.mean, found.low, found.high, found.sd))
    assert row["l4s_median_mbps"] == 12
    assert (row["percent_low"], row["percent_high"]) == (row["l4s_low_mbps"], row["l4s_high_mbps"])


def test_intervals_end_where_goodputs_do(make: Make) -> None:
    cells = [{"aqm": "fifo", "rate_mbps": 10.0, "l4s": [0.1, 9.9], "classic": [9, 1]}]
    (row,) = cell_means(make(cells), "l4s", "classic").to_dicts()
    assert (row["percent_low"], row["percent_high"], row["l4s_high_mbps"]) == (0, 100, 10)


def test_without_enough_trials_there_is_no_interval(make: Make) -> None:
    cells = [{"aqm": "fifo", "l4s": [50], "classic": [40]}, {"aqm": "codel", "status": ["failed"]}]
    for row in cell_means(make(cells), "l4s", "classic").to_dicts():
        assert (row["percent_low"], row["percent_high"], row["l4s_sd_mbps"], row["bimodal"]) == (None,) * 4


def test_bimodal_is_told_where_it_matters(make: Make) -> None:
    two, one = [30.0, 31, 84, 85, 86], [44.0, 44.1, 46, 46.1, 46]
    cells = [{"aqm": aqm, "l4s": got, "classic": got} for aqm, got in (("codel", two), ("fifo", one))]
    found = cell_means(make(cells), "l4s", "classic")
    assert found["bimodal"].to_list() == [True, False]


def test_estimates_are_no_factors(make: Make) -> None:
    cells = cell_means(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]), "l4s", "classic")
    assert set(factors_of(cells)) == {
        *("aqm", "buffer_bdp", "rate_mbps", "rtt_ms", "duration_s"),
        *(f"{group}.{name}" for group in ("l4s", "classic") for name in ("cc", "ecn", "count")),
    }


def test_a_goodput_that_is_not_known_is_not_zero(make: Make) -> None:
    tables = make([{"aqm": "fifo", "l4s": [50, 52], "classic": [40, 40]}])
    flows = tables.flows.with_columns(
        pl.when((pl.col("trial") == 2) & (pl.col("group") == "l4s"))
        .then(None)
        .otherwise(pl.col("goodput_mbps"))
        .alias("goodput_mbps")
    )
    write(tables.folder, "flows", flows.to_dicts())
    (row,) = cell_means(RunTables(tables.folder), "l4s", "classic").to_dicts()
    assert (row["valid"], row["left_out"], row["l4s_mbps"]) == (1, 1, 50)
