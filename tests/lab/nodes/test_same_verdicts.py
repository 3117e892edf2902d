# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Booted nodes on the wall clock and the virtual testbed agree on the verdicts of cells."""

import os
from pathlib import Path

import pytest

import l4sbench
from l4sbench.app import api
from tests.lab.nodes.hosts import booted, check_only_busy

pytestmark = [pytest.mark.lab, pytest.mark.long]

NAME = f"test-verdicts-{os.getpid()}"


def words(ended: "l4sbench.app.api.EndedRun") -> dict[str, str]:
    """The verdict on every cell."""
    assert ended.decision is not None
    return {cell.id: cell.word.value for verdict in ended.decision.verdicts for cell in verdict.cells}


def test_every_cell_has_the_verdict_it_has_in_virtual_time(able: None, tmp_path: Path) -> None:
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        pytest.skip(f"{cores} cores have a load of {load:.0f}: a node that waits for its turn sends late")
    virtual = words(l4sbench.run("testbeds25", runs=tmp_path / "virtual"))
    assert set(virtual.values()) == {"ok", "l4s-starved", "classic-starved"}
    with booted(NAME) as up:
        on_nodes = l4sbench.run("testbeds25", on=f"ssh:{up.inventory}", trials=1, runs=tmp_path / "nodes")
    check_only_busy(api.load(on_nodes).trials)
    measured = {cell: word for cell, word in words(on_nodes).items() if word != "invalid"}
    if not measured:
        pytest.skip("the machine became busy: every trial on nodes sent late")
    assert measured == {cell: virtual[cell] for cell in measured}
