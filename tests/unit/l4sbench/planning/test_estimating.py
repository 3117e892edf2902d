# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ranges of how long trials take."""

from pathlib import Path

import pytest

from l4sbench.facts.estimate import LocalMachine
from l4sbench.facts.traits import CostModel
from l4sbench.planning.cost import CostBook
from l4sbench.planning.estimating import Costs, ends_s

KNOWN, NEW = "line6 fifo off bulk-cubic-1", "line6 codel off bulk-cubic-1"
SHAPE = CostModel(fixed_s=1.0)
COSTS = Costs(SHAPE, {KNOWN: SHAPE}, spreads=(0.5, 0.1, 0.2))


def width(costs: Costs, *parts: tuple[str, float]) -> float:
    found = costs.estimate(dict(parts), jobs=1)
    return found.high_s / found.low_s


def test_a_range_holds_the_estimate_and_is_even_in_ratios() -> None:
    found = COSTS.estimate({KNOWN: 100.0}, jobs=1)
    assert found.low_s < 100.0 < found.high_s
    assert found.low_s * found.high_s == pytest.approx(100.0**2)


def test_what_was_not_measured_makes_the_range_wide_and_many_kinds_narrow() -> None:
    assert width(COSTS, (KNOWN, 100.0)) < width(COSTS, (NEW, 100.0))
    several = [(f"kind {number}", 25.0) for number in range(4)]
    assert width(COSTS, *several) < width(COSTS, (NEW, 100.0))


def test_a_declaration_alone_makes_the_widest_range(tmp_path: Path) -> None:
    book = CostBook("small", SHAPE, (tmp_path / "cost.json",))
    unknown = book.costs()
    book.add(KNOWN, 1.0, 1.0, 1.0)
    assert width(unknown, (NEW, 1.0)) > width(book.costs(), (NEW, 1.0)) > width(book.costs(), (KNOWN, 1.0))
    assert unknown.estimate({NEW: 1.0}, jobs=1).remarks == ("no trial was measured here yet",)
    assert book.costs().estimate({NEW: 1.0}, jobs=1).remarks == ()


@pytest.mark.parametrize(
    ("load", "weight", "jobs", "stretch"),
    [
        (0.0, 1.0, 2, 1.0),
        (12.0, 1.0, 2, 7.0),
        (12.0, 0.1, 2, 1.6),
        (1.0, 1.0, 1, 1.0),
        (0.0, 1.0, 6, 3.0),
    ],
)
def test_load_lengthens_trials(load: float, weight: float, jobs: int, stretch: float) -> None:
    machine = LocalMachine(2, load, weight)
    costs = Costs(SHAPE, machine=machine, jobs=jobs)
    assert costs.trial_s(KNOWN, 0.0, 1.0) == pytest.approx(stretch)
    quiet = Costs(SHAPE, machine=LocalMachine(2, 0.0), jobs=2)
    assert (width(costs, (KNOWN, 1.0)) > width(quiet, (KNOWN, 1.0))) is (stretch > 1)


def test_a_busy_machine_is_named() -> None:
    costs = Costs(SHAPE, machine=LocalMachine(2, 12.3), jobs=2)
    assert costs.estimate({KNOWN: 9.0}, 2).remarks == ("the machine is busy (load 12 on 2 cores)",)
    assert Costs(SHAPE, machine=LocalMachine(2, 2.2), jobs=2).estimate({KNOWN: 9.0}, 2).remarks == ()


def test_nothing_to_run_takes_no_time() -> None:
    assert COSTS.estimate({}, jobs=2).ends_s == (0.0, 0.0)


def test_the_order_of_trials_makes_a_difference_of_less_than_one() -> None:
    assert ends_s(100.0, 1, 10.0) == (100.0, 100.0)
    assert ends_s(100.0, 2, 10.0) == (50.0, 55.0)
    assert ends_s(10.0, 4, 10.0) == (10.0, 10.0)
