# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench clean` asks, and removes neither results nor what is in use."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.store import Run, locked
from tests.patience import PATIENCE_S, ran
from tests.unit.l4sbench import small

NOW = datetime.now(UTC)


def aged(days: float, *, ended: bool) -> Run:
    """A run of this age, with or without results, as the latest."""
    wanted = small.matrix(Path())
    made = small.new_run(Path("runs"), wanted)
    if ended:
        small.run_matrix(wanted, made, small.SmallTestbed())
    path = made.path.with_name(f"{NOW - timedelta(days=days):%Y%m%dT%H%M%SZ}")
    made.path.rename(path)
    (path.parent / "latest").unlink()
    (path.parent / "latest").symlink_to(path.name)
    return Run(path)


def found(capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[str, str]]:
    """Kind and name of what would be removed."""
    capsys.readouterr()
    assert main(["clean", "--json", *options]) == 0
    return [(row["kind"], Path(row["path"]).name) for row in json.loads(capsys.readouterr().out)]


def test_runs_with_results_stay_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    old, older, new = (aged(days, ended=True).path.name for days in (40, 50, 1))
    assert found(capsys) == []
    assert found(capsys, "--older-than", "45") == [("run", older)]
    assert found(capsys, "--keep", "1") == [("run", old), ("run", older)]
    assert found(capsys, "--keep", "1", "--only", "labs") == []
    assert main(["clean", "--keep", "1", "--yes"]) == 0
    assert [run.name for run in Path("runs/small").glob("2*")] == [new]
    assert Path("runs/small/latest").resolve().name == new


def test_runs_that_links_of_a_sweep_lead_to_stay(capsys: pytest.CaptureFixture[str]) -> None:
    baseline, good, old, new = (aged(days, ended=True).path.name for days in (50, 40, 30, 1))
    for name, run in (("baseline", baseline), ("good", good)):
        Path("runs/small", name).symlink_to(run)
    assert found(capsys, "--keep", "1") == [("run", old)]
    assert found(capsys, "--older-than", "35") == []
    assert main(["clean", "--keep", "1", "--yes"]) == 0
    assert sorted(run.name for run in Path("runs/small").glob("2*")) == [baseline, good, new]


def test_the_newest_run_is_not_too_old(capsys: pytest.CaptureFixture[str]) -> None:
    aged(400, ended=True)
    assert found(capsys, "--older-than", "1") == []


def test_a_run_without_results_is_found_when_nobody_can_be_starting_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = aged(2, ended=True).path.name
    small.new_run(Path("runs"), small.matrix(Path()))  # young
    empty = aged(1, ended=False)
    assert found(capsys) == [("run", empty.path.name)]
    with locked(empty):
        assert found(capsys) == []
    assert main(["clean", "--yes"]) == 0
    assert not empty.path.exists()
    assert "removed" in capsys.readouterr().err
    assert Path("runs/small/latest").resolve().name > whole


def test_tables_that_outlived_their_trials_are_results(capsys: pytest.CaptureFixture[str]) -> None:
    whole, empty = aged(3, ended=True), aged(2, ended=False)
    for run in (whole, empty):
        assert main(["collect", str(run.path)]) == 0
    shutil.rmtree(whole.path / "cells")
    assert found(capsys) == [("run", empty.path.name)]
    (empty.path / "tables" / "trials.parquet").write_bytes(b"damaged")
    assert found(capsys) == []


def test_unfinished_trials_of_a_dead_process_are_removed(capsys: pytest.CaptureFixture[str]) -> None:
    run = aged(1, ended=True)
    before = small.everything(run)
    cell = next((run.path / "cells").iterdir())
    (cell / "7-abc123.partial" / "raw").mkdir(parents=True)
    assert found(capsys) == [("unfinished trials", run.path.name)]
    assert main(["clean", "--yes"]) == 0
    assert small.partials(run) == []
    assert small.everything(run) == before


def test_without_a_terminal_it_removes_nothing_unless_told() -> None:
    run = aged(1, ended=False)
    ended = ran([sys.executable, "-m", "l4sbench", "clean"])
    assert ended.returncode == 0
    assert run.path.name in ended.stdout
    assert "--yes removes them" in ended.stderr
    assert run.path.exists()


@pytest.mark.parametrize(("reply", "left"), [("n", True), ("", True), ("y", False)])
def test_a_terminal_is_asked(reply: str, *, left: bool) -> None:
    run = aged(1, ended=False)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "l4sbench", "clean"],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(ours, f"{reply}\n".encode())
    _, shown = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert process.returncode == 0
    assert "remove 1 thing, " in shown
    assert run.path.exists() is left


def test_with_nothing_to_do_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


def test_a_folder_with_a_date_that_no_calendar_has_is_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    odd = aged(400, ended=True).path
    odd.rename(odd.with_name("20261399T250000Z"))
    assert found(capsys, "--older-than", "1", "--keep", "1") == []
