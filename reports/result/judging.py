# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From numbers to words: the verdict of a rule on one cell, and on the cells behind one entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from reports.result.rules import Limits, Rule
    from reports.result.stats import Estimate

Role: TypeAlias = Literal["l4s", "classic"]
"""A flow group's part in the question, whatever its name."""


class Word(StrEnum):
    """The verdict of an entry or a cell."""

    OK = "ok"
    L4S_STARVED = "l4s-starved"
    CLASSIC_STARVED = "classic-starved"
    BOTH = "both"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Whole:
    """The whole that a goodput is a part of: the link's rate, or the group's goodput alone.

    Attributes:
        mbps: The whole.
        alone_trials: Number of trials of the group's goodput alone; None for the link's rate.
    """

    mbps: float = 100.0
    alone_trials: int | None = None

    @property
    def alone(self) -> bool:
        """True for the group's goodput alone."""
        return self.alone_trials is not None


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
        l4s_whole: What `l4s_kept` is a part of; `l4s` is always one of the link's rate.
        classic_whole: Likewise of `classic_kept`.
    """

    l4s: Estimate
    l4s_kept: Estimate
    classic_kept: Estimate
    own_kind_keeps: Estimate | None = None
    l4s_flows: int = 1
    classic_flows: int = 1
    l4s_whole: Whole = Whole()
    classic_whole: Whole = Whole()


@dataclass(frozen=True)
class JudgedSide:
    """A flow group with what it keeps, in percent of a whole, and the limits that a rule has for that.

    Attributes:
        role: Which group it is.
        keeps: Its goodput.
        whole: What that is a part of.
        in_mbps: True if its figures are told in Mbit/s; else in percent, as the rule states its limits.
        limits: The limit below which it is starved, and the one above which it starves the other group, if
            the rule has that, too. None for a group that the rule does not look at.
        open_at: Those of the limits that leave the verdict open, being in its interval, or for lack of one.
        own_kind: What the group keeps beside its own kind, where only whether this is more leaves it open.
    """

    role: Role
    keeps: Estimate
    whole: Whole
    in_mbps: bool
    limits: tuple[float, ...] = ()
    open_at: tuple[float, ...] = ()
    own_kind: Estimate | None = None

    @property
    def doubtful(self) -> bool:
        """True if its interval does not settle the verdict."""
        return bool(self.open_at) or self.own_kind is not None

    def told(self, percent: float) -> float:
        """Return a figure of this side in the unit in which it is told."""
        return percent / 100 * self.whole.mbps if self.in_mbps else percent


@dataclass(frozen=True)
class Judged:
    """The verdict of a rule on a cell.

    Attributes:
        word: The cell's own verdict.
        by_intervals: The verdict that the confidence intervals give, whatever the rule looks at.
        decided: Whether the intervals leave no doubt about it, even where the rule looks at means alone.
        outside_percent: Distance of the farther side from its limit, in percent; negative within both, None
            without a valid trial.
        sides: Both groups beside their limits; none without a valid trial.
    """

    word: Word
    by_intervals: Word
    decided: bool
    outside_percent: float | None
    sides: tuple[JudgedSide, ...] = ()

    @property
    def doubts(self) -> tuple[JudgedSide, ...]:
        """The sides whose intervals do not settle the verdict."""
        return tuple(side for side in self.sides if side.doubtful)


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
    rival: Estimate | None = None  # its own kind, where that alone leaves it open
    if kind is not None:
        if classic is not False:
            less = _surely_less(cell.classic_kept, kind)
            rival = kind if classic and less is None else None
            classic = False if less is False else (classic if less else None)
        below[1] = below[1] and cell.classic_kept.value < kind.value
    decided = l4s is not None and classic is not None
    by_intervals = DIRECTIONS[l4s is True, classic is True]
    by_intervals = Word.UNDECIDED if by_intervals is Word.OK and not decided else by_intervals
    word = DIRECTIONS[below[0], below[1]] if rule.intervals == "none" else by_intervals
    outside_percent = max(limit - side.value for side, limit in sides)
    return Judged(
        word, by_intervals, decided, outside_percent, _sides(rule, cell, limits, (l4s, classic), rival)
    )


def _sides(
    rule: Rule,
    cell: Measured,
    limits: Limits,
    surely: tuple[bool | None, bool | None],
    rival: Estimate | None,
) -> tuple[JudgedSide, JudgedSide]:
    """Return both groups; `surely` tells who is starved, `rival` is the own kind that leaves this open."""
    open_low, open_high = _open_at(limits.low, surely[0]), _open_at(limits.high, surely[1])
    if rule.metric == "l4s-goodput":
        return (
            JudgedSide(
                "l4s", cell.l4s, cell.l4s_whole, False, (limits.low, limits.high), open_low + open_high
            ),
            JudgedSide("classic", cell.classic_kept, cell.classic_whole, False),
        )
    least = 100 - limits.high
    open_least = () if rival else _open_at(least, surely[1])
    wholes = cell.l4s_whole, cell.classic_whole
    return (
        JudgedSide("l4s", cell.l4s_kept, wholes[0], not wholes[0].alone, (limits.low,), open_low),
        JudgedSide("classic", cell.classic_kept, wholes[1], not wholes[1].alone, (least,), open_least, rival),
    )


def _open_at(limit: float, surely: bool | None) -> tuple[float, ...]:
    return (limit,) if surely is None else ()


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
