# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two slices share out a matrix; the machines of each are those of a lab of its own that boots.

Twelve nodes on two cores: 10 Mbit/s, and flows may be held up, which makes a trial invalid and nothing else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds import nodes
from l4sbench.testbeds.nodes.home import Home
from l4sbench.testbeds.nodes.keeper import SOCKET
from tests.fabric.bastion import Way, bastion
from tests.fabric.conftest import matrix_text
from tests.fabric.place import Place, machines_of, place, power_off, require_nodes
from tests.lab.nodes import hosts

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"127.80.{os.getpid() % 250}.1"
NAME = f"several-{os.getpid()}"

MATRIX = matrix_text("several", "fifo", "codel", "pie", "fq-codel", rate="10mbit", duration="5s")

RUN = ("run", "several.yaml", "--on", "fabric:two", "--slices", "2")


@pytest.fixture(autouse=True)
def home() -> None:
    """Commands have a home of their own; the labs are in the user's cache."""


@pytest.fixture(scope="module")
def labs() -> Iterator[tuple[nodes.NodesStatus, ...]]:
    require_nodes()
    with ExitStack() as stack:
        first = stack.enter_context(hosts.booted(f"{NAME}-1"))
        # machines of a project have one key
        folder = Home.of(f"{NAME}-2").folder
        folder.mkdir(parents=True)
        for name in ("id_ecdsa", "id_ecdsa.pub"):
            shutil.copy(first.folder / name, folder / name)
        yield first, stack.enter_context(hosts.booted(f"{NAME}-2"))


@pytest.fixture
def fabric(labs: tuple[nodes.NodesStatus, ...], tmp_path: Path) -> Iterator[Place]:
    machines, ways = {}, {}
    for number, lab in enumerate(labs, start=1):
        state = Home.of(lab.name).state()
        assert state is not None
        own = machines_of(lab)
        for place_of, machine in enumerate(own.values(), start=11):
            given = f"10.78.{number}.{place_of}"
            ways[given] = Way(state.run / SOCKET, machine["address"])
            machine["address"] = given
        machines[f"two-{number}"] = own
    key = labs[0].folder / "id_ecdsa"
    with bastion(HOST, key, ways), place(HOST, tmp_path, machines, key, key) as found:
        (found.home / "several.yaml").write_text(MATRIX)
        yield found


def under_way(fabric: Place) -> int:
    """Trials that have begun and not ended."""
    return len(list((fabric.home / "runs").glob("several/latest/cells/*/*.partial")))


def test_two_slices_share_out_the_cells_and_one_goes_on_without_the_other(
    fabric: Place, labs: tuple[nodes.NodesStatus, ...]
) -> None:
    for number in (1, 2):
        name = f"two-{number}"
        made = fabric.l4sbench("slice", "up", name, "--cores", "2", "--image", "default_debian_12")
        assert made.returncode == 0, made.stderr
    with fabric.running(*RUN) as run:
        run.wait_until(lambda: under_way(fabric) == 2)
        run.wait_until(lambda: len(fabric.trials("several")) >= 1 and under_way(fabric) == 2)
        fabric.standin.faults(vanish={"two-2": "Host failed"})
        power_off(labs[1])
        code, said = run.wait(), run.said
    assert code in {0, 1}, said
    assert "FAILED" not in said
    assert (
        "warning: slice two-2 is gone: FABRIC removed it (Dead; Host failed); the run continued without it"
    ) in said
    trials = fabric.trials("several")
    assert len(trials) == 4, said
    assert {status for status, _ in trials.values()} <= {"ok", "invalid"}
    tables = fabric.home / "runs" / "several" / "latest" / "tables"
    table = pl.read_parquet(tables / "trials.parquet")
    assert sorted(table["aqm"]) == ["codel", "fifo", "fq-codel", "pie"]
    flows = pl.read_parquet(tables / "flows.parquet")
    assert flows.height == 2 * table.filter(status="ok").height
    assert flows.is_empty() or flows["goodput_mbps"].min() > 0.1  # type: ignore[operator]
