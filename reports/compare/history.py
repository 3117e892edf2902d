# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs of a matrix one after the other, night by night: every cell's numbers, and where they got worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError
from reports.compare.changes import ChangeKind, Presence, changes
from reports.compare.comparison import Side
from reports.result.measured import measure
from reports.result.verdicts import Word, decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.compare.changes import MetricChange
    from reports.compare.margins import Margins
    from reports.result.load import RunTables
    from reports.result.measured import MeasuredCell
    from reports.result.rules import Rule
    from reports.result.stats import Estimate


@dataclass(frozen=True)
class Night:
    """A run of a history.

    Attributes:
        side: What ran.
        outcome: The outcome that the sweep noted; empty for a run that is not one of a sweep.
        against: Name of the run that it is compared with; empty for none.
        marks: What ran otherwise than the night before, in words.
    """

    side: Side
    outcome: str
    against: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class GroupHistory:
    """Goodput and delay of a flow group of a cell, night by night; None where a night has none."""

    name: str
    goodput: tuple[Estimate | None, ...]
    delay: tuple[Estimate | None, ...]


@dataclass(frozen=True)
class CellHistory:
    """A cell, night by night.

    Attributes:
        cell: Its id.
        label: The cell in words.
        groups: Its flow groups.
        words: Its verdicts; None where there is none.
        worse: The metrics that were worse than those of the run that a night is compared with.
        lost: Whether the night has no valid trial of it, and the run that it is compared with has some.
    """

    cell: str
    label: str
    groups: tuple[GroupHistory, ...]
    words: tuple[Word | None, ...]
    worse: tuple[tuple[MetricChange, ...], ...]
    lost: tuple[bool, ...]

    @property
    def regressed(self) -> tuple[int, ...]:
        """The places of the nights in which something was worse, or the cell was lost."""
        both = zip(self.worse, self.lost, strict=True)
        return tuple(place for place, (metrics, lost) in enumerate(both) if metrics or lost)


@dataclass(frozen=True)
class History:
    """Runs of a matrix in the order of time, and all cells that they have, those of the newest first."""

    matrix: str
    rule: str | None
    margins: Margins
    nights: tuple[Night, ...]
    cells: tuple[CellHistory, ...]

    def __repr__(self) -> str:
        return f"<History of {self.matrix}: {len(self.nights)} nights, {len(self.cells)} cells>"

    def worse_in(self, place: int) -> int:
        """Return the number of cells that regressed in a night: a metric was worse, or the cell was lost."""
        return sum(place in cell.regressed for cell in self.cells)

    def lost_in(self, place: int) -> int:
        """Return the number of these that were lost."""
        return sum(cell.lost[place] for cell in self.cells)


@dataclass(frozen=True)
class NightRun:
    """A run that a history is made of.

    Attributes:
        name: Name of its directory.
        tables: Its tables.
        outcome: As for `Night`.
        base: The tables of the run that it is compared with, and that run's name; None for no comparison.
        looks: How often a cell may have been looked at while trials were added (`verdicts.decide`).
    """

    name: str
    tables: RunTables
    outcome: str = ""
    base: tuple[str, RunTables] | None = None
    looks: int = 1


@dataclass
class _Found:
    """One night with its cells, verdicts, metrics that were worse, and cells that were lost."""

    night: Night
    cells: Mapping[str, MeasuredCell]
    words: Mapping[str, Word] = field(default_factory=dict)
    worse: Mapping[str, tuple[MetricChange, ...]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()


def history(matrix: str, runs: Sequence[NightRun], margins: Margins, rule: Rule | None) -> History:
    """Put runs of a matrix one after the other.

    Args:
        matrix: Its name.
        runs: The runs in the order of time.
        margins: Which differences matter.
        rule: The verdict rule; None for runs without verdicts.
    """
    found: list[_Found] = []
    for run in runs:
        found.append(_found(run, found[-1].night.side if found else None, margins, rule))
    labels = {own.id: str(own.label) for one in found for own in one.cells.values()}
    newest_first = dict.fromkeys(cell for one in reversed(found) for cell in one.cells)
    return History(
        matrix,
        rule.rule if rule else None,
        margins,
        tuple(one.night for one in found),
        tuple(_cell(cell, labels[cell], found) for cell in newest_first),
    )


def _found(run: NightRun, before: Side | None, margins: Margins, rule: Rule | None) -> _Found:
    side = Side.of(run.name, run.tables)
    base_name, base = run.base or ("", None)
    night = Night(side, run.outcome, base_name, _marks(before, side) if before else ())
    found = _Found(night, {cell.id: cell for cell in measure(run.tables).cells})
    if rule is not None:
        try:
            found.words = {cell.id: cell.word for cell in decide(run.tables, rule, run.looks).cells}
        except InputError:  # no cell has both groups of the rule
            found.words = {}
    if base is not None:
        try:
            changed = changes(base, run.tables, margins)
        except InputError:  # the matrix has changed altogether
            changed = ()
        found.worse = {
            cell.cell: tuple(metric for metric in cell.metrics if metric.change is ChangeKind.WORSE)
            for cell in changed
        }
        found.lost = frozenset(cell.cell for cell in changed if cell.presence is Presence.LOST)
    return found


def _marks(before: Side, side: Side) -> tuple[str, ...]:
    """Return what ran otherwise than the night before: kernels, their sources, modules; one text each."""
    pairs = (("Linux", before.kernels, side.kernels), ("kernel source", before.sources, side.sources))
    changed = [(fact, was, now) for fact, was, now in pairs if was and now and was != now]
    texts = [f"{fact} {', '.join(was)} → {', '.join(now)}" for fact, was, now in changed]
    known, loaded = (dict(module.partition("=")[::2] for module in one.modules) for one in (before, side))
    both = [name for name in loaded if name in known and known[name] != loaded[name]]
    texts += [f"module {name} {known[name][:_SHORT]} → {loaded[name][:_SHORT]}" for name in both]
    texts += [f"module {name} is new" for name in loaded if name not in known]
    return (*texts, *(f"module {name} is gone" for name in known if name not in loaded))


_SHORT: Final = 8
"""Characters of a module's source version that distinguish it from another."""


def _cell(cell: str, label: str, found: Sequence[_Found]) -> CellHistory:
    groups = dict.fromkeys(
        group.name for one in reversed(found) if cell in one.cells for group in one.cells[cell].groups
    )

    def each(group: str, of: Callable[..., Estimate | None]) -> tuple[Estimate | None, ...]:
        nights = (one.cells[cell].groups if cell in one.cells else () for one in found)
        return tuple(next((of(own) for own in groups if own.name == group), None) for groups in nights)

    return CellHistory(
        cell,
        label,
        tuple(
            GroupHistory(group, each(group, lambda own: own.goodput), each(group, lambda own: own.delay))
            for group in groups
        ),
        tuple(one.words.get(cell) for one in found),
        tuple(one.worse.get(cell, ()) for one in found),
        tuple(cell in one.lost for one in found),
    )
