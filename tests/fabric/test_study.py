# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell of a study over FABRIC: its quick variant by name, on machines that boot, behind a bastion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds import nodes
from tests.fabric.place import Place, one_lab, place_of
from tests.fabric.trial import check_trial, run_on
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


@contextmanager
def reserved(fabric: Place, name: str) -> Iterator[str]:
    """Reserve a slice of a name, and give it back."""
    made = fabric.l4sbench("slice", "up", name, "--cores", "2", "--image", "default_debian_12")
    assert made.returncode == 0, made.stderr
    yield name
    assert fabric.l4sbench("slice", "down", name).returncode == 0


def test_a_step_of_the_rate_goes_over_fabric(fabric: Place) -> None:
    with reserved(fabric, "study") as name:
        run_on(fabric.l4sbench, name, STUDY, "--quick", "rate=25mbit", "flow.cc=cubic")

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


def run_over(fabric: Place, name: str, matrix: str) -> Path:
    """Run a matrix on a slice, both of one name, and return the run."""
    (fabric.home / f"{name}.yaml").write_text(matrix)
    run_on(fabric.l4sbench, name, f"{name}.yaml")
    return fabric.home / "runs" / name / "latest"


SIX = """\
matrix: six
rate: 10mbit
rtt: 20ms
duration: 4s
trials: 1
aqm: fifo
family: ipv6
rule: none
expect.bottleneck: false
flows: {classic: {cc: cubic}}
"""


def test_packets_of_ipv6_go_over_fabric(fabric: Place) -> None:
    """The record of the slice has the looks of its machines, and no address of the bastion."""
    with reserved(fabric, "six") as name:
        latest = run_over(fabric, name, SIX)
        recorded = fabric.l4sbench("slice", "record", name, "answers")
        assert recorded.returncode == 0, recorded.stderr
    trials = pl.read_parquet(latest / "tables" / "trials.parquet")
    check_only_busy(trials)
    assert trials.select("testbed", "family").rows() == [("fabric", "ipv6")]
    (raw,) = latest.glob("cells/*/*/raw")
    assert "fd4c:3453:46::a00:564" in (raw / "programs.json").read_text()
    looked = "".join(path.read_text() for path in (fabric.home / "answers").rglob("*") if path.is_file())
    assert looked.count("$ uname -a") == 6
    assert HOST not in looked


def test_what_a_live_slice_is_tested_with(fabric: Place) -> None:
    """The trial of test_live.py, on machines whose kernel has what it needs."""
    with reserved(fabric, "whole") as name:
        check_only_busy(check_trial(fabric.l4sbench, fabric.home, name, "10mbit"))


OWN_PATH = """\
matrix: own
rate: 10mbit
rtt: measured
buffer_bdp: 50
duration: 4s
trials: 1
aqm: fifo
rule: none
expect.bottleneck: false
flows: {classic: {cc: cubic}}
"""


def test_the_path_of_a_slice_is_measured(fabric: Place) -> None:
    with reserved(fabric, "own") as name:
        latest = run_over(fabric, name, OWN_PATH)
    trials = pl.read_parquet(latest / "tables" / "trials.parquet")
    check_only_busy(trials)
    ((testbed, rtt_ms),) = trials.select("testbed", "rtt_ms").rows()
    assert testbed == "fabric"
    assert 0.01 < rtt_ms < 40
