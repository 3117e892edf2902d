# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From a source to cells: cross the axes, exclude, include, and let equal cells become one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from l4sbench.cell import Cell
from l4sbench.errors import Problem, did_you_mean
from l4sbench.factors import BadValueError
from l4sbench.matrix.naming import Judged, Meaning, Names, judge
from l4sbench.matrix.patterns import Pattern
from l4sbench.matrix.shapes import JudgedPoint, Shape, Shaper, shaping_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from l4sbench.matrix.reading import AxisSource, Rule, Source, Statement
    from l4sbench.units import Value

MAX_CELLS = 1_000_000
_NAMED = 5  # as many examples as a note or message gives


@dataclass
class Expansion:
    """What became of a source."""

    cells: tuple[Cell, ...] = ()
    notes: list[str] = field(default_factory=list)
    problems: dict[Problem, None] = field(default_factory=dict)

    def problem(self, *problems: Problem) -> None:
        """Notes what is wrong, each thing once."""
        self.problems.update(dict.fromkeys(problems))


@dataclass
class _Exclusion:
    """An entry of `exclude`: a cell that matches every pattern is left out."""

    where: str
    patterns: list[tuple[str, Pattern]]
    hits: int = 0

    def matches(self, factors: Mapping[str, Value]) -> bool:
        for name, pattern in self.patterns:
            value = factors.get(name)
            if value is None or not pattern.matches(value):
                return False
        self.hits += 1
        return True


def expand(source: Source, names: Names) -> Expansion:
    """The cells of a source, in order: crossed (the first axis changes slowest), then included.

    Whatever is wrong stands in `Expansion.problems`; then the cells are not complete.
    """
    result = Expansion()
    _clashes(source, result)
    count = math.prod(len(axis.points) for axis in source.axes.values())
    if count > MAX_CELLS:
        where = next(iter(source.axes.values())).where
        result.problem(Problem(where, "axes", f"{count} cells are too many; at most {MAX_CELLS} are allowed"))
        return result
    if not source.groups and not source.incomplete:
        result.problem(
            Problem(f"{source.path}:1:1", "flows", "is missing: a matrix has at least one flow group")
        )
    _Expander(source, names, result).run()
    return result


def _clashes(source: Source, result: Expansion) -> None:
    """A factor has one origin: fixed, or one axis."""
    crossed: dict[str, AxisSource] = {}
    for axis in source.axes.values():
        for name in axis.factors:
            if (other := crossed.setdefault(name, axis)) is not axis:
                message = f"is crossed twice; the other axis is {other.name} at {other.where}"
                result.problem(Problem(axis.where, name, message))
            fixed = source.fixed.get(name)
            if fixed is not None and name in axis.always:
                message = f"is fixed here and crossed at {axis.where}"
                result.problem(Problem(fixed.key_where, name, message, "keep one of them"))


