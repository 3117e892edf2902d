# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tables of a run as frames."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from l4sbench.errors import InputError
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import Make

CELLS = [
    {"aqm": "fifo", "l4s": [40, 42], "classic": [50, 51]},
    {"aqm": "codel", "l4s": [60], "classic": [30]},
]


def test_frames(make: Make) -> None:
    tables = make(CELLS)
    assert (tables.trials.height, tables.flows.height) == (3, 6)
    assert tables.groups.filter(group="l4s")["goodput_mbps"].to_list() == [40, 42, 60]
    assert tables.scan("flows").select("cell").collect().height == 6


def test_only_some_cells(make: Make) -> None:
    tables = make(CELLS)
    some = load(tables.folder.parent, frozenset({"cell-0001"}))
    assert (some.trials.height, some.flows["cell"].unique().to_list()) == (1, ["cell-0001"])
    assert some.catalog.height == tables.catalog.height


def test_parts_have_every_row_once_and_whole_cells(make: Make) -> None:
    cells = [{"aqm": "fifo", "buffer_bdp": n, "l4s": [40, 42], "classic": [50, 51]} for n in range(1, 8)]
    tables = make(cells)
    for rows, number in ((1, 7), (4, 7), (8, 4), (1000, 1)):
        parts = list(tables.parts("flows", rows))
        assert len(parts) == number
        assert pl.concat(part.flows for part in parts).equals(tables.flows)
        assert max(part.flows.height for part in parts) <= max(rows, 4)


def test_parts_of_some_cells_and_of_none(make: Make) -> None:
    tables = make(CELLS)
    some = load(tables.folder.parent, frozenset({"cell-0001"}))
    assert [part.flows["cell"].unique().to_list() for part in some.parts("flows", 1)] == [["cell-0001"]]
    none = load(tables.folder.parent, frozenset())
    assert [part.flows.height for part in none.parts("flows")] == [0]


def test_by_run_tables_or_latest(make: Make) -> None:
    folder = make(CELLS).folder
    assert load(folder).folder == load(folder.parent).folder == folder
    (folder.parent / "matrix").mkdir()
    (folder.parent / "matrix" / "latest").symlink_to(folder.parent)
    assert load(folder.parent / "matrix").trials.height == 3


def test_what_is_not_there(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no tables"):
        load(tmp_path / "nothing")
    tables = make(CELLS)
    with pytest.raises(InputError, match="drops is not a table"):
        tables.frame("drops")
    with pytest.raises(InputError, match="verdicts"):
        _ = tables.verdicts


def test_flows_that_are_left_out_count_with_the_mean_of_the_others(make: Make) -> None:
    path = make(CELLS).folder / "flows.parquet"
    flows = pl.read_parquet(path)
    first = flows.filter(
        (pl.col("group") == "l4s") & (pl.col("cell") == "cell-0000") & (pl.col("trial") == 1)
    )
    others = [first.with_columns(flow=pl.lit(f"l4s-{index}"), goodput_mbps=pl.lit(20.0)) for index in (1, 2)]
    odd = first.with_columns(
        flow=pl.lit("l4s-3"), goodput_mbps=pl.lit(None, pl.Float64), left_out=pl.lit("x")
    )
    pl.concat([flows, *others, odd], how="diagonal_relaxed").write_parquet(
        path, metadata=pl.read_parquet_metadata(path)
    )
    group = RunTables(path.parent).groups.filter(group="l4s", cell="cell-0000", trial=1)
    assert group["flows"].item() == 4
    assert group["goodput_mbps"].item() == pytest.approx((40 + 20 + 20) / 3 * 4)


def test_columns_that_are_newer_than_a_table_are_null(make: Make) -> None:
    path = make(CELLS).folder / "flows.parquet"
    flows = pl.read_parquet(path)
    flows.drop("left_out").write_parquet(path, metadata=pl.read_parquet_metadata(path))
    assert RunTables(path.parent).flows["left_out"].null_count() == flows.height
