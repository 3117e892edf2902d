# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies of the user's own in a matrix: by path, relative to the file that states it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.catalog.outside import keep_catalog, kept_topologies
from l4sbench.cli import main
from l4sbench.disk import assets
from l4sbench.disk.document import parse
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.planning.inputs import TrialInputs
from tests.unit.l4sbench import small

MATRIX = """\
matrix: own
rate: 100mbit
rtt: 10ms
duration: 2s
aqm: codel
trials: 1
rule: none
flows: {only: {cc: cubic}}
"""
LINE = (assets.folder("matrices") / "topologies" / "line6.yml").read_text(encoding="utf-8")


def topology_file(folder: Path, name: str = "mine", text: str = LINE) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yml"
    path.write_text(text.replace("topology: line6", f"topology: {name}"), encoding="utf-8")
    return path


def matrix_file(folder: Path, more: str, name: str = "own", text: str = MATRIX) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text + more, encoding="utf-8")
    return path


def test_a_cell_has_the_name_and_not_the_path(tmp_path: Path) -> None:
    topology_file(tmp_path / "places")
    path = matrix_file(tmp_path, "topology: places/mine.yml\n")
    loaded = Matrix.load(path)
    (cell,) = loaded.cells
    assert cell.topology == "mine"
    assert cell.id.startswith("codel_1bdp_100mbit_10ms_cubic_topology-mine-")
    assert loaded.catalog.topology("mine").by_name.keys() == loaded.catalog.topology("line6").by_name.keys()
    absolute = Matrix.load(matrix_file(tmp_path, f"topology: {tmp_path / 'places' / 'mine.yml'}\n"))
    assert absolute.cells[0].id == cell.id
    assert [one.id for one in loaded.select(["topology=mi*"]).cells] == [cell.id]


def test_a_path_is_relative_to_the_file_that_states_it(tmp_path: Path) -> None:
    topology_file(tmp_path / "base")
    matrix_file(tmp_path / "base", "topology: ./mine.yml\n", "base")
    (tmp_path / "above").mkdir()
    text = "matrix: above\nextends: ../base/base.yaml\naxes: {rtt: [10ms, 20ms]}\n"
    path = matrix_file(tmp_path / "above", "", "above", text)
    path.write_text(text.replace("axes", "include: [{topology: ../base/mine.yml, rtt: 5ms}]\naxes"))
    base = tmp_path / "base" / "base.yaml"
    base.write_text(base.read_text().replace("rtt: 10ms\n", ""))
    loaded = Matrix.load(path)
    assert [(cell.topology, str(cell.rtt)) for cell in loaded.cells] == [
        ("mine", "10ms"),
        ("mine", "20ms"),
        ("mine", "5ms"),
    ]
    content = parse(loaded.source, "written").content
    assert isinstance(content, dict)
    assert content["topology"] == "../base/mine.yml"
    written = path.with_name("whole.yaml")
    written.write_bytes(loaded.source)
    assert [cell.id for cell in Matrix.load(written).cells] == [cell.id for cell in loaded.cells]


def test_topologies_are_crossed_by_name_and_path(tmp_path: Path) -> None:
    topology_file(tmp_path)
    loaded = Matrix.load(matrix_file(tmp_path, "axes: {topology: [line6, ./mine.yml, dumbbell]}\n"))
    assert [cell.topology for cell in loaded.cells] == ["line6", "mine", "dumbbell"]


def test_two_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    topology_file(tmp_path / "a")
    topology_file(tmp_path / "b")
    path = matrix_file(tmp_path, "axes: {topology: [a/mine.yml, b/mine.yml, ./a/mine.yml]}\n")
    with pytest.raises(
        InputError, match=r"own\.yaml:9:31: topology: mine is already the name of .*/a/mine\.yml"
    ):
        Matrix.load(path)


def test_a_run_keeps_the_file_and_needs_no_other(tmp_path: Path) -> None:
    place = topology_file(tmp_path)
    path = matrix_file(tmp_path, "topology: ./mine.yml\n")
    loaded = api.load_matrix(path)
    run = tmp_path / "run"
    run.mkdir()
    keep_catalog(run, loaded.catalog)
    shutil.copy(path, run / "matrix.yaml")
    (run / "manifest.json").write_text("{}")
    place.unlink()
    again = api.load_matrix(run / "matrix.yaml")
    assert [cell.id for cell in again.cells] == [cell.id for cell in loaded.cells]
    assert again.catalog.topology("mine") == loaded.catalog.topology("mine")
    keep_catalog(run, again.catalog)  # as a run that is resumed
    assert [one.name for one in kept_topologies(run)] == ["mine"]


def test_other_contents_make_new_trials_of_the_same_cells(tmp_path: Path) -> None:
    def digest(text: str) -> tuple[str, str]:
        topology_file(tmp_path, text=text)
        loaded = Matrix.load(matrix_file(tmp_path, "topology: ./mine.yml\n"))
        inputs = TrialInputs(loaded.catalog, 1, small.IDENTITY, small.TRAITS)
        return loaded.cells[0].id, inputs.digests(loaded.cells[0], [1])[0]

    cell, first = digest(LINE)
    assert digest(f"# a remark\n{LINE}") == (cell, first)
    other_cell, other = digest(LINE.replace("10.0.2", "10.0.7"))
    assert other_cell == cell
    assert other != first


def test_it_is_explained_and_planned_by_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = topology_file(tmp_path)
    path = matrix_file(tmp_path, "topology: ./mine.yml\n")
    assert main(["explain", "topology", str(place)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("mine: topology\n")
    assert "    ├── tx-classic  sender\n" in shown
    assert main(["plan", str(path), "--dir", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
