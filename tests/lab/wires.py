# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Short runs in the lab for tests of its wires."""

from pathlib import Path

import polars as pl

from l4sbench.app import api
from reports.result.load import RunTables

MATRIX = """\
matrix: wire
topology: line6
rate: 20mbit
rtt: 20ms
duration: 10s
trials: 1
aqm: fifo
flows:
  l4s:     {cc: prague}
  classic: {cc: cubic}
"""


def tables(
    folder: Path, more: str, name: str = "runs", jobs: int = 2, aqm: str | None = "fifo", trials: int = 1
) -> RunTables:
    """Run the matrix with further lines, which have the queue if `aqm` is None; every trial must be valid."""
    matrix = folder / "wire.yaml"
    lines = MATRIX.replace("trials: 1\n", f"trials: {trials}\n")
    lines = lines.replace("aqm: fifo\n", f"aqm: {aqm}\n" if aqm else "")
    matrix.write_text(lines + more, encoding="utf-8")
    ended = api.run(matrix, jobs=jobs, runs=folder / name)
    assert ended.result.failed == ended.result.invalid == 0
    return api.load(ended)


def sysctl(found: RunTables, node: str, name: str) -> list[int]:
    """Return a sysctl of the wires in every trial, as it was read back."""
    rows = found.hosts.filter((pl.col("node") == node) & (pl.col("name") == f"net.wire.{name}"))
    return [int(value) for value in rows["value"]]
