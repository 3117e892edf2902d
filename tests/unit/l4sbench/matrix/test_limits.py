# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Matrices that are too much: each file is read once, and limits are reported before memory is spent."""

from __future__ import annotations

import itertools
import os
import threading
from typing import TYPE_CHECKING

import pytest

from l4sbench.cli import main
from l4sbench.disk.userfiles import MOST_PROBLEMS
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.catalog import Catalog

CELLS = """\
matrix: m
rate: 100mbit
rtt: 10ms
duration: 30s
aqm: codel
flows: {l4s: {cc: prague}, classic: {cc: cubic}}
"""


def problems(path: Path, catalog: Catalog) -> list[str]:
    with pytest.raises(InputError) as raised:
        Matrix.load(path, catalog)
    return [str(problem).replace(f"{path.parent}/", "") for problem in raised.value.problems]


def diamond(folder: Path, levels: int, last: str) -> Path:
    """Two files per level, each of which extends both of the next level."""
    for level, name in itertools.product(range(levels), "ab"):
        bases = f"[a{level + 1}.yaml, b{level + 1}.yaml]"
        (folder / f"{name}{level}.yaml").write_text(f"matrix: {name}\nextends: {bases}\n")
    for name in "ab":
        (folder / f"{name}{levels}.yaml").write_text(last)
    return folder / "a0.yaml"


def test_every_file_is_read_once(tmp_path: Path, small_catalog: Catalog) -> None:
    top = diamond(tmp_path, 14, CELLS)
    for path in tmp_path.iterdir():  # a pipe has its content only once
        if path != top:
            content = path.read_bytes()
            path.unlink()
            os.mkfifo(path)
            threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    assert len(Matrix.load(top, small_catalog).cells) == 1


def test_every_problem_of_a_base_is_reported_once(tmp_path: Path, small_catalog: Catalog) -> None:
    top = diamond(tmp_path, 14, CELLS + "trials: 0\n")
    assert problems(top, small_catalog) == [
        f"{name}14.yaml:7:9: trials: 0 is out of range; it must be at least 1" for name in "ab"
    ]


def test_chains_and_circles_of_files(tmp_path: Path, small_catalog: Catalog) -> None:
    for number in range(40):
        (tmp_path / f"{number}.yaml").write_text(f"matrix: m\nextends: {number + 1}.yaml\n")
    top = tmp_path / "0.yaml"
    assert problems(top, small_catalog) == ["19.yaml:2:10: extends: more than 20 files extend each other"]
    top.write_text(f"matrix: m\nextends: [{', '.join(f'many-{number}.yaml' for number in range(120))}]\n")
    for number in range(120):
        (tmp_path / f"many-{number}.yaml").write_text(CELLS)
    found = problems(top, small_catalog)
    assert len(found) == 20
    assert found[0].endswith("extends: the matrix consists of more than 100 files")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    top.write_text("matrix: m\nextends: loop.yaml\n")
    assert problems(top, small_catalog) == [
        "0.yaml:2:10: extends: loop.yaml cannot be read: Too many levels of symbolic links"
    ]
    top.write_text("matrix: m\nextends: /dev/zero\n")
    assert problems(top, small_catalog) == ["0.yaml:2:10: extends: /dev/zero cannot be read: it is a device"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            "axes:\n" + "".join(f"  l4s.x{n}: [{', '.join(map(str, range(100)))}]\n" for n in range(4)),
            "m.yaml:8:3: axes: 100000000 cells exceed the maximum of 1000000",
        ),
        (
            "axes:\n" + "".join(f"  l4s.x{n}: [1, 2, 3, 4]\n" for n in range(40)),
            "m.yaml:8:3: axes: more than 10^18 cells exceed the maximum of 1000000",
        ),
        ("trials: 10001\n", "m.yaml:7:9: trials: 10001 is out of range; it must be at most 10000"),
        (
            "trials: {min: 3, max: 99999}\n",
            "m.yaml:7:23: trials.max: 99999 is out of range; it must be at most 10000",
        ),
        ("l4s.count: 1001\n", "m.yaml:7:12: l4s.count: 1001 is out of range; it must be at most 1000"),
        ("warmup: 1000000h\n", "m.yaml:7:9: warmup: 3600000000s is out of range; it must be at most 86400s"),
        (
            f"exclude: [{{aqm: '{'codel,' * 2000}'}}]\n",
            "m.yaml:7:17: aqm: has more than 1000 alternatives",
        ),
    ],
    ids=["cells", "very many cells", "trials", "most trials", "flows", "years", "alternatives"],
)
def test_limits(more: str, problem: str, tmp_path: Path, small_catalog: Catalog) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(CELLS + more)
    assert problems(path, small_catalog) == [problem]


