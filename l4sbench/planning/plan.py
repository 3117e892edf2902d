# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Plans: which trials a run would start, and why.

    plan(matrix, run.view(), testbed.identity(), testbed.traits, book.costs()) -> Plan

A plan is a pure function of the matrix, the ended trials, and the testbed's software. On a testbed that can
change its kernels, cells that need the same kernels form one batch; batches are ordered so that few hosts
restart. Nothing here touches a host or a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from l4sbench.disk.document import reported
from l4sbench.disk.garbage import collector_paused
from l4sbench.disk.userfiles import MOST_PROBLEMS
from l4sbench.errors import InputError, Problem
from l4sbench.matrix import LEAST_TRIALS
from l4sbench.planning.estimating import carried_mbps, kind_of
from l4sbench.planning.inputs import TrialInputs, needs
from l4sbench.planning.trials import PlannedTrial, Reason, looks, number_to_run, trials_of
from l4sbench.program.memory import guest_mb
from l4sbench.program.trial import draw_unit
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.estimate import TimeRange
    from l4sbench.facts.traits import Identity, Needs, Stage, Stages, TestbedTraits
    from l4sbench.matrix import Matrix
    from l4sbench.planning.estimating import Costs
    from l4sbench.store import StoreView
    from l4sbench.text.units import Value

MAX_TRIALS: Final = 3_000_000
"""Number of trials of one plan: a run holds all that it has to start in memory."""

Key: TypeAlias = "tuple[Value | None, ...]"


class CellPlan(NamedTuple):
    """A cell, its trials up to the first look, the estimated wall seconds of each, and its kind of cost.

    Later trials are among them if they ended with other inputs.
    """

    cell: Cell
    trials: tuple[PlannedTrial, ...]
    trial_s: float
    kind: str = ""

    @property
    def to_run(self) -> int:
        """Number of its trials that would run."""
        return number_to_run(self.trials)

    @property
    def work_s(self) -> float:
        """Estimated wall seconds of one worker for them."""
        return self.trial_s * self.to_run


@dataclass(frozen=True)
class Spread:
    """The values of factors that vary together, in order of appearance; None where a cell lacks a factor."""

    names: tuple[str, ...]
    values: tuple[Key, ...]


@dataclass(frozen=True)
class PlanRow:
    """Cells with the same value of the first axis, for printing.

    `complete`: the cells are the full cross product of `axes`.
    """

    axes: tuple[Spread, ...]
    cells: int
    complete: bool
    trials: Mapping[Reason, int]
    work_s: float


@dataclass(frozen=True)
class Caution:
    """An unusual property of cells that is often a mistake. The cells run nevertheless.

    Attributes:
        message: It, without the figures in which the cells differ.
        figures: These, each once, in the order of the cells; empty where there are none.
        cells: Their ids.
    """

    message: str
    figures: tuple[str, ...]
    cells: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.figures) - 1
        first = f": {self.figures[0]}" if self.figures else ""
        return f"{self.message}{first}" + (
            f" in the first, {counted(more, 'other size')} in others" if more > 0 else ""
        )


@dataclass(frozen=True)
class Batch:
    """Cells, in the matrix's order, that run on the same software; it need not be known yet."""

    cells: tuple[CellPlan, ...]

    @cached_property
    def to_run(self) -> int:
        """Number of trials that would run, before any adaptive ones are added."""
        return sum(planned.to_run for planned in self.cells)

    @property
    def given_up(self) -> int:
        """Number of trials that failed too often to be tried again."""
        return sum(trial.reason is Reason.GIVEN_UP for planned in self.cells for trial in planned.trials)

    @property
    def work_s(self) -> float:
        """Estimated wall seconds of one worker for all trials that would run."""
        return sum(planned.work_s for planned in self.cells)

    def in_order(self, order_seed: int, spread: Sequence[str] = ()) -> list[tuple[CellPlan, PlannedTrial]]:
        """Return the trials that would run, shuffled so that a machine's drift does not favour a cell.

        With `spread` they come cell by cell, in rounds: a round has one cell, drawn by the seed, of each
        combination of these factors' values that has any left. So every beginning of the list covers the
        combinations evenly, also after earlier runs took others: the rounds are those of all cells.
        """
        todo = [(planned, trial) for planned in self.cells for trial in planned.trials if trial.runs]
        if not spread:
            return sorted(todo, key=lambda item: draw_unit(order_seed, item[0].cell.id, item[1].trial))
        drawn = {planned.cell.id: draw_unit(order_seed, planned.cell.id) for planned in self.cells}
        rounds: dict[str, int] = {}
        taken: Counter[tuple[Value | None, ...]] = Counter()
        for cell in sorted((planned.cell for planned in self.cells), key=lambda cell: drawn[cell.id]):
            point = tuple(cell.factors.get(name) for name in spread)
            rounds[cell.id] = taken[point]
            taken[point] += 1

        def place(item: tuple[CellPlan, PlannedTrial]) -> tuple[int, float, int]:
            cell = item[0].cell.id
            return rounds[cell], drawn[cell], item[1].trial

        return sorted(todo, key=place)


