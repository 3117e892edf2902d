# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From numbers to words: what a rule says of one cell, and of the cells behind one entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reports.result.rules import Rule


class Word(StrEnum):
    """What an entry of the table says."""

    OK = "ok"
    L4S_STARVED = "l4s-starved"
    CLASSIC_STARVED = "classic-starved"
    BOTH = "both"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Range:
    """A mean with its confidence interval; a single trial has none."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Measured:
    """What a rule looks at in one cell, in percent of the link's rate or of what a group gets alone.

    Attributes:
        l4s: The L4S group's goodput in percent of the link's rate.
        l4s_kept: The same of what it gets alone; of the link's rate without a baseline.
        classic_kept: The same of the classic group.
        own_kind_keeps: What the classic group keeps of that beside its own kind; None without that baseline.
        l4s_flows: Flows of the L4S group.
        classic_flows: Flows of the classic group.
    """

    l4s: Range
    l4s_kept: Range
    classic_kept: Range
    own_kind_keeps: Range | None = None
    l4s_flows: int = 1
    classic_flows: int = 1


@dataclass(frozen=True)
class Judged:
    """What a rule says of a cell.

    Attributes:
        word: The cell's own verdict.
        decided: Whether the intervals leave no doubt about it, even where the rule looks at means alone.
        outside: By how many percent the farther side is outside of its limit; negative within both.
    """

    word: Word
    decided: bool
    outside: float


NOTHING: Final = Judged(Word.INVALID, decided=False, outside=float("-inf"))
"""Of a cell without a valid trial."""

DIRECTIONS: Final = {
    (False, False): Word.OK,
    (True, False): Word.L4S_STARVED,
    (False, True): Word.CLASSIC_STARVED,
    (True, True): Word.BOTH,
}


def judge(rule: Rule, cell: Measured) -> Judged:
    """What the rule says of one cell."""
    limits = rule.limits(cell.l4s_flows, cell.classic_flows)
    if rule.metric == "l4s-goodput":
        sides = ((cell.l4s, limits.low), (_mirrored(cell.l4s), 100 - limits.high))
        sure = tuple(_surely_below(side, limit) for side, limit in sides)
        means = tuple(side.mean < limit for side, limit in sides)
    else:
        sides = ((cell.l4s_kept, limits.low), (cell.classic_kept, 100 - limits.high))
        l4s, classic = (_surely_below(side, limit) for side, limit in sides)
        below = [side.mean < limit for side, limit in sides]
        kind = cell.own_kind_keeps if rule.own_kind else None
        if kind is not None and classic is not False:
            less = _surely_less(cell.classic_kept, kind)
            classic = False if less is False else (classic if less else None)
        if kind is not None:
            below[1] = below[1] and cell.classic_kept.mean < kind.mean
        sure, means = (l4s, classic), tuple(below)
    decided = None not in sure
    if rule.intervals == "none":
        word = DIRECTIONS[means[0], means[1]]
    else:
        word = DIRECTIONS[sure[0] is True, sure[1] is True]
        word = Word.UNDECIDED if word is Word.OK and not decided else word
    return Judged(word, decided, max(limit - side.mean for side, limit in sides))


def _mirrored(l4s: Range) -> Range:
    """What the L4S group leaves."""
    low = None if l4s.high is None else 100 - l4s.high
    high = None if l4s.low is None else 100 - l4s.low
    return Range(100 - l4s.mean, low, high)


def _surely_below(side: Range, limit: float) -> bool | None:
    """Whether the whole interval is below the limit, or the whole is not; None when it straddles it."""
    if side.low is None or side.high is None:
        return None
    if side.low >= limit:
        return False
    return True if side.high < limit else None


def _surely_less(side: Range, other: Range) -> bool | None:
    """Whether one interval lies wholly below another or not below it; None when they overlap."""
    if side.low is None or side.high is None or other.low is None or other.high is None:
        return None
    if side.low >= other.high:
        return False
    return True if side.high < other.low else None


def together(cells: Iterable[Word]) -> Word:
    """The word for a group of cells: it is ok only if every cell is, and starving anywhere is starving."""
    words = set(cells)
    l4s = bool(words & {Word.L4S_STARVED, Word.BOTH})
    classic = bool(words & {Word.CLASSIC_STARVED, Word.BOTH})
    word = DIRECTIONS[l4s, classic]
    if word is not Word.OK:
        return word
    # What was not measured leaves open whether all is well, and more trials would not settle it.
    return next((open_ for open_ in (Word.INVALID, Word.UNDECIDED) if open_ in words), Word.OK)
