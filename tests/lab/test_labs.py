# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Labs side by side: as a factor, by --lab, and as the two sides of a comparison."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.cli import main
from l4sbench.errors import InputError, TestbedError
from l4sbench.matrix import Matrix
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.lab import read_record, record_key

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: m
rate: 10mbit
rtt: 10ms
duration: 3s
trials: 4
rule: pam25
aqm: codel
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
"""


@pytest.fixture
def mine(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A second lab in a cache of the test's own: the default one's parts, with another kernel's digest."""
    home = lab.kernel.parents[2]
    cache = tmp_path / "cache" / "l4sbench"
    cache.mkdir(parents=True)
    for folder in home.iterdir():
        if folder.is_dir() and folder.name not in {"labs", "log", "source", "trees"}:
            (cache / folder.name).symlink_to(folder)
    named = shutil.ignore_patterns("*.*.json")  # the user's own labs
    shutil.copytree(home / "labs", cache / "labs", ignore=named)
    inputs = Inputs.read()
    record = read_record(Cache.open(cache), record_key(inputs))
    assert record is not None
    own = {"name": "mine", "kernel_digest": "other", "own_kernel": True, "tree": "/home/me/net-next"}
    other = record.model_copy(update=own)
    Cache.open(cache).record(record_key(inputs, name="mine")).write_text(other.model_dump_json())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return "mine"


def test_two_kernels_are_one_matrix(mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, both = tmp_path / "plain.yaml", tmp_path / "both.yaml"
    plain.write_text(MATRIX)
    both.write_text(f"{MATRIX}axes: {{lab: [default, {mine}]}}\n")
    (alone,) = Matrix.load(plain).cells
    first, second = Matrix.load(both).cells
    assert first.id == alone.id
    assert second.id != alone.id
    ended = api.run(both, runs=tmp_path / "runs")
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"] * 8
    assert set(tables.trials.select("cell", "lab").unique().iter_rows()) == {
        (first.id, "default"),
        (second.id, "mine"),
    }
    digests = {
        path.parents[1].parent.name: path.read_text().count('"kernel_digest": "other"')
        for path in ended.path.glob("cells/*/1-*/raw/host.json")
    }
    assert digests == {first.id: 0, second.id: 1}
    run = str(ended.path)
    assert main(["compare", run, run, "--between", "lab=default,mine"]) == 0
    said = capsys.readouterr().out
    assert "1 cell compared" in said
    assert "lab=default" in said
    assert "they differ in: lab" in said
    compared = api.compare(run, run, between="lab=default,mine")
    (cell,) = compared.cells
    assert cell.trials == (4, 4)
    assert all(metric.base == metric.new for metric in cell.metrics)  # the same kernel, by another name


def test_a_lab_for_cells_that_state_none_keeps_their_ids(mine: str, tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(MATRIX)
    ended = api.run(path, runs=tmp_path / "runs", trials=1)
    planned = api.plan_of(path, options=api.RunOptions(runs=tmp_path / "runs", trials=1)).plan
    assert planned.to_run == 0
    other = api.RunOptions(runs=tmp_path / "runs", trials=1, lab=mine)
    assert api.plan_of(path, options=other).plan.to_run == 1
    again = api.run_prepared(api.prepare(path, (), other))
    assert again.path == ended.path
    (cell,) = (again.path / "cells").iterdir()
    assert len([one for one in cell.iterdir() if one.name.startswith("1-")]) == 2


def test_labs_that_there_are_not_are_reported_before_anything_runs(mine: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"{MATRIX}axes: {{lab: [default, other]}}\n")
    said = "there is no lab other; there are mine; l4sbench lab build --name other --kernel-tree DIR"
    with pytest.raises(TestbedError, match=said):
        api.run(path, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    assert said.partition(";")[0] in api.plan_of(path, options=api.RunOptions(runs=tmp_path)).untested
    with pytest.raises(InputError, match="ssh has no labs; use --lab with --on virtual or dask"):
        api.run(path, on="ssh:hosts.yml", lab=mine, runs=tmp_path / "runs")


def test_labs_are_listed_and_removed(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if "ready" in line] == ["default", "mine"]
    assert "in /home/me/net-next" in said
    assert main(["lab", "remove", "none"]) == 3
    assert "choose from mine" in capsys.readouterr().err
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "l4sbench"
    assert main(["lab", "remove", "mine"]) == 0
    assert main(["lab", "list"]) == 0
    assert "mine" not in capsys.readouterr().out
    assert Lab.locate(cache).kernel.exists()
