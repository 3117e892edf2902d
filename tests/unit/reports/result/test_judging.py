# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts of rules on one cell, and on several together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.result.judging import Measured, Word, judge, together
from reports.result.rules import Limits, Rule, load_rule
from reports.result.stats import Estimate

PAM25, OURS = load_rule("pam25"), load_rule("l4sbench1")

Three = tuple[float, float, float]


def cell(l4s: Three, classic: Three, own_kind: Three | None = None, **flows: Any) -> Measured:
    """Means in the middle of their intervals, in percent; what is alone is the link's rate."""

    def estimated(ends: Three) -> Estimate:
        return Estimate(ends[1], "%", 3, ends[0], ends[2])

    kind = None if own_kind is None else estimated(own_kind)
    return Measured(estimated(l4s), estimated(l4s), estimated(classic), kind, **flows)


@pytest.mark.parametrize(
    ("l4s", "classic", "word"),
    [
        ((25, 45, 65), (30, 50, 70), Word.OK),
        ((24, 45, 65), (30, 50, 70), Word.UNDECIDED),
        ((25, 45, 65), (20, 45, 70), Word.UNDECIDED),
        ((5, 10, 24), (70, 80, 90), Word.L4S_STARVED),
        ((70, 80, 90), (5, 10, 24), Word.CLASSIC_STARVED),
        ((5, 10, 24), (5, 10, 24), Word.BOTH),
        ((5, 10, 24), (5, 40, 75), Word.L4S_STARVED),
    ],
)
def test_ours_by_intervals(l4s: Three, classic: Three, word: Word) -> None:
    assert judge(OURS, cell(l4s, classic)).word is word


@pytest.mark.parametrize(
    ("l4s", "word", "by_intervals"),
    [
        ((30, 45, 60), Word.OK, Word.OK),
        ((19, 45, 60), Word.OK, Word.UNDECIDED),
        ((10, 15, 25), Word.L4S_STARVED, Word.UNDECIDED),
        ((10, 15, 19), Word.L4S_STARVED, Word.L4S_STARVED),
        ((79, 85, 90), Word.CLASSIC_STARVED, Word.UNDECIDED),
    ],
)
def test_means_decide_and_intervals_tell_how_surely(l4s: Three, word: Word, by_intervals: Word) -> None:
    judged = judge(PAM25, cell(l4s, (50, 50, 50)))
    assert (judged.word, judged.by_intervals) == (word, by_intervals)


@pytest.mark.parametrize(
    ("rule", "l4s", "classic", "open_at"),
    [
        (OURS, (25, 45, 65), (30, 50, 70), {}),
        (OURS, (36, 55, 73), (22, 41, 60), {"classic": (25,)}),
        (OURS, (5, 40, 75), (10, 40, 70), {"l4s": (25,), "classic": (25,)}),
        (OURS, (5, 10, 24), (5, 40, 75), {"classic": (25,)}),
        (PAM25, (36, 55, 73), (10, 20, 30), {}),
        (PAM25, (70, 75, 81), (10, 20, 30), {"l4s": (80,)}),
        (PAM25, (10, 50, 90), (10, 20, 30), {"l4s": (20, 80)}),
    ],
)
def test_what_leaves_a_verdict_open(
    rule: Rule, l4s: Three, classic: Three, open_at: dict[str, tuple[float, ...]]
) -> None:
    judged = judge(rule, cell(l4s, classic))
    assert {side.role: side.open_at for side in judged.doubts} == open_at
    assert judged.decided is not bool(judged.doubts)
    assert [side.role for side in judged.sides] == ["l4s", "classic"]


def test_its_own_kind_may_leave_open_whether_a_classic_group_is_starved() -> None:
    (side,) = judge(OURS, cell((70, 80, 90), (10, 15, 20), (12, 14, 40))).doubts
    assert (side.role, side.open_at) == ("classic", ())
    assert side.own_kind is not None
    assert side.own_kind.interval == (12, 40)


@pytest.mark.parametrize(
    ("own_kind", "word", "decided"),
    [
        (None, Word.CLASSIC_STARVED, True),
        ((40, 50, 60), Word.CLASSIC_STARVED, True),  # its own kind leaves it more
        ((2, 6, 10), Word.OK, True),  # its own kind is worse
        ((12, 14, 40), Word.UNDECIDED, False),
    ],
)
def test_a_classic_flow_that_its_own_kind_harms_as_much_is_not_starved(
    own_kind: Three | None, word: Word, decided: bool
) -> None:
    judged = judge(OURS, cell((70, 80, 90), (10, 15, 20), own_kind))
    assert (judged.word, judged.decided) == (word, decided)


