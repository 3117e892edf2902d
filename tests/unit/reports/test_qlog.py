# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP flows as qlogs, which are read back as those of senders are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.assemble import collect
from collectors.qlog import read_qlog
from l4sbench.catalog import Catalog
from l4sbench.cli import main
from l4sbench.store import Run
from reports.qlog import MARK, qlog_files, qlog_names
from reports.result.load import load
from tests.captured import as_matrix, captured_trial


@pytest.fixture
def run(tmp_path: Path) -> Run:
    matrix, (trial,) = as_matrix("captured", captured_trial("lean-dualpi2"))
    made = Run.create(tmp_path / "run", "captured", matrix, 1, {})
    trial.store(made)
    collect(made, Catalog.load())
    return made


def test_a_flow_reads_back_as_its_socket_was_sampled(run: Run) -> None:
    tables = load(run.path)
    files = {file.name: file.content for file in qlog_files(tables, "1.2.3")}
    assert list(files) == sorted(qlog_names(tables))
    assert all(MARK in content[:1000] for content in files.values())
    for row in tables.flows.iter_rows(named=True):
        (content,) = (own for name, own in files.items() if name.endswith(f"-{row['flow']}.sqlog"))
        sampled = tables.sockets.filter(flow=row["flow"], side="sender").sort("t_ms")
        last = sampled.row(-1, named=True)
        *_, read = read_qlog(
            content, start_ms=row["start_ms"], lasts_ms=row["seconds"] * 1e3, interval_ms=1, least_rtt_ms=1.0
        )
        assert read.at_ms == pytest.approx(last["t_ms"], abs=1)
        assert read.values["srtt_ms"] == last["srtt_ms"]
        assert read.values["cwnd_bytes"] == last["cwnd_packets"] * last["mss_bytes"]
        assert read.values.get("lost_packets", 0) == last["retransmits_packets"]
        assert read.values.get("ce_packets", 0) == last["delivered_ce_packets"]


def test_the_command_writes_them(run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["report", str(run.path), "--qlog", "--json"]) == 0
    paths = [Path(path) for path in json.loads(capsys.readouterr().out)]
    assert len(paths) == 2
    assert {path.parent for path in paths} == {run.report / "qlog"}
    assert all(path.read_bytes().startswith(b"\x1e{") for path in paths)
    assert main(["report", str(run.path), "--qlog", "aqm=fifo"]) == 2
    assert main(["report", str(run.path), "--qlog", "--flent"]) == 2
    assert "--flent and --qlog are two commands" in capsys.readouterr().err
    mine = tmp_path / "mine" / paths[0].name
    mine.parent.mkdir()
    mine.write_text("mine")
    assert main(["report", str(run.path), "--qlog", str(mine.parent)]) == 2
    assert mine.read_text() == "mine"
