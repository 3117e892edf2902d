# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cost of trials, learnt from those that ended; kept in the run, and in the user's cache for later runs.

A testbed declares the form of its cost (`CostModel`). Two numbers are measured: the fixed part, and a factor
on the part that grows with the trial's length. They are fitted by least squares over running sums, so that
any number of trials needs only a few numbers. Floods of short packets count as the bulk transfer that costs
as much (`carried_mbps`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from platformdirs import user_cache_path

from l4sbench.disk.files import write_whole
from l4sbench.disk.userfiles import read_json
from l4sbench.errors import InputError
from l4sbench.facts.traits import CostModel
from l4sbench.program.timing import length

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell

FILE: Final = "cost.json"
_FORMAT: Final = 2
_MEMORY: Final = 400.0
"""Weight in trials at which the past is halved, so that costs follow a machine whose speed changes."""

_SPREAD: Final = 0.2
"""Relative spread of lengths below which fixed and growing cost cannot be separated."""


def carried_mbps(cell: Cell) -> float:
    """Return the rate of a bulk transfer that costs as much as what a cell sends."""
    found, whole = cell.rate.mbps, cell.warmup.ns + cell.duration.ns
    if not any(kind.each_mbit for kind in cell.kinds):
        return found
    for group in cell.groups:
        lasts = min(length(cell, group, group.start).ns, max(0, whole - group.start.ns))
        found += group.sends.each_mbit * group.sends.each_per_s * group.count * lasts / whole
    return found


@dataclass(frozen=True)
class CostSums:
    """Sums over ended trials of a testbed: x is the growing cost by `shape`, y the measured wall seconds."""

    shape: CostModel
    n: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def with_trial(self, virtual_s: float, rate_mbps: float, wall_s: float) -> CostSums:
        """Return the sums with a further trial of this length and rate, which took `wall_s`."""
        x = self.shape.running_s(virtual_s, rate_mbps)
        kept = 0.5 if self.n >= _MEMORY else 1.0
        return replace(
            self,
            n=self.n * kept + 1,
            x=self.x * kept + x,
            y=self.y * kept + wall_s,
            xx=self.xx * kept + x * x,
            xy=self.xy * kept + x * wall_s,
        )

    def model(self) -> CostModel:
        """Return the cost model as measured; the declared one while nothing is measured."""
        if self.n <= 0:
            return self.shape
        mean_x, mean_y = self.x / self.n, self.y / self.n
        variance = self.xx / self.n - mean_x**2
        if variance > (_SPREAD * mean_x) ** 2:
            factor = (self.xy / self.n - mean_x * mean_y) / variance
            fixed_s = mean_y - factor * mean_x
            if factor > 0 and fixed_s >= 0:
                return self._scaled(fixed_s, factor)
        declared_s = self.shape.fixed_s + mean_x
        if mean_x > 0 and mean_y > self.shape.fixed_s:
            return self._scaled(self.shape.fixed_s, (mean_y - self.shape.fixed_s) / mean_x)
        scale = mean_y / declared_s if declared_s > 0 else 1.0
        return self._scaled(self.shape.fixed_s * scale, scale)

    def _scaled(self, fixed_s: float, factor: float) -> CostModel:
        return CostModel(fixed_s, self.shape.per_virtual_s * factor, self.shape.per_mbit_s * factor)


class CostBook:
    """The measured costs of one testbed, in the files that store them.

    The run's own costs take precedence, then those in the user's cache, then the testbed's declaration. A
    file that cannot be read or written only makes the estimate worse.
    """

    def __init__(self, testbed: str, shape: CostModel, files: tuple[Path, ...]) -> None:
        self._testbed = testbed
        self._shape = shape
        self._files = files
        self._books = [self._load(file) for file in files]

    @classmethod
    def of(cls, testbed: str, shape: CostModel, run: Path | None = None) -> CostBook:
        """Load the costs known to this run (if there is one yet) and to this user."""
        cache = user_cache_path("l4sbench") / FILE
        return cls(testbed, shape, (cache,) if run is None else (run / FILE, cache))

    def model(self) -> CostModel:
        """Return the best known cost model."""
        return next((book.model() for book in self._books if book.n > 0), self._shape)

    def add(self, virtual_s: float, rate_mbps: float, wall_s: float) -> None:
        """Learn from a trial that ended by itself."""
        self._books = [book.with_trial(virtual_s, rate_mbps, wall_s) for book in self._books]

    def save(self) -> None:
        """Write the files; one that cannot be written is skipped."""
        for file, book in zip(self._files, self._books, strict=True):
            plain = _plain(file)
            plain[self._testbed] = asdict(book)
            try:
                if file == self._files[-1]:  # the cache's; a run directory that is gone is not made again
                    file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, json.dumps({"format": _FORMAT, "testbeds": plain}, indent=1) + "\n")
            except (OSError, InputError):  # InputError: something else than a file is there
                continue

    def _load(self, file: Path) -> CostSums:
        fresh = CostSums(self._shape)
        try:
            sums = dict(_plain(file)[self._testbed])  # type: ignore[call-overload]
            if CostModel(**sums.pop("shape")) != self._shape:
                return fresh
            return CostSums(self._shape, **{name: float(value) for name, value in sums.items()})
        except (KeyError, TypeError, ValueError):
            return fresh


def _plain(file: Path) -> dict[str, object]:
    try:
        plain = read_json(file, plain=True)
    except InputError:
        return {}
    known = isinstance(plain, dict) and plain.get("format") == _FORMAT
    testbeds = plain.get("testbeds") if known else None
    return dict(testbeds) if isinstance(testbeds, dict) else {}
