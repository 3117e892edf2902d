# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Steps of a bisection have trials that can be compared with those of the good run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.bisection import trials_of_step
from l4sbench.cli import main
from l4sbench.matrix import Trials
from tests.unit.l4sbench import small


def test_a_step_has_as_many_trials_as_the_good_run(tmp_path: Path) -> None:
    stated = small.matrix(tmp_path, "  aqm: [fifo, codel]\n", trials="2")
    run = small.new_run(tmp_path / "runs", stated)
    fifo = stated.select(["aqm=fifo"])
    small.run_matrix(replace(fifo, trials=Trials(4, 4)), run, small.SmallTestbed())
    assert trials_of_step(run.path, stated) == 4
    assert trials_of_step(run.path, replace(stated, trials=Trials(3, 10, "decided"))) is None


def test_a_good_run_of_single_trials_calls_no_kernel_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = small.matrix(tmp_path, "  aqm: [fifo]\n", trials="1")
    run = small.new_run(tmp_path / "runs", stated)
    small.run_matrix(stated, run, small.SmallTestbed())
    tree = tmp_path / "linux"
    (tree / "arch" / "um").mkdir(parents=True)
    (tree / "arch" / "um" / "Kconfig").touch()
    assert main(["lab", "bisect", str(run.path), "--kernel-tree", str(tree)]) == 255
    assert "has no cell with two trials" in capsys.readouterr().err


def test_the_example_for_git_names_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lab", "bisect", "--help"])
    examples = capsys.readouterr().out.partition("examples:")[2]
    assert "git bisect run l4sbench lab bisect" in examples
    assert "latest" not in examples  # each step would compare with the step before it
