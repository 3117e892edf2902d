# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From numbers to words: the verdict of a rule on one cell, and on the cells behind one entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reports.result.rules import Rule
    from reports.result.stats import Estimate


class Word(StrEnum):
    """The verdict of an entry or a cell."""

    OK = "ok"
    L4S_STARVED = "l4s-starved"
    CLASSIC_STARVED = "classic-starved"
    BOTH = "both"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Measured:
    """The estimates of one cell that a rule looks at, in percent of the link's rate or of a goodput alone.

    Attributes:
        l4s: The L4S group's goodput in percent of the link's rate.
        l4s_kept: Its goodput in percent of its goodput alone; of the link's rate without a baseline.
        classic_kept: Likewise of the classic group.
        own_kind_keeps: Likewise of the classic group beside its own kind; None without that baseline.
        l4s_flows: Flows of the L4S group.
        classic_flows: Flows of the classic group.
    """

    l4s: Estimate
    l4s_kept: Estimate
    classic_kept: Estimate
    own_kind_keeps: Estimate | None = None
    l4s_flows: int = 1
    classic_flows: int = 1


@dataclass(frozen=True)
class Judged:
    """The verdict of a rule on a cell.

    Attributes:
        word: The cell's own verdict.
        by_intervals: The verdict that the confidence intervals give, whatever the rule looks at.
        decided: Whether the intervals leave no doubt about it, even where the rule looks at means alone.
        outside_percent: Distance of the farther side from its limit, in percent; negative within both, None
            without a valid trial.
    """

    word: Word
    by_intervals: Word
    decided: bool
    outside_percent: float | None


NOTHING: Final = Judged(Word.INVALID, Word.INVALID, decided=False, outside_percent=None)
"""The verdict on a cell without a valid trial."""

OPEN: Final = frozenset({Word.UNDECIDED, Word.INVALID})
"""Verdicts that leave the question open."""

DIRECTIONS: Final = {
    (False, False): Word.OK,
    (True, False): Word.L4S_STARVED,
    (False, True): Word.CLASSIC_STARVED,
    (True, True): Word.BOTH,
}


def judge(rule: Rule, cell: Measured) -> Judged:
    """Return the verdict of the rule on one cell."""
    limits = rule.limits(cell.l4s_flows, cell.classic_flows)
    own_goodput = rule.metric == "own-goodput"
    sides = (
        (cell.l4s_kept if own_goodput else cell.l4s, limits.low),
        (cell.classic_kept if own_goodput else cell.l4s.rest, 100 - limits.high),
    )
    l4s, classic = (_surely_below(side, limit) for side, limit in sides)
    below = [side.value < limit for side, limit in sides]
    kind = cell.own_kind_keeps if own_goodput and rule.own_kind else None
    if kind is not None:
        if classic is not False:
            less = _surely_less(cell.classic_kept, kind)
            classic = False if less is False else (classic if less else None)
        below[1] = below[1] and cell.classic_kept.value < kind.value
    decided = l4s is not None and classic is not None
    by_intervals = DIRECTIONS[l4s is True, classic is True]
    by_intervals = Word.UNDECIDED if by_intervals is Word.OK and not decided else by_intervals
    word = DIRECTIONS[below[0], below[1]] if rule.intervals == "none" else by_intervals
    return Judged(word, by_intervals, decided, max(limit - side.value for side, limit in sides))


def _surely_below(side: Estimate, limit: float) -> bool | None:
    """Return True if the whole interval is below the limit, False if none of it is, None if it straddles."""
    if side.interval is None:
        return None
    low, high = side.interval
    return False if low >= limit else True if high < limit else None


def _surely_less(side: Estimate, other: Estimate) -> bool | None:
    """Return True if an interval is wholly below another, False if wholly not, None if they overlap."""
    if side.interval is None or other.interval is None:
        return None
    if side.interval[0] >= other.interval[1]:
        return False
    return True if side.interval[1] < other.interval[0] else None


def together(cells: Iterable[Word]) -> Word:
    """Return the verdict on a group of cells: ok only if every cell is, starved if any is."""
    words = set(cells)
    l4s = bool(words & {Word.L4S_STARVED, Word.BOTH})
    classic = bool(words & {Word.CLASSIC_STARVED, Word.BOTH})
    word = DIRECTIONS[l4s, classic]
    if word is not Word.OK:
        return word
    # A cell that was not measured leaves open whether all is well, and more trials would not settle it.
    return next((open_ for open_ in (Word.INVALID, Word.UNDECIDED) if open_ in words), Word.OK)
