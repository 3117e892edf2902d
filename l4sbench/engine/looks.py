# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Looks at adaptive cells: once all trials of a cell have ended, does it get more?

The loop reports every ended trial and runs the looks that it gets in return; a look returns further trials.
Nowhere else do results steer a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from l4sbench.engine.worker import Task
from l4sbench.planning.trials import looks, reason_of
from l4sbench.store import TrialFolder

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.matrix import Trials
    from l4sbench.planning.inputs import TrialInputs
    from l4sbench.planning.plan import Batch, CellPlan
    from l4sbench.program.trial import EndedTrial
    from l4sbench.store import RunWriter

Decide: TypeAlias = "Callable[[Cell, Sequence[EndedTrial]], Literal['more', 'enough']]"
"""Decides whether the ended trials of a cell are enough."""


@dataclass(frozen=True)
class CellLook:
    """One cell to decide on, all its trials up to the number `at` having ended."""

    planned: CellPlan
    at: int


class Looks:
    """Counts the trials that a cell waits for, and decides on the cell when none is left.

    Args:
        trials: The matrix's numbers of trials.
        writer: Of the run.
        decide: None: no cell gets more trials than the plan has.
    """

    def __init__(self, trials: Trials, writer: RunWriter, decide: Decide | None) -> None:
        self._at = looks(trials) if decide is not None else ()
        self._writer = writer
        self._decide = decide
        self._waiting: dict[str, int] = {}  # cell id -> trials that must end before the next look
        self._next: dict[str, int] = {}  # cell id -> the number of trials that it is for

    def begin(self, batch: Batch) -> list[CellLook]:
        """Take note of the trials of a batch; returns the looks at cells all of whose trials have ended."""
        if len(self._at) <= 1:
            return []
        self._waiting |= {cell.cell.id: cell.to_run for cell in batch.cells}
        self._next |= {cell.cell.id: self._at[0] for cell in batch.cells}
        return [CellLook(cell, self._at[0]) for cell in batch.cells if not self._waiting[cell.cell.id]]

    def ended(self, task: Task) -> CellLook | None:
        """Take note of an ended trial; returns a look when the cell waits for no other."""
        cell_id = task.planned.cell.id
        if cell_id not in self._waiting:
            return None
        self._waiting[cell_id] -= 1
        if self._waiting[cell_id]:
            return None
        return CellLook(task.planned, self._next[cell_id])

    def further(self, look: CellLook, inputs: TrialInputs) -> list[Task]:
        """Return the trials that a cell gets next; empty when it has enough.

        Takes time, because raw files are parsed, and may run in any thread.
        """
        planned, cell = look.planned, look.planned.cell
        had = self._writer.view.of(cell.id)
        taken = {one.trial for one in planned.trials}  # later ones, too, that had ended with other inputs
        for at, until in pairwise(self._at):
            if at < look.at:
                continue
            numbers = range(at + 1, until + 1)
            added = [
                Task(planned, number)
                for number, digests in zip(numbers, inputs.accepted(cell, numbers), strict=True)
                if number not in taken and reason_of(had, number, *digests).runs
            ]
            if added:  # else they have ended already, and count in the next look, as they do in tables
                return added if self._wants_more(cell, at, inputs) else []
        return []

    def add(self, tasks: Sequence[Task]) -> None:
        """Take note of further trials of one cell."""
        cell_id, last = tasks[0].planned.cell.id, tasks[-1].trial
        self._waiting[cell_id] = len(tasks)
        self._next[cell_id] = next(at for at in self._at if at >= last)

    def _wants_more(self, cell: Cell, at: int, inputs: TrialInputs) -> bool:
        numbers = range(1, at + 1)
        accepted = zip(numbers, inputs.accepted(cell, numbers), strict=True)
        wanted = [TrialFolder(number, digest) for number, digests in accepted for digest in digests]
        # of a trial that ended both with and without captures, one counts
        ended = list({one.trial: one for one in self._writer.run.ended_as(cell.id, wanted)}.values())
        # When all trials have failed there is nothing to decide on, and more of them would fail too.
        return bool(ended) and self._decide is not None and self._decide(cell, ended) == "more"
