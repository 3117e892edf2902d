# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run of captured trials, and published cells as if they were a run."""

from __future__ import annotations

import pytest

from collectors.assemble import collect
from l4sbench.catalog import Catalog
from l4sbench.store import Run
from reports.published import published_cells
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.captured import captured_trial
from tests.unit.reports.conftest import Make, measured

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


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    """The captured trials as one run, which tests only read."""
    run = Run.create(tmp_path_factory.mktemp("figures") / "runs", "captured", MATRIX, 1, {})
    for name in ("iperf3-fifo", "lean-codel-warmup", "lean-dualpi2"):
        captured_trial(name).store(run)
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
