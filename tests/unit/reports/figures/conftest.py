# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run of captured trials, and published cells as if they were a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.assemble import collect
from l4sbench.catalog import Catalog
from l4sbench.cell import Cell
from l4sbench.events import Status
from l4sbench.program import Program
from l4sbench.program.trial import TrialSpec
from l4sbench.store import Ending, Run, locked
from l4sbench.topology import topology
from l4sbench.traits import Identity
from reports.published import published_cells
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import measured

CASES = Path(__file__).parents[3] / "cases" / "trials"
MATRIX = b"""
matrix: captured
rate: 10mbit
rtt: 10ms
duration: 3s
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fifo, codel, dualpi2]
"""
Make = Callable[[Any], RunTables]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    """The captured trials as one run, which tests only read."""
    run = Run.create(tmp_path_factory.mktemp("figures") / "runs", "captured", MATRIX, 1, {})
    identity = Identity("virtual", "7.3.4-l4slab", {}, {}, {})
    for name in ("iperf3-fifo", "lean-codel-warmup", "lean-dualpi2"):
        case = CASES / name
        cell = Cell.from_json(json.loads((case / "cell.json").read_text()))
        plain = json.loads((case / "raw" / "programs.json").read_text())
        programs = {node: Program.from_json(program) for node, program in plain.items()}
        spec = TrialSpec(cell, 1, 7, programs, topology(cell.topology), "0123456789abcdef")
        with locked(run) as writer, writer.begin(spec) as partial:
            shutil.copytree(case / "raw", partial.raw, dirs_exist_ok=True)
            partial.end(Ending(Status.OK, (), identity, datetime.now(UTC), 1.0))
    collect(run, Catalog.load())
    return load(run.path)


@pytest.fixture
def published(make: Make) -> Decision:
    """Prague against CUBIC as published, one trial per cell."""
    cells = [
        measured(cell)
        for cell in published_cells()
        if {"l4s.cc": "prague", "classic.cc": "cubic"}.items() <= cell.factors.items()
        and (cell.factors["l4s.fallback"] == "off" or cell.factors["classic.ecn"] == "classic")
    ]
    return decide(make(cells), load_rule("pam25"))
