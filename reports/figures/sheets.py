# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From a decision's cells to sheets: one competitor each, panels side by side, queues down, a factor across.

A panel is a question (an L4S congestion control) against a competitor with its ECN. Flow counts, and every
other factor that differs and is not a parameter of a queue, make sheets of their own, so that a place in a
panel is one cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from l4sbench.errors import InputError
from l4sbench.facts.factors import Owner, name_of
from l4sbench.text.wording import counted
from reports.published.look import ORDER
from reports.render.words import in_doubt
from reports.result.cells import columns_of, varying
from reports.result.grid import Grid, Panel, across_of, grid
from reports.result.judging import Word
from reports.result.labels import BUFFER, Label, Setting

if TYPE_CHECKING:
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
class Sheet:
    """The panels of one figure; they share rows, columns and fair share.

    Attributes:
        grid: The cells; rows are queues, columns values of the factor that goes across.
        competitor: The value of `classic.cc`.
        flows: How many flows the L4S and the classic group have.
        settings: Further factors that differ among the run's cells.
        groups: Names of the L4S and the classic group.
        part: The part of the figure where several show it; empty for the whole.
    """

    grid: Grid[Pairing, QueueRow, Setting, JudgedCell]
    competitor: str
    flows: tuple[int, int]
    settings: tuple[Setting, ...]
    groups: tuple[str, str]
    part: str = ""

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


def sheets(decision: Decision, across: str | None = None) -> tuple[Sheet, ...]:
    """Sort the cells of a decision into sheets, in the order of their flows and competitors.

    Args:
        decision: The decision; filters have been applied to it.
        across: Column of table `trials` (a numeric factor) that goes across; None: `buffer_bdp` where it
            differs, else the rate or the RTT.

    Raises:
        InputError: the factor is unknown or not numeric, or two cells are in one place.
    """
    results = [cell.result for cell in decision.cells]
    across = across or across_of(results)
    if not all(_is_number(result.value(across)) for result in results):
        raise InputError(f"{across} is not a numeric factor of these cells", "such as buffer_bdp or rtt_ms")
    groups = decision.rule.l4s, decision.rule.classic
    columns = columns_of(results)
    of_queues = [name for name in columns if name_of(name).kind is Owner.QUEUE]
    in_rows = varying(results, of_queues, within="aqm")
    drawn = {"aqm", across, *of_queues}
    free = [name for name in columns if name not in drawn and name_of(name).group not in groups]
    apart = varying(results, free)
    found: dict[tuple[str, tuple[int, int], tuple[Setting, ...]], list[JudgedCell]] = {}
    for cell in decision.cells:
        own = cell.result
        settings = tuple(own.factors[name] for name in apart if name in own.factors)
        flows = own.l4s.flows, own.classic.flows
        found.setdefault((str(own.value(f"{groups[1]}.cc")), flows, settings), []).append(cell)
    made = [
        Sheet(_grid(decision, cells, in_rows, across), *key, groups=groups) for key, cells in found.items()
    ]
    return tuple(sorted(made, key=lambda sheet: (sheet.flows, sheet.slug)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _grid(
    decision: Decision, cells: Sequence[JudgedCell], in_rows: Sequence[str], across: str
) -> Grid[Pairing, QueueRow, Setting, JudgedCell]:
    rule = decision.rule

    def row(cell: JudgedCell) -> QueueRow:
        factors = cell.result.factors
        settings = tuple(factors[name].below("aqm.") for name in in_rows if name in factors)
        return QueueRow(str(factors["aqm"].value), cell.row, Label(factors["aqm"].called, settings))

    def row_order(row: QueueRow) -> tuple[object, ...]:
        """Queues as published, others behind as the rule orders its rows."""
        if row.queue in ORDER:
            return (-1, ORDER.index(row.queue), str(row.label))
        return (rule.row_order(row.family)[0], len(ORDER), str(row.label), row.queue)

    def clash(here: JudgedCell, other: JudgedCell, row: QueueRow) -> NoReturn:
        raise InputError(
            f"{row.label} at {here.result.factors[across].text} is two cells: {here.id} and {other.id}",
            "filter so that one is left: l4sbench report RUN --figures FACTOR=VALUE",
        )

    return grid(
        cells,
        panel=lambda cell: Pairing(
            cell.question.without(f"{rule.l4s}.count"), cell.column.without(f"{rule.classic}.count")
        ),
        row=row,
        column=lambda cell: cell.result.factors[across],
        row_order=row_order,
        column_order=lambda setting: setting.amount,
        clash=clash,
    )


_NOT_SLUG: Final = re.compile(r"[^A-Za-z0-9.+]+")


def slugged(*words: object) -> str:
    """Join words as part of a file name: `cubic_2v1_rtt-10-ms`."""
    return "_".join(_NOT_SLUG.sub("-", str(word)).strip("-") for word in words if word)
