# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a run would do and why: a pure function of the matrix, what has ended, and what the testbed runs.

    plan(matrix, run.view(), testbed.identity(), testbed.traits, costs.model()) -> Plan

On a testbed that can change its kernels the cells that share a state of it stand in one part, and the parts
follow one another so that few hosts restart.

Nothing here touches a host or a file. Printing is the command line's; the data for it are here.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from l4sbench.errors import InputError
from l4sbench.planning.inputs import Inputs, needs
from l4sbench.program.trial import draw_unit

if TYPE_CHECKING:
    from l4sbench.cell import Cell
    from l4sbench.errors import Problem
    from l4sbench.matrix import Matrix, Trials
    from l4sbench.store import StoreView
    from l4sbench.traits import CostModel, Identity, Needs, Stage, Stages, TestbedTraits
    from l4sbench.units import Value

SECOND_LOOK: Final = 5
"""Adaptive trials are looked at after the least number, after this many, and after the greatest number."""

Key: TypeAlias = "tuple[Value | None, ...]"


class Reason(StrEnum):
    """Why a trial runs, or, `ended`, why it does not."""

    NEW = "new"
    ENDED = "ended"
    FAILED_BEFORE = "failed before"
    INPUTS_CHANGED = "inputs changed"


class PlannedTrial(NamedTuple):
    """One trial of a cell; it runs unless it has ended."""

    trial: int
    digest: str
    reason: Reason

    @property
    def runs(self) -> bool:
        """Whether a run would run it."""
        return self.reason is not Reason.ENDED


class CellPlan(NamedTuple):
    """A cell, its trials up to the first look, and the estimated wall time of each."""

    cell: Cell
    trials: tuple[PlannedTrial, ...]
    trial_s: float


@dataclass(frozen=True)
class Spread:
    """The values of factors that vary together, as they appear; None where a cell lacks the factor."""

    names: tuple[str, ...]
    values: tuple[Key, ...]


@dataclass(frozen=True)
class Row:
    """Cells that share the value of the first axis, for printing.

    `complete`: the cells are the full cross product of `axes`.
    """

    axes: tuple[Spread, ...]
    cells: int
    complete: bool
    trials: Mapping[Reason, int]
    work_s: float


