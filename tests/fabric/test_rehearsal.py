# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The whole way: unmodified fablib, an orchestrator's stand-in, and machines that boot, behind a bastion.

What the stand-in hands out as virtual machines are the nodes of a local lab. A slice is reserved, prepared,
measured on and given back, as on FABRIC; all but FABRIC itself is real.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient

from l4sbench.testbeds import nodes
from tests.fabric.account import ROOT
from tests.fabric.conftest import matrix_text
from tests.fabric.place import Place, one_lab, place_of
from tests.lab.nodes.hosts import check_only_busy
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"127.78.{os.getpid() % 250}.1"
NAME = f"rehearsal-{os.getpid()}"

MATRIX = matrix_text("rehearsal", "fifo", "dualpi2", duration="4s")


@pytest.fixture(scope="module")
def booted() -> Iterator[nodes.NodesStatus]:
    with one_lab(NAME, HOST) as lab:
        yield lab


@pytest.fixture
def fabric(booted: nodes.NodesStatus, tmp_path: Path) -> Iterator[Place]:
    with place_of(booted, HOST, tmp_path) as found:
        yield found


WAIT = f"""\
import time
from pathlib import Path

log = Path("runs/rehearsal/detached.log")
ends = time.monotonic() + {PATIENCE_S}
while "run: " not in log.read_text() and "error:" not in log.read_text() and time.monotonic() < ends:
    time.sleep(1)
print(log.read_text())
"""


def executed(account: Mapping[str, str]) -> list[str]:
    """The notebook's cells run in a kernel of their own, as in JupyterHub; the text each of them shows."""
    notebook = nbformat.read(ROOT / "notebooks" / "fabric.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    (parameters,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    wishes = "--cores 2"
    parameters.source = f'MATRIX = "rehearsal.yaml"\nSLICE = "rehearsal"\nWISHES = "{wishes}"\n'
    (progress,) = [cell for cell in code if "progress" in cell.metadata.get("tags", [])]
    wait = nbformat.v4.new_code_cell(WAIT)  # type: ignore[no-untyped-call]
    notebook.cells.insert(notebook.cells.index(progress), wait)
    own = dict(account)
    own["PATH"] = f"{Path(sys.executable).parent}:{own['PATH']}"
    client = NotebookClient(notebook, timeout=PATIENCE_S, kernel_name="python3")
    client.execute(cwd=account["HOME"], env=own)
    return [
        "".join(
            output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_from_nothing_to_a_decision_table(fabric: Place) -> None:
    home = fabric.home
    (home / "rehearsal.yaml").write_text(MATRIX)

    _, _, reserved, _, made, _, log, _, table, frame, _ = executed(fabric.account)
    assert "valid in FABRIC's information model" in reserved
    assert "rehearsal: StableOK" in made
    assert "trials: " in log, log
    assert "failed" not in log, log
    assert "Is it okay to switch to Prague?" in table
    assert "goodput_mbps" in frame

    tables = home / "runs" / "rehearsal" / "latest" / "tables"
    trials = pl.read_parquet(tables / "trials.parquet")
    # a busy machine makes a trial invalid; nothing else may
    check_only_busy(trials)
    assert trials["testbed"].unique().to_list() == ["fabric"]
    flows = pl.read_parquet(tables / "flows.parquet")
    assert flows.height == 2 * trials.filter(status="ok").height
    assert flows.is_empty() or flows["goodput_mbps"].min() > 1  # type: ignore[operator]
    assert trials.height == 2

    # a controller that is started anew adopts the slice, and has nothing left to run
    again = fabric.l4sbench("run", "rehearsal.yaml", "--on", "fabric:rehearsal")
    assert again.returncode == 0, again.stderr
    assert "nothing to run" in again.stderr
    assert fabric.l4sbench("slice", "down", "rehearsal").returncode == 0
