# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From a decision's cells to sheets: one competitor each, panels side by side, queues down, a factor across.

A panel is a question (an L4S congestion control) against a competitor with its ECN. Flow counts, and every
other factor that differs and is not a parameter of a queue, make sheets of their own, so that a place in a
panel is one cell. The factor that `by` names is in the rows instead, or goes across.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from l4sbench.errors import InputError, suggest
from l4sbench.facts.factors import Owner, name_of
from l4sbench.text.wording import counted
from reports.figures.style import DASHES, looks
from reports.published.look import ORDER
from reports.render.words import in_doubt
from reports.result.cells import columns_of, varying
from reports.result.grid import Grid, Panel, across_of, grid
from reports.result.judging import Word
from reports.result.labels import BUFFER, Label, Setting

if TYPE_CHECKING:
    from reports.result.cells import CellResult
    from reports.result.judging import JudgedSide
    from reports.result.stats import Estimate
    from reports.result.verdicts import Decision, JudgedCell


@dataclass(frozen=True)
class QueueRow:
    """A row of a sheet: a queue with those of its parameters that differ; `family` is its row of verdicts."""

    queue: str
    family: str
    label: Label


@dataclass(frozen=True)
class Pairing:
    """One question against one competitor with its ECN, without the numbers of flows, which the sheet has."""

    question: Label
    column: Label

    def __str__(self) -> str:
        """Return the two in words."""
        return f"{self.question} against {self.column}"


SheetPanel: TypeAlias = "Panel[Pairing, JudgedCell]"


@dataclass(frozen=True)
class View:
    """The cells of one plot of curves or points, with the name of each: its queue, or its value of a factor.

    Attributes:
        panel: The panel that they are in.
        words: What they have in common besides: `1 BDP`, or `FIFO, 1 BDP`.
        series: Names and cells.
    """

    panel: SheetPanel
    words: str
    series: tuple[tuple[str, JudgedCell], ...]

    @property
    def title(self) -> str:
        """Panel and cells in words."""
        return f"{self.panel.about}, {self.words}" if self.words else str(self.panel.about)