@dataclass(frozen=True)
class Caution:
    """Something about cells that is seldom meant. They run all the same."""

    message: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Cells that run without the testbed being changed in between.

    Attributes:
        cells: In the matrix's order.
        inputs: Makes the digests of their trials; None while what they will run on is not known.
        stage: The state of the testbed that they need; None where it always stays as it is.
        changes: Hosts that restart before them.
        change_s: Estimated wall seconds that this takes.
    """

    cells: tuple[CellPlan, ...]
    inputs: Inputs | None
    stage: Stage | None = None
    changes: tuple[str, ...] = ()
    change_s: float = 0.0

    @property
    def to_run(self) -> int:
        """How many trials would run, before any adaptive ones are added."""
        return sum(trial.runs for planned in self.cells for trial in planned.trials)

    @property
    def work_s(self) -> float:
        """Estimated wall seconds of one worker for all trials that would run."""
        return sum(cell.trial_s * sum(trial.runs for trial in cell.trials) for cell in self.cells)

    def in_order(self, order_seed: int) -> list[tuple[CellPlan, PlannedTrial]]:
        """The trials that would run, shuffled: a machine that warms up or drifts favours no cell."""
        todo = [(planned, trial) for planned in self.cells for trial in planned.trials if trial.runs]
        return sorted(todo, key=lambda item: draw_unit(order_seed, item[0].cell.id, item[1].trial))


@dataclass(frozen=True)
class Plan:
    """Everything a run of a matrix would do.

    Attributes:
        matrix: As filtered.
        cells: In the matrix's order.
        cautions: Warnings, each with the ids of all its cells.
        parts: The cells once more, in the order in which a run takes them; those with nothing to run last.
        traits: Of the testbed.
    """

    matrix: Matrix
    cells: tuple[CellPlan, ...]
    cautions: tuple[Caution, ...]
    parts: tuple[Part, ...]
    traits: TestbedTraits

    @cached_property
    def asked(self) -> tuple[CellPlan, ...]:
        """The cells that the matrix is about: all but its baselines."""
        ids = self.matrix.baseline_ids
        return tuple(planned for planned in self.cells if planned.cell.id not in ids)

    @cached_property
    def baselines(self) -> tuple[CellPlan, ...]:
        """The cells that are there for others to be measured against."""
        ids = self.matrix.baseline_ids
        return tuple(planned for planned in self.cells if planned.cell.id in ids)

    @cached_property
    def trials(self) -> Mapping[Reason, int]:
        """How many trials there are for each reason; 0 for those without."""
        counted = Counter(trial.reason for cell in self.cells for trial in cell.trials)
        return {reason: counted[reason] for reason in Reason}

    @property
    def to_run(self) -> int:
        """How many trials would run, before any adaptive ones are added."""
        return sum(number for reason, number in self.trials.items() if reason is not Reason.ENDED)

    @cached_property
    def most_added(self) -> int:
        """How many trials adaptive cells may get on top, at most."""
        trials = self.matrix.trials
        return (trials.max - looks(trials)[0]) * len(self.asked)

    @cached_property
    def work_s(self) -> float:
        """Estimated wall seconds of one worker for all trials that would run."""
        return sum(part.work_s for part in self.parts)

    @property
    def change_s(self) -> float:
        """Estimated wall seconds in which hosts restart with other kernels."""
        return sum(part.change_s for part in self.parts)

    def wall_s(self, jobs: int) -> float:
        """Estimated wall seconds with so many workers."""
        longest_s = max(
            (cell.trial_s for cell in self.cells if any(t.runs for t in cell.trials)), default=0.0
        )
        return max(self.work_s / max(1, jobs), longest_s) + self.change_s

    def memory_mb(self, jobs: int) -> int:
        """Memory that so many trials take at once."""
        return self.traits.memory_mb * min(jobs, self.to_run)

    @cached_property
    def needs(self) -> Needs:
        """What the testbed must offer."""
        return needs(self.matrix.catalog, (planned.cell for planned in self.cells), self.traits)

    @cached_property
    def common(self) -> Mapping[str, Value]:
        """Stated factors that have one value in all cells, baselines aside, by name."""
        if not self.asked:
            return {}
        first = self.asked[0].cell
        varying = {name for axis in self._axes for name in axis}
        return {
            name: first.factors[name] for name in first.factors if name in first.given and name not in varying
        }

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The cells, baselines aside, grouped by the first axis, for printing."""
        axes = self._axes
        grouped: dict[Key, list[CellPlan]] = {}
        with _collector_paused():
            for planned in self.asked:
                grouped.setdefault(_key(planned.cell, axes[0]) if axes else (), []).append(planned)
            return tuple(_row(axes, members) for members in grouped.values())

    @cached_property
    def _axes(self) -> tuple[tuple[str, ...], ...]:
        """Names of factors that vary, those of one axis together: the axes', then whatever else differs."""
        varying = _varying([planned.cell for planned in self.asked])
        axes: list[tuple[str, ...]] = []
        for axis in self.matrix.axes:
            names = tuple(name for name in axis.names if name in varying)
            if names:
                axes.append(names)
                varying -= set(names)
        return (*axes, *((name,) for name in sorted(varying)))

    def entered(self, part: Part, identity: Identity, view: StoreView) -> Part:
        """A part once it is known what its trials run on: their digests, and so which of them have ended."""
        inputs = Inputs(self.matrix.catalog, self.matrix.seed, identity, self.traits)
        numbers = range(1, looks(self.matrix.trials)[0] + 1)
        cells = tuple(
            planned._replace(trials=_trials(planned.cell, numbers, inputs, view.of(planned.cell.id)))
            for planned in part.cells
        )
        return replace(part, cells=cells, inputs=inputs)


