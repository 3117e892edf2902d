# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A whole trial over a slice: kernels and modules as its cell needs, Prague beside CUBIC over DualPI2."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tests.fabric.conftest import matrix_text

OLDEST = (7, 0)
"""Linux has DualPI2 and accurate ECN since this version."""


Command = Callable[..., subprocess.CompletedProcess[str]]
"""Runs `l4sbench` with these words."""


def run_on(l4sbench: Command, name: str, *words: str) -> None:
    """Run what the words name on a slice; its trials may be invalid, but each comes to its end."""
    run = l4sbench("run", *words, "--on", f"fabric:{name}")
    assert run.returncode in {0, 1}, run.stderr
    assert "FAILED" not in run.stderr, run.stderr


def check_trial(l4sbench: Command, folder: Path, name: str, rate: str) -> pl.DataFrame:
    """Run one on the machines of a slice; return its row of `trials`, which may be invalid.

    Args:
        l4sbench: Runs a command.
        folder: Where the matrix and the run go.
        name: The slice.
        rate: The bottleneck's rate.
    """
    (matrix := folder / "whole.yaml").write_text(matrix_text("whole", "dualpi2", rate=rate))
    run_on(l4sbench, name, str(matrix), "--dir", str(folder / "runs"))
    tables = folder / "runs" / "whole" / "latest" / "tables"
    hosts = pl.read_parquet(tables / "hosts.parquet")
    kernels = dict(hosts.filter(kind="kernel").select("node", "value").iter_rows())
    for node in ("tx-l4s", "router", "rx-l4s"):
        assert tuple(map(int, kernels[node].split(".")[:2])) >= OLDEST, kernels
    assert set(hosts.filter(kind="module", name="tcp_prague")["node"]) == {"tx-l4s", "rx-l4s"}
    assert "dualpi2" in set(pl.read_parquet(tables / "queues.parquet")["kind"])
    trials = pl.read_parquet(tables / "trials.parquet")
    assert trials["testbed"].to_list() == ["fabric"]
    return trials
