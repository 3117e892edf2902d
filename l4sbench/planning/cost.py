# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cost of trials, learnt from those that ended; kept in the run, and in the user's cache for later runs.

    book = CostBook.of("virtual", traits, run)
    book.costs().trial_s(kind_of(cell), 60.0, carried_mbps(cell))

Cost is processor time where the traits say so: it hardly depends on what else the machine does. Elsewhere it
is time by the clock. A testbed declares the form of its cost (`CostModel`). Two numbers are measured, for
every kind of cell and for all kinds together: the fixed part, and a factor on the part that grows with the
trial's length. They are fitted by least squares over running sums, so that any number of trials needs only a
few numbers. Floods of short packets count as the bulk transfer that costs as much (`carried_mbps`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from platformdirs import user_cache_path

from l4sbench.disk.files import write_whole
from l4sbench.disk.userfiles import read_json
from l4sbench.errors import InputError
from l4sbench.program.timing import length

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import CostModel, TestbedTraits

FILE: Final = "cost.json"
_FORMAT: Final = 3
_MEMORY: Final = 400.0
"""Weight in trials at which the past is halved, so that costs follow a machine whose speed changes."""

_SPREAD: Final = 0.2
"""Relative spread of lengths below which fixed and growing cost cannot be separated."""

MOST_KINDS: Final = 500
"""Number of kinds of cell that a file remembers: the latest."""

_MOST: Final = 1e15
"""Largest sum that a file may have; its squares are far from the limits of floating-point numbers."""


def carried_mbps(cell: Cell) -> float:
    """Return the rate of a bulk transfer that costs as much as what a cell sends."""
    found, whole = cell.rate.mbps, cell.warmup.ns + cell.duration.ns
    if not any(kind.each_mbit for kind in cell.kinds):
        return found
    for group in cell.groups:
        lasts = min(length(cell, group, group.start).ns, max(0, whole - group.start.ns))
        found += group.sends.each_mbit * group.sends.each_per_s * group.count * lasts / whole
    return found


def kind_of(cell: Cell, *, capture: bool = False) -> str:
    """Return the kind of a cell: what its cost depends on beside rate and length, in words.

    With `capture` its packets are captured, whatever the cell says.
    """
    groups = tuple([tuple([cell.get(f"{name}.{key}") for key in _OF_GROUP]) for name in cell.group_names])
    return _kind(cell.topology, cell.aqm, "headers" if capture else cell.capture, groups)


_OF_GROUP: Final = ("send", "cc", "count")


@lru_cache(maxsize=4096)
def _kind(*parts: object) -> str:
    *place, groups = parts
    assert isinstance(groups, tuple)  # noqa: S101  (for the type checker)
    words = sorted("-".join(str(value) for value in group if value is not None) for group in groups)
    return " ".join([*map(str, place), *words])


@dataclass(frozen=True)
class CostSums:
    """Sums over ended trials: x is the growing cost as declared, y the measured cost."""

    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def with_trial(self, growing_s: float, cost_s: float) -> CostSums:
        """Return the sums with a further trial."""
        kept = 0.5 if self.n >= _MEMORY else 1.0
        return CostSums(
            n=self.n * kept + 1,
            x=self.x * kept + growing_s,
            y=self.y * kept + cost_s,
            xx=self.xx * kept + growing_s * growing_s,
            xy=self.xy * kept + growing_s * cost_s,
        )

    def model(self, shape: CostModel) -> CostModel:
        """Return the cost model as measured; `shape`, which declares the form, while nothing is measured."""
        if self.n <= 0:
            return shape
        mean_x, mean_y = self.x / self.n, self.y / self.n
        variance = self.xx / self.n - mean_x**2
        if variance > (_SPREAD * mean_x) ** 2:
            factor = (self.xy / self.n - mean_x * mean_y) / variance
            fixed_s = mean_y - factor * mean_x
            if factor > 0 and fixed_s >= 0:
                return shape.scaled(fixed_s, factor)
        declared_s = shape.fixed_s + mean_x
        if mean_x > 0 and mean_y > shape.fixed_s:
            return shape.scaled(shape.fixed_s, (mean_y - shape.fixed_s) / mean_x)
        scale = mean_y / declared_s if declared_s > 0 else 1.0
        return shape.scaled(shape.fixed_s * scale, scale)

    @classmethod
    def read(cls, plain: object) -> Self:
        """Return the sums that a file has.

        Raises:
            TypeError, ValueError: they are not sums of trials.
        """
        sums = cls(**_numbers(plain, cls))
        if sums.n and (sums.n < 1 or min(sums.y, sums.xy) <= 0):
            raise ValueError("not the sums of trials")
        return sums


def _numbers(plain: object, of: type) -> dict[str, float]:
    """Return the fields of a dataclass of sums from a file."""
    if not isinstance(plain, Mapping) or plain.keys() != {one.name for one in fields(of)}:
        raise TypeError
    if not all(type(value) in {int, float} and 0 <= value <= _MOST for value in plain.values()):
        raise ValueError("out of range")
    return {str(name): float(value) for name, value in plain.items()}


@dataclass(frozen=True)
class Learnt:
    """Everything measured on one testbed: the sums of all trials, and those of each kind of cell."""

    every: CostSums = CostSums()
    kinds: Mapping[str, CostSums] = field(default_factory=dict)

    def with_trial(self, kind: str, growing_s: float, cost_s: float) -> Learnt:
        """Return it with a further trial."""
        kinds = {name: sums for name, sums in self.kinds.items() if name != kind}
        while len(kinds) >= MOST_KINDS:
            kinds.pop(next(iter(kinds)))
        kinds[kind] = self.kinds.get(kind, CostSums()).with_trial(growing_s, cost_s)
        return replace(self, every=self.every.with_trial(growing_s, cost_s), kinds=kinds)

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Return what a file has.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is damaged.
        """
        kinds = list(plain["kinds"].items())[-MOST_KINDS:]
        return cls(CostSums.read(plain["every"]), {name: CostSums.read(sums) for name, sums in kinds})


@dataclass(frozen=True)
class Work:
    """Trials of a kind of cell: their number, their seconds on the testbed, the megabits that they carry."""

    kind: str
    trials: float = 0.0
    virtual_s: float = 0.0
    carried_mbit: float = 0.0

    def and_more(self, trials: float, virtual_s: float, carried_mbit: float) -> Work:
        """Return it with further trials."""
        return Work(
            self.kind,
            self.trials + trials,
            self.virtual_s + virtual_s,
            self.carried_mbit + carried_mbit,
        )

    def cost_s(self, model: CostModel) -> float:
        """Return what all of it costs."""
        growing_s = self.virtual_s * model.per_virtual_s + self.carried_mbit * model.per_mbit_s
        return self.trials * model.fixed_s + growing_s


@dataclass(frozen=True)
class Costs:
    """The costs that plans are made with.

    Attributes:
        every: Of a kind of cell that was not measured.
        kinds: Of those that were.
    """

    every: CostModel
    kinds: Mapping[str, CostModel] = field(default_factory=dict)

    def of(self, kind: str) -> CostModel:
        """Return the cost of a kind of cell."""
        return self.kinds.get(kind, self.every)

    def trial_s(self, kind: str, virtual_s: float, rate_mbps: float) -> float:
        """Return the estimated wall seconds that a worker needs for a trial."""
        return self.of(kind).cost_s(virtual_s, rate_mbps)

    def work_s(self, work: Iterable[Work]) -> float:
        """Return the estimated wall seconds that a worker needs for all of it."""
        return sum(one.cost_s(self.of(one.kind)) for one in work)


class CostBook:
    """The measured costs of one testbed, in the files that store them.

    Those of the first file that has any take precedence; without any the testbed's declaration counts. A file
    that cannot be read or written only makes the estimate worse.
    """

    def __init__(self, testbed: str, shape: CostModel, files: tuple[Path, ...]) -> None:
        self._testbed = testbed
        self._shape = shape
        self._files = files
        self._learnt = [self._load(file) for file in files]

    @classmethod
    def of(cls, testbed: str, traits: TestbedTraits, run: Path | None = None) -> CostBook:
        """Load the costs known to this run (if there is one yet) and to this user.

        Processor time is that of this machine, and a run may have come from another; the cache has not.
        """
        cache = user_cache_path("l4sbench") / FILE
        own = run is not None and not traits.processor_bound
        return cls(testbed, traits.cost, (run / FILE, cache) if run is not None and own else (cache,))

    def costs(self) -> Costs:
        """Return the best known costs."""
        known = next((learnt for learnt in self._learnt if learnt.every.n > 0), Learnt())
        kinds = {kind: sums.model(self._shape) for kind, sums in known.kinds.items()}
        return Costs(known.every.model(self._shape), kinds)

    def add(self, kind: str, virtual_s: float, rate_mbps: float, cost_s: float) -> None:
        """Learn from a trial that ended by itself."""
        growing_s = self._shape.running_s(virtual_s, rate_mbps)
        if cost_s > 0:
            self._learnt = [learnt.with_trial(kind, growing_s, cost_s) for learnt in self._learnt]

    def save(self) -> None:
        """Write the files; one that cannot be written is skipped."""
        for file, learnt in zip(self._files, self._learnt, strict=True):
            plain = _plain(file)
            plain[self._testbed] = {"shape": asdict(self._shape), **asdict(learnt)}
            try:
                if file == self._files[-1]:  # the cache's; a run directory that is gone is not made again
                    file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, json.dumps({"format": _FORMAT, "testbeds": plain}, indent=1) + "\n")
            except (OSError, InputError):  # InputError: something else than a file is there
                continue

    def _load(self, file: Path) -> Learnt:
        try:
            plain: Any = _plain(file)[self._testbed]
            if plain["shape"] != asdict(self._shape):
                return Learnt()
            learnt = Learnt.read(plain)
            models = [sums.model(self._shape) for sums in (learnt.every, *learnt.kinds.values())]
            sane = all(0 <= number <= _MOST for model in models for number in astuple(model))
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            return Learnt()
        return learnt if sane else Learnt()


def _plain(file: Path) -> dict[str, object]:
    try:
        plain = read_json(file, plain=True)
    except InputError:
        return {}
    known = isinstance(plain, dict) and plain.get("format") == _FORMAT
    testbeds = plain.get("testbeds") if known else None
    return dict(testbeds) if isinstance(testbeds, dict) else {}
