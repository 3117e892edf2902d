# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the page shows before anything is clicked: decision tables, and the heat map of every entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.pages.tones import delay_tone, fair_percent, share_tone
from reports.render import GLYPHS, STAR, worst_text
from reports.verdicts import Verdict, Word

if TYPE_CHECKING:
    from reports.rules import Rule
    from reports.verdicts import Decision


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map: means over its valid trials, None without one.

    `percent_low` and `percent_high` bound its confidence interval, where there is one. `tone` and
    `delay_tone` are steps of colour scales (`reports.pages.tones`).
    """

    cell: str
    label: str
    word: Word
    percent: float | None
    percent_low: float | None
    percent_high: float | None
    l4s_mbps: float | None
    classic_mbps: float | None
    delay_ms: float | None
    classic_delay_ms: float | None
    valid: int
    left_out: int
    bimodal: bool
    decided: bool
    tone: int | None
    delay_tone: int | None

    @property
    def glyph(self) -> str:
        """Its verdict's glyph."""
        return GLYPHS[self.word]

    @property
    def interval(self) -> str:
        """The confidence interval in percent of the link's rate, `33.9 to 34.8`; empty without one."""
        if self.percent_low is None or self.percent_high is None:
            return ""
        return f"{self.percent_low:.1f} to {self.percent_high:.1f}"

    @property
    def spoken(self) -> str:
        """The whole cell in words, for who listens to it."""
        said = [f"{self.label}: {self.word}"]
        if self.percent is None:
            said.append("no valid trial")
        else:
            between = f", interval {self.interval}" if self.interval else ""
            said.append(f"{self.percent:.1f} percent of the rate{between}")
            said.append(f"{number(self.l4s_mbps)} against {number(self.classic_mbps)} Mbit/s")
            said.append(f"delay {number(self.delay_ms)} against {number(self.classic_delay_ms)} ms")
        said.append(f"{self.valid} {'trial' if self.valid == 1 else 'trials'}")
        if self.left_out:
            said.append(f"{self.left_out} left out")
        if self.straddles:
            said.append("the interval straddles a limit")
        if self.bimodal:
            said.append("two modes")
        return "; ".join(said)

    @property
    def straddles(self) -> bool:
        """Whether its confidence interval has a limit in it, so that more trials may turn the verdict."""
        return self.percent_low is not None and not self.decided


@dataclass(frozen=True)
class HeatMap:
    """Queues and their settings down, buffers across; None where there is no such cell."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]


@dataclass(frozen=True)
class Entry:
    """One entry of a decision table with the cells behind it. `key` names it in links."""

    key: str
    verdict: Verdict
    heat: HeatMap

    @property
    def cells(self) -> tuple[HeatCell, ...]:
        """Its cells, row by row."""
        return tuple(cell for _, cells in self.heat.rows for cell in cells if cell)

    @property
    def glyph(self) -> str:
        """Its verdict's glyph."""
        return GLYPHS[self.verdict.word]

    @property
    def star(self) -> str:
        """Its mark for low latency; empty where latency is not low."""
        return STAR[self.verdict.low_latency]

    @property
    def worst(self) -> str:
        """The cell that decides, with its numbers."""
        return worst_text(self.verdict)

    @property
    def trials_each(self) -> str:
        """Valid trials per cell: `3`, or `3 to 10` where some cells got more."""
        return span([cell.valid for cell in self.verdict.cells])


@dataclass(frozen=True)
class Question:
    """One decision table."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry | None, ...]], ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its entries, row by row."""
        return tuple(entry for _, entries in self.rows for entry in entries if entry)


def questions(decision: Decision) -> tuple[Question, ...]:
    """The decision tables of a run, ready to be drawn."""
    facts = {row["cell"]: row for row in decision.cells.iter_rows(named=True)}
    taken: set[str] = set()
    found = []
    for name in decision.questions:
        columns = decision.columns(name)
        rows = []
        for row in decision.rows(name):
            verdicts = [decision.entry(name, row, column) for column in columns]
            entries = [_entry(verdict, decision.rule, facts, taken) for verdict in verdicts]
            rows.append((row, tuple(entries)))
        found.append(Question(name, columns, tuple(rows)))
    return tuple(found)


def number(value: float | None, digits: int = 1) -> str:
    """A number for people; a dash where there is none."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def span(numbers: Sequence[int]) -> str:
    """`3`, or `3 to 10` where they differ."""
    each = sorted(set(numbers))
    return str(each[0]) if len(each) == 1 else f"{each[0]} to {each[-1]}"


def _entry(
    verdict: Verdict | None, rule: Rule, facts: Mapping[str, Mapping[str, Any]], taken: set[str]
) -> Entry | None:
    if verdict is None:
        return None
    cells = [heat_cell(facts[cell.cell], rule) for cell in verdict.cells]
    buffers = [facts[cell.cell].get("buffer_bdp") for cell in verdict.cells]
    return Entry(_key(verdict, taken), verdict, _heat_map(cells, buffers))


def heat_cell(row: Mapping[str, Any], rule: Rule) -> HeatCell:
    """A row of `Decision.cells` as a cell of a heat map."""
    fair = fair_percent(int(row.get(f"{rule.l4s}.count") or 1), int(row.get(f"{rule.classic}.count") or 1))
    return HeatCell(
        cell=row["cell"],
        label=row["label"],
        word=word_of(row, rule),
        percent=row["percent"],
        percent_low=row["percent_low"],
        percent_high=row["percent_high"],
        l4s_mbps=row["l4s_mbps"],
        classic_mbps=row["classic_mbps"],
        delay_ms=row["delay_ms"],
        classic_delay_ms=row["classic_delay_ms"],
        valid=row["valid"],
        left_out=row["left_out"],
        bimodal=bool(row["bimodal"]),
        decided=row["decided"],
        tone=share_tone(row["percent"], fair),
        delay_tone=delay_tone(row["delay_ms"]),
    )


def word_of(row: Mapping[str, Any], rule: Rule) -> Word:
    """What a cell alone says by a rule: the side of the limits that its mean is on."""
    percent, limits = row["percent"], rule.limits_percent
    if percent is None:
        return Word.INVALID
    if rule.intervals != "none" and not row["decided"]:
        return Word.UNDECIDED
    if percent < limits.low:
        return Word.L4S_STARVED
    return Word.CLASSIC_STARVED if percent > limits.high else Word.OK


def _heat_map(cells: Sequence[HeatCell], buffers: Sequence[float | None]) -> HeatMap:
    known = sorted({buffer for buffer in buffers if buffer is not None})
    across = [*known, *([None] if None in buffers else [])]
    rows: dict[str, dict[float | None, HeatCell]] = {}
    for cell, buffer in zip(cells, buffers, strict=True):
        name = cell.label if buffer is None else cell.label.replace(f", {buffer:g} BDP", "")
        if buffer in rows.get(name, {}):
            name = f"{name} ({cell.cell.rpartition('-')[2]})"
        rows.setdefault(name, {})[buffer] = cell
    return HeatMap(
        tuple("any buffer" if buffer is None else f"{buffer:g} BDP" for buffer in across),
        tuple((name, tuple(row.get(buffer) for buffer in across)) for name, row in rows.items()),
    )


def _key(verdict: Verdict, taken: set[str]) -> str:
    """A name for links that stays the same when other entries come or go."""
    words = [
        re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
        for text in (verdict.l4s, verdict.row, verdict.column)
    ]
    key, number = "/".join(words), 1
    while key in taken:
        number += 1
        key = f"{'/'.join(words)}-{number}"
    taken.add(key)
    return key
