# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page before anything is clicked: decision tables, and the heat map of every entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.text.wording import counted
from reports.render.words import BIMODAL, NO_TRIAL, UNSURE, between, figures, number, side_text, why_unsure
from reports.result.grid import Grid, across_of
from reports.result.verdicts import heat_grid

if TYPE_CHECKING:
    from reports.result.judging import JudgedSide, Role
    from reports.result.labels import Label, Setting
    from reports.result.stats import Estimate
    from reports.result.verdicts import Decision, JudgedCell, Verdict

HeatMap: TypeAlias = "Grid[None, Label, Setting | None, JudgedCell]"


@dataclass(frozen=True)
class Bar:
    """A group's figure as a bar; all numbers are percent of the length of the scale, from its left.

    Attributes:
        role: Which group it is of.
        start: Where it begins.
        length: Its length.
        interval: The ends of the confidence interval of its loose end; None where there is none.
        limits: The limits that the rule has for that end.
    """

    role: Role
    start: float
    length: float
    interval: tuple[float, float] | None
    limits: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """One queue of an entry, or its only one: its verdict, and its cells that decide and that delay most."""

    verdict: Verdict

    @property
    def decides(self) -> JudgedCell:
        """The cell that decides about goodput."""
        return self.verdict.worst

    @cached_property
    def slowest(self) -> JudgedCell | None:
        """The cell with the longest delay of the L4S group; None where none has a figure."""
        known = [
            (delay.value, place)
            for place, cell in enumerate(self.verdict.cells)
            if (delay := cell.result.l4s.delay) is not None
        ]
        return self.verdict.cells[max(known)[1]] if known else None


@dataclass(frozen=True)
class Entry:
    """One entry of a decision table with the heat map of its cells. `key` names it in links."""

    key: str
    verdict: Verdict
    heat: HeatMap
    lines: tuple[Line, ...]

    @property
    def cells(self) -> tuple[JudgedCell, ...]:
        """Its cells, row by row."""
        return tuple(cell for _, cells in self.heat.lines() for cell in cells if cell)


@dataclass(frozen=True)
class Question:
    """One decision table."""

    name: Label
    table: Grid[Label, str, Label, Entry]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its entries, row by row."""
        return tuple(entry for _, entries in self.table.lines() for entry in entries if entry)


def questions(decision: Decision) -> tuple[Question, ...]:
    """Return the decision tables of a run with their heat maps."""
    taken: set[str] = set()

    def entry(verdict: Verdict) -> Entry:
        across = across_of([cell.result for cell in verdict.cells])
        parts = [own for (own,) in decision.by_queue([verdict]).values() if own is not None]
        lines = tuple(Line(own) for own in parts or [verdict])
        return Entry(_key(verdict, taken), verdict, heat_grid(verdict.cells, across), lines)

    return tuple(Question(name, decision.table(name).map(entry)) for name in decision.questions)


def spoken(cell: JudgedCell) -> str:
    """Return a cell of a heat map in words, for screen readers."""
    result = cell.result
    parts, found = [f"{cell.label}: {cell.word}"], figures(cell)
    if found is None:
        parts.append(NO_TRIAL)
    else:
        interval = f", interval {between(result.share)}" if between(result.share) else ""
        parts.append(f"{found.share_percent} percent of the rate{interval}")
        parts.append(f"{number(result.l4s.goodput)} against {number(result.classic.goodput)} Mbit/s")
        parts.append(f"delay {number(result.l4s.delay)} against {number(result.classic.delay)} ms")
    parts.append(counted(result.valid, "trial"))
    if result.left_out:
        parts.append(f"{result.left_out} left out")
    if why := why_unsure(cell):
        parts.append(f"{UNSURE}: {why}")
    if result.bimodal:
        parts.append(BIMODAL)
    return "; ".join(parts)


def goodput_bars(cell: JudgedCell) -> tuple[Bar, ...]:
    """Return the goodputs of a cell as parts of the link's rate: L4S from the left, the other from the right.

    They meet where nothing of the link is left. Intervals and limits are those of the sides that were judged.
    """
    found = []
    for side in cell.judged.sides:

        def place(percent: float, of: JudgedSide = side) -> float:
            part = percent * of.whole.mbps / cell.result.rate_mbps
            return _within(part if of.role == "l4s" else 100 - part)

        end, ends = place(side.keeps.value), side.keeps.interval
        interval = None if ends is None else _ordered(place(ends[0]), place(ends[1]))
        start, length = (0.0, end) if side.role == "l4s" else (end, 100 - end)
        found.append(Bar(side.role, start, length, interval, tuple(place(at) for at in side.limits)))
    return tuple(found)


def delay_bars(cell: JudgedCell, most_ms: float, limit_ms: float) -> tuple[Bar, ...]:
    """Return the delays of a cell on a scale that ends at `most_ms`; the limit is that of low latency."""
    groups: tuple[tuple[Role, Estimate | None], ...] = (
        ("l4s", cell.result.l4s.delay),
        ("classic", cell.result.classic.delay),
    )
    found = []
    for role, delay in groups:
        if delay is not None:
            low, high = delay.interval or (None, None)
            interval = None if low is None or high is None else (_part(low, most_ms), _part(high, most_ms))
            limits = (_part(limit_ms, most_ms),) if role == "l4s" and limit_ms < most_ms else ()
            found.append(Bar(role, 0.0, _part(delay.value, most_ms), interval, limits))
    return tuple(found)


def longest_ms(asked: tuple[Question, ...]) -> float:
    """Return the end of the scale of delays for all entries."""
    cells = (line.slowest for question in asked for entry in question.entries for line in entry.lines)
    groups = (group for cell in cells if cell for group in (cell.result.l4s, cell.result.classic))
    ends = (max(delay.value, delay.high or 0.0) for group in groups if (delay := group.delay) is not None)
    return max(ends, default=0.0) or 1.0


def _part(value: float, most: float) -> float:
    return _within(value / most * 100)


def _within(percent: float) -> float:
    return min(100.0, max(0.0, percent))


def _ordered(one: float, other: float) -> tuple[float, float]:
    return min(one, other), max(one, other)


def sides_text(cell: JudgedCell) -> str:
    """Return both groups of a cell with their intervals and limits, a line each."""
    return "\n".join(side_text(cell, side) for side in cell.judged.sides)


def _key(verdict: Verdict, taken: set[str]) -> str:
    """Return a name for links that stays the same when other entries come or go."""
    words = [
        re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-") or "x"
        for text in (verdict.question, verdict.row, verdict.column)
    ]
    key, number = "/".join(words), 1
    while key in taken:
        number += 1
        key = f"{'/'.join(words)}-{number}"
    taken.add(key)
    return key
