# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The whole way: unmodified fablib, an orchestrator's stand-in, and machines that boot, behind a bastion.

What the stand-in hands out as virtual machines are the nodes of a local lab. A slice is reserved, prepared,
measured on and given back, as on FABRIC; all but FABRIC itself is real.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from ruamel.yaml import YAML

from l4sbench.errors import TestbedError
from l4sbench.testbeds import nodes
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.build import Lab
from tests.fabric.account import ROOT, environment, may_serve, write_certificate
from tests.fabric.conftest import StandIn
from tests.lab.nodes import hosts

pytestmark = [pytest.mark.lab, pytest.mark.long]

HOST = f"127.78.{os.getpid() % 250}.1"
NAME = f"rehearsal-{os.getpid()}"

MATRIX = """\
matrix: rehearsal
topology: line6
rate: 25mbit
rtt: 10ms
duration: 4s
trials: 1
rule: pam25
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fifo, dualpi2]
"""


@pytest.fixture(scope="module")
def booted() -> Iterator[nodes.NodesStatus]:
    try:
        Lab.locate()
    except TestbedError as error:
        pytest.skip(f"{error}; l4sbench lab build")
    missing = [check for check in node_checks() if not check.ok]
    if missing or not may_serve():
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing) or "port 443 is root's")
    with hosts.booted(NAME, bastion=(HOST, 22)) as state:
        yield state


@pytest.fixture
def account(booted: nodes.NodesStatus, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    assert booted.inventory is not None
    hosts = YAML(typ="safe").load(booted.inventory)["all"]["children"]["nodes"]["hosts"]
    machines = {
        node.name: {"address": node.address, "ports": dict(hosts[node.name]["l4sbench_ports"])}
        for node in booted.nodes
        if node.name in hosts
    }
    listed = tmp_path / "machines.json"
    listed.write_text(json.dumps(machines))
    certificate, key = write_certificate(tmp_path, HOST)
    arguments = ("--host", HOST, "--port", "443", "--tls", str(certificate), str(key))
    os.environ["SSL_CERT_FILE"] = str(certificate)
    standin = StandIn(*arguments, "--machines", str(listed))
    keys = booted.inventory.parent
    try:
        yield environment(
            standin,
            HOST,
            certificate,
            tmp_path,
            bastion=("debian", keys / "id_bastion"),
            key=keys / "id_ecdsa",
        )
    finally:
        del os.environ["SSL_CERT_FILE"]
        standin.close()


WAIT = """\
import time
from pathlib import Path

log = Path("runs/rehearsal/detached.log")
ends = time.monotonic() + 500
while "run: " not in log.read_text() and "error:" not in log.read_text() and time.monotonic() < ends:
    time.sleep(1)
print(log.read_text())
"""


def executed(account: Mapping[str, str]) -> list[str]:
    """The notebook's cells run in a kernel of their own, as in JupyterHub; the text each of them shows."""
    notebook = nbformat.read(ROOT / "notebooks" / "fabric.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    (parameters,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    wishes = "--cores 2 --image default_debian_12"
    parameters.source = f'MATRIX = "rehearsal.yaml"\nSLICE = "rehearsal"\nWISHES = "{wishes}"\n'
    (progress,) = [cell for cell in code if "progress" in cell.metadata.get("tags", [])]
    wait = nbformat.v4.new_code_cell(WAIT)  # type: ignore[no-untyped-call]
    notebook.cells.insert(notebook.cells.index(progress), wait)
    own = dict(account)
    own["PATH"] = f"{Path(sys.executable).parent}:{own['PATH']}"
    client = NotebookClient(notebook, timeout=600, kernel_name="python3")
    client.execute(cwd=account["HOME"], env=own)
    return [
        "".join(
            output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def l4sbench(account: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "l4sbench", *arguments],
        stdin=subprocess.DEVNULL,
        env=dict(account),
        cwd=account["HOME"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_the_notebook_from_nothing_to_a_decision_table(account: Mapping[str, str]) -> None:
    home = Path(account["HOME"])
    (home / "rehearsal.yaml").write_text(MATRIX)

    _, reserved, _, made, _, log, _, table, frame, _ = executed(account)
    assert "FABRIC's own model takes it" in reserved
    assert "rehearsal: StableOK" in made
    assert "trials: " in log, log
    assert "failed" not in log, log
    assert "Is it okay to switch to Prague?" in table
    assert "goodput_mbps" in frame

    tables = home / "runs" / "rehearsal" / "latest" / "tables"
    trials = pl.read_parquet(tables / "trials.parquet")
    # a busy machine makes a trial invalid; nothing else may
    for reasons in trials["reasons"].drop_nulls():
        assert re.fullmatch(r"(\S+: (limited by its|its host was too busy:) .*?(; )?)*", reasons), reasons
    assert trials["testbed"].unique().to_list() == ["fabric"]
    flows = pl.read_parquet(tables / "flows.parquet")
    assert flows.height == 2 * trials.filter(status="ok").height
    assert flows.is_empty() or flows["goodput_mbps"].min() > 1  # type: ignore[operator]
    assert trials.height == 2

    # a controller that is started anew adopts the slice, and has nothing left to run
    again = l4sbench(account, "run", "rehearsal.yaml", "--on", "fabric:rehearsal")
    assert again.returncode == 0, again.stderr
    assert "nothing had to be run" in again.stderr
    assert l4sbench(account, "slice", "down", "rehearsal").returncode == 0
