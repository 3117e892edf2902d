# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Expand a source into cells: cross the axes, exclude, include, merge equal cells."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from l4sbench.catalog import Bottleneck
from l4sbench.disk.document import reported
from l4sbench.disk.garbage import collector_paused
from l4sbench.disk.userfiles import MOST_PROBLEMS
from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean
from l4sbench.facts.cell import Cell
from l4sbench.matrix.naming import Meaning, Names, Resolved, resolve
from l4sbench.matrix.patterns import BAR, MAX_ALTERNATIVES, Pattern, with_commas
from l4sbench.matrix.shapes import Block, Owns, ResolvedPoint, ShapeMaker, halves, shaping_names
from l4sbench.text.units import PerPacket
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from l4sbench.facts.common import Common
    from l4sbench.matrix.reading import AxisSource, ListEntry, MatrixSource, Statement
    from l4sbench.text.parameters import Parameter
    from l4sbench.text.units import Value

MAX_CELLS = 1_000_000
_NAMED = 5  # number of examples in a note or message


@dataclass
class Expansion:
    """Result of expanding a source."""

    cells: tuple[Cell, ...] = ()
    notes: list[str] = field(default_factory=list)
    problems: dict[Problem, None] = field(default_factory=dict)

    def problem(self, *problems: Problem) -> None:
        """Add problems, each once.

        Raises:
            InputError: there are more than are reported; so many take long to find, too.
        """
        self.problems.update(dict.fromkeys(problems))
        if len(self.problems) > MOST_PROBLEMS:
            raise InputError(reported(list(self.problems)))


@dataclass
class _Exclusion:
    """An entry of `exclude`: cells that match every pattern are removed."""

    rule: ListEntry
    patterns: list[tuple[str, Pattern]]
    hits: int = 0

    def matches(self, common: Common, own: Mapping[str, Value]) -> bool:
        for name, pattern in self.patterns:
            value = own[name] if name in own else common.factors.get(name)
            if value is None or not pattern.matches(value):
                return False
        self.hits += 1
        return True


def expand(source: MatrixSource, names: Names, *, sample: bool = False) -> Expansion:
    """Return the cells of a source in order: crossed (the first axis changes slowest), then included.

    If `Expansion.problems` is not empty, the cells are not complete. With `sample` one of them stands for
    all of its shape, where these have no problems: that finds the problems without making all cells.
    """
    result = Expansion()
    _clashes(source, result)
    count = math.prod(len(axis.points) for axis in source.axes.values())
    if count > MAX_CELLS:
        where = next(iter(source.axes.values())).where
        number = str(count) if count < 10**18 else "more than 10^18"
        result.problem(Problem(where, "axes", f"{number} cells exceed the maximum of {MAX_CELLS}"))
        return result
    if not source.groups and not source.incomplete:
        message = "is missing; a matrix needs at least one flow group"
        result.problem(Problem(f"{source.path}:1:1", "flows", message))
    with collector_paused():
        _Expander(source, names, result, sample=sample).run()
    return result


