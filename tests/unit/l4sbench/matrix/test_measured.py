# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`rtt: measured` in a matrix: the cells that it stands for once the path is measured, and before."""

from pathlib import Path

import pytest

from l4sbench.app.finding import load_matrix
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.store import Run
from l4sbench.text.units import Duration

MATRIX = """\
matrix: own
rate: 10mbit
rtt: measured
duration: 4s
flows: {classic: {cc: cubic}}
axes: {aqm: [fifo, codel]}
quick: {duration: 2s}
"""
FOUND = Duration(31_400_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "own.yaml").write_text(MATRIX)
    return tmp_path / "own.yaml"


@pytest.mark.parametrize("quick", [False, True])
def test_cells_have_what_was_measured_and_so_has_the_copy_of_a_run(
    path: Path, small_catalog: Catalog, *, quick: bool
) -> None:
    made = Matrix.load(path, small_catalog, quick=quick, path_rtt=FOUND)
    assert {(cell.rtt, cell.has_own_delay) for cell in made.cells} == {(FOUND, True)}
    copy = path.with_name("copy.yaml")
    copy.write_bytes(made.source)
    assert Matrix.load(copy, small_catalog).cells == made.cells
    assert Matrix.wants_path(path, quick=quick)
    assert not Matrix.wants_path(copy)


def test_a_statement_of_another_time_takes_its_place(path: Path, small_catalog: Catalog) -> None:
    changes = ("rtt=20ms",)
    assert not Matrix.wants_path(path, changes=changes)
    made = Matrix.load(path, small_catalog, changes=changes, path_rtt=FOUND)
    assert {(cell.rtt, cell.has_own_delay) for cell in made.cells} == {(Duration(20_000_000), False)}


def test_before_it_is_measured_its_position_is_reported(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_matrix(path)
    (problem,) = caught.value.problems
    assert (problem.where, problem.path) == (f"{path}:3:6", "rtt")
    assert problem.message == "the path's own round-trip time is not measured yet"


def test_it_does_not_go_with_an_added_delay(path: Path, small_catalog: Catalog) -> None:
    path.write_text(MATRIX + "path.delay: added\n")
    with pytest.raises(InputError, match=r"path\.delay: rtt: measured adds no delay; leave it out"):
        Matrix.load(path, small_catalog, path_rtt=FOUND)


def test_a_run_that_goes_on_keeps_what_it_began_with(path: Path) -> None:
    options = RunOptions(on=f"ssh:{path.parent / 'hosts.yml'}", runs=path.parent)
    with pytest.raises(InputError, match="not measured yet"):
        prepare(path, (), options)
    began = load_matrix(path, path_rtt=FOUND)
    Run.create(path.parent, began.name, began.source, began.seed, {})
    assert prepare(path, (), options).matrix.cells == began.cells
    with pytest.raises(InputError, match="not measured yet"):
        prepare(path, (), RunOptions(on=options.on, runs=path.parent, new=True))
