# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Commands during and after a run of the lab, as a user would give them."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S, ran

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: small
topology: line6
rate: 50mbit
rtt: 10ms
duration: 4s
trials: {trials}
flows:
  l4s: {{cc: prague}}
  classic: {{cc: cubic}}
axes:
  aqm: [codel, dualpi2]
"""


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(MATRIX.format(trials=1), encoding="utf-8")
    return tmp_path / "small.yaml"


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, "-m", "l4sbench", *words], cwd=cwd)


def test_a_report_takes_in_what_has_ended_while_the_run_goes_on(lab: Lab, matrix: Path) -> None:
    matrix.write_text(MATRIX.format(trials=500), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "run", str(matrix), "--jobs", "1"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            assert run.stderr is not None
            ended = (line for line in run.stderr if line.startswith("["))  # [1/1000, 5 min left] ok ...
            assert len(list(itertools.islice(ended, 3))) == 3
            report = command("report", "small", "--json")
            assert report.returncode == 0, report.stderr
            assert "the run goes on, so that this is preliminary: process" in report.stderr
            assert json.loads(report.stdout)["verdicts"]
            trials = pl.read_parquet(matrix.parent / "runs/small/latest/tables/trials.parquet")
            assert 3 <= trials.height < 1000
            assert run.poll() is None
        finally:
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=PATIENCE_S)
    assert command("report", "small").returncode == 0


def test_the_hint_after_new_names_the_run_to_resume(lab: Lab, matrix: Path) -> None:
    matrix.write_text(MATRIX.format(trials=500), encoding="utf-8")
    words = ["run", "small.yaml", "aqm=codel", "--new", "--jobs", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "l4sbench", *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if " trial " in line:
                break
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
    made = (matrix.parent / "runs/small/latest").resolve().name
    hint = f"`l4sbench run small.yaml aqm=codel --jobs 1`, without --new, resumes small/{made}"
    assert hint in rest


def test_the_command_that_makes_sure_adds_to_the_run_that_it_is_about(lab: Lab, matrix: Path) -> None:
    """A report of an earlier run names a command; it adds trials there, not to the latest run."""
    first, later = (api.run(matrix, "aqm=codel", runs="runs", new=True).path for _ in range(2))
    told = json.loads(command("report", str(first), "--json").stdout)["make_sure"]
    assert told == f"l4sbench run runs/small/{first.name}/matrix.yaml --sure"
    assert command(*shlex.split(told)[1:], "aqm=codel").returncode == 0
    assert api.load(first).trials.height >= 3
    assert api.load(later).trials.height == 1
    # what the files of a report name works in the run directory, and leaves no other run there
    assert command("report", str(later)).returncode == 0
    told = json.loads((later / "report/decision.json").read_text(encoding="utf-8"))["make_sure"]
    assert command(*shlex.split(told)[1:], "aqm=codel", cwd=later).returncode == 0
    assert api.load(later).trials.height >= 3
    assert not (later / "runs").exists()


def test_the_command_that_runs_a_cell_again_works_in_the_run_directory(lab: Lab, matrix: Path) -> None:
    first = api.run(matrix, runs="runs")
    before = sorted(path.relative_to(first.path) for path in first.path.rglob("*"))
    cell = api.load(first).trials.filter(aqm="dualpi2")["cell"].item()
    line = api.load(first).programs.filter(cell=cell)["rerun"].unique().item()
    program, *words = shlex.split(line)
    assert program == "l4sbench"
    again = command(*words, cwd=first.path)
    assert again.returncode == 0, again.stderr
    assert sorted(path.relative_to(first.path) for path in first.path.rglob("*")) == before
    trials = api.load("small", runs="again").trials
    assert trials.select("cell", "status").rows() == [(cell, "ok")]


def test_watching_redraws_the_table(lab: Lab, matrix: Path) -> None:
    matrix.write_text(MATRIX.format(trials=15), encoding="utf-8")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "run", "small.yaml", "--watch", "--jobs", "1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"},
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    assert process.wait(timeout=PATIENCE_S) == 0
    os.close(ours)
    assert b"Is it okay to switch to Prague?" in shown  # which the answer on stdout is not part of
    assert b"no table yet" not in shown
    table = shown.rpartition(b"to make it sure: ")[2].decode().replace("\r\n", " ")
    assert re.match(r"`l4sbench run runs/small/\w+/matrix.yaml --sure` adds", table)


def test_captures_of_ended_trials_come_by_running_them_again(lab: Lab, matrix: Path) -> None:
    assert command("run", "small.yaml").returncode == 0
    planned = command("plan", "small.yaml", "--capture")
    assert "note: 2 trials ended without captures, to be repeated with them; all results are kept" in (
        planned.stderr
    )
    assert "captures" not in command("plan", "small.yaml").stderr
    assert command("run", "small.yaml", "--capture").returncode == 0
    assert pl.read_parquet(matrix.parent / "runs/small/latest/tables/packets.parquet").height


START = """\
matrix: start
topology: line6
rate: 50mbit
rtt: 80ms
duration: 30s
trials: 3
aqm: fifo
flows:
  l4s: {cc: prague}
  classic: {cc: bbr1}
"""


def test_a_flow_limited_at_its_start_alone_counts(lab: Lab, matrix: Path) -> None:
    """BBRv1 at 80 ms waits for its receiver's window while that grows, and never later."""
    matrix.write_text(START, encoding="utf-8")
    ran = command("run", "small.yaml")
    assert ran.returncode == 0, ran.stderr
    assert "trials: 3 ok" in ran.stderr
    assert api.load("start").trials["status"].to_list() == ["ok"] * 3
