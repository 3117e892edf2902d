# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Estimates of what trials cost, and of how long they take on a machine that does other things, too.

    costs = CostBook.of("virtual", traits).costs(jobs)
    costs.trial_s(kind_of(cell), 60.0, carried_mbps(cell))

Floods of short packets count as the bulk transfer that costs as much (`carried_mbps`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from l4sbench.facts.cell import Cell
from l4sbench.facts.estimate import TimeRange

if TYPE_CHECKING:
    from l4sbench.facts.common import Common
    from l4sbench.facts.estimate import LocalMachine
    from l4sbench.facts.traits import CostModel

_OF_LOAD: Final = 0.35
"""Standard deviation of the stretch by load, as a part of its logarithm: load comes and goes."""

_EIGHT_OF_TEN: Final = 1.2816
"""Standard deviations on each side of the mean between which 8 of 10 values lie."""


def carried_mbps(cell: Cell) -> float:
    """Return the rate of a bulk transfer that costs as much as what a cell sends."""
    found, whole = cell.rate.mbps, cell.length.ns
    if not any(kind.each_mbit for kind in cell.kinds):
        return found

    from l4sbench.program.timing import length

    for group in cell.groups:
        lasts = min(length(cell, group, group.start).ns, max(0, whole - group.start.ns))
        found += group.sends.each_mbit * group.sends.each_per_s * group.count * lasts / whole
    return found


def kind_of(cell: Cell, *, capture: bool = False) -> str:
    """Return the kind of a cell: what its cost depends on beside rate and length, in words.

    With `capture` its packets are captured, whatever the cell says.
    """
    return _shared_kind(cell.common, capture=capture) or _own_kind(cell, capture=capture)


_OF_CELL: Final = ("topology", "aqm", "capture")
_OF_GROUP: Final = ("send", "cc", "count")


@lru_cache(maxsize=4096)
def _shared_kind(common: Common, *, capture: bool) -> str | None:
    """Return the kind of all cells with these common factors; None where it varies among them."""
    names = (f"{name}.{key}" for name in common.group_names for key in _OF_GROUP)
    if common.varying.isdisjoint((*_OF_CELL, *names)):
        return _own_kind(Cell.whole(common), capture=capture)
    return None


def _own_kind(cell: Cell, *, capture: bool) -> str:
    groups = tuple([tuple([cell.get(f"{name}.{key}") for key in _OF_GROUP]) for name in cell.group_names])
    return _kind(cell.topology, cell.aqm, "headers" if capture else cell.capture, groups)


@lru_cache(maxsize=4096)
def _kind(*parts: object) -> str:
    *place, groups = parts
    assert isinstance(groups, tuple)  # noqa: S101  (for the type checker)
    words = sorted("-".join(str(value) for value in group if value is not None) for group in groups)
    return " ".join([*map(str, place), *words])


@dataclass(frozen=True)
class TrialWork:
    """Trials of a kind of cell: their number, their seconds on the testbed, the megabits that they carry."""

    kind: str
    trials: float = 0.0
    virtual_s: float = 0.0
    carried_mbit: float = 0.0

    def and_more(self, trials: float, virtual_s: float, carried_mbit: float) -> TrialWork:
        """Return it with further trials."""
        return TrialWork(
            self.kind,
            self.trials + trials,
            self.virtual_s + virtual_s,
            self.carried_mbit + carried_mbit,
        )

    def cost_s(self, model: CostModel) -> float:
        """Return what all of it costs."""
        growing_s = self.virtual_s * model.per_virtual_s + self.carried_mbit * model.per_mbit_s
        return self.trials * model.fixed_s + growing_s


def ends_s(work_s: float, jobs: int, longest_s: float) -> tuple[float, float]:
    """Return the shortest and the longest time that so many workers may take, by the order of the trials."""
    each_s = work_s / max(1, jobs)
    return max(each_s, longest_s), max(each_s, each_s + (1 - 1 / max(1, jobs)) * longest_s)


@dataclass(frozen=True)
class Costs:
    """The costs that plans are made with.

    Attributes:
        every: Of a kind of cell that was not measured.
        kinds: Of those that were.
        spreads: Standard deviations of the errors, as logarithms: of a kind that was not measured, of one
            that was, and of all kinds together.
        pace: Wall seconds that a second of cost takes on a quiet machine.
        machine: The machine whose load lengthens trials; None where it does not.
        jobs: Number of trials that run at once.
        measured: False if the testbed's declaration is all that is known.
    """

    every: CostModel
    kinds: Mapping[str, CostModel] = field(default_factory=dict)
    spreads: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pace: float = 1.0
    machine: LocalMachine | None = None
    jobs: int = 1
    measured: bool = True

    @property
    def stretch(self) -> float:
        """Wall seconds that a second of cost takes because of the load."""
        return self.machine.stretch(self.jobs) if self.machine is not None else 1.0

    def of(self, kind: str) -> CostModel:
        """Return the cost of a kind of cell."""
        return self.kinds.get(kind, self.every)

    def trial_s(self, kind: str, virtual_s: float, rate_mbps: float) -> float:
        """Return the estimated wall seconds that a worker needs for a trial."""
        return self.of(kind).cost_s(virtual_s, rate_mbps) * self.pace * self.stretch

    def work_s(self, work: TrialWork) -> float:
        """Return the estimated wall seconds that a worker needs for it."""
        return work.cost_s(self.of(work.kind)) * self.pace * self.stretch

    def estimate(self, work_s: Mapping[str, float], jobs: int, longest_s: float = 0.0) -> TimeRange:
        """Return the range of the wall time of trials, of which the longest takes `longest_s`.

        The error of a kind of cell is that of all its trials; errors of several kinds partly cancel out.
        """
        whole_s = sum(work_s.values())
        if whole_s <= 0:
            return TimeRange(machine=self.machine, measured=self.measured)
        new, known, common = self.spreads
        errors = [common, _OF_LOAD * math.log(self.stretch)]
        for kind, part_s in work_s.items():
            errors.append((known if kind in self.kinds else new) * part_s / whole_s)
        factor = math.exp(_EIGHT_OF_TEN * math.hypot(*errors))
        low_s, high_s = ends_s(whole_s, jobs, longest_s)
        return TimeRange(low_s / factor, high_s * factor, self.machine, self.measured)