def _clashes(source: MatrixSource, result: Expansion) -> None:
    """Report factors with more than one origin: fixed and an axis, or two axes."""
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
    """One expansion; resolves every statement once and makes shapes when it first needs them."""

    def __init__(self, source: MatrixSource, names: Names, result: Expansion, *, sample: bool) -> None:
        self._sample = sample
        self._source = source
        self._names = names
        self._result = result
        self._broken: set[str] = set()
        self._fixed = self._resolved(source.fixed)
        self._axes = [[self._resolved(point) for point in axis.points] for axis in source.axes.values()]
        self._exclusions = [self._exclusion(rule) for rule in source.exclude or ()]
        self._included = [self._resolved(rule.statements) for rule in source.include or ()]
        points = itertools.chain([self._fixed], *self._axes, self._included)
        self._scaled = [one for point in points for one in point.values() if isinstance(one.value, PerPacket)]
        # no cells are made of a matrix with problems: they would lack factors
        self._sound = not (self._broken or source.incomplete or source.problems)
        shaping = shaping_names(names)
        self._shaping = [
            place
            for place, axis in enumerate(source.axes.values())
            if not shaping.isdisjoint(axis.factors) or axis.always != set(axis.factors)
        ]
        self._plain = [place for place in range(len(self._axes)) if place not in self._shaping]
        plain_axes: list[Sequence[ResolvedPoint]] = [
            [tuple(point.values()) for point in self._axes[place]] for place in self._plain
        ]
        self._shaper = ShapeMaker(names, source, plain_axes, frozenset(self._broken))
        self._include_shaper = ShapeMaker(names, source, (), frozenset(self._broken), included=True)

    def run(self) -> None:
        """Make the cells and the notes."""
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
            message = "exclude removes all cells"
            self._result.problem(Problem(f"{self._source.path}:1:1", "", message))

    def _resolved(self, point: Mapping[str, Statement]) -> dict[str, Resolved]:
        """Resolve statements; those without a meaning become problems."""
        result: dict[str, Resolved] = {}
        for name, statement in point.items():
            resolved = resolve(self._names, statement)
            if isinstance(resolved, Problem):
                self._broken.add(name)
                self._result.problem(resolved)
            else:
                result[name] = resolved
        return result

    def _crossed(self) -> Iterator[Cell]:
        """Yield the cells of the crossed axes that no exclusion matches."""
        if not self._axes and self._included:
            return
        blocks: dict[tuple[int, ...], Block] = {}
        shared: dict[tuple[int, ...], Owns] = {}
        outer, inner = halves({number: len(self._axes[place]) for number, place in enumerate(self._plain)})
        shaping_of = _picker(self._shaping)
        outer_of = _picker([self._plain[number] for number in outer])
        inner_of = _picker([self._plain[number] for number in inner])
        exclusions = self._exclusions
        enough = set[tuple[int, ...]]()
        for combination in itertools.product(*(range(len(axis)) for axis in self._axes)):
            key = shaping_of(combination)
            if key in enough:
                continue
            block = blocks.get(key)
            if block is None:
                shape = self._shaper.shape(self._chosen(combination))
                block = blocks[key] = Block(shape, outer, inner, shared)
            common, own = block.common(outer_of(combination)), block.own(inner_of(combination))
            if exclusions and sum([rule.matches(common, own) for rule in exclusions]):  # each counts its hits
                continue
            if block.flawed and (problems := block.problems([combination[place] for place in self._plain])):
                self._result.problem(*problems)
            elif self._sound:
                yield self._settled(Cell(common, own))
            if self._sample and not block.flawed:
                enough.add(key)

    def _chosen(self, combination: Sequence[int]) -> dict[str, Resolved]:
        chosen = dict(self._fixed)
        for place in self._shaping:
            chosen.update(self._axes[place][combination[place]])
        return chosen

    def _added(self) -> Iterator[Cell]:
        """Yield the cells of `include`, each the fixed factors updated by its own."""
        for point in self._included:
            shape = self._include_shaper.shape(self._fixed | point)
            self._result.problem(*shape.problems)
            if not shape.problems and self._sound:
                yield self._settled(Cell.whole(shape.common))

    def _settled(self, cell: Cell) -> Cell:
        """Return a cell with the whole numbers that follow from its numbers per packet."""
        found: dict[str, Value] = {}
        for one in self._scaled:
            if (scale := cell.get(one.name)) != one.value or not isinstance(scale, PerPacket):
                continue
            number = Bottleneck(cell.rate, cell.rtt, cell.buffer_bdp).whole(scale)
            try:
                found[one.name] = cast("Parameter", one.meaning.factor).parse(number)
            except BadValueError as error:
                at = f"{cell.rate}, {cell.rtt} and a buffer of {cell.buffer_bdp:g} BDP"
                self._result.problem(
                    one.statement.problem(BadValueError(f"{scale} at {at}: {error.message}"))
                )
        return Cell.whole(cell.common.whole({**cell.own, **found})) if found else cell

    def _exclusion(self, rule: ListEntry) -> _Exclusion:
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
            patterns.append((name, Pattern.of(name, text)))
        return _Exclusion(rule, patterns)

    def _bad_pattern(self, meaning: Meaning, statement: Statement) -> list[Problem]:
        """Return the problems of a pattern that do not depend on cells."""
        name, raw = statement.name, statement.raw
        if isinstance(raw, str) and (meant := with_commas(raw)) is not None:
            return [statement.problem(BadValueError(BAR, f'write "{quoted(meant)}"' if meant else None))]
        if meaning.factor is None:
            offered = {
                param for entry in self._names.entries(meaning.owner).values() for param in entry.params
            }
            if meaning.param in offered:
                return []
            message = f"no entry of the catalog has a parameter {quoted(meaning.param)}"
            return [Problem(statement.key_where, name, message, did_you_mean(meaning.param, sorted(offered)))]
        if isinstance(raw, str) and raw.count(",") >= MAX_ALTERNATIVES:
            return [statement.problem(BadValueError(f"has more than {MAX_ALTERNATIVES} alternatives"))]
        for alternative in Pattern(raw).exact if isinstance(raw, str) else (raw,):
            try:
                self._names.value(meaning.factor, name, alternative)
            except BadValueError as error:
                return [statement.problem(error)]
        return []

    def _unused(self) -> None:
        """Report crossed parameters that nothing in the matrix declares; they are most likely typos."""
        if self._source.incomplete:
            return
        reported: set[str] = set()
        for axis in self._axes:
            for resolved in (resolved for point in axis for resolved in point.values()):
                meaning = resolved.meaning
                if (
                    meaning.factor is not None
                    or resolved.statement in self._shaper.used
                    or resolved.name in reported
                ):
                    continue
                if ("aqm" if meaning.owner == "aqm" else f"{meaning.owner}.cc") in self._broken:
                    continue
                reported.add(resolved.name)
                owners = list(self._shaper.drops.get(resolved.name, ()))
                message = f"does not apply to any of {', '.join(owners)}"
                params = {
                    param
                    for name, entry in self._names.entries(meaning.owner).items()
                    if name in owners
                    for param in entry.params
                }
                hint = did_you_mean(meaning.param, sorted(params - {meaning.param}))
                self._result.problem(Problem(resolved.statement.key_where, resolved.name, message, hint))

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
            notes.append(f"{name} does not apply to {', '.join(owners)} and is dropped there")
        if merged:
            total, ids = sum(merged.values()), list(merged)
            more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
            became = "one cell" if len(ids) == 1 else str(len(ids))
            notes.append(f"{total} equal cells were merged into {became}: {', '.join(ids[:_NAMED])}{more}")
        # most likely a typing error, but for a rule of another matrix, of which this one replaced axes
        unmatched = (own.rule for own in self._exclusions if not (own.hits or own.rule.inherited))
        notes.extend(f"exclude at {rule.where} matches no cell" for rule in unmatched)


def _picker(places: Sequence[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Return a function that picks these places of a tuple; it is called for every cell."""
    match places:
        case []:
            return lambda _: ()
        case [place]:
            return lambda combination: (combination[place],)
        case _:
            return itemgetter(*places)
