# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run directories at a glance: which there are, and which trials of their cells have ended, and how."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.finding import load_matrix
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError, suggest
from l4sbench.store import Run, user_of
from l4sbench.store.run import begun
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from l4sbench.matrix import Matrix
    from l4sbench.store.trialfile import TrialEnding


@dataclass(frozen=True)
class RunSummary:
    """A run directory.

    Attributes:
        path: The directory.
        matrix: Name of the matrix.
        latest: True if it is the matrix's latest run.
        ended: Number of ended trials of the cells of its matrix, repetitions of one not counted.
        planned: Number of trials that its matrix asks for at least; None if it cannot be read.
        lacking: Number of these that have no result; other cells may have more trials than they need.
        former: Number of ended trials of cells that its matrix does not have any more.
        failed: Number of the ended ones that have no result, as every try failed.
        user: The process that writes into it; None if none does.
    """

    path: Path
    matrix: str
    latest: bool
    ended: int
    planned: int | None
    lacking: int
    former: int
    failed: int
    user: str | None

    @property
    def name(self) -> str:
        """Matrix and time."""
        return f"{self.matrix}/{self.path.name}"

    @property
    def state(self) -> str:
        """Its state in words."""
        if self.user is not None:
            return "running"
        if self.planned is None:
            return "its matrix cannot be read"
        return "some trials are left" if self.lacking else "whole"

    @property
    def results(self) -> int:
        """The number of trials that have a result, valid or not; a run repeats the others."""
        return self.ended - self.failed

    @property
    def trials(self) -> str:
        """The numbers of trials in words."""
        rest = f", {self.failed} failed" if self.failed else ""
        rest += f" and {self.former} of former cells" if self.former else ""
        if self.planned is None:
            return f"{self.results} of ?{rest}"
        if self.results > self.planned and not self.lacking:
            return f"{self.results}, at least {self.planned} wanted{rest}"
        return f"{self.planned - self.lacking} of {self.planned}{rest}"


def ended_text(ended: int, planned: int | None, former: int) -> str:
    """Return how many trials have ended, in a clause: `24 of 24 trials have ended, and 2 of former cells`."""
    rest = f", and {former} of former cells" if former else ""
    has = "has" if ended == 1 else "have"
    if planned is None or ended > planned:
        wanted = "" if planned is None else f", at least {planned} wanted"
        return f"{counted(ended, 'trial')} {has} ended{wanted}{rest}"
    return f"{ended} of {counted(planned, 'trial')} {has} ended{rest}"


def runs_below(runs: Path) -> Iterator[RunSummary]:
    """Yield every run directory below a folder, by matrix and time."""
    for manifest in sorted(runs.glob("*/*/manifest.json")):
        path = manifest.parent
        if begun(path.name) and not path.is_symlink():
            yield summary(path)


def summary(path: Path, matrix: Matrix | None = None) -> RunSummary:
    """Return the summary of a run directory; `matrix` is its matrix, if that was read already."""
    try:
        folders = Run(path).view().folders
    except InputError:  # links are in it, which every other command names
        folders = {}
    # results of other inputs count once, as tables have the newest of them
    ended = {cell: {name.trial for name in names} for cell, names in folders.items()}
    results = {
        cell: {name.trial for name in names if name.kind != "failed"} for cell, names in folders.items()
    }
    cells, least = _planned(path, matrix)
    own = ended.keys() if cells is None else ended.keys() & cells
    former = sum(len(trials) for cell, trials in ended.items() if cell not in own)
    latest = path.parent / "latest"
    return RunSummary(
        path=path,
        matrix=path.parent.name,
        latest=latest.is_symlink() and os.readlink(latest) == path.name,  # noqa: PTH115  (as it is written)
        ended=sum(len(ended[cell]) for cell in own),
        planned=None if cells is None else len(cells) * least,
        lacking=sum(max(0, least - len(results.get(cell, ()))) for cell in cells or ()),
        former=former,
        failed=sum(len(ended[cell] - results[cell]) for cell in own),
        user=user_of(path),
    )


def _planned(path: Path, matrix: Matrix | None) -> tuple[frozenset[str] | None, int]:
    """Return the ids of the cells of a run's matrix, None if it cannot be read, and the trials of each."""
    try:
        matrix = matrix or load_matrix(path / "matrix.yaml")
    except InputError:
        return None, 0
    return frozenset(cell.id for cell in matrix.cells), matrix.trials.min


@dataclass(frozen=True)
class CellSummary:
    """A cell of a run.

    Attributes:
        id: Its id.
        trials: The newest result of every trial that ended, by number.
        former: True if the run's matrix does not have it any more.
    """

    id: str
    trials: tuple[TrialEnding, ...]
    former: bool


def cells_of(path: Path, matrix: Matrix, chosen: Sequence[str] = ()) -> tuple[CellSummary, ...]:
    """Return the cells of a run: those of its matrix in their order, then former ones with ended trials.

    Args:
        path: The run directory.
        matrix: Its matrix.
        chosen: `FACTOR=PATTERN`, or patterns of ids; all must match. Former cells have no factors to match.

    Raises:
        InputError: a file of the run cannot be read, or nothing matches.
    """
    run = Run(path)
    ended: dict[str, list[TrialEnding]] = {}
    wanted = _chosen(matrix, run, chosen)
    for trial in run.endings(wanted):
        ended.setdefault(trial.cell_id, []).append(trial)
    own = {cell.id for cell in matrix.cells}
    return tuple(CellSummary(one, tuple(ended.get(one, ())), one not in own) for one in wanted)


def _chosen(matrix: Matrix, run: Run, chosen: Sequence[str]) -> list[str]:
    from fnmatch import fnmatchcase

    filters = [text for text in chosen if "=" in text]
    patterns = [text for text in chosen if "=" not in text]
    ids = [cell.id for cell in matrix.select(filters).cells]
    if not filters:
        ids += sorted(run.view().folders.keys() - set(ids))
    found = [one for one in ids if all(fnmatchcase(one, text) or one == text for text in patterns)]
    if not found:
        text = " ".join(patterns)
        raise InputError(f"the run has no cell {short(text)}", suggest(text, ids, most=5))
    return found
