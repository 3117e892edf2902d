# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench show` and `l4sbench list runs` on real run directories."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from l4sbench.app.numbers import Numbers
from l4sbench.cli import main
from l4sbench.errors import TrialFailed
from l4sbench.matrix import Trials
from l4sbench.program.trial import TrialSpec
from l4sbench.store import Run, locked
from tests.unit.l4sbench import small


def fails(spec: TrialSpec, _: Path) -> None:
    if spec.cell.aqm == "fifo" and spec.trial == 1:
        raise TrialFailed("it hung")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of six cells in which fifo fails once and codel is invalid once, and a former cell."""
    former = small.matrix(tmp_path, "  aqm: [fifo-ecn]\n")
    made = small.new_run(tmp_path / "runs", former)
    small.run_matrix(former, made, small.SmallTestbed())
    wanted = small.matrix(tmp_path)
    (made.path / "matrix.yaml").write_bytes(wanted.source)
    small.run_matrix(wanted, made, small.SmallTestbed(fault=fails))
    return made


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(argv) == 0
    return capsys.readouterr().out


def test_cells_are_shown_with_how_their_trials_ended(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    heading, _, *rows = shown(capsys, "show", "small").splitlines()
    assert heading == f"small/{run.path.name}: 7 cells, 12 of 12 trials have ended, and 2 of former cells"
    found = {
        line.split("_")[0]: (
            line.split("  ", 1)[1].strip(),
            below.strip() if below.startswith("    ") else "",
        )
        for line, below in pairwise([*rows, ""])
        if "_1bdp" in line
    }
    assert found == {
        "fifo": ("1 failed, 1 ok", "it hung"),
        "codel": ("1 ok, 1 invalid", "codel was not codel"),
        "dualpi2": ("2 ok", ""),
        "fifo-ecn": ("2 ok", "not in the matrix any more"),
    }


@pytest.mark.parametrize(
    ("chosen", "heading"),
    [
        (["aqm=dualpi2"], "2 cells, 4 of 4 trials have ended, 2 ok per cell"),
        (["fifo*"], "3 cells, 4 of 4 trials have ended, and 2 of former cells"),
    ],
)
def test_the_heading_counts_what_was_chosen(
    run: Run, chosen: list[str], heading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "show", "small", *chosen).splitlines()[0] == f"small/{run.path.name}: {heading}"


def test_a_run_is_found_by_the_file_of_its_matrix(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the file is called, and even if it is gone or not valid any more."""
    expected = shown(capsys, "show", "small")
    other = tmp_path / "other.yaml"
    other.write_bytes((run.path / "matrix.yaml").read_bytes())
    assert shown(capsys, "show", str(other)) == expected
    assert shown(capsys, "show", str(run.path / "matrix.yaml")) == expected
    broken = tmp_path / "elsewhere" / "small.yaml"
    assert shown(capsys, "show", str(broken)) == expected
    broken.parent.mkdir()
    broken.write_text("matrix: [")
    assert shown(capsys, "show", str(broken)) == expected
    assert main(["show", str(tmp_path / "nothing.yaml")]) == 2
    assert "error: there is no run " in capsys.readouterr().err


