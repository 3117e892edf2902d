# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The matrix as the rest of l4sbench sees it: cells, trials, rule, seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from l4sbench.catalog import Catalog
from l4sbench.errors import InputError, Problem
from l4sbench.matrix.baselines import baselines
from l4sbench.matrix.expand import expand
from l4sbench.matrix.naming import Names
from l4sbench.matrix.patterns import select
from l4sbench.matrix.reading import Source, read_source
from l4sbench.matrix.writing import as_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from l4sbench.cell import Cell

DEFAULT_TRIALS = 3
DEFAULT_RULE = "pam25"
DEFAULT_SEED = 1
DEFAULT_BASELINES = "none"


@dataclass(frozen=True)
class Trials:
    """How many trials a cell gets: `min`, then up to `max` until what `until` says (None: always `max`)."""

    min: int
    max: int
    until: str | None = None


@dataclass(frozen=True)
class Axis:
    """What is crossed.

    Attributes:
        name: the factor, or the name of a linked axis.
        names: the factors it sets.
        points: how many values it has.
    """

    name: str
    names: tuple[str, ...]
    points: int


@dataclass(frozen=True)
class Matrix:
    """An experiment: which cells, how often, judged by which rule.

    Attributes:
        name: also the name of its folder under `runs/`.
        description: what it asks.
        trials: per cell.
        rule: name of the verdict rule.
        seed: what the seeds of its trials are made of.
        axes: in the order of the file.
        cells: each once, in order: the first axis changes slowest, included cells come last, and behind
            them the baselines.
        notes: what the user should know, such as cells that became one.
        catalog: what its queues and congestion controls mean.
        source: a matrix file that says the same without those it extends, for the run directory.
        path: where it was read from.
        baselines: which baselines it asks for, one of `l4sbench.matrix.baselines.BASELINES`.
        baseline_ids: ids of the cells that are there only as baselines of others.
    """

    name: str
    description: str
    trials: Trials
    rule: str
    seed: int
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    catalog: Catalog
    source: bytes
    path: Path
    baselines: str = DEFAULT_BASELINES
    baseline_ids: frozenset[str] = frozenset()

    @classmethod
    def load(cls, path: Path, catalog: Catalog | None = None, *, catalog_dirs: Sequence[Path] = ()) -> Self:
        """Reads a matrix file and expands it.

        Args:
            path: the file.
            catalog: used as it is, instead of what l4sbench and the matrix's `catalog:` offer.
            catalog_dirs: folders with more entries, as of `--catalog`; not together with `catalog`.

        Raises:
            InputError: every problem of the file at once, and of the files and folders it names.
        """
        source, data = read_source(path)
        problems = list(source.problems)
        trials = _trials(source, problems)
        if catalog is None:
            folders = [*source.settings.get("catalog", ()), *catalog_dirs]
            catalog = _catalog(folders, source, problems)
        expansion = expand(source, Names(source.groups, catalog))
        problems += expansion.problems
        if problems:
            raise InputError(problems)
        settings = source.settings
        wanted = settings.get("baselines", DEFAULT_BASELINES)
        added = baselines(expansion.cells, wanted, catalog)
        return cls(
            name=settings["matrix"],
            description=settings.get("description", "").strip(),
            trials=trials,
            rule=settings.get("rule", DEFAULT_RULE),
            seed=settings.get("seed", DEFAULT_SEED),
            axes=tuple(Axis(axis.name, axis.factors, len(axis.points)) for axis in source.axes.values()),
            cells=(*expansion.cells, *added),
            notes=tuple(expansion.notes),
            catalog=catalog,
            source=as_yaml(source) if source.extended else data,
            path=path,
            baselines=wanted,
            baseline_ids=frozenset(cell.id for cell in added),
        )

    @property
    def asked(self) -> tuple[Cell, ...]:
        """The cells that the matrix is about: all but its baselines."""
        return tuple(cell for cell in self.cells if cell.id not in self.baseline_ids)

    def select(self, filters: Sequence[str]) -> Self:
        """This matrix with only the cells that match every filter `FACTOR=PATTERN`, and their baselines.

        Commas mean or, quantities are compared normalised (`rate=0.1gbit` matches 100mbit), names may hold
        `*`, `?` and `[...]`; `cell=` matches ids.

        Raises:
            InputError: a filter makes no sense, or no cell is left.
        """
        if not filters:
            return self
        chosen = {cell.id for cell in select(self.cells, filters)}
        about = (cell for cell in self.asked if cell.id in chosen)
        chosen |= {cell.id for cell in baselines(about, self.baselines, self.catalog)}
        cells = tuple(cell for cell in self.cells if cell.id in chosen)
        return replace(self, cells=cells, baseline_ids=self.baseline_ids & chosen)


def _trials(source: Source, problems: list[Problem]) -> Trials:
    stated = source.settings.get("trials", {"min": DEFAULT_TRIALS, "max": DEFAULT_TRIALS, "whole": True})
    where = source.places.get("trials", source.path)
    least, most = stated.get("min"), stated.get("max")
    if least is None or most is None:
        if not source.incomplete:
            key = "min" if least is None else "max"
            problems.append(
                Problem(where, f"trials.{key}", "is missing", "write {min: 3, max: 10, until: decided}")
            )
        return Trials(1, 1)
    if least > most:
        problems.append(Problem(where, "trials", f"min is {least}, which is more than max, {most}"))
    if "whole" in stated or least == most:
        return Trials(least, most)
    return Trials(least, most, stated.get("until", "decided"))


def _catalog(folders: Iterable[Path], source: Source, problems: list[Problem]) -> Catalog:
    """The catalog with the folders the matrix names; without them if they are not there."""
    usable: list[Path] = []
    for folder in folders:
        if _is_folder(folder):
            usable.append(folder)
        else:
            where = source.places.get("catalog", "") if folder in source.settings.get("catalog", ()) else ""
            problems.append(Problem(where, "catalog", f"there is no folder {folder}"))
    try:
        return Catalog.load(usable)
    except InputError as error:
        raise InputError([*problems, *error.problems]) from None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # too long a name, for instance
        return False
