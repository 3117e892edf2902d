# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run directory to read from: its matrix, which is parsed once, its tables, and its decision table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.finding import RUNS, find_run, load_matrix
from l4sbench.app.notebook import shown
from l4sbench.app.rules import find_rule, require_rule
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.matrix import Matrix
    from reports.result.basis import Former
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.rules import Rule
    from reports.result.verdicts import Decision


@dataclass(frozen=True)
class StoredRun:
    """A run directory, and its matrix where that was read already.

    Everywhere, `filters` are `FACTOR=PATTERN` and choose cells of the matrix, and `every` takes in former
    cells, which the matrix no longer has.
    """

    path: Path
    known: Matrix | None = None

    @classmethod
    def find(cls, run: str | Path, runs: str | Path = RUNS) -> StoredRun:
        """Return a run, given as its directory or as a matrix's name for its latest run below `runs`.

        Raises:
            InputError: there is no such run.
        """
        return cls(find_run(run, Path(runs)))

    @cached_property
    def matrix(self) -> Matrix:
        """Its matrix. Raises InputError if that is not valid."""
        return self.known or load_matrix(self.path / "matrix.yaml")

    @cached_property
    def departs(self) -> str:
        """Origin of its matrix where it was changed; empty for one that ships with l4sbench as it is."""
        from l4sbench.disk import assets

        shipped = assets.matrices().get(self.matrix.name)
        if shipped is not None and self._ids <= {cell.id for cell in load_matrix(shipped).cells}:
            return ""
        return self.matrix.origin

    def cells(self, filters: Sequence[str] = (), *, every: bool = False) -> frozenset[str] | None:
        """Return the ids of the cells that count; None for all in the tables, where there are no others.

        Raises:
            InputError: a filter is wrong, or former cells are to pass it.
        """
        if filters and every:
            raise InputError(
                "filters choose from the matrix's cells", "leave out either the filters or --all"
            )
        if filters:
            return frozenset(cell.id for cell in self.matrix.select(filters).cells)
        return None if every or not self._former.trials else self._ids

    def tables(self, filters: Sequence[str] = (), *, every: bool = False) -> RunTables:
        """Return its tables, of the cells that count. Raises InputError if there are none."""
        from reports.result.load import load

        return load(self.path, self.cells(filters, every=every))

    def looks(self, *, every: bool = False) -> int:
        """Return how often its cells may have been looked at while trials were added to them.

        All of its cells count, so that no interval depends on the filters by which a cell is chosen.
        """
        from l4sbench.app.adaptive import looks_taken

        return looks_taken(self.matrix, self.tables(every=every))

    def decide(
        self, filters: Sequence[str] = (), *, rule: Rule | str | None = None, every: bool = False
    ) -> Decision:
        """Return the decision table, by default by the rule of the matrix.

        Raises:
            InputError: there is no such rule, or nothing to decide on.
        """
        from reports.render.notebook import decision_html
        from reports.result.verdicts import decide

        by = require_rule(self.matrix, rule) if rule is None or isinstance(rule, str) else rule
        tables, former, not_run = self._to_report(filters, every=every)
        decision = decide(tables, by, self.looks(every=every))
        return shown(replace(decision, former=former, not_run=not_run), decision_html)

    def measure(self, filters: Sequence[str] = (), *, every: bool = False) -> Measurements:
        """Return what its cells got, for which no rule is needed.

        Raises:
            InputError: there is no trial to report.
        """
        from reports.render.notebook import measured_html
        from reports.result.measured import measure

        tables, former, not_run = self._to_report(filters, every=every)
        if not tables.trials.height:
            raise InputError("no trial of the run has ended")
        first = [self.matrix.roles.get(role, role) for role in ("l4s", "classic")]
        return shown(replace(measure(tables, first), former=former, not_run=not_run), measured_html)

    def result(
        self, filters: Sequence[str] = (), *, rule: str | None = None, every: bool = False
    ) -> Decision | Measurements:
        """Return the decision table; of a matrix without verdicts, unless `rule` is stated, what cells got.

        Raises:
            InputError: as `decide` does.
        """
        if (by := find_rule(self.matrix, rule)) is None:
            return self.measure(filters, every=every)
        return self.decide(filters, rule=by, every=every)

    def _to_report(self, filters: Sequence[str], *, every: bool) -> tuple[RunTables, Former, int]:
        """Return the tables that count, the trials that do not, and the number of cells without a trial."""
        from reports.result.basis import Former

        tables = self.tables(filters, every=every)
        former = Former() if every else self._former
        if filters and not tables.trials.height:
            raise InputError("the run has no trial of a cell that matches all filters")
        if former.trials and not tables.trials.height:
            raise InputError(
                f"the run has no trial of its matrix's cells, but {former.trials} of former cells",
                "--all reports them",
            )
        begun = set(tables.trials["cell"])
        return tables, former, sum(cell.id not in begun for cell in self.matrix.select(filters).asked)

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(cell.id for cell in self.matrix.cells)

    @cached_property
    def _former(self) -> Former:
        """Trials in the tables that are of cells which the matrix does not have."""
        from reports.result.basis import Former
        from reports.result.load import load

        ids = self._ids
        counts = load(self.path).scan("trials").select("cell").collect()["cell"].value_counts()
        former = [count for cell, count in counts.iter_rows() if cell not in ids]
        return Former(sum(former), len(former))
