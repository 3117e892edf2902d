# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page before anything is clicked: decision tables, and the heat map of every entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.text.wording import counted
from reports.render.words import BIMODAL, NO_TRIAL, UNSURE, between, number, side_text, why_unsure
from reports.result.grid import Grid, across_of
from reports.result.verdicts import heat_grid

if TYPE_CHECKING:
    from reports.result.labels import Label, Setting
    from reports.result.verdicts import Decision, JudgedCell, Verdict

HeatMap: TypeAlias = "Grid[None, Label, Setting | None, JudgedCell]"


@dataclass(frozen=True)
class Entry:
    """One entry of a decision table with the heat map of its cells. `key` names it in links."""

    key: str
    verdict: Verdict
    heat: HeatMap

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
        return Entry(_key(verdict, taken), verdict, heat_grid(verdict.cells, across))

    return tuple(Question(name, decision.table(name).map(entry)) for name in decision.questions)


def spoken(cell: JudgedCell) -> str:
    """Return a cell of a heat map in words, for screen readers."""
    result = cell.result
    parts = [f"{cell.label}: {cell.word}"]
    if result.share is None:
        parts.append(NO_TRIAL)
    else:
        interval = f", interval {between(result.share)}" if between(result.share) else ""
        parts.append(f"{number(result.share)} percent of the rate{interval}")
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
