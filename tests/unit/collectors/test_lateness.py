# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Nodes that had no CPU when they needed one: measured, in a table, and no number comes of it.

tests/cases/lateness is what the helper wrote on the router of a local lab of six nodes on two cores, at
25 Mbit/s: with nothing else to do there, and with other work on both.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from collectors import COLLECTORS, BadRawError
from collectors.lateness import FILE, REMARKABLE, NodeLateness, read_lateness
from collectors.trialrows import rows_of
from l4sbench import tables
from l4sbench.facts.faults import FaultKind
from l4sbench.facts.traits import MOST_LATE
from tests.unit.collectors.conftest import Load

CASES = Path(__file__).parents[2] / "cases/lateness"


def put(trial: Any, **files: str) -> None:
    """Give nodes of a captured trial a file each."""
    for node, name in files.items():
        shutil.copy(CASES / f"{name}.json", trial.raw / node.replace("_", "-") / FILE)


def test_a_quiet_host_is_valid_and_a_busy_one_is_not(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    put(trial, router="quiet", tx_l4s="quiet")
    assert trial.faults() == []
    put(trial, router="busy")
    (fault,) = trial.judged().faults
    assert (fault.kind, fault.at) == (FaultKind.BUSY, "router")


def test_what_is_late_and_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    cpus = {"user": 2.0, "system": 1.0, "idle": 5.0, "iowait": 1.0, "steal": 1.0, "pressure": 3.0}
    text = json.dumps({"interval_ms": 50, "late_ms": [9.0, 1.0, 5.0, 0.2], "seconds": 10.0, "cpus": cpus})
    (tmp_path / "n" / FILE).write_text(text)
    told = read_lateness(tmp_path, "n")
    assert told == NodeLateness([0.2, 1.0, 5.0, 9.0], busy=0.4, stolen=0.1, waited=0.3)
    assert told.late == 0.25
    assert read_lateness(tmp_path, "another") is None


def test_quantiles_need_enough_instants() -> None:
    told = NodeLateness([float(n) for n in range(1, 101)])
    assert (told.quantile(0.5), told.quantile(0.9), told.quantile(0.99)) == (50.0, 90.0, None)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"late_ms": [1]}', '{"late_ms": ["x"], "cpus": {}, "seconds": 1}']
)
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / FILE).write_text(text)
    with pytest.raises(BadRawError, match=FILE):
        read_lateness(tmp_path, "n")


def test_the_table_and_the_flag(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    put(trial, router="busy", delay="quiet")
    (collector,) = [found for found in COLLECTORS if found.table == "lateness"]
    rows = tables.conform("lateness", collector.rows(trial.ended))
    assert rows["node"].to_list() == ["delay", "router"]
    quiet, busy = rows.iter_rows(named=True)
    assert quiet["late_share"] < REMARKABLE
    assert busy["late_share"] > MOST_LATE
    assert quiet["late_p50_ms"] < 1 < busy["late_p50_ms"]
    assert quiet["late_p99_ms"] is None
    assert 0 < quiet["busy_share"] < 1
    frames, _ = rows_of(trial.ended)
    assert "busy-host" in frames["trials"]["flags"][0]
    put(trial, router="quiet")
    frames, _ = rows_of(trial.ended)
    assert "busy-host" not in (frames["trials"]["flags"].to_list()[0] or [])
