# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cost of trials, learnt from those that ended; kept in the run, and in the user's cache for later runs.

Cost is processor time where the traits say so: it hardly depends on what else the machine does. Elsewhere it
is time by the clock. A testbed declares the form of its cost (`CostModel`). Two numbers are measured, for
every kind of cell and for all kinds together: the fixed part, and a factor on the part that grows with the
trial's length. They are fitted by least squares over running sums, so that any number of trials needs only a
few numbers. Beside them are the errors that estimates had, which make the width of the next ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from platformdirs import user_cache_path

from l4sbench.disk.files import write_whole
from l4sbench.disk.userfiles import read_json
from l4sbench.errors import InputError
from l4sbench.facts.estimate import LocalMachine
from l4sbench.planning.estimating import Costs, ends_s

if TYPE_CHECKING:
    from l4sbench.facts.traits import CostModel, TestbedTraits

FILE: Final = "cost.json"
_FORMAT: Final = 3
_MEMORY: Final = 400.0
"""Weight in trials at which the past is halved, so that costs follow a machine whose speed changes."""

_SPREAD: Final = 0.2
"""Relative spread of lengths below which fixed and growing cost cannot be separated."""

MOST_KINDS: Final = 500
"""Number of kinds of cell that a file remembers: the latest."""

_FAR: Final = 5.0
"""Largest error of an estimate that counts, as a logarithm: more is no matter of chance."""

_GUESSES: Final = 4.0
"""Weight of what is guessed before any error is known, in errors."""

_OF_NEW: Final = 0.5
_OF_KNOWN: Final = 0.15
_OF_RUNS: Final = 0.2
"""Guesses for kinds that were not measured, of those that were, and of whole runs, as parts of the
spread that a testbed declares."""

_QUIET: Final = 1.5
"""Load lengthens the trials of a quiet machine by less than this."""

_MOST: Final = 1e15
"""Largest sum that a file may have; its squares are far from the limits of floating-point numbers."""


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


def _numbers(plain: object, of: type, least: float = 0.0) -> dict[str, float]:
    """Return the fields of a dataclass of sums from a file."""
    if not isinstance(plain, Mapping) or plain.keys() != {one.name for one in fields(of)}:
        raise TypeError
    if not all(type(value) in {int, float} and least <= value <= _MOST for value in plain.values()):
        raise ValueError("out of range")
    return {str(name): float(value) for name, value in plain.items()}


@dataclass(frozen=True)
class EstimateErrors:
    """Sums over errors of estimates, each the logarithm of true by estimated."""

    n: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def with_error(self, true_s: float, estimated_s: float) -> EstimateErrors:
        """Return the sums with a further error."""
        error = min(_FAR, max(-_FAR, math.log(true_s / estimated_s)))
        kept = 0.5 if self.n >= _MEMORY else 1.0
        return EstimateErrors(
            self.n * kept + 1, self.total * kept + error, self.squares * kept + error * error
        )

    def spread(self, guess: float) -> float:
        """Return the standard deviation about no error; a guess has the weight of some errors."""
        return math.sqrt((self.squares + _GUESSES * guess**2) / (self.n + _GUESSES))

    def factor(self) -> float:
        """Return by what to multiply estimates."""
        return math.exp(self.total / (self.n + _GUESSES))

    @classmethod
    def read(cls, plain: object) -> Self:
        """Return the sums that a file has.

        Raises:
            TypeError, ValueError: they are not sums of errors.
        """
        errors = cls(**_numbers(plain, cls, least=-_MOST))
        most = _FAR * max(0.0, errors.n)
        if not (errors.n == 0 or errors.n >= 1) or abs(errors.total) > most:
            raise ValueError("not the sums of errors")
        if not 0 <= errors.squares <= _FAR * most:
            raise ValueError("not the sums of squares")
        return errors