@dataclass(frozen=True)
class ReadyBatch(Batch):
    """A batch that can run now; `inputs` makes the digests of its trials."""

    inputs: TrialInputs


@dataclass(frozen=True)
class StagedBatch(Batch):
    """A batch that can run once the testbed is in the state that it needs.

    Attributes:
        stage: This state.
        changes: Hosts that restart for it.
        change_s: Estimated wall seconds that the restart takes.
    """

    stage: Stage
    changes: tuple[str, ...] = ()
    change_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Everything that a run of a matrix would do.

    Attributes:
        matrix: With the filters applied.
        cells: In the matrix's order.
        cautions: Warnings, each with the ids of all its cells.
        batches: The same cells in running order: as a `StagedBatch` each on a testbed that changes, where
            those with nothing to run come last; otherwise as one `ReadyBatch`.
        traits: Of the testbed.
        costs: What estimates are made with.
        capture: Packets of all trials are captured.
    """

    matrix: Matrix
    cells: tuple[CellPlan, ...]
    cautions: tuple[Caution, ...]
    batches: tuple[Batch, ...]
    traits: TestbedTraits
    costs: Costs
    capture: bool = False

    def __repr__(self) -> str:
        trials, cells = counted(self.to_run, "trial"), counted(len(self.cells), "cell")
        return f"<Plan of {self.matrix.name}: {trials} of {cells} to run>"

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the matrix, and one on trials that are too few to be sure of anything."""
        matrix, trials = self.matrix, looks(self.matrix.trials)[0]
        one = self.asked[0].cell if self.asked else None  # filters may choose baselines alone
        if trials >= LEAST_TRIALS or matrix.rule == "none" or one is None or len(one.group_names) < 2:
            return matrix.notes
        few = "1 trial per cell has no" if trials == 1 else f"{trials} trials per cell have a wide"
        none = "no" if trials == 1 else "hardly any"
        note = (
            f"{few} confidence interval, so that {none} verdict will be sure; "
            f"{LEAST_TRIALS} or more can be, and --sure adds trials where they are needed"
        )
        return (*matrix.notes, note)

    @cached_property
    def asked(self) -> tuple[CellPlan, ...]:
        """The cells that the matrix asks for: all but its baselines."""
        ids = self.matrix.baseline_ids
        return tuple(planned for planned in self.cells if planned.cell.id not in ids)

    @cached_property
    def baselines(self) -> tuple[CellPlan, ...]:
        """The cells that other cells are compared with."""
        ids = self.matrix.baseline_ids
        return tuple(planned for planned in self.cells if planned.cell.id in ids)

    @cached_property
    def trials(self) -> Mapping[Reason, int]:
        """Number of trials for each reason, including 0."""
        counted = Counter(trial.reason for cell in self.cells for trial in cell.trials)
        return {reason: counted[reason] for reason in Reason}

    @property
    def to_run(self) -> int:
        """Number of trials that would run, before any adaptive ones are added."""
        return sum(number for reason, number in self.trials.items() if reason.runs)

    @cached_property
    def most_added(self) -> int:
        """Maximum number of further trials that adaptive cells may get."""
        trials = self.matrix.trials
        return (trials.max - looks(trials)[0]) * len(self.asked)

    @cached_property
    def work_s(self) -> float:
        """Estimated wall seconds of one worker for all trials that would run."""
        return sum(batch.work_s for batch in self.batches)

    @cached_property
    def staged(self) -> tuple[StagedBatch, ...]:
        """The batches of a testbed that changes, in running order; empty for any other."""
        return tuple(batch for batch in self.batches if isinstance(batch, StagedBatch))

    @property
    def change_s(self) -> float:
        """Estimated wall seconds that hosts spend restarting with other kernels."""
        return sum(batch.change_s for batch in self.staged)

    def wall_s(self, jobs: int) -> float:
        """Return the estimated wall seconds with this many workers."""
        return max(self.work_s / max(1, jobs), self._longest_s) + self.change_s

    def estimate(self, jobs: int) -> TimeRange:
        """Return the range of the wall time with this many workers."""
        work_s: dict[str, float] = {}
        for planned in (one for batch in self.batches for one in batch.cells if one.to_run):
            work_s[planned.kind] = work_s.get(planned.kind, 0.0) + planned.work_s
        found = self.costs.estimate(work_s, jobs, self._longest_s)
        return found.between(found.low_s + self.change_s / 2, found.high_s + self.change_s * 2)

    @cached_property
    def _longest_s(self) -> float:
        return max((cell.trial_s for cell in self.cells if cell.to_run), default=0.0)

    def memory_mb(self, jobs: int) -> int:
        """Return the memory that this many trials need at once."""
        if not self.traits.memory_mb:
            return 0
        cells = (one.cell for one in self.cells if one.to_run)
        largest_mb = max((guest_mb(cell, self.traits.memory_mb) for cell in cells), default=0)
        return largest_mb * min(jobs, self.to_run)

    @cached_property
    def needs(self) -> Needs:
        """Everything that the testbed must offer."""
        cells = (planned.cell for planned in self.cells)
        return needs(self.matrix.catalog, cells, self.traits, capture=self.capture)

    @cached_property
    def common(self) -> Mapping[str, Value]:
        """Factors that are set and have the same value in all cells but the baselines, by name."""
        if not self.asked:
            return {}
        first = self.asked[0].cell
        varying = {name for axis in self._axes for name in axis}
        return {
            name: first.factors[name] for name in first.factors if name in first.given and name not in varying
        }

    @cached_property
    def rows(self) -> tuple[PlanRow, ...]:
        """The cells without the baselines, grouped by the first axis, for printing."""
        axes = self._axes
        grouped: dict[Key, list[CellPlan]] = {}
        with collector_paused():
            for planned in self.asked:
                grouped.setdefault(_key(planned.cell, axes[0]) if axes else (), []).append(planned)
            return tuple(_row(axes, members) for members in grouped.values())

    @cached_property
    def _axes(self) -> tuple[tuple[str, ...], ...]:
        """Names of factors that vary, grouped by axis; factors that belong to no axis come last."""
        varying = _varying([planned.cell for planned in self.asked])
        axes: list[tuple[str, ...]] = []
        for axis in self.matrix.axes:
            names = tuple(name for name in axis.names if name in varying)
            if names:
                axes.append(names)
                varying -= set(names)
        return (*axes, *((name,) for name in sorted(varying)))

    def inputs(self, identity: Identity) -> TrialInputs:
        """Return what makes the digests of trials on a testbed with this identity."""
        return TrialInputs(self.matrix.catalog, self.matrix.seed, identity, self.traits, capture=self.capture)

    def entered(self, batch: Batch, identity: Identity, view: StoreView) -> ReadyBatch:
        """Return a batch with its digests, and so the trials that have ended, once the kernels are known."""
        inputs = self.inputs(identity)
        numbers = range(1, looks(self.matrix.trials)[0] + 1)
        cells = tuple(
            planned._replace(trials=trials_of(planned.cell, numbers, inputs, view.of(planned.cell.id)))
            for planned in batch.cells
        )
        return ReadyBatch(cells, inputs)