@pytest.mark.parametrize("digits", [309, 350, 400, 4301])
@pytest.mark.parametrize(
    "name", ["path.noise", "buffer_bdp", "l4s.count", "aqm.memory_limit", "axes.l4s.count"]
)
def test_numbers_beyond_floats(digits: int, name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    for sign in ("", "-"):
        number = sign + "9" * digits
        stated = f"axes: {{l4s.count: [{number}]}}" if name.startswith("axes") else f"{name}: {number}"
        path.write_text(CELLS.replace("codel", "fq-codel") + stated + "\n")
        with pytest.raises(InputError) as raised:
            Matrix.load(path)
        (problem,) = raised.value.problems
        assert problem.where.startswith(f"{path}:7:")
        assert f"{sign}9999" in problem.message
        assert "..." in problem.message


def test_many_problems_are_listed_in_part(tmp_path: Path, small_catalog: Catalog) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(CELLS + "".join(f"unknown{number}: 1\n" for number in range(5_000)))
    found = problems(path, small_catalog)
    assert len(found) == 101
    assert found[-1] == "m.yaml:107:1: here and elsewhere are more problems than are listed"


def test_long_filters(tmp_path: Path, small_catalog: Catalog) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(CELLS)
    matrix = Matrix.load(path, small_catalog)
    for text in ("aqm=" + "codel," * 2000, "aqm=" + "x" * 100_000, "x" * 100_000 + "=1", "x" * 100_000):
        with pytest.raises(InputError) as raised:
            matrix.select([text])
        assert len(str(raised.value)) < 1000


def test_trials_of_all_cells_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(CELLS + f"trials: 10000\naxes: {{buffer_bdp: {list(range(1, 402))}}}\n")
    assert main(["plan", str(path)]) == 2
    message = "trials: 401 cells of 10000 trials exceed the maximum of 3000000 trials; split the matrix"
    assert f"error: {path}:1:1: {message}" in capsys.readouterr().err


def test_problems_of_cells_have_positions_and_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    events = "".join(f"  e{number}: {{at: 40s, rate: {number + 1}mbit}}\n" for number in range(500))
    path.write_text(f"{CELLS}events:\n{events}")
    assert main(["plan", str(path)]) == 2
    first, second, third, *rest = capsys.readouterr().err.splitlines()
    late = "40s is not within the trial: warmup and duration add up to 30s"
    close = "e0 changes rate less than 10 ms before; put them further apart, or into one event"
    assert first == f"error: {path}:8:12: events.e0.at: {late}"
    assert second == f"error: {path}:9:12: events.e1.at: {late}"
    assert third == f"error: {path}:9:12: events.e1.at: {close}"
    assert len(rest) == MOST_PROBLEMS - 3 + 2
    assert rest[-2].endswith("here and elsewhere are more problems than are listed")


def test_problems_of_cells_are_where_the_matrix_states_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base.yaml").write_text(CELLS + "path.pause_every: 1s\npath.loss_burst: 1p\n")
    path = tmp_path / "m.yaml"
    path.write_text(
        "matrix: m\nextends: base.yaml\naxes:\n  path.pause: [1ms, 2s]\n  path.loss: [1%, 99%]\n"
        "include:\n  - {path.jitter: 1s, host: vm}\n"
    )
    assert main(["plan", str(path)]) == 2
    found = {line.partition(": ")[2].partition(": ")[0] for line in capsys.readouterr().err.splitlines()}
    expected = {f"{path}:4:3", f"{tmp_path}/base.yaml:8:18", f"{path}:7:6"}
    assert found - {""} == expected
