# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials until the verdict is decided, on real trials."""

from __future__ import annotations

from pathlib import Path

import pytest

import l4sbench
from l4sbench.app.api import RunOptions, plan_of
from l4sbench.testbeds.virtual.lab import Lab

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: adaptive
topology: line6
rate: 20mbit
rtt: 10ms
duration: 2s
trials: {min: 2, max: 4, until: decided}
rule: l4sbench1
baselines: solo
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fq-codel, codel]
"""


def test_trials_are_added_until_decided_and_the_same_at_any_number_of_jobs(lab: Lab, tmp_path: Path) -> None:
    matrix = tmp_path / "adaptive.yaml"
    matrix.write_text(MATRIX)
    ran = {}
    for jobs in (1, 2):
        runs = tmp_path / f"runs-{jobs}"
        ended = l4sbench.run(matrix, jobs=jobs, runs=runs)
        assert ended.result.exit_code == 0
        decision = ended.decision
        assert decision is not None
        cells = [cell for verdict in decision.verdicts for cell in verdict.cells]
        assert (len(cells), decision.baselines, decision.looks) == (2, 4, 2)
        trials = l4sbench.load(ended).trials
        ran[jobs] = sorted(trials.select("cell", "trial", "inputs").rows())
        counts = dict(trials.group_by("cell").len().iter_rows())
        for cell in cells:
            assert cell.result.l4s.harm is not None
            assert cell.result.valid == counts.pop(cell.id)
            assert cell.result.valid in {2, 4}
        assert set(counts.values()) == {2}, "a baseline gets no more"
        again = l4sbench.run(matrix, jobs=jobs, runs=runs)
        assert (again.result.ok, again.result.left) == (0, 0)
        planned = plan_of(matrix, options=RunOptions(jobs=jobs, runs=runs))
        assert planned.plan.to_run == 0
        assert planned.forecast is not None
        assert (planned.forecast.trials, planned.forecast.known) == (0, 2)
    assert ran[1] == ran[2]
