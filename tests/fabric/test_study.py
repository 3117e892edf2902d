# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell of a study over FABRIC: its quick variant by name, on machines that boot, behind a bastion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds import nodes
from tests.fabric.place import Place, one_lab, place_of
from tests.lab.nodes.hosts import check_only_busy

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"127.82.{os.getpid() % 250}.1"
NAME = f"study-{os.getpid()}"
STUDY = "stress25-steps"


@pytest.fixture(scope="module")
def booted() -> Iterator[nodes.NodesStatus]:
    with one_lab(NAME, HOST) as lab:
        yield lab


@pytest.fixture
def fabric(booted: nodes.NodesStatus, tmp_path: Path) -> Iterator[Place]:
    with place_of(booted, HOST, tmp_path) as found:
        yield found


def test_a_step_of_the_rate_goes_over_fabric(fabric: Place) -> None:
    made = fabric.l4sbench("slice", "up", "study", "--cores", "2", "--image", "default_debian_12")
    assert made.returncode == 0, made.stderr
    run = fabric.l4sbench("run", STUDY, "--quick", "rate=25mbit", "flow.cc=cubic", "--on", "fabric:study")
    assert run.returncode in {0, 1}, run.stderr
    assert "FAILED" not in run.stderr

    tables = fabric.home / "runs" / f"{STUDY}-quick" / "latest" / "tables"
    trials = pl.read_parquet(tables / "trials.parquet")
    check_only_busy(trials)
    (trial,) = trials.iter_rows(named=True)
    assert (trial["testbed"], trial["flow.cc"]) == ("fabric", "cubic")
    (event,) = pl.read_parquet(tables / "events.parquet").iter_rows(named=True)
    assert (event["event"], event["factor"], event["value"]) == ("step", "rate", "100mbit")
    assert event["t_ms"] >= 20_000
    queue = pl.read_parquet(tables / "queues.parquet").filter(kind="fq_codel").sort("t_ms")
    before = queue.filter(pl.col("t_ms") < 20_000)["sent_bytes"].max()
    assert 10 < before * 8 / 20e6 < 25.5  # type: ignore[operator]
    assert queue["sent_bytes"].max() > 2.1 * before  # type: ignore[operator]
    assert fabric.l4sbench("slice", "down", "study").returncode == 0
