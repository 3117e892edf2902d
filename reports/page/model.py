# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the page shows before anything is clicked: decision tables, and the heat map of every entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reports.page.tones import delay_tone, fair_percent, share_tone
from reports.render.terminal import GLYPHS, STAR, worst_text
from reports.result.labels import setting

if TYPE_CHECKING:
    from reports.result.rules import Rule
    from reports.result.verdicts import CellMean, Decision, Verdict


ACROSS: Final = ("buffer_bdp", "rate_mbps", "rtt_ms")
"""Factors that may be the columns of a heat map; everything else makes rows."""


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map.

    `limits_percent` are those that the rule has for the L4S group's percent of the link's rate; None where it
    looks at something else. `tone` and `delay_tone` are steps of colour scales (`reports.page.tones`).
    """

    mean: CellMean
    classic_delay_ms: float | None
    limits_percent: tuple[float, float] | None
    tone: int | None
    delay_tone: int | None

    @property
    def glyph(self) -> str:
        """Its verdict's glyph."""
        return GLYPHS[self.mean.word]

    @property
    def interval(self) -> str:
        """The confidence interval in percent of the link's rate, `33.9 to 34.8`; empty without one."""
        return between(self.mean.percent_low, self.mean.percent_high)

    @property
    def straddles(self) -> bool:
        """Whether its confidence interval has a limit in it, so that more trials may turn the verdict."""
        return self.mean.percent_low is not None and not self.mean.decided

    @property
    def spoken(self) -> str:
        """The whole cell in words, for who listens to it."""
        mean = self.mean
        said = [f"{mean.label}: {mean.word}"]
        if mean.percent is None:
            said.append("no valid trial")
        else:
            interval = f", interval {self.interval}" if self.interval else ""
            said.append(f"{mean.percent:.1f} percent of the rate{interval}")
            said.append(f"{number(mean.l4s_mbps)} against {number(mean.classic_mbps)} Mbit/s")
            said.append(f"delay {number(mean.delay_ms)} against {number(self.classic_delay_ms)} ms")
        said.append(f"{mean.valid} {'trial' if mean.valid == 1 else 'trials'}")
        if mean.left_out:
            said.append(f"{mean.left_out} left out")
        if self.straddles:
            said.append("the interval straddles a limit")
        if mean.bimodal:
            said.append("two modes")
        return "; ".join(said)


@dataclass(frozen=True)
class HeatMap:
    """Queues and their settings down, one factor across, mostly the buffer; None where there is no cell."""

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
        """The cell that decides, with its numbers; no line ends before a percent sign."""
        return worst_text(self.verdict).replace(" %", "\u00a0%")

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


def between(low: float | None, high: float | None) -> str:
    """The ends of an interval for people; empty where there is none."""
    return "" if low is None or high is None else f"{low:.1f} to {high:.1f}"


def span(numbers: Sequence[int]) -> str:
    """`3`, or `3 to 10` where they differ."""
    each = sorted(set(numbers))
    return str(each[0]) if len(each) == 1 else f"{each[0]} to {each[-1]}"


def _entry(
    verdict: Verdict | None, rule: Rule, facts: Mapping[str, Mapping[str, Any]], taken: set[str]
) -> Entry | None:
    if verdict is None:
        return None
    cells = [_heat_cell(cell, facts[cell.cell], rule) for cell in verdict.cells]
    rows = [facts[cell.cell] for cell in verdict.cells]
    return Entry(_key(verdict, taken), verdict, _heat_map(cells, rows))


def _heat_cell(mean: CellMean, row: Mapping[str, Any], rule: Rule) -> HeatCell:
    flows = row[f"{rule.l4s}.count"], row[f"{rule.classic}.count"]
    limits = rule.limits_of_rate(*flows)
    return HeatCell(
        mean=mean,
        classic_delay_ms=row["classic_delay_ms"],
        limits_percent=(limits.low, limits.high) if limits else None,
        tone=share_tone(mean.percent, fair_percent(*flows)),
        delay_tone=delay_tone(mean.delay_ms),
    )


def _heat_map(cells: Sequence[HeatCell], rows: Sequence[Mapping[str, Any]]) -> HeatMap:
    """The cells of one entry; `rows` are theirs of `Decision.cells`."""
    across = _across(rows)
    values = [row.get(across) for row in rows]
    columns = sorted({value for value in values if value is not None})
    columns += [None] if None in values else []
    found: dict[str, dict[object, HeatCell]] = {}
    for cell, value in zip(cells, values, strict=True):
        name = (
            cell.mean.label.replace(f", {setting(across, value)}", "")
            if value is not None
            else cell.mean.label
        )
        if value in found.get(name, {}):
            name = f"{name} ({cell.mean.cell.rpartition('-')[2]})"
        found.setdefault(name, {})[value] = cell
    return HeatMap(
        tuple(setting(across, value) or "any" for value in columns),
        tuple((name, tuple(own.get(value) for value in columns)) for name, own in found.items()),
    )


def _across(rows: Sequence[Mapping[str, Any]]) -> str:
    """The factor whose values are the columns: the first that differs within the entry, else the buffer."""
    return next((name for name in ACROSS if len({row.get(name) for row in rows}) > 1), ACROSS[0])


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