def test_limits_move_with_the_fair_share() -> None:
    """Nine L4S flows and a classic one: half the fair share is 45 % and 5 %."""
    assert OURS.limits(9, 1).low == pytest.approx(45)
    assert OURS.limits(9, 1).high == pytest.approx(95)
    assert judge(OURS, cell((80, 85, 90), (6, 8, 10), l4s_flows=9, classic_flows=1)).word is Word.OK
    assert (
        judge(OURS, cell((30, 35, 40), (55, 60, 65), l4s_flows=9, classic_flows=1)).word is Word.L4S_STARVED
    )
    assert PAM25.limits(9, 1) == PAM25.limits_percent


@pytest.mark.parametrize("flows", [(1, 1), (9, 1), (1, 4)])
def test_words_of_limits_that_move_with_the_fair_share_hold_for_any_numbers_of_flows(
    flows: tuple[int, int],
) -> None:
    assert OURS.limits_text == (
        "each group keeps at least 50 % of its fair share of the goodput that it gets alone (of the link's "
        "rate where that was not run) in every cell"
    )
    assert OURS.required_percent(*flows) == pytest.approx((50, 50))


def test_words_of_such_limits_name_both_groups_where_these_keep_unequal_parts() -> None:
    unequal = OURS.model_copy(update={"limits_percent": Limits(low=20, high=65), "window": "whole"})
    assert unequal.limits_text.startswith(
        "group l4s keeps at least 40 % and group classic at least 70 % of its fair share of the goodput, "
        "warm-up included, that it gets alone"
    )
    moved = PAM25.model_copy(update={"fair_share": True})
    assert moved.limits_text == (
        "goodput of group l4s at least 40 % of its fair share of the link's rate, and what it leaves at "
        "least 40 % of that of group classic, in every cell"
    )


@pytest.mark.parametrize(
    ("l4s", "word", "decided"),
    [
        ((30, 40, 50), Word.OK, True),
        ((19, 40, 50), Word.OK, False),
        ((10, 19, 28), Word.L4S_STARVED, False),
        ((10, 15, 19), Word.L4S_STARVED, True),
        ((79, 81, 83), Word.CLASSIC_STARVED, False),
        ((81, 85, 89), Word.CLASSIC_STARVED, True),
        ((20, 50, 80), Word.OK, True),
    ],
)
def test_published_rules_go_by_means_and_are_decided_by_intervals(
    l4s: Three, word: Word, decided: bool
) -> None:
    judged = judge(PAM25, cell(l4s, (5, 10, 15)))
    assert (judged.word, judged.decided) == (word, decided)


@pytest.mark.parametrize("rule", [PAM25, OURS])
def test_one_trial_decides_nothing(rule: Rule) -> None:
    half = Estimate(50, "%", 1)
    judged = judge(rule, Measured(half, half, Estimate(45, "%", 1)))
    assert judged.decided is False
    assert judged.word is (Word.OK if rule is PAM25 else Word.UNDECIDED)


@given(st.tuples(*[st.floats(0, 100)] * 3), st.tuples(*[st.floats(0, 100)] * 3), st.floats(0, 20))
def test_a_wider_interval_never_decides_more(l4s: Any, classic: Any, more: float) -> None:
    low, mean, high = sorted(l4s)
    other_low, other, other_high = sorted(classic)
    narrow = judge(OURS, cell((low, mean, high), (other_low, other, other_high)))
    wide = judge(OURS, cell((low - more, mean, high + more), (other_low - more, other, other_high + more)))
    assert narrow.decided or not wide.decided
    if wide.decided:
        assert wide.word is narrow.word
    assert narrow.outside_percent == wide.outside_percent


@given(st.lists(st.sampled_from(list(Word))))
def test_together_ok_means_all_ok(words: list[Word]) -> None:
    assert (together(words) is Word.OK) == (set(words) <= {Word.OK})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([Word.OK, Word.UNDECIDED], Word.UNDECIDED),
        ([Word.UNDECIDED, Word.INVALID], Word.INVALID),
        ([Word.UNDECIDED, Word.L4S_STARVED, Word.INVALID], Word.L4S_STARVED),
        ([Word.CLASSIC_STARVED, Word.L4S_STARVED], Word.BOTH),
        ([Word.BOTH, Word.OK], Word.BOTH),
    ],
)
def test_together(words: list[Word], expected: Word) -> None:
    assert together(words) is expected
