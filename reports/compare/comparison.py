# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The comparison of two runs as one value, from which text, JSON and JUnit XML are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError
from reports.compare.beside import NumberBeside, beside
from reports.compare.changes import CellChange, Presence, changes
from reports.result.verdicts import Word, decide

if TYPE_CHECKING:
    from reports.compare.margins import Margins
    from reports.result.load import RunTables
    from reports.result.rules import Rule
    from reports.result.verdicts import Verdict


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name, and what ran there."""

    name: str
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    testbeds: tuple[str, ...]

    @classmethod
    def of(cls, name: str, tables: RunTables) -> Side:
        """Read the side from the tables of a run."""
        columns = ("kernels", "modules", "testbed")
        return cls(name, *(tuple(tables.listed(column, tables.trials)) for column in columns))


@dataclass(frozen=True)
class EntryChange:
    """An entry of the decision table whose verdict changed.

    `regressed`: the entry was ok, is not any more, and a cell behind it is worse by more than noise or lost.
    """

    l4s: str
    row: str
    column: str
    base: Word
    new: Word
    regressed: bool


@dataclass(frozen=True)
class Comparison:
    """Two runs, cell by cell and entry by entry of their decision tables.

    `undecidable` is the reason why there are no entries, where the runs have no decision table. Without a
    rule there are no entries either, and `numbers` has what both runs measured, side by side.
    """

    base: Side
    new: Side
    rule: str | None
    margins: Margins
    cells: tuple[CellChange, ...]
    entries: tuple[EntryChange, ...]
    undecidable: str = ""
    numbers: tuple[NumberBeside, ...] = ()

    def __repr__(self) -> str:
        worse = sum(cell.regressed for cell in self.cells)
        runs = f"{self.base.name} and {self.new.name}"
        return f"<Comparison of {runs}: {worse} of {len(self.cells)} cells worse>"

    @property
    def regressed(self) -> bool:
        """True if anything got worse by more than noise."""
        return any(cell.regressed for cell in self.cells)

    def present(self, presence: Presence) -> tuple[CellChange, ...]:
        """Return the cells with this presence."""
        return tuple(cell for cell in self.cells if cell.presence is presence)


def compare(
    base: RunTables,
    new: RunTables,
    *,
    names: tuple[str, str],
    margins: Margins,
    rule: Rule | None,
    looks: tuple[int, int] = (1, 1),
) -> Comparison:
    """Compare two runs.

    Args:
        base: The run that is held to be good.
        new: The run in question.
        names: The names of the two runs in the comparison.
        margins: Which differences matter.
        rule: The verdict rule for both; None for runs without verdicts.
        looks: How often a cell of each may have been looked at while trials were added (`verdicts.decide`).

    Raises:
        InputError: they have no cell in common.
    """
    cells = changes(base, new, margins)
    entries: tuple[EntryChange, ...] = ()
    undecidable = ""
    sides = Side.of(names[0], base), Side.of(names[1], new)
    if rule is None:
        numbers = beside(base, new, margins.false_discovery_percent)
        return Comparison(*sides, None, margins, cells, entries, numbers=numbers)
    try:
        entries = _entries(decide(base, rule, looks[0]).verdicts, decide(new, rule, looks[1]).verdicts, cells)
    except InputError as error:
        undecidable = str(error)
    return Comparison(*sides, rule.rule, margins, cells, entries, undecidable)


def _entries(
    base: tuple[Verdict, ...], new: tuple[Verdict, ...], cells: tuple[CellChange, ...]
) -> tuple[EntryChange, ...]:
    """Return the entries that both tables have and whose words differ."""
    regressed = {cell.cell for cell in cells if cell.regressed}
    now = {(verdict.question, verdict.row, verdict.column): verdict for verdict in new}
    found: list[EntryChange] = []
    for was in base:
        is_now = now.get((was.question, was.row, was.column))
        if is_now is None or is_now.word is was.word:
            continue
        worse = was.word is Word.OK and any(cell.id in regressed for cell in is_now.cells)
        found.append(EntryChange(str(was.question), was.row, str(was.column), was.word, is_now.word, worse))
    return tuple(found)
