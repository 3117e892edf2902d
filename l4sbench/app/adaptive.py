# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`trials: {until: decided}`: collectors and reports decide for the engine whether a cell has enough trials.

A decision depends only on the matrix, the cell and its own trials, so that a run gets the same trials with
any number of workers, however often it was interrupted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from l4sbench.errors import InputError
from l4sbench.planning.trials import looks

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.engine.looks import Decide
    from l4sbench.facts.cell import Cell
    from l4sbench.matrix import Matrix
    from l4sbench.planning.plan import Plan
    from l4sbench.program.trial import EndedTrial
    from reports.result.load import RunTables
    from reports.result.rules import Rule


@dataclass(frozen=True)
class Forecast:
    """The trials that adaptive cells will probably get after the first look.

    `known` is the number of cells that are estimated from their own trials; the others are estimated from
    published experiments.
    """

    trials: int
    most: int
    known: int
    work_s: float


def number_of_looks(matrix: Matrix) -> int:
    """Return the number of looks that a cell of this matrix may get."""
    return len(looks(matrix.trials))


def looks_taken(matrix: Matrix, tables: RunTables) -> int:
    """Return how often a cell may have been looked at while trials were added to it.

    At least as often as the matrix says. Where cells have other numbers of trials nevertheless, because
    somebody ran more trials of some of them, each number from the matrix's own on counts as a look.
    """
    counts: list[int] = tables.trials.group_by("cell").len()["len"].unique().to_list()
    stated = looks(matrix.trials)
    return max(len(stated), sum(count >= stated[0] for count in counts))


def decider(matrix: Matrix, rule: Rule | None) -> Decide | None:
    """Return the function that decides whether a cell has enough trials; None when their number is fixed."""
    if matrix.trials.until is None or rule is None:
        return None
    return _Decider(rule, matrix.baseline_ids, number_of_looks(matrix))


def _compares(rule: Rule, cell: Cell) -> bool:
    return {rule.l4s, rule.classic} <= set(cell.group_names)


@dataclass(frozen=True)
class _Decider:
    rule: Rule
    baseline_ids: frozenset[str]
    looks: int

    def __call__(self, cell: Cell, ended: Sequence[EndedTrial]) -> Literal["more", "enough"]:
        from l4sbench.facts.events import Status
        from reports.result.adaptive import decided

        # A baseline has no verdict, and where all trials are invalid, more of them would be invalid too.
        valid = [trial for trial in ended if trial.status is Status.OK]
        if cell.id in self.baseline_ids or not _compares(self.rule, cell) or not valid:
            return "enough"
        goodputs = [found for trial in valid if (found := self._goodputs(trial)) is not None]
        flows = {group.name: group.count for group in cell.groups}
        enough = decided(
            self.rule,
            [l4s for l4s, _ in goodputs],
            [classic for _, classic in goodputs],
            cell.rate.mbps,
            l4s_flows=flows[self.rule.l4s],
            classic_flows=flows[self.rule.classic],
            looks=self.looks,
        )
        return "enough" if enough else "more"

    def _goodputs(self, trial: EndedTrial) -> tuple[float, float] | None:
        """Return the goodputs of both groups, as in the tables; None if the raw files cannot be read."""
        import polars as pl

        from collectors import COLLECTORS, BadRawError
        from reports.result.load import goodput_of_all

        try:
            flows = pl.concat(found.rows(trial) for found in COLLECTORS if found.table == "flows")
        except BadRawError:
            return None
        found = dict(flows.group_by("group").agg(goodput_of_all(self.rule.value)).iter_rows())
        l4s, classic = found.get(self.rule.l4s), found.get(self.rule.classic)
        return None if l4s is None or classic is None else (l4s, classic)


def forecast(plan: Plan, rule: Rule | None, run: Path | None) -> Forecast | None:
    """Forecast the trials that a run of this plan will probably add; None when their number is fixed.

    `rule` is how verdicts are made, `run` the directory of the run to resume, whose tables have the spread of
    its cells.
    """
    matrix = plan.matrix
    if matrix.trials.until is None or rule is None:
        return None
    from reports.result.adaptive import still_undecided

    at = looks(matrix.trials)
    ends = _known(rule, run, at)
    trials, work_s, known = 0.0, 0.0, 0
    for planned in plan.asked:
        end = ends.get(planned.cell.id)
        if end is not None:
            known += 1
            had = max(at[0], end[1])
            added = float(max(0, end[0] - had))
        else:
            added = sum(
                (after - before) * still_undecided(before) for before, after in itertools.pairwise(at)
            )
        trials += added
        work_s += added * planned.trial_s
    return Forecast(round(trials), plan.most_added, known, work_s)


def _known(rule: Rule, run: Path | None, at: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return trials in the end and trials so far, of each cell with enough rows in the run's tables."""
    if run is None:
        return {}
    from l4sbench import tables
    from reports.result.adaptive import forecast as forecast_cells
    from reports.result.cells import cells
    from reports.result.load import load

    try:
        with tables.blaming(run / tables.FOLDER):
            found = cells(load(run), rule.l4s, rule.classic, rule.value, len(at))
    except InputError:  # no tables yet, damaged ones, or nothing to compare in them
        return {}
    had = {cell.id: cell.valid + cell.left_out for cell in found}
    return {cell: (end, had[cell]) for cell, end in forecast_cells(rule, found, at).items()}