def plan(
    matrix: Matrix,
    view: StoreView,
    identity: Identity | None,
    traits: TestbedTraits,
    costs: Costs,
    stages: Stages | None = None,
    *,
    capture: bool = False,
) -> Plan:
    """Plan what `run` would do with the cells of `matrix`.

    Without an identity (the testbed is not ready yet) inputs count as unchanged. With `stages` each cell runs
    on the kernels of its own stage; a cell without a stage cannot run. With `capture` the packets of all
    trials are captured, and trials that ended without captures run again.

    Raises:
        InputError: a cell cannot be run.
    """
    numbers = range(1, looks(matrix.trials)[0] + 1)
    if len(matrix.cells) * len(numbers) > MAX_TRIALS:
        message = (
            f"{len(matrix.cells)} cells of {len(numbers)} trials exceed the maximum of {MAX_TRIALS} trials"
        )
        hint = "split the matrix, or choose cells by a filter such as aqm=codel"
        raise InputError([Problem(f"{matrix.path}:1:1", "trials", message, hint)])

    def inputs_of(found: Identity | None) -> TrialInputs | None:
        if found is None:
            return None
        return TrialInputs(matrix.catalog, matrix.seed, found, traits, capture=capture)

    trial_s = lru_cache(maxsize=4096)(costs.trial_s)

    def planned(cell: Cell, inputs: TrialInputs | None) -> CellPlan:
        ended = view.of(cell.id) if view.folders else ()
        lasts_s = cell.length.s
        kind = kind_of(cell, capture=capture)
        wall_s = trial_s(kind, lasts_s, carried_mbps(cell))
        return CellPlan(cell, trials_of(cell, numbers, inputs, ended), wall_s, kind)

    with collector_paused():
        if stages is None:
            inputs = inputs_of(identity)
            cells = tuple(planned(cell, inputs) for cell in matrix.cells)
            batch = Batch(cells) if inputs is None else ReadyBatch(cells, inputs)
            return Plan(matrix, cells, _cautions(matrix), (batch,), traits, costs, capture)
        of_stage: dict[str, CellPlan] = {}
        batches: list[StagedBatch] = []
        for stage in stages.all:
            inputs = inputs_of(stage.identity if stage.known else None)
            own = tuple(planned(cell, inputs) for cell in matrix.cells if cell.id in stage.cells)
            of_stage |= {found.cell.id: found for found in own}
            batches.append(StagedBatch(own, stage))
        cells = tuple(of_stage.get(cell.id) or planned(cell, None) for cell in matrix.cells)
        ordered = _with_few_changes([batch for batch in batches if batch.cells], stages)
        return Plan(matrix, cells, _cautions(matrix), ordered, traits, costs, capture)


