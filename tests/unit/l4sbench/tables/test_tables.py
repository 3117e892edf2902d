# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Schemas and files of tables."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench import tables
from l4sbench.errors import InputError
from l4sbench.tables.__main__ import document
from l4sbench.tables.files import FORMAT_KEY, TABLE_KEY

ROOT = Path(__file__).parents[4]


def intervals(rows: int, cell: str = "c") -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "cell": [cell] * rows,
            "trial": [1] * rows,
            "flow": ["l4s-0"] * rows,
            "t_ms": list(range(rows)),
            "group": ["l4s"] * rows,
            "seconds": [1.0] * rows,
            "warmup": [False] * rows,
        }
    )
    return tables.conform("intervals", frame)


def test_the_documentation_is_current() -> None:
    assert (ROOT / "docs/tables.md").read_text() == document(), "python -m l4sbench.tables > docs/tables.md"


def test_every_column_has_a_meaning_and_numbers_with_units_say_so() -> None:
    suffixes = {"Mbit/s": "_mbps", "ms": "_ms", "bytes": "_bytes", "packets": "_packets", "%": "_percent"}
    for table in tables.SCHEMAS:
        for name, column in tables.schema(table).columns().items():
            assert column.description, f"{table}.{name}"
            unit = (column.metadata or {}).get("unit", "")
            if unit in suffixes:
                assert name.endswith(suffixes[unit]), f"{table}.{name} is in {unit}"


def test_keys() -> None:
    assert tables.key("flows") == ("cell", "trial", "flow")
    assert tables.key("sockets") == ("cell", "trial", "node", "flow", "t_ms")
    assert tables.key("queues") == ("cell", "trial", "node", "network", "handle", "t_ms")
    assert "verdicts" not in tables.OF_TRIALS
    assert "catalog" not in tables.OF_TRIALS


def test_conform_sorts_fills_and_orders() -> None:
    frame = intervals(3).sample(fraction=1, shuffle=True, seed=1).drop("srtt_ms")
    found = tables.conform("intervals", frame)
    assert found["t_ms"].to_list() == [0, 1, 2]
    assert found.columns == list(tables.SCHEMAS["intervals"].columns())
    assert found["srtt_ms"].null_count() == 3


def test_conform_refuses_what_breaks_the_schema() -> None:
    good = intervals(2)
    with pytest.raises(ValueError, match="primary_key"):
        tables.conform("intervals", good.with_columns(t_ms=0))
    with pytest.raises(ValueError, match="min"):
        tables.conform("intervals", good.with_columns(goodput_mbps=-1.0))
    with pytest.raises(ValueError, match="nullability"):
        tables.conform("intervals", good.with_columns(group=None))
    with pytest.raises(ValueError, match="columns more are not in table intervals"):
        tables.conform("intervals", good.with_columns(more=1))


def test_columns_that_entries_of_ones_own_export_come_last(tmp_path: Path) -> None:
    row = {
        "cell": "c",
        "trial": 1,
        "node": "tx",
        "flow": "l4s-0",
        "t_ms": 0,
        "group": "l4s",
        "side": "sender",
    }
    plain = tables.conform("sockets", pl.DataFrame([row]))
    more = tables.conform("sockets", pl.DataFrame([{**row, "trial": 2, "mine_x": 7, "mine_a": "word"}]))
    assert plain.columns[-1] == "prague_fallback_mdev_ms"
    assert more.columns == [*plain.columns, "mine_a", "mine_x"]
    path = tmp_path / "sockets.parquet"
    tables.write("sockets", [plain.lazy(), more.lazy()], path)
    assert tables.scan(path).collect().columns == more.columns
    assert tables.scan(path).collect()["mine_x"].to_list() == [None, 7]


def test_factors_stand_behind_the_key_of_trials() -> None:
    row = {"cell": "c", "trial": 1, "status": "ok", "seed": "1", "inputs": "i", "folder": "f"}
    frame = pl.DataFrame([row | {"rtt_ms": 10.0, "aqm": "fifo", "l4s.cc": "prague"}])
    found = tables.conform("trials", frame)
    assert found.columns[:6] == ["cell", "trial", "aqm", "l4s.cc", "rtt_ms", "status"]


@given(cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_how_rows_are_cut_does_not_show(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    folder = tmp_path_factory.mktemp("tables")
    frame = intervals(5000)
    edges = [0, *sorted(cuts), 5000]
    parts = [frame[low:high].lazy() for low, high in pairwise(edges)]
    tables.write("intervals", parts, folder / "parts.parquet")
    tables.write("intervals", [frame.lazy()], folder / "whole.parquet")
    assert (folder / "parts.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()
    assert pl.read_parquet(folder / "parts.parquet").equals(frame)


def test_a_table_may_replace_itself(tmp_path: Path) -> None:
    path = tmp_path / "intervals.parquet"
    tables.write("intervals", [intervals(10).lazy()], path)
    tables.write("intervals", [tables.scan(path), intervals(5, "d").lazy()], path)
    assert pl.read_parquet(path).height == 15
    assert [p.name for p in tmp_path.iterdir()] == ["intervals.parquet"]


def test_empty_tables(tmp_path: Path) -> None:
    for table in tables.SCHEMAS:
        path = tmp_path / f"{table}.parquet"
        tables.write(table, [], path)
        assert tables.scan(path).collect().equals(tables.empty(table))


def test_lists_were_texts_in_format_1(tmp_path: Path) -> None:
    path = tmp_path / "trials.parquet"
    before = pl.DataFrame({"flags": ["busy-host; limited-start", None], "kernels": ["6.1, 7.3", "7.3"]})
    before = before.with_columns(modules=pl.lit("tcp_prague=1"))
    before.write_parquet(path, metadata={FORMAT_KEY: "1"})
    found = tables.scan(path).collect()
    assert found["flags"].to_list() == [["busy-host", "limited-start"], None]
    assert found["kernels"].to_list() == [["6.1", "7.3"], ["7.3"]]
    assert found["modules"].to_list() == [["tcp_prague=1"]] * 2


def test_format_versions(tmp_path: Path) -> None:
    path = tmp_path / "intervals.parquet"
    with pytest.raises(InputError, match="does not exist"):
        tables.scan(path)
    path.write_text("nonsense")
    with pytest.raises(InputError, match="is not a table of l4sbench"):
        tables.scan(path)
    intervals(1).write_parquet(path, metadata={FORMAT_KEY: str(tables.FORMAT + 1)})
    with pytest.raises(InputError, match="a newer l4sbench"):
        tables.scan(path)
    tables.write("intervals", [intervals(1).lazy()], path)
    assert tables.format_of(path) == tables.FORMAT
    assert pl.read_parquet_metadata(path)[TABLE_KEY] == "intervals"