def test_hints_lead_to_the_run_that_is_shown(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def hinted(*argv: str) -> str:
        assert main(["show", *argv]) == 0
        (command,) = re.findall("one cell: l4sbench show (.*) CELL, ", capsys.readouterr().err)
        return str(command)

    assert hinted(str(run.path)) == hinted("small") == "small"
    newer = small.new_run(tmp_path / "runs", small.matrix(tmp_path))
    assert hinted(str(run.path)) == f"runs/small/{run.path.name}"
    assert hinted("small") == "small"
    shutil.copytree(newer.path, tmp_path / "copies" / "kept")
    assert hinted("copies/kept") == "copies/kept"
    (tmp_path / "runs").rename(tmp_path / "other")
    assert hinted("small", "--dir", "other") == f"other/small/{newer.path.name}"


def test_one_cell_is_shown_with_its_trials(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", "small", "aqm=codel", "buffer_bdp=4")
    assert text == shown(capsys, "show", "small", "codel_4bdp*")
    assert text.startswith("codel_4bdp_")
    for line in ("  buffer_bdp = 4", "trial 1: ok", "trial 2: invalid", "  codel was not codel"):
        assert f"\n{line}\n" in text
    folders = [Path(line.partition(": ")[2]) for line in text.splitlines() if "raw files: " in line]
    assert len(folders) == 2
    assert all((folder / "programs.json").is_file() for folder in folders)


def test_a_former_cell_is_shown(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", "small", "fifo-ecn*")
    assert "(not in the matrix any more)" in text.splitlines()[0]
    assert "trial 2: ok" in text


def test_json_has_every_trial(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(shown(capsys, "show", str(run.path), "--json"))
    assert (plain["trials_ended"], plain["trials_planned"], plain["trials_of_former_cells"]) == (12, 12, 2)
    assert plain["in_use_by"] is None
    ended = [trial for cell in plain["cells"] for trial in cell["trials"]]
    assert sorted(trial["status"] for trial in ended) == ["failed"] * 2 + ["invalid"] * 2 + ["ok"] * 10


def test_a_cell_that_is_not_there(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "small", "codle*"]) == 2
    assert capsys.readouterr().err.startswith("error: the run has no cell codle*; ")
    assert main(["show", "small", "aqm=codle"]) == 2
    assert capsys.readouterr().err == "error: aqm=codle: no cell has aqm=codle; did you mean codel?\n"


def test_runs_are_listed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = small.new_run(tmp_path / "runs", small.matrix(tmp_path))
    rows = json.loads(shown(capsys, "list", "runs", "--json"))
    assert [(row["run"], row["latest"], row["trials"], row["state"]) for row in rows] == [
        (f"small/{run.path.name}", "", "10 of 12, 2 failed and 2 of former cells", "some trials are left"),
        (f"small/{empty.path.name}", "yes", "0 of 12", "some trials are left"),
    ]
    with locked(empty):
        states = [row["state"] for row in json.loads(shown(capsys, "list", "runs", "--json"))]
    assert states == ["some trials are left", "running"]


def test_a_run_is_not_whole_while_a_cell_lacks_trials_that_another_has_too_many_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = small.matrix(tmp_path, "  aqm: [fifo, codel]\n")
    run = small.new_run(tmp_path / "runs", two)
    fifo = replace(two.select(["aqm=fifo"]), trials=Trials(4, 4))
    small.run_matrix(fifo, run, small.SmallTestbed())

    def listed() -> tuple[str, str]:
        (row,) = json.loads(shown(capsys, "list", "runs", "--json"))
        return row["trials"], row["state"]

    assert listed() == ("2 of 4", "some trials are left")
    assert "2 cells, 2 of 4 trials have ended" in shown(capsys, "show", "small")
    other = replace(small.IDENTITY, common={"kernel": "k2"})
    small.run_matrix(two, run, small.SmallTestbed(identity_=other))
    assert listed() == ("6, at least 4 wanted", "whole")
    assert "2 cells, 6 trials have ended, at least 4 wanted" in shown(capsys, "show", "small")


def test_trials_that_ran_again_after_the_report_are_told(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folders: dict[str, dict[int, str]] = {}
    for ended in run.ended():
        folders.setdefault(ended.cell.id, {})[ended.trial] = ended.raw.parent.name
    (run.path / "report").mkdir()
    numbers = Numbers(groups=("l4s", "classic"), trials=14, folders=folders)
    (run.path / "report" / "numbers.json").write_text(numbers.text)

    def said() -> str:
        assert main(["show", "small"]) == 0
        return capsys.readouterr().err

    assert "after the report" not in said()
    other = replace(small.IDENTITY, common={"kernel": "k2"})
    again = small.matrix(run.path.parents[2]).select(["aqm=dualpi2"])
    small.run_matrix(again, run, small.SmallTestbed(identity_=other))
    assert "4 trials ended after the report was written: l4sbench report small takes them in" in said()
