# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Faults in the middle of a run on machines that boot: bastion, slice, controller.

The command is the user's, fablib is unmodified; 25 Mbit/s is what six nodes on two cores carry.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds import nodes
from tests.fabric.conftest import matrix_text
from tests.fabric.place import Place, flows_on, made_anew, one_lab, place_of, power_off
from tests.lab.nodes.hosts import check_only_busy
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"127.79.{os.getpid() % 250}.1"
NAME = f"faults-{os.getpid()}"

MATRIX = matrix_text("faults", "codel", "dualpi2")

RUN = ("run", "faults.yaml", "--on", "fabric:faults")


@pytest.fixture(autouse=True)
def home() -> None:
    """Commands have a home of their own; the labs are in the user's cache."""


@pytest.fixture(scope="module")
def booted() -> Iterator[nodes.NodesStatus]:
    with one_lab(NAME, HOST) as lab:
        yield lab


@pytest.fixture
def fabric(booted: nodes.NodesStatus, tmp_path: Path) -> Iterator[Place]:
    with place_of(booted, HOST, tmp_path) as found:
        (found.home / "faults.yaml").write_text(MATRIX)
        made = found.l4sbench("slice", "up", "faults", "--cores", "2", "--image", "default_debian_12")
        assert made.returncode == 0, made.stderr
        yield found


def whole(fabric: Place, code: int, said: str) -> None:
    """Both trials stand there; a busy machine may hold flows up, which makes a trial invalid."""
    assert code in {0, 1}, said
    assert "FAILED" not in said
    assert len(fabric.trials("faults")) == 2
    assert {status for status, _ in fabric.trials("faults").values()} <= {"ok", "invalid"}, said
    check_only_busy(pl.read_parquet(fabric.home / "runs/faults/latest/tables/trials.parquet"))


def test_a_bastion_that_drops_connections_and_goes_away_costs_no_trial(
    fabric: Place, booted: nodes.NodesStatus
) -> None:
    with fabric.running(*RUN) as run:
        run.wait_until(lambda: flows_on(booted))
        assert fabric.drop_connections() >= 6
        run.wait_until(lambda: len(fabric.trials("faults")) == 1)
        run.wait_until(lambda: flows_on(booted))
        nodes.halt(booted.name, "bastion")
        time.sleep(5)
        nodes.up("line6", name=booted.name)
        whole(fabric, run.wait(), run.said)


def test_a_controller_that_is_killed_goes_on_where_it_was(fabric: Place, booted: nodes.NodesStatus) -> None:
    with fabric.running(*RUN) as run:
        run.wait_until(lambda: len(fabric.trials("faults")) == 1)
        run.wait_until(lambda: flows_on(booted))
        run.process.kill()
        run.process.wait(PATIENCE_S)
    before = fabric.trials("faults")
    again = fabric.l4sbench(*RUN)
    whole(fabric, again.returncode, again.stderr)
    assert before.items() <= fabric.trials("faults").items()
    assert "1 trial of 1 cell to run" in again.stderr
    assert fabric.standin.creates() == 1


def test_a_slice_that_vanishes_is_told_and_the_same_command_goes_on(
    fabric: Place, booted: nodes.NodesStatus
) -> None:
    with fabric.running(*RUN) as run:
        run.wait_until(lambda: len(fabric.trials("faults")) == 1)
        run.wait_until(lambda: flows_on(booted))
        fabric.standin.faults(vanish={"faults": "Host is down for maintenance"})
        power_off(booted)
        assert run.wait() == 3, run.said
        said = run.said
    assert (
        "error: slice faults is gone: FABRIC removed it (Dead; Host is down for maintenance); "
        "the same command makes a new one and resumes; finished trials are kept"
    ) in said
    before = fabric.trials("faults")
    assert len(before) == 1
    # FABRIC hands out other machines at the same addresses
    made_anew(booted)
    fabric.standin.faults()
    again = fabric.l4sbench(*RUN)
    whole(fabric, again.returncode, again.stderr)
    assert before.items() <= fabric.trials("faults").items()
    assert fabric.standin.creates() == 2