def _with_few_changes(batches: Sequence[StagedBatch], stages: Stages) -> tuple[StagedBatch, ...]:
    """Order the batches so that each next one restarts the fewest hosts, starting from what runs now.

    Batches with nothing to run need no restart and come last.
    """
    left = [batch for batch in batches if batch.to_run]
    found: list[StagedBatch] = []
    now = dict(stages.now)
    while left:
        changes = [_changes(batch, now) for batch in left]
        nearest = min(range(len(left)), key=lambda number: len(changes[number]))
        batch = left.pop(nearest)
        change_s = stages.change_s if changes[nearest] else 0.0
        found.append(replace(batch, changes=changes[nearest], change_s=change_s))
        now |= batch.stage.state
    return (*found, *(batch for batch in batches if not batch.to_run))


def _changes(batch: StagedBatch, now: Mapping[str, str]) -> tuple[str, ...]:
    """Hosts that have to restart before a batch."""
    return tuple(host for host, kernel in batch.stage.state.items() if now.get(host) != kernel)


def _cautions(matrix: Matrix) -> tuple[Caution, ...]:
    from l4sbench.program import findings

    wrong: dict[Problem, None] = {}
    found: dict[str, tuple[dict[str, None], list[str]]] = {}  # message -> its figures, ids of its cells
    for cell in matrix.cells:
        # A baseline is unusual on purpose: DualPI2 has no second group to separate, for instance.
        usual = not (matrix.baseline_ids and cell.id in matrix.baseline_ids)
        problems, oddities = findings(cell, matrix.catalog, odd=usual and not wrong)
        wrong.update((replace(one, where=matrix.where(one.path)), None) for one in problems)
        if len(wrong) > MOST_PROBLEMS:
            break
        for one in oddities:
            figures, ids = found.setdefault(one.message, ({}, []))
            ids.append(cell.id)
            if one.figures:
                figures[one.figures] = None
    if wrong:
        raise InputError(reported(wrong))
    return tuple(Caution(message, tuple(figures), tuple(ids)) for message, (figures, ids) in found.items())