def plan(
    matrix: Matrix,
    view: StoreView,
    identity: Identity | None,
    traits: TestbedTraits,
    cost: CostModel,
    filters: Sequence[str] = (),
    stages: Stages | None = None,
) -> Plan:
    """What `run` would do with the cells of `matrix` that pass the filters.

    Without an identity (there is nothing to run on yet) inputs count as unchanged. With `stages` each cell
    runs on what its own stage has; a cell that is in none has nothing to run on.

    Raises:
        InputError: a filter makes no sense, or a cell cannot be run.
    """
    if filters:
        matrix = matrix.select(filters)
    numbers = range(1, looks(matrix.trials)[0] + 1)

    def inputs_of(found: Identity | None) -> Inputs | None:
        return None if found is None else Inputs(matrix.catalog, matrix.seed, found, traits)

    def planned(cell: Cell, inputs: Inputs | None) -> CellPlan:
        return CellPlan(cell, _trials(cell, numbers, inputs, view.of(cell.id)), trial_s(cell, cost))

    with _collector_paused():
        if stages is None:
            inputs = inputs_of(identity)
            cells = tuple(planned(cell, inputs) for cell in matrix.cells)
            return Plan(matrix, cells, _cautions(matrix), (Part(cells, inputs),), traits)
        of_stage: dict[str, CellPlan] = {}
        parts: list[Part] = []
        for stage in stages.all:
            inputs = inputs_of(stage.identity if stage.known else None)
            own = tuple(planned(cell, inputs) for cell in matrix.cells if cell.id in stage.cells)
            of_stage |= {found.cell.id: found for found in own}
            parts.append(Part(own, inputs, stage))
        cells = tuple(of_stage.get(cell.id) or planned(cell, None) for cell in matrix.cells)
        ordered = _with_few_changes([part for part in parts if part.cells], stages)
        return Plan(matrix, cells, _cautions(matrix), ordered, traits)


def _with_few_changes(parts: Sequence[Part], stages: Stages) -> tuple[Part, ...]:
    """The parts in an order in which each next one restarts the fewest hosts, from what runs now on.

    Parts with nothing to run cost no restart: they are not entered, and stand last.
    """
    left = [part for part in parts if part.to_run]
    found: list[Part] = []
    now = dict(stages.now)
    while left:
        changes = [_changes(part, now) for part in left]
        nearest = min(range(len(left)), key=lambda number: len(changes[number]))
        part = left.pop(nearest)
        change_s = stages.change_s if changes[nearest] else 0.0
        found.append(replace(part, changes=changes[nearest], change_s=change_s))
        now |= part.stage.state if part.stage else {}
    return (*found, *(part for part in parts if not part.to_run))


def _changes(part: Part, now: Mapping[str, str]) -> tuple[str, ...]:
    """Hosts that must restart before a part."""
    state = part.stage.state if part.stage else {}
    return tuple(host for host, kernel in state.items() if now.get(host) != kernel)


def looks(trials: Trials) -> tuple[int, ...]:
    """The numbers of trials after which an adaptive cell is looked at; one number when trials are fixed.

    Looking seldom keeps down the chance of stopping on a streak of luck.
    """
    if trials.until is None:
        return (trials.max,)
    return tuple(sorted({trials.min, min(max(SECOND_LOOK, trials.min), trials.max), trials.max}))


def reason_of(ended: Sequence[str], trial: int, digest: str) -> Reason:
    """Why a trial runs or not, given the folder names of its cell's ended trials."""
    if not ended:
        return Reason.NEW
    name = f"{trial}-{digest}"
    if name in ended:
        return Reason.ENDED
    own = [folder for folder in ended if folder.startswith(f"{trial}-")]
    if any(folder.startswith(f"{name}.failed-") for folder in own):
        return Reason.FAILED_BEFORE
    return Reason.INPUTS_CHANGED if own else Reason.NEW


def trial_s(cell: Cell, cost: CostModel) -> float:
    """Estimated wall seconds of one trial of a cell."""
    return cost.wall_s((cell.warmup.ns + cell.duration.ns) / 1e9, cell.rate.mbps)


def _trials(
    cell: Cell, numbers: Iterable[int], inputs: Inputs | None, ended: Sequence[str]
) -> tuple[PlannedTrial, ...]:
    if inputs is None:
        return tuple(PlannedTrial(number, "", _unknown(ended, number)) for number in numbers)
    digests = inputs.digests(cell, numbers)
    return tuple(
        PlannedTrial(number, digest, reason_of(ended, number, digest))
        for number, digest in zip(numbers, digests, strict=True)
    )


