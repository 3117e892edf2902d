# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Clusters that docs/scale.md starts in Python: on this machine, and by ssh over loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.dask.cluster import Command
from tests.patience import PATIENCE_S

pytest.importorskip("distributed", reason="needs the extra `scale`")
pytest.importorskip("asyncssh", reason="needs the extra `scale`")
pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[3]
MATRIX = """\
matrix: clusters
topology: line6
rate: 10mbit
rtt: 10ms
duration: 2s
trials: 1
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
aqm: dualpi2
axes: {family: [ipv4, ipv6]}
"""
BY_SSH = """\
import sys
from dask.distributed import SSHCluster
if __name__ == "__main__":
    home, port = sys.argv[1:]
    options = {"port": int(port), "username": "me", "known_hosts": None, "client_keys": [f"{home}/key"]}
    cluster = SSHCluster(["127.0.0.1"] * 3, connect_options=options, remote_python=sys.executable,
                         scheduler_options={"dashboard": False}, worker_options={"nthreads": 1})
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


def example(name: str) -> str:
    """Return the Python example of the docs that starts a cluster of this class."""
    blocks = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8").split("```python\n")[1:]
    return next(block.partition("```")[0] for block in blocks if f"import {name}" in block)


def run_on(address: str, folder: Path) -> None:
    matrix = folder / "clusters.yaml"
    matrix.write_text(MATRIX)
    command = Command(matrix, folder / "runs", "--on", f"dask:{address}")
    assert command.end() == 0, command.text
    assert len([*(folder / "runs").glob("clusters/latest/cells/*/*/trial.json")]) == 2


@contextmanager
def started(*words: object) -> Iterator[str]:
    """Start a Python script that ends with its standard input; yield the first line that it prints."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=PATIENCE_S)


def test_a_local_cluster_as_documented(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "cluster.py"
    script.write_text(example("LocalCluster"))
    with started(script) as address:
        run_on(address, tmp_path)


@pytest.mark.long
def test_a_cluster_by_ssh_over_loopback(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "cluster.py"
    script.write_text(BY_SSH)
    with (
        started(Path(__file__).with_name("sshd.py"), tmp_path) as port,
        started(script, tmp_path, port) as address,
    ):
        run_on(address, tmp_path)
