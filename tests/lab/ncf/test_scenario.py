# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""NCF end to end: elephants and mice at a bottleneck with the queue `ncf`, by matrices like any other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from l4sbench.app import api

if TYPE_CHECKING:
    from l4sbench.testbeds.virtual.lab import Lab
    from reports.result.load import RunTables

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: ncf-test
topology: line6
rate: 200mbit
rtt: 20ms
warmup: 2s
duration: 6s
trials: 1
rule: none
buffer_bdp: 1
aqm: {aqm}
flows:
  elephants: {{count: 2, cc: {cc}}}
  mice: {{send: requests, cc: cubic, period: 100ms, size: 50B}}
"""


def run(work: Path, aqm: str, cc: str) -> RunTables:
    """Return the tables of two elephants beside a new connection every 100 ms."""
    work.mkdir()
    matrix = work / "ncf-test.yaml"
    matrix.write_text(MATRIX.format(aqm=aqm, cc=cc), encoding="utf-8")
    ended = api.run(matrix, runs=work / "runs")
    assert ended.result.ok == 1
    return api.load(ended)


def handshake_ms(tables: RunTables) -> float:
    """Return the mice's median time until they were connected."""
    median = tables.requests.filter(~pl.col("warmup")).select(pl.col("handshake_ms").median()).item()
    return float(median)


def test_mice_do_not_wait_behind_elephants(lab: Lab, tmp_path: Path) -> None:
    ncf, cubic = run(tmp_path / "ncf", "ncf", "ncf"), run(tmp_path / "cubic", "fifo", "cubic")
    assert handshake_ms(ncf) == pytest.approx(20, abs=1)
    assert handshake_ms(cubic) > 22

    goodput = ncf.flows.filter(group="elephants")["goodput_mbps"]
    assert goodput.sum() > 150
    last = ncf.sockets.filter(group="elephants", side="sender").sort("t_ms").group_by("flow").last()
    assert (last["ncf_flows"] == 2).all()
    assert (last["ncf_capacity_mbps"] == 200).all()
    assert (last["ncf_signals"] > 0).all()
    assert (last["ncf_reactions"] > 0).all()
    assert (last["ncf_refused"] < last["ncf_signals"]).all()

    queue = ncf.queues.filter(kind="ncf").sort("t_ms")
    end = queue.row(-1, named=True)
    assert queue["flows"].max() == 2
    # what senders accepted had been sent; the rest was under way or too late
    assert end["ncf_signals_packets"] >= last["ncf_signals"].sum() > 0
    assert end["ncf_signals_packets"] * 70 * 8 / 8e6 < 0.2  # Mbit/s: a thousandth of the link
    assert end["ncf_mice_drops_packets"] == 0
    assert end["ncf_elephants_packets"] > 100 * end["ncf_mice_packets"]
    assert (queue["ncf_mice_backlog_bytes"] < 10_000).all()