class _Expander:
    """One expansion; judges every statement once, makes shapes as they are met."""

    def __init__(self, source: Source, names: Names, result: Expansion) -> None:
        self._source = source
        self._names = names
        self._result = result
        self._broken: set[str] = set()
        self._groups = tuple(source.groups)
        self._fixed = self._judged(source.fixed)
        self._axes = [[self._judged(point) for point in axis.points] for axis in source.axes.values()]
        self._exclusions = [self._exclusion(rule) for rule in source.exclude or ()]
        self._included = [self._judged(rule.statements) for rule in source.include or ()]
        # cells of a matrix with mistakes are not made; they would lack factors
        self._sound = not (self._broken or source.incomplete or source.problems)
        shaping = shaping_names(names)
        self._shaping = [
            place
            for place, axis in enumerate(source.axes.values())
            if not shaping.isdisjoint(axis.factors) or axis.always != set(axis.factors)
        ]
        self._plain = [place for place in range(len(self._axes)) if place not in self._shaping]
        plain_axes: list[Sequence[JudgedPoint]] = [
            [tuple(point.values()) for point in self._axes[place]] for place in self._plain
        ]
        self._shaper = Shaper(names, source, plain_axes, frozenset(self._broken))
        self._include_shaper = Shaper(names, source, (), frozenset(self._broken))

    def run(self) -> None:
        """Makes the cells and notes what is worth telling."""
        cells: dict[str, Cell] = {}
        merged: dict[str, int] = {}
        for cell in itertools.chain(self._crossed(), self._added()):
            known = cells.setdefault(cell.id, cell)
            if known is cell:
                continue
            if known.factors != cell.factors:
                self._collision(known, cell)
            merged[cell.id] = merged.get(cell.id, 1) + 1
        self._unused()
        self._result.cells = tuple(cells.values())
        self._note(merged)
        if not cells and not self._result.problems and not self._source.incomplete:
            message = "no cell is left after exclude"
            self._result.problem(Problem(f"{self._source.path}:1:1", "", message))

    def _judged(self, point: Mapping[str, Statement]) -> dict[str, Judged]:
        """What the statements mean; those that mean nothing become problems."""
        result: dict[str, Judged] = {}
        for name, statement in point.items():
            judged = judge(self._names, statement)
            if isinstance(judged, Problem):
                self._broken.add(name)
                self._result.problem(judged)
            else:
                result[name] = judged
        return result

    def _crossed(self) -> Iterator[Cell]:
        """The cells of the crossed axes that no exclusion matches."""
        if not self._axes and self._included:
            return
        shapes: dict[tuple[int, ...], Shape] = {}
        shaping, plain = self._shaping, list(enumerate(self._plain))
        exclusions, groups = self._exclusions, self._groups
        for combination in itertools.product(*(range(len(axis)) for axis in self._axes)):
            key = tuple([combination[place] for place in shaping])
            shape = shapes.get(key)
            if shape is None:
                shape = shapes[key] = self._shaper.shape(self._chosen(combination))
            factors = dict(shape.base)
            problems = shape.problems
            for number, place in plain:
                update = shape.updates[number][combination[place]]
                factors.update(update.values)
                if update.problems:
                    problems += update.problems
            if exclusions and sum(rule.matches(factors) for rule in exclusions):  # each counts its hits
                continue
            if problems:
                self._result.problem(*problems)
            elif self._sound:
                yield Cell(MappingProxyType(factors), shape.given, shape.defaults, groups)

    def _chosen(self, combination: Sequence[int]) -> dict[str, Judged]:
        chosen = dict(self._fixed)
        for place in self._shaping:
            chosen.update(self._axes[place][combination[place]])
        return chosen

    def _added(self) -> Iterator[Cell]:
        """The cells of `include`, each the fixed factors with its own on top."""
        for point in self._included:
            shape = self._include_shaper.shape(self._fixed | point)
            self._result.problem(*shape.problems)
            if not shape.problems and self._sound:
                yield Cell(shape.base, shape.given, shape.defaults, self._groups)

    def _exclusion(self, rule: Rule) -> _Exclusion:
        patterns: list[tuple[str, Pattern]] = []
        for name, statement in rule.statements.items():
            meaning = self._names.meaning(name)
            if isinstance(meaning, Problem):
                where = statement.key_where
                self._result.problem(Problem(where, meaning.path, meaning.message, meaning.hint))
                continue
            self._result.problem(*self._bad_pattern(meaning, statement))
            raw = statement.raw
            text = ("true" if raw else "false") if isinstance(raw, bool) else str(raw)
            patterns.append((name, Pattern(text)))
        return _Exclusion(rule.where, patterns)

    def _bad_pattern(self, meaning: Meaning, statement: Statement) -> list[Problem]:
        """What is wrong with a pattern whatever the cells are."""
        name, raw, where = statement.name, statement.raw, statement.where
        if meaning.factor is None:
            offered = {
                param for entry in self._names.entries(meaning.owner).values() for param in entry.params
            }
            if meaning.param in offered:
                return []
            message = f"nothing in the catalog has a parameter {meaning.param}"
            return [Problem(statement.key_where, name, message, did_you_mean(meaning.param, sorted(offered)))]
        for alternative in Pattern(raw).exact if isinstance(raw, str) else (raw,):
            try:
                self._names.value(meaning.factor, name, alternative)
            except BadValueError as error:
                return [Problem(where, name, error.message, error.hint)]
        return []

    def _unused(self) -> None:
        """A crossed parameter that nothing in the matrix declares is a slip of the pen."""
        if self._source.incomplete:
            return
        said: set[str] = set()
        for axis in self._axes:
            for judged in (judged for point in axis for judged in point.values()):
                meaning = judged.meaning
                if meaning.factor is not None or judged.statement in self._shaper.used or judged.name in said:
                    continue
                if ("aqm" if meaning.owner == "aqm" else f"{meaning.owner}.cc") in self._broken:
                    continue
                said.add(judged.name)
                owners = list(self._shaper.drops.get(judged.name, ()))
                message = f"applies to none of {', '.join(owners)}"
                params = {
                    param
                    for name, entry in self._names.entries(meaning.owner).items()
                    if name in owners
                    for param in entry.params
                }
                hint = did_you_mean(meaning.param, sorted(params - {meaning.param}))
                self._result.problem(Problem(judged.statement.key_where, judged.name, message, hint))

    def _collision(self, first: Cell, second: Cell) -> None:
        differing = [
            name
            for name in sorted({*first.factors, *second.factors})
            if first.factors.get(name) != second.factors.get(name)
        ]
        message = f"two different cells have the id {first.id}; they differ in {', '.join(differing)}"
        self._result.problem(Problem(f"{self._source.path}:1:1", "", message, "change one of these slightly"))

    def _note(self, merged: Mapping[str, int]) -> None:
        notes = self._result.notes
        for name, owners in self._shaper.drops.items():
            notes.append(f"{name} does not apply to {', '.join(owners)}: dropped there")
        if merged:
            total, ids = sum(merged.values()), list(merged)
            more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
            became = "one" if len(ids) == 1 else str(len(ids))
            notes.append(f"{total} equal cells became {became}: {', '.join(ids[:_NAMED])}{more}")
        notes.extend(
            f"exclude at {rule.where} left out no cell" for rule in self._exclusions if not rule.hits
        )
