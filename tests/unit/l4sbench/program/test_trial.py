# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Seeds and draws are the same on every machine and Python, for ever: known answers hold that."""

from pathlib import Path
from statistics import mean

import pytest

from l4sbench.facts.cell import Cell
from l4sbench.facts.events import Status
from l4sbench.facts.faults import stored_fault
from l4sbench.facts.traits import TestbedTraits
from l4sbench.program.trial import Judgement, draw_conditions, draw_seed, draw_unit, seed_of
from l4sbench.text.units import Duration
from tests.unit.l4sbench import small


def test_seeds_and_draws_are_known() -> None:
    # By another program: printf 'l4sbench trial seed\0001\0001' | sha256sum | cut -c-16, and so on.
    assert seed_of(1, 1) == 0xB854C1FCCA69AC9E
    assert draw_unit(7, "start", "l4s-0") == (0xB6732841636DF1AC >> 11) / 2**53
    assert draw_seed(7, "noise") == 0x37E89B221DA4BD50


def test_trials_and_matrices_have_seeds_of_their_own() -> None:
    seeds = {seed_of(matrix, trial) for matrix in range(50) for trial in range(1, 51)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert seed_of(1, 11) != seed_of(11, 1)


def test_draws_are_uniform() -> None:
    drawn = [draw_unit(seed, "start", "l4s-0") for seed in range(4000)]
    assert all(0.0 <= number < 1.0 for number in drawn)
    assert mean(drawn) == pytest.approx(0.5, abs=0.02)
    tenths = [sum(int(number * 10) == tenth for number in drawn) for tenth in range(10)]
    assert min(tenths) > 330
    assert max(tenths) < 470


def test_start_offsets_are_the_same_for_all_cells_and_differ_by_flow_and_trial(tmp_path: Path) -> None:
    traits = TestbedTraits("lean", wires=True)
    one, *_, other = small.matrix(tmp_path).cells
    drawn = draw_conditions(one, seed_of(1, 1), traits)
    assert drawn == draw_conditions(other, seed_of(1, 1), traits)
    assert drawn.start_offsets.keys() == {"l4s-0", "classic-0"}
    assert all(0 <= offset.ns < 10**9 for offset in drawn.start_offsets.values())
    assert len(set(drawn.start_offsets.values())) == 2
    assert drawn.start_offsets != draw_conditions(one, seed_of(1, 2), traits).start_offsets


def test_flows_start_within_the_time_of_their_group(tmp_path: Path) -> None:
    traits, cell = TestbedTraits("lean", wires=True), small.matrix(tmp_path).cells[0]
    usual = draw_conditions(cell, 1, traits).start_offsets
    stated = {"l4s.start_within": Duration(0), "classic.start_within": Duration(2 * 10**9)}
    offsets = draw_conditions(Cell.of({**cell.factors, **stated}), 1, traits).start_offsets
    assert offsets["l4s-0"] == Duration(0)
    assert offsets["classic-0"].ns == pytest.approx(2 * usual["classic-0"].ns, abs=1)


def test_a_testbed_with_noise_and_tools_of_its_own_keeps_them(tmp_path: Path) -> None:
    cell = small.matrix(tmp_path).cells[0]
    real = draw_conditions(cell, 1, TestbedTraits("iperf3", wires=False))
    assert (real.traffic, real.wire_seed) == ("iperf3", None)
    virtual = draw_conditions(cell, 1, TestbedTraits("lean", wires=True))
    assert virtual.traffic == "lean"
    assert virtual.wire_seed is not None


def test_a_judgement_without_reason_is_none() -> None:
    with pytest.raises(ValueError, match="faults"):
        Judgement(Status.INVALID)
    with pytest.raises(ValueError, match="ok or invalid"):
        Judgement(Status.FAILED, (stored_fault("no"),))