def _unknown(ended: Sequence[str], trial: int) -> Reason:
    own = [folder for folder in ended if folder.startswith(f"{trial}-")]
    if any(".failed-" not in folder for folder in own):
        return Reason.ENDED
    return Reason.FAILED_BEFORE if own else Reason.NEW


def _cautions(matrix: Matrix) -> tuple[Caution, ...]:
    from l4sbench.program import problems, warnings

    wrong: dict[Problem, None] = {}
    found: dict[str, list[str]] = {}
    for cell in matrix.cells:
        wrong.update(dict.fromkeys(problems(cell, matrix.catalog)))
        # A baseline is odd on purpose: nothing for DualPI2 to keep apart, for instance.
        if wrong or (matrix.baseline_ids and cell.id in matrix.baseline_ids):
            continue
        for message in warnings(cell, matrix.catalog):
            found.setdefault(message, []).append(cell.id)
    if wrong:
        raise InputError(tuple(wrong))
    return tuple(Caution(message, tuple(ids)) for message, ids in found.items())


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A million small objects and no cycles: looking for garbage among them takes longer than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _varying(cells: Sequence[Cell]) -> set[str]:
    """Stated factors that differ between cells; defaults that differ only follow from them."""
    if not cells:
        return set()
    first = cells[0].factors
    same = {name: first.get(name) for name in set[str]().union(*{cell.given for cell in cells})}
    names: set[str] = set()
    for cell in cells:
        factors = cell.factors
        # Mostly it is the very same object, which needs no comparing.
        found = [n for n, v in same.items() if (other := factors.get(n)) is not v and other != v]
        for name in found:
            del same[name]
        names.update(found)
    return names


def _key(cell: Cell, names: tuple[str, ...]) -> Key:
    return tuple(cell.factors.get(name) for name in names)


def _row(axes: Sequence[tuple[str, ...]], members: Sequence[CellPlan]) -> Row:
    cells = [planned.cell for planned in members]
    spreads = tuple(
        Spread(names, tuple(dict.fromkeys(_key(cell, names) for cell in cells))) for names in axes
    )
    counted = Counter(trial.reason for planned in members for trial in planned.trials)
    return Row(
        axes=spreads,
        cells=len(members),
        complete=prod(len(spread.values) for spread in spreads) == len(members),
        trials={reason: counted[reason] for reason in Reason},
        work_s=sum(planned.trial_s * sum(trial.runs for trial in planned.trials) for planned in members),
    )


def as_json(plan: Plan, jobs: int) -> dict[str, object]:
    """The plan as plain data, for programs: one object per cell."""
    return {
        "matrix": plan.matrix.name,
        "cells": [_cell_json(planned, plan.matrix.baseline_ids) for planned in plan.cells],
        "trials": {reason.value: number for reason, number in plan.trials.items()},
        "trials_to_run": plan.to_run,
        "trials_added_at_most": plan.most_added,
        "jobs": jobs,
        "work_s": round(plan.work_s, 1),
        "wall_s": round(plan.wall_s(jobs), 1),
        "memory_mb": plan.memory_mb(jobs),
        "stages": [_part_json(part) for part in plan.parts if part.stage],
        "notes": list(plan.matrix.notes),
        "warnings": [{"message": c.message, "cells": list(c.cells)} for c in plan.cautions],
    }


def _part_json(part: Part) -> dict[str, object]:
    return {
        "kernels": dict(part.stage.state) if part.stage else {},
        "known": part.inputs is not None,
        "cells": [planned.cell.id for planned in part.cells],
        "trials_to_run": part.to_run,
        "restarts": list(part.changes),
        "change_s": round(part.change_s, 1),
    }


def _cell_json(planned: CellPlan, baseline_ids: frozenset[str]) -> dict[str, object]:
    return {
        "id": planned.cell.id,
        "baseline": planned.cell.id in baseline_ids,
        "factors": planned.cell.canonical(),
        "trial_s": round(planned.trial_s, 1),
        "trials": [{"trial": t.trial, "reason": t.reason.value} for t in planned.trials],
    }
