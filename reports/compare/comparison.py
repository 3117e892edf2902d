# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The comparison of two runs as one value, from which text, JSON and JUnit XML are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.store.run import begun
from reports.compare.beside import NumberBeside, beside
from reports.compare.changes import CellChange, Presence, changes
from reports.result.verdicts import Word, decide

if TYPE_CHECKING:
    from reports.compare.margins import Margins
    from reports.result.load import RunTables
    from reports.result.rules import Rule
    from reports.result.verdicts import Decision, Verdict


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name, and what ran there.

    Attributes:
        name: Its directory, and the value of a factor where only cells with this value are compared.
        kernels: Releases of its kernels.
        modules: Loaded modules of l4sbench as `name=srcversion`.
        testbeds: Testbeds of its trials.
        labs: Labs that it ran in, by name.
        sources: Where the labs' kernel sources came from, in words, with the commit of a git work tree.
        trials: Number of valid trials.
        begun: When the run directory was made; None if its name does not say.
        folder: Folder of its tables.
        renamed: True if its cells have the ids of the other run's in the comparison.
    """

    name: str
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    testbeds: tuple[str, ...]
    labs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    trials: int = 0
    begun: datetime | None = None
    folder: Path = Path()
    renamed: bool = False

    @classmethod
    def of(cls, name: str, tables: RunTables) -> Side:
        """Read the side from the tables of a run."""
        trials = tables.trials
        return cls(
            name,
            kernels=tuple(tables.listed("kernels", trials)),
            modules=tuple(tables.listed("modules", trials)),
            testbeds=tuple(tables.listed("testbed", trials)),
            labs=kernel_facts(tables, "lab"),
            sources=kernel_facts(tables, "source"),
            trials=tables.valid.height,
            begun=begun(tables.folder.parent.name),
            folder=tables.folder,
            renamed=bool(tables.ids),
        )

    def facts(self) -> Mapping[str, tuple[str, ...]]:
        """Return what may tell it from the other run, by words for people; several values where there are."""
        when = f"{self.begun:%Y-%m-%d %H:%M:%S} UTC" if self.begun else ""
        return {
            "run": (self.name,),
            "begun": (when,) if when else (),
            "testbed": self.testbeds,
            "lab": self.labs,
            "Linux": self.kernels,
            "kernel source": self.sources,
            "modules": self.modules,
            "valid trials": (str(self.trials),),
        }


_WHAT_RAN: Final = ("testbed", "lab", "Linux", "kernel source", "modules")


def kernel_facts(tables: RunTables, fact: str) -> tuple[str, ...]:
    """Return the values of a fact of kind `kernel` in table `hosts`, each once."""
    try:
        found = tables.scan("hosts").filter((pl.col("kind") == "kernel") & (pl.col("name") == fact))
        values = found.select(pl.col("value").drop_nulls().unique()).collect()["value"]
    except InputError:  # tables of a run whose read-backs nobody collected
        return ()
    return tuple(sorted(values))


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
    rule there are no entries either. `numbers` has what both runs measured, side by side.
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
    def apart(self) -> tuple[str, ...]:
        """The facts about what ran that differ between the runs, by the words of `Side.facts`."""
        was, now = self.base.facts(), self.new.facts()
        return tuple(fact for fact in _WHAT_RAN if was[fact] and now[fact] and was[fact] != now[fact])

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
    numbers = beside(base, new, margins.false_discovery_percent)
    if rule is None:
        return Comparison(*sides, None, margins, cells, entries, numbers=numbers)
    try:
        decisions = decide(base, rule, looks[0]), decide(new, rule, looks[1])
        entries = _entries(decisions[0].verdicts, decisions[1].verdicts, cells)
        cells = _with_words(cells, *decisions)
    except InputError as error:
        undecidable = str(error)
    return Comparison(*sides, rule.rule, margins, cells, entries, undecidable, numbers)


def _with_words(cells: tuple[CellChange, ...], base: Decision, new: Decision) -> tuple[CellChange, ...]:
    """Return the cells with their own verdicts in both runs."""
    was, now = ({cell.id: cell.word for cell in decision.cells} for decision in (base, new))
    return tuple(replace(cell, words=(was.get(cell.cell), now.get(cell.cell))) for cell in cells)


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
