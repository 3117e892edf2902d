# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cost of switching, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from l4sbench.errors import InputError
from reports.result.regret import Prevalence, Regret, load_prevalence, regret
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.unit.reports.conftest import Make

CELLS: list[dict[str, Any]] = [
    {"aqm": "fifo", "l4s": [10.0], "classic": [90.0], "delay": 6.0},  # lacks 80 % of its fair share
    {"aqm": "codel", "l4s": [75.0], "classic": [25.0], "delay": 2.0},  # the competitor lacks 50 %
    {"aqm": "dualpi2", "l4s": [48.0], "classic": [48.0], "delay": 1.0},
]


def of(make: Make, cells: Sequence[Mapping[str, Any]], prevalence: Prevalence | None = None) -> Regret:
    decision = decide(make(cells), load_rule("pam25"))
    (found,) = regret(decision, prevalence) if prevalence else regret(decision)
    return found


def test_all_alike_without_weights(make: Make) -> None:
    found = of(make, CELLS)
    assert (found.cost_percent, found.harm_percent) == pytest.approx((80 / 3, 50 / 3))
    assert (found.delay_ms, found.classic_delay_ms) == pytest.approx((3.0, 7.0))
    assert (found.pairs, found.missing_percent) == (3, 0)
    assert found.text == (
        "expected regret of switching to Prague: 43 % of a fair share. On average over 3 pairs of queue and "
        "competitor, all equally common, it lacks 27 % of its fair share of the goodput and its competitors "
        "lack 17 % of theirs; its delay is 3.0 ms, theirs 7.0 ms"
    )


def test_weights_of_queues(make: Make) -> None:
    found = of(make, CELLS, Prevalence(prevalence="mine", queues={"fifo": 1, "dualpi2": 3}))
    assert (found.cost_percent, found.harm_percent) == pytest.approx((20, 0))
    assert "over 2 pairs of queue and competitor, as in mine, it lacks 20 %" in found.text


def test_queues_of_weights_may_be_spelled_as_in_linux(make: Make) -> None:
    cells = [
        {"aqm": aqm, "l4s": [l4s], "classic": [96.0 - l4s]}
        for aqm, l4s in (("fq-codel", 48.0), ("fifo", 0.0))
    ]
    found = of(make, cells, Prevalence(prevalence="mine", queues={"fq_codel": 1}))
    assert (found.cost_percent, found.pairs) == (0, 1)


def test_cells_behind_a_pair_count_alike_and_modes_share_a_competitors_weight(make: Make) -> None:
    starved: dict[str, Any] = {"l4s": [0.0], "classic": [96.0]}
    even: dict[str, Any] = {"l4s": [48.0], "classic": [48.0]}
    cells: list[dict[str, Any]] = [
        {"aqm": "fifo", "buffer_bdp": 1.0, **starved},
        {"aqm": "fifo", "buffer_bdp": 4.0, **even},
        {"aqm": "fifo", "classic.ecn": "classic", **even},
        {"aqm": "fifo", "classic.cc": "bbr1", **starved},
    ]
    both = of(make, cells, Prevalence(competitors={"cubic": 2, "bbr1": 2}))
    # cubic without ECN lacks 50 % on average and has half of cubic's weight
    assert both.cost_percent == pytest.approx((50 * 1 + 0 * 1 + 100 * 2) / 4)
    one = of(make, cells, Prevalence(competitors={"cubic classic": 1}))
    assert one.cost_percent == 0


def test_a_mode_and_a_whole_competitor_of_equal_weights_count_alike_with_any_number_of_queues(
    make: Make,
) -> None:
    cells: list[dict[str, Any]] = [
        cell
        for aqm in ("fifo", "codel", "dualpi2", "fq", "fq-codel")
        for cell in (
            {"aqm": aqm, "classic.ecn": "classic", "l4s": [48.0], "classic": [48.0]},
            {"aqm": aqm, "classic.cc": "bbr1", "l4s": [0.0], "classic": [96.0]},
        )
    ]
    for bbr1 in ("bbr1", "bbr1 off"):
        found = of(make, cells, Prevalence(competitors={"cubic classic": 1, bbr1: 1}))
        assert found.cost_percent == pytest.approx(50)


def test_uneven_numbers_of_flows_have_uneven_fair_shares(make: Make) -> None:
    found = of(make, [{"aqm": "fifo", "l4s.count": 1, "classic.count": 4, "l4s": [18.0], "classic": [72.0]}])
    assert found.regret_percent == pytest.approx(0)


def test_pairs_without_valid_trials_are_left_out_and_said(make: Make) -> None:
    found = of(make, [CELLS[2], {"aqm": "codel", "status": ["failed"]}])
    assert (found.pairs, found.missing_percent) == (1, 50)
    assert "50 % of the pairs, by weight, have no valid trial" in found.text


@pytest.mark.parametrize("unit", [5e-324, 1e-200, 1e200, 1.7e308])
def test_weights_are_in_any_unit(make: Make, unit: float) -> None:
    weights = Prevalence(
        queues=dict.fromkeys(("fifo", "codel", "dualpi2"), unit),
        competitors={"cubic": unit, "cubic off": unit},
    )
    assert of(make, CELLS, weights).text == of(make, CELLS).text


def test_weights_of_what_the_run_lacks_are_input_errors(make: Make) -> None:
    with pytest.raises(InputError, match=r"no queue fifi to weigh.*did you mean fifo"):
        of(make, CELLS, Prevalence(queues={"fifi": 1}))
    with pytest.raises(InputError, match="no competitor bbr1 to weigh"):
        of(make, CELLS, Prevalence(competitors={"bbr1": 1}))
    with pytest.raises(InputError, match="weighs no queue"):
        of(make, CELLS, Prevalence(queues={"fifo": 0}))


def test_weights_of_a_file_that_the_run_lacks_have_positions(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("prevalence: mine\nqueues: {fifi: 1}\ncompetitors:\n  cubic: 1\n  bbr1: 1\n")
    with pytest.raises(InputError) as raised:
        of(make, CELLS, load_prevalence(path))
    assert [problem.where for problem in raised.value.problems] == [f"{path}:2:10", f"{path}:5:3"]
    path.write_text("prevalence: mine\nqueues: {fifo: 0}\n")
    with pytest.raises(InputError, match=r"mine\.yml:1:1: prevalence mine weighs no queue"):
        of(make, CELLS, load_prevalence(path))


def test_a_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("prevalence: mine\nqueues: {fifo: 70, fq-codel: 30}\ncompetitors: {cubic: 1}\n")
    assert load_prevalence(path).queues == {"fifo": 70, "fq-codel": 30}
    path.write_text("queues: {fifo: -1}\n")
    with pytest.raises(InputError, match=r"queues\.fifo"):
        load_prevalence(path)
    path.write_text("queues: [\n")
    with pytest.raises(InputError, match="is not valid YAML"):
        load_prevalence(path)
    with pytest.raises(InputError, match=r"none\.yml"):
        load_prevalence(tmp_path / "none.yml")


def test_a_question_without_a_valid_trial_has_none(make: Make) -> None:
    broken = {"aqm": "dualpi2", "l4s.cc": "dctcp", "status": ["invalid"]}
    decision = decide(make([*CELLS, broken]), load_rule("pam25"))
    assert len(decision.questions) == 2
    (found,) = regret(decision)
    assert found.question.head == "Prague"
    with pytest.raises(InputError, match="with a valid trial"):
        regret(decide(make([broken]), load_rule("pam25")), Prevalence(queues={"dualpi2": 1}))
