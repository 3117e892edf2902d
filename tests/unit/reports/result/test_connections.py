# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slowdown of connections: medians by trial and group, and those that have no end."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from l4sbench import tables
from reports.result.connections import responsiveness, slowdowns
from reports.result.load import RunTables

KEY = {"cell": "c", "trial": 1}
FLOW = {"flow": "web-0", "group": "web"}


@pytest.fixture
def run(tmp_path: Path) -> RunTables:
    flow = KEY | FLOW | {"sender": "tx", "receiver": "rx", "start_ms": 100.0, "seconds": 10.0}
    write(tmp_path, "flows", [flow])
    second = {"t_ms": 1000, "seconds": 1.0, "srtt_ms": None, "warmup": False}
    write(tmp_path, "intervals", [KEY | FLOW | second])
    return RunTables(tmp_path)


def write(folder: Path, table: str, rows: list[dict[str, object]]) -> None:
    frame = tables.conform(table, pl.DataFrame(rows))
    tables.write(table, [frame.lazy()], folder / f"{table}.parquet")


def connections(run: RunTables, *took: tuple[float, float | None, float | None]) -> None:
    """Write connections by opening, completion time and fair time; those before 2 s are of the warm-up."""
    rows = [
        KEY
        | FLOW
        | {"request": number, "t_ms": t_ms, "handshake_ms": 20.0, "response_ms": response_ms}
        | {"payload_bytes": 10_000, "fair_ms": fair_ms, "warmup": t_ms < 2_000}
        for number, (t_ms, response_ms, fair_ms) in enumerate(took, start=1)
    ]
    write(run.folder, "requests", rows)


def test_the_median_of_those_after_the_warmup(run: RunTables) -> None:
    connections(run, (100, 900, 10), (2_100, 20, 10), (3_100, 40, 10), (4_100, 300, 100))
    assert slowdowns(run).rows() == [("c", 1, "web", 3.0)]


def test_one_without_an_end_counts_with_the_time_that_it_had(run: RunTables) -> None:
    connections(run, (2_100, 10, 10), (4_100, None, 1_000), (5_100, None, 1_000))
    assert slowdowns(run)["slowdown"].to_list() == [5.0]


def test_one_that_could_not_have_ended_does_not_count(run: RunTables) -> None:
    connections(run, (2_100, 20, 10), (10_050, None, 1_000))
    assert slowdowns(run)["slowdown"].to_list() == [2.0]


def test_tables_of_older_versions_have_none(run: RunTables) -> None:
    assert slowdowns(run).is_empty()
    assert responsiveness(run).is_empty()
    connections(run, (2_100, 20, None))
    assert slowdowns(run).is_empty()


def test_long_requests_say_nothing_about_round_trips(run: RunTables) -> None:
    connections(run, (2_100, 20, 10))
    assert responsiveness(run).is_empty()