@dataclass(frozen=True)
class Sheet:
    """The panels of one figure; they share rows, columns and fair share.

    Attributes:
        grid: The cells; rows are queues, columns values of the factor that goes across.
        competitor: The value of `classic.cc`.
        flows: How many flows the L4S and the classic group have.
        settings: Further factors that differ among the run's cells.
        groups: Names of the L4S and the classic group.
        part: The part of the figure where several show it; empty for the whole.
        by: Values of the factor that names series, in order; empty where queues do.
    """

    grid: Grid[Pairing, QueueRow, Setting, JudgedCell]
    competitor: str
    flows: tuple[int, int]
    settings: tuple[Setting, ...]
    groups: tuple[str, str]
    part: str = ""
    by: tuple[Setting, ...] = ()

    @property
    def slug(self) -> str:
        """Part of a file name."""
        counts = "" if self.flows == (1, 1) else f"{self.flows[0]}v{self.flows[1]}"
        slug = slugged(self.competitor, counts, *(setting.text for setting in self.settings))
        return f"{slug}_{self.part}" if self.part else slug

    @property
    def family(self) -> str:
        """The slug without the numbers of flows."""
        return slugged(self.competitor, *(setting.text for setting in self.settings))

    @property
    def title(self) -> str:
        """The subject in words: `against CUBIC, 1 against 2 flows, rtt 10 ms`."""
        opponent = self.grid.panels[0].about.column.head
        counts = [] if self.flows == (1, 1) else [f"{self.flows[0]} against {self.flows[1]} flows"]
        return ", ".join([f"against {opponent}", *counts, *(setting.text for setting in self.settings)])

    @property
    def across(self) -> str:
        """The factor that goes across, with its unit."""
        first = self.grid.columns[0]
        if first.column == BUFFER:
            return "Buffer size (BDP)"
        return f"{first.name} ({first.unit})" if first.unit else first.name

    @property
    def xs(self) -> tuple[str, ...]:
        """Labels of the columns below `across`."""
        return tuple(column.called for column in self.grid.columns)

    @property
    def rows(self) -> tuple[str, ...]:
        """Labels of the rows."""
        return tuple(str(row.label) for row in self.grid.rows)

    @property
    def queues(self) -> tuple[str, ...]:
        """Values of `aqm`, one per row."""
        return tuple(row.queue for row in self.grid.rows)

    @property
    def fair_percent(self) -> float:
        """The L4S group's fair share: its flows over all flows, in percent of the link's rate."""
        return 100 * self.flows[0] / sum(self.flows)

    @property
    def cells(self) -> tuple[JudgedCell, ...]:
        """All cells, panel by panel."""
        return tuple(cell for panel in self.grid.panels for cell in panel.places.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series of views, in order."""
        return tuple(value_text(value) for value in self.by) if self.by else self.rows

    @property
    def looks(self) -> tuple[int, ...]:
        """Places among colours, dashes and shapes of `names`."""
        return tuple(at % len(DASHES) for at in range(len(self.by))) if self.by else looks(self.queues)

    def views(self) -> Iterator[tuple[View, ...]]:
        """Yield the views of every panel: one per column, or with `by` one per queue and column."""
        for panel in self.grid.panels:
            found: dict[str, list[tuple[str, JudgedCell]]] = {}
            for (row, x), cell in sorted(panel.places.items(), key=lambda item: item[0][::-1]):
                queue, column = self.grid.rows[row].label, self.grid.columns[x]
                if not self.by:
                    found.setdefault(column.text, []).append((self.rows[row], cell))
                    continue
                own = self.by[0].column
                rest = [column.text] if column.column != own else []
                words = ", ".join([str(queue.without(own)), *rest])
                value = cell.result.factors.get(own)
                if value is not None:
                    found.setdefault(words, []).append((value_text(value), cell))
            yield tuple(View(panel, words, tuple(series)) for words, series in found.items())

    def column(self, panel: SheetPanel, x: int) -> Iterator[tuple[str, JudgedCell]]:
        """Yield the cells of a panel's column with the labels of their rows."""
        rows = self.rows
        return ((rows[row], cell) for (row, at), cell in panel.places.items() if at == x)


def ends(estimate: Estimate | None) -> tuple[float, float] | tuple[None, None]:
    """Return the ends of an estimate's interval, None where there is none."""
    return (estimate and estimate.interval) or (None, None)


def limited(cell: JudgedCell) -> tuple[JudgedSide, ...]:
    """Return the groups of a cell that its rule has limits for."""
    return tuple(side for side in cell.judged.sides if side.limits)


def undecided(sheet: Sheet) -> list[str]:
    """Return what is in doubt in the undecided cells of a sheet, a line each; only the first ones of many."""
    several = len(sheet.grid.panels) > 1
    lines = [
        f"undecided: {what} ({cell.label}{f', {panel.about}' if several else ''})"
        for panel in sheet.grid.panels
        for cell in panel.places.values()
        if cell.word is Word.UNDECIDED and (what := in_doubt(cell))
    ]
    rest = len(lines) - _LISTED
    return lines if rest <= 0 else [*lines[:_LISTED], f"undecided: {counted(rest, 'more cell')}"]


_LISTED: Final = 3


def value_text(value: Setting) -> str:
    """Return a factor's value as the name of a series: `TCP Prague`, `lab mine`, `2 BDP`."""
    return value.label or value.text


def column_by(decision: Decision, factor: str) -> str:
    """Return the column of a factor that differs among a decision's cells, for the `by` of `sheets`.

    Raises:
        InputError: there is no such factor, it does not differ, or figures cannot be drawn by it.
    """
    results = [cell.result for cell in decision.cells]
    known = {setting.of.factor: column for cell in results for column, setting in cell.factors.items()}
    column = factor if factor in known.values() else known.get(factor)
    differing = varying(results, columns_of(results))
    names = sorted(name for name, own in known.items() if own in differing)
    if column is None or column not in differing:
        what = "is no factor of these cells" if column is None else "is the same in all cells"
        raise InputError(f"{factor} {what}", suggest(factor, names))
    if column in _always_together(decision):
        raise InputError(
            f"figures cannot be drawn by {factor}", "queues, competitors and numbers of flows have their own"
        )
    return column


def usual_by(decision: Decision) -> str | None:
    """Return the column of the one factor that differs besides queues and competitors.

    It is the lab wherever that differs, and None where several differ or none.
    """
    results = [cell.result for cell in decision.cells]
    columns = [name for name in columns_of(results) if name not in _always_together(decision)]
    groups = decision.rule.l4s, decision.rule.classic
    of_queues = [name for name in columns if name_of(name).kind is Owner.QUEUE]
    of_groups = {group: [name for name in columns if name_of(name).group == group] for group in groups}
    rest = [
        name for name in columns if name not in {*of_queues, *(n for own in of_groups.values() for n in own)}
    ]
    found = [
        *varying(results, rest),
        *varying(results, of_queues, within="aqm"),
        *(name for group, own in of_groups.items() for name in varying(results, own, within=f"{group}.cc")),
    ]
    if _LAB in found:
        return _LAB
    return found[0] if len(found) == 1 else None


_LAB: Final = "lab"


def _always_together(decision: Decision) -> frozenset[str]:
    """Return the columns of what all figures have on one plot, or in figures of their own."""
    l4s, classic = decision.rule.l4s, decision.rule.classic
    return frozenset({"aqm", f"{classic}.cc", f"{classic}.ecn", f"{l4s}.count", f"{classic}.count"})


def sheets(decision: Decision, across: str | None = None, by: str | None = None) -> tuple[Sheet, ...]:
    """Sort the cells of a decision into sheets, in the order of their flows and competitors.

    Args:
        decision: The decision; filters have been applied to it.
        across: Column of table `trials` (a numeric factor) that goes across; None: `buffer_bdp` where it
            differs, else the rate or the RTT, else `by` if it is numeric.
        by: Column of the factor whose values share sheets and plots.

    Raises:
        InputError: the factor is unknown or not numeric, or two cells are in one place.
    """
    results = [cell.result for cell in decision.cells]
    across = across or _across(results, by)
    if not all(_is_number(result.value(across)) for result in results):
        raise InputError(f"{across} is not a numeric factor of these cells", "such as buffer_bdp or rtt_ms")
    groups = decision.rule.l4s, decision.rule.classic
    columns = columns_of(results)
    of_queues = [name for name in columns if name_of(name).kind is Owner.QUEUE]
    in_rows = varying(results, of_queues, within="aqm")
    if by and by not in {across, *in_rows}:
        in_rows.append(by)
    drawn = {"aqm", across, by, *of_queues}
    free = [name for name in columns if name not in drawn and name_of(name).group not in groups]
    apart = varying(results, free)
    found: dict[tuple[str, tuple[int, int], tuple[Setting, ...]], list[JudgedCell]] = {}
    for cell in decision.cells:
        own = cell.result
        settings = tuple(own.factors[name] for name in apart if name in own.factors)
        flows = own.l4s.flows, own.classic.flows
        found.setdefault((str(own.value(f"{groups[1]}.cc")), flows, settings), []).append(cell)
    made = [
        Sheet(_grid(decision, cells, in_rows, across, by), *key, groups=groups, by=_values(cells, by))
        for key, cells in found.items()
    ]
    return tuple(sorted(made, key=lambda sheet: (sheet.flows, sheet.slug)))


def _across(results: Sequence[CellResult], by: str | None) -> str:
    usual = across_of(results)
    numeric = by and all(_is_number(result.value(by)) for result in results)
    return by if by and numeric and len({result.value(usual) for result in results}) == 1 else usual


def _values(cells: Sequence[JudgedCell], by: str | None) -> tuple[Setting, ...]:
    """Return the values of a factor: numbers in their order, words as they appear."""
    settings = (cell.result.factors[by] for cell in cells if by in cell.result.factors) if by else ()
    return tuple(sorted(dict.fromkeys(settings), key=lambda setting: setting.amount))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _grid(
    decision: Decision, cells: Sequence[JudgedCell], in_rows: Sequence[str], across: str, by: str | None
) -> Grid[Pairing, QueueRow, Setting, JudgedCell]:
    rule = decision.rule

    def row(cell: JudgedCell) -> QueueRow:
        factors = cell.result.factors
        settings = tuple(
            factors[name].below(f"{name_of(name).owner}.") for name in in_rows if name in factors
        )
        return QueueRow(str(factors["aqm"].value), cell.row, Label(factors["aqm"].called, settings))

    def row_order(row: QueueRow) -> tuple[object, ...]:
        """Queues as published, others behind as the rule orders its rows."""
        amounts = [setting.amount for setting in row.label.settings if setting.column == by]
        if row.queue in ORDER:
            return (-1, ORDER.index(row.queue), amounts, str(row.label))
        return (
            rule.row_order(row.family)[0],
            len(ORDER),
            row.queue if by else "",
            amounts,
            str(row.label),
            row.queue,
        )

    def clash(here: JudgedCell, other: JudgedCell, row: QueueRow) -> NoReturn:
        raise InputError(
            f"{row.label} at {here.result.factors[across].text} is two cells: {here.id} and {other.id}",
            "filter so that one is left: l4sbench report RUN --figures FACTOR=VALUE",
        )

    def panel(cell: JudgedCell) -> Pairing:
        question = _ANY if by == f"{rule.l4s}.cc" else cell.question.without(f"{rule.l4s}.count", by or "")
        return Pairing(question, cell.column.without(f"{rule.classic}.count", by or ""))

    return grid(
        cells,
        panel=panel,
        row=row,
        column=lambda cell: cell.result.factors[across],
        row_order=row_order,
        column_order=lambda setting: setting.amount,
        clash=clash,
    )


_ANY: Final = Label("L4S flows")


_NOT_SLUG: Final = re.compile(r"[^A-Za-z0-9.+]+")


def slugged(*words: object) -> str:
    """Join words as part of a file name: `cubic_2v1_rtt-10-ms`."""
    return "_".join(_NOT_SLUG.sub("-", str(word)).strip("-") for word in words if word)