@dataclass(frozen=True)
class Learnt:
    """Everything measured on one testbed.

    Attributes:
        every: The sums of all trials.
        kinds: Those of each kind of cell.
        known: Errors of the costs of trials of a kind that was measured before.
        new: Errors of the costs of the first trials of kinds.
        pace: Errors of the wall times of runs on a quiet machine, where the costs of their trials are known.
        runs: Errors of the costs of whole runs, with kinds that were measured before.
    """

    every: CostSums = CostSums()
    kinds: Mapping[str, CostSums] = field(default_factory=dict)
    known: EstimateErrors = EstimateErrors()
    new: EstimateErrors = EstimateErrors()
    pace: EstimateErrors = EstimateErrors()
    runs: EstimateErrors = EstimateErrors()

    def with_trial(self, kind: str, growing_s: float, cost_s: float, estimated_s: float) -> Learnt:
        """Return it with a further trial."""
        if kind in self.kinds:
            learnt = replace(self, known=self.known.with_error(cost_s, estimated_s))
        elif self.every.n:
            learnt = replace(self, new=self.new.with_error(cost_s, estimated_s))
        else:
            learnt = self
        kinds = {name: sums for name, sums in self.kinds.items() if name != kind}
        while len(kinds) >= MOST_KINDS:
            kinds.pop(next(iter(kinds)))
        kinds[kind] = self.kinds.get(kind, CostSums()).with_trial(growing_s, cost_s)
        return replace(learnt, every=self.every.with_trial(growing_s, cost_s), kinds=kinds)

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Return what a file has.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is damaged.
        """
        kinds = list(plain["kinds"].items())[-MOST_KINDS:]
        errors = (EstimateErrors.read(plain[name]) for name in ("known", "new", "pace", "runs"))
        return cls(
            CostSums.read(plain["every"]), {name: CostSums.read(sums) for name, sums in kinds}, *errors
        )


@dataclass(frozen=True)
class _Spent:
    """Costs of the trials of a run; `known_s` and `expected_s` of those whose kind was measured before it."""

    cost_s: float = 0.0
    longest_s: float = 0.0
    known_s: float = 0.0
    expected_s: float = 0.0

    def with_trial(self, cost_s: float, expected_s: float) -> _Spent:
        return _Spent(
            self.cost_s + cost_s,
            max(self.longest_s, cost_s),
            self.known_s + (cost_s if expected_s > 0 else 0.0),
            self.expected_s + expected_s,
        )


class CostBook:
    """The measured costs of one testbed, in the files that store them.

    Those of the first file that has any take precedence; without any the testbed's declaration counts. A file
    that cannot be read or written only makes the estimate worse.
    """

    def __init__(
        self,
        testbed: str,
        shape: CostModel,
        files: tuple[Path, ...],
        load: Callable[[], LocalMachine] | None = None,
    ) -> None:
        self._testbed = testbed
        self._shape = shape
        self._files = files
        self._load_now = load
        self._spent = _Spent()
        self._learnt = [self._load(file) for file in files]
        self._before = self._costs(self._best)

    @classmethod
    def of(cls, testbed: str, traits: TestbedTraits, run: Path | None = None) -> CostBook:
        """Load the costs known to this run (if there is one yet) and to this user.

        Processor time is that of this machine, and a run may have come from another; the cache has not.
        """
        cache = user_cache_path("l4sbench") / FILE
        own = run is not None and not traits.processor_bound
        files = (run / FILE, cache) if run is not None and own else (cache,)
        return cls(testbed, traits.cost, files, LocalMachine.now if traits.processor_bound else None)

    def costs(self, jobs: int = 1) -> Costs:
        """Return the best known costs, for so many trials at once on the machine as it is now."""
        return self._costs(self._best, jobs, self._load_now() if self._load_now is not None else None)

    @property
    def _best(self) -> Learnt:
        return next((learnt for learnt in self._learnt if learnt.every.n > 0), Learnt())

    def _costs(self, known: Learnt, jobs: int = 1, machine: LocalMachine | None = None) -> Costs:
        declared = self._shape.spread
        measured = known.every.n > 0
        runs = known.runs.spread(declared * _OF_RUNS), known.pace.spread(declared * _OF_RUNS)
        return Costs(
            known.every.model(self._shape),
            {kind: sums.model(self._shape) for kind, sums in known.kinds.items()},
            (
                known.new.spread(declared * _OF_NEW),
                known.known.spread(declared * _OF_KNOWN),
                math.hypot(*runs, 0.0 if measured else declared),
            ),
            known.pace.factor(),
            machine,
            jobs,
            measured,
        )

    def add(self, kind: str, virtual_s: float, rate_mbps: float, cost_s: float) -> None:
        """Learn from a trial that ended by itself."""
        growing_s = self._shape.running_s(virtual_s, rate_mbps)
        if cost_s <= 0:
            return
        before = self._before
        expected_s = before.of(kind).cost_s(virtual_s, rate_mbps) if kind in before.kinds else 0.0
        self._spent = self._spent.with_trial(cost_s, expected_s)
        for place, learnt in enumerate(self._learnt):
            sums = learnt.kinds.get(kind, learnt.every)
            estimated_s = sums.model(self._shape).cost_s(virtual_s, rate_mbps)
            self._learnt[place] = learnt.with_trial(kind, growing_s, cost_s, estimated_s)

    def end_run(self, took_s: float, jobs: int, before: LocalMachine | None = None) -> None:
        """Learn from all trials since the book was loaded, which took so long with so many at once.

        `before` is the machine before them. What a busy machine does to a run says nothing of the next one.
        """
        spent, stretch = self._spent, 1.0
        if before is not None and self._load_now is not None:
            stretch = (before.stretch(jobs) + self._load_now().stretch(jobs)) / 2
        ideal_s = sum(ends_s(spent.cost_s, jobs, spent.longest_s)) / 2 * stretch
        for place, learnt in enumerate(self._learnt):
            found = learnt
            if spent.known_s > 0:
                found = replace(found, runs=found.runs.with_error(spent.known_s, spent.expected_s))
            if took_s > 0 and ideal_s > 0 and stretch < _QUIET:
                found = replace(found, pace=found.pace.with_error(took_s, ideal_s))
            self._learnt[place] = found
        self._spent = _Spent()

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
