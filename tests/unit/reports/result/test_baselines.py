# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells find their baselines by factors, and their harm is that of the pure functions."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import pytest

from reports.result.rules import load_rule
from reports.result.stats import Estimate, harm_interval, harm_to_delay, harm_to_goodput, interval
from reports.result.verdicts import Word, decide
from tests.unit.reports.conftest import Make

OURS = load_rule("l4sbench1")

ALONE: dict[str, dict[str, Any]] = {
    "l4s": {"classic.cc": None, "classic.ecn": None, "classic.count": None, "l4s.from": "tx-l4s"},
    "classic": {"l4s.cc": None, "l4s.ecn": None, "l4s.count": None, "classic.from": "tx-classic"},
}
SAME: dict[str, Any] = {"l4s.cc": "cubic", "l4s.ecn": "off"}


def pair(aqm: str, l4s: list[float], classic: list[float], **more: Any) -> dict[str, Any]:
    return {"aqm": aqm, "l4s": l4s, "classic": classic, **more}


def value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


def test_harm_is_that_of_the_pure_functions(make: Make) -> None:
    l4s, classic, alone, alone_classic = [20.0, 22, 21], [70.0, 71, 73], [94.0, 95, 94.5], [95.0, 95.5, 95.2]
    cells = [
        pair("fifo", l4s, classic, delay=15.0),
        pair("fifo", alone, [0] * 3, delay=2.0, **ALONE["l4s"]),
        pair("fifo", [0] * 3, alone_classic, **ALONE["classic"]),
        pair("codel", [1.0] * 3, [1] * 3, delay=1.0, **ALONE["l4s"]),
    ]
    (cell,) = decide(make(cells), OURS).cells
    groups = {"l4s": cell.result.l4s, "classic": cell.result.classic}
    for name, beside, solo in (("l4s", l4s, alone), ("classic", classic, alone_classic)):
        ends = (
            interval(fmean(own), stdev(own), 3, least=0, most=100, confidence=confidence)
            for own, confidence in ((solo, 0.995), (beside, 0.955))
        )
        without, with_ = (own for own in ends if own is not None)
        low, high = harm_interval(without, with_)
        harm = groups[name].harm
        assert harm is not None
        assert harm.value / 100 == pytest.approx(harm_to_goodput(fmean(solo), fmean(beside)))
        assert harm.interval is not None
        assert [end / 100 for end in harm.interval] == pytest.approx([low, high])
    assert value(groups["l4s"].delay_harm) / 100 == harm_to_delay(12, 25)
    assert value(groups["l4s"].alone) == pytest.approx(94.5)
    assert groups["classic"].same_harm is None


def test_harm_to_a_group_with_an_rtt_of_its_own_is_of_that_rtt(make: Make) -> None:
    """80 ms become 160 ms."""
    cells = [
        pair("fifo", [48.0], [48.0], delay=80.0, **{"l4s.rtt_ms": 80.0}),
        pair("fifo", [95.0], [0], delay=0.0, **{"l4s.rtt_ms": 80.0}, **ALONE["l4s"]),
    ]
    (cell,) = decide(make(cells), OURS).cells
    assert value(cell.result.l4s.delay_harm) == pytest.approx(50)


def test_a_group_is_measured_by_what_it_gets_alone(make: Make) -> None:
    """23 % of the link's rate are half of what the flow gets alone."""
    starved = pair("fifo", [23.0] * 3, [70.0] * 3)
    alone = pair("fifo", [46.0] * 3, [0] * 3, **ALONE["l4s"])
    assert decide(make([starved]), OURS).verdicts[0].word is Word.L4S_STARVED
    (verdict,) = decide(make([starved, alone]), OURS).verdicts
    assert verdict.word is Word.OK
    assert value(verdict.cells[0].result.l4s.harm) == pytest.approx(50)
    assert verdict.cells[0].result.classic.harm is None


def test_invalid_trials_of_a_baseline_are_reported(make: Make) -> None:
    """Nothing else in a report shows that a group with a baseline is measured by the link's rate."""
    cells = [
        pair("fifo", [48.0] * 3, [47.0] * 3),
        pair("fifo", [94.0], [0], status=["ok", "invalid"], **ALONE["l4s"]),
        pair("fifo", [], [], status=["invalid"] * 3, **ALONE["classic"]),
    ]
    decision = decide(make(cells), OURS)
    assert [(out.cell, out.trial) for out in decision.left_out] == [
        ("cell-0001", 2),
        *(("cell-0002", trial) for trial in (1, 2, 3)),
    ]
    assert (decision.verdicts[0].left_out, decision.baselines, decision.solo) == (0, 1, 1)


def test_its_own_kind_does_as_much_harm(make: Make) -> None:
    cells = [
        pair("fifo", [85.0, 85.1, 85.2], [10.0, 10.1, 10.2]),
        pair("fifo", [0] * 3, [95.0, 95.1, 95.2], **ALONE["classic"]),
        pair("fifo", [85.0, 85.1, 85.2], [8.0, 8.1, 8.2], **SAME),
    ]
    assert decide(make(cells[:2]), OURS).verdicts[0].word is Word.CLASSIC_STARVED
    decision = decide(make(cells), OURS)
    (verdict,) = decision.verdicts
    assert verdict.word is Word.OK
    assert value(verdict.cells[0].result.classic.same_harm) == pytest.approx(100 * (95.1 - 8.1) / 95.1)
    assert (decision.baselines, decision.solo) == (2, 0)


def test_every_other_factor_must_be_the_same(make: Make) -> None:
    cell = pair("codel", [50.0] * 2, [40.0] * 2, **{"aqm.target_ms": 5.0, "l4s.alpha_mode": 1})
    near = pair("codel", [90.0] * 2, [0] * 2, **ALONE["l4s"])
    others = [
        near | {"aqm.target_ms": 1.0, "l4s.alpha_mode": 1},
        near | {"aqm.target_ms": 5.0, "l4s.alpha_mode": 0},
        near | {"aqm.target_ms": 5.0, "l4s.alpha_mode": 1, "buffer_bdp": 4.0},
    ]
    decision = decide(make([cell, *others]), OURS)
    assert decision.verdicts[0].cells[0].result.l4s.harm is None
    assert (decision.baselines, decision.solo) == (0, 3)
    own = near | {"aqm.target_ms": 5.0, "l4s.alpha_mode": 1}
    found = decide(make([cell, own, *others]), OURS)
    assert value(found.verdicts[0].cells[0].result.l4s.harm) == pytest.approx(100 * 40 / 90)
    assert (found.baselines, found.solo) == (1, 3)


def test_a_baseline_is_nobodys_question(make: Make) -> None:
    cells = [pair("fifo", [50.0], [45.0]), pair("fifo", [50.0], [45.0], **SAME)]
    assert [str(asked) for asked in decide(make(cells), OURS).questions] == ["Prague"]
    against_itself = pair("fifo", [50.0], [45.0], **{"classic.cc": "prague", "classic.ecn": "accecn"})
    found = decide(make([*cells, against_itself]), OURS)
    assert "Prague, ECN accecn" in {str(verdict.column) for verdict in found.verdicts}


def test_groups_that_are_alike_have_a_verdict_where_nothing_is_measured_against_them(make: Make) -> None:
    alike = pair("fifo", [50.0] * 3, [45.0] * 3, **SAME)
    for cells in ([alike], [alike, pair("codel", [50.0], [45.0])]):
        decision = decide(make(cells), OURS)
        assert "CUBIC" in {str(asked) for asked in decision.questions}
        assert (decision.baselines, decision.solo) == (0, 0)
