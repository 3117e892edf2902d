# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the engine is told about cells with an adaptive number of trials, from captured raw files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.adaptive import decider, forecast, number_of_looks
from l4sbench.facts.events import Status
from l4sbench.facts.faults import stored_fault
from l4sbench.matrix import Matrix, Trials
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.program.trial import EndedTrial
from l4sbench.store import StoreView
from reports.result.rules import load_rule
from tests.captured import captured_trial
from tests.unit.l4sbench import small

RULE = load_rule("pam25")
ADAPTIVE = "{min: 3, max: 10, until: decided}"

MakeTrial = Callable[..., EndedTrial]


@pytest.fixture
def wanted(tmp_path: Path) -> Matrix:
    return small.matrix(tmp_path, trials=ADAPTIVE)


@pytest.fixture
def trial(tmp_path: Path) -> MakeTrial:
    """A copy of a captured trial, the bytes that reached the L4S group's receiver times `factor`."""
    captured = captured_trial("lean-codel-warmup")

    def make(number: int, factor: float = 1.0, status: Status = Status.OK) -> EndedTrial:
        raw = tmp_path / f"{number}-i" / "raw"
        shutil.copytree(captured.raw, raw)
        for file in raw.glob("rx-l4s/flow-*.json"):
            plain = json.loads(file.read_text())
            for interval in (plain, *plain["intervals"]):
                interval["bytes_received"] = int(interval["bytes_received"] * factor)
            file.write_text(json.dumps(plain))
        faults = () if status is Status.OK else (stored_fault("wrong"),)
        return EndedTrial(captured.cell, number, 7, status, faults, raw, captured.programs)

    return make


def test_a_fixed_number_of_trials_asks_nobody(tmp_path: Path) -> None:
    fixed = small.matrix(tmp_path)
    assert decider(fixed, RULE) is None
    assert number_of_looks(fixed) == 1
    assert (
        forecast(plan(fixed, StoreView(), None, small.TRAITS, Costs(small.TRAITS.cost)), RULE, None) is None
    )


def test_equal_trials_are_enough_and_different_ones_are_not(wanted: Matrix, trial: MakeTrial) -> None:
    decide = decider(wanted, RULE)
    assert decide is not None
    one, two = trial(1), trial(2)
    assert decide(one.cell, [one]) == "more", "one trial has no interval"
    assert decide(one.cell, [one, two]) == "enough"
    assert decide(one.cell, [one, two, trial(3, 0.3)]) == "more"


def test_trials_that_are_all_invalid_are_enough(wanted: Matrix, trial: MakeTrial) -> None:
    decide = decider(wanted, RULE)
    assert decide is not None
    invalid = [trial(number, status=Status.INVALID) for number in (1, 2, 3)]
    assert decide(invalid[0].cell, invalid) == "enough"
    assert decide(invalid[0].cell, [*invalid, trial(4)]) == "more"


def test_a_trial_that_cannot_be_read_does_not_count(wanted: Matrix, trial: MakeTrial) -> None:
    decide = decider(wanted, RULE)
    assert decide is not None
    broken = trial(1)
    for file in broken.raw.glob("rx-l4s/flow-*.json"):
        file.write_text("{")
    assert decide(broken.cell, [broken, trial(2)]) == "more"
    assert decide(broken.cell, [broken, trial(3), trial(4)]) == "enough"


def test_a_flow_that_is_left_out_counts_as_in_tables(wanted: Matrix, tmp_path: Path) -> None:
    """It has no result, and the other 19 of its group stand for it."""
    decide = decider(wanted, RULE)
    assert decide is not None
    trials = []
    for number in (1, 2):
        captured = captured_trial("lean-dualpi2").copied(tmp_path / str(number)).with_classic_flows(20)
        (captured.raw / "rx-classic" / "flow-classic-7.receiver.json").unlink()
        trials.append(replace(captured.ended, trial=number))
    assert decide(trials[0].cell, trials) == "enough"


def test_baselines_get_no_more(wanted: Matrix, trial: MakeTrial) -> None:
    one = trial(1)
    decide = decider(replace(wanted, baseline_ids=frozenset({one.cell.id})), RULE)
    assert decide is not None
    assert decide(one.cell, [one]) == "enough"


def test_nothing_known_is_forecast_by_the_published_cells(wanted: Matrix, tmp_path: Path) -> None:
    """Six cells: 22 % get 2 more, 9 % another 5: 0.89 each; from 4 trials on, 22 % one and 9 % five: 0.67."""

    def forecast_of(matrix: Matrix) -> int:
        planned = plan(matrix, StoreView(), None, small.TRAITS, Costs(small.TRAITS.cost))
        found = forecast(planned, RULE, tmp_path)
        assert found is not None
        assert (found.most, found.known) == (planned.most_added, 0)
        return found.trials

    assert forecast_of(wanted) == 5
    assert forecast_of(replace(wanted, trials=Trials(4, 10, "decided"))) == 4