def _varying(cells: Sequence[Cell]) -> set[str]:
    """Factors that are set and differ between cells; defaults that differ follow from these."""
    if not cells:
        return set()
    first = cells[0].factors
    same = {name: first.get(name) for name in set[str]().union(*{cell.given for cell in cells})}
    names: set[str] = set()
    for cell in cells:
        factors = cell.factors
        # usually both are the same object, so that no comparison is needed
        found = [n for n, v in same.items() if (other := factors.get(n)) is not v and other != v]
        for name in found:
            del same[name]
        names.update(found)
    return names


def _key(cell: Cell, names: tuple[str, ...]) -> Key:
    return tuple([cell.get(name) for name in names])


def _spread(names: tuple[str, ...], cells: Iterable[Cell]) -> Spread:
    if len(names) > 1:
        return Spread(names, tuple(dict.fromkeys([_key(cell, names) for cell in cells])))
    (name,) = names
    return Spread(names, tuple((value,) for value in dict.fromkeys([c.get(name) for c in cells])))


def _row(axes: Sequence[tuple[str, ...]], members: Sequence[CellPlan]) -> PlanRow:
    cells = [planned.cell for planned in members]
    spreads = tuple(_spread(names, cells) for names in axes)
    counted = Counter([trial.reason for planned in members for trial in planned.trials])
    return PlanRow(
        axes=spreads,
        cells=len(members),
        complete=prod(len(spread.values) for spread in spreads) == len(members),
        trials={reason: counted[reason] for reason in Reason},
        work_s=sum(planned.work_s for planned in members),
    )


def as_json(plan: Plan, jobs: int, *, cells: bool = True) -> dict[str, object]:
    """Return the plan as plain data for programs: one object per cell, or none without `cells`."""
    estimate = plan.estimate(jobs)
    return {
        "matrix": plan.matrix.name,
        "cells": list(cells_as_json(plan)) if cells else [],
        "trials": {reason.value: number for reason, number in plan.trials.items()},
        "trials_to_run": plan.to_run,
        "trials_added_at_most": plan.most_added,
        "jobs": jobs,
        "work_s": round(plan.work_s, 1),
        "wall_s": round(plan.wall_s(jobs), 1),
        "wall_low_s": round(estimate.low_s, 1),
        "wall_high_s": round(estimate.high_s, 1),
        "memory_mb": plan.memory_mb(jobs),
        "stages": [_batch_json(batch) for batch in plan.staged],
        "notes": list(plan.notes),
        "warnings": [
            {"message": c.message, "figures": list(c.figures), "cells": list(c.cells)} for c in plan.cautions
        ],
    }


def cells_as_json(plan: Plan) -> Iterator[dict[str, object]]:
    """Yield the cells of `as_json` one by one, as there may be many."""
    for planned in plan.cells:
        yield _cell_json(planned, plan.matrix.baseline_ids)


def _batch_json(batch: StagedBatch) -> dict[str, object]:
    return {
        "kernels": dict(batch.stage.state),
        "known": batch.stage.known,
        "cells": [planned.cell.id for planned in batch.cells],
        "trials_to_run": batch.to_run,
        "restarts": list(batch.changes),
        "change_s": round(batch.change_s, 1),
    }


def _cell_json(planned: CellPlan, baseline_ids: frozenset[str]) -> dict[str, object]:
    return {
        "id": planned.cell.id,
        "baseline": planned.cell.id in baseline_ids,
        "factors": planned.cell.canonical(),
        "trial_s": round(planned.trial_s, 1),
        "trials": [{"trial": t.trial, "reason": t.reason.value} for t in planned.trials],
    }
