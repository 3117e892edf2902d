# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What cells with the same queue, congestion controls and places have in common: their shape.

A matrix of 100,000 cells has few shapes. Everything that needs the catalog (which parameters there are, their
defaults, what ECN a congestion control runs with) is settled once per shape; a cell is then a copy of the
shape's factors with the values of the other axes put in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.catalog import CongestionControl, Queue
from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.factors import FACTORS, GROUP_FACTORS
from l4sbench.matrix.naming import Judged, Names, param_value, when_text
from l4sbench.topology import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from l4sbench.matrix.reading import Source, Statement
    from l4sbench.units import Value

JudgedPoint: TypeAlias = tuple[Judged, ...]
Entry: TypeAlias = Queue | CongestionControl

_PLACING = ("from", "to")


@dataclass(frozen=True, slots=True)
class Update:
    """What one point of an axis sets in cells of a shape, and what is wrong with that."""

    values: Mapping[str, Value]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What its cells have in common.

    Attributes:
        base: every factor in order of its name; those of plain axes hold a placeholder.
        defaults: the defaults that hold here.
        given: the stated factors that apply here.
        updates: for each plain axis, what each of its points sets.
        problems: what is wrong with every cell of this shape.
    """

    base: Mapping[str, Value]
    defaults: Mapping[str, Value]
    given: frozenset[str]
    updates: tuple[tuple[Update, ...], ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A flow group as the topology's `place` wants to know it."""

    name: str
    sender: str | None
    receiver: str | None


@dataclass
class _Draft:
    """A shape in the making."""

    chosen: Mapping[str, Judged]
    values: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    applicable: dict[str, frozenset[str]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)


class Shaper:
    """Makes the shapes of one matrix.

    Attributes:
        used: statements of parameters that something declares.
        drops: where a crossed parameter was dropped: its name and the queue or congestion control.
    """

    def __init__(
        self,
        names: Names,
        source: Source,
        plain_axes: Sequence[Sequence[JudgedPoint]],
        broken: frozenset[str],
    ) -> None:
        self._names = names
        self._source = source
        self._plain = plain_axes
        self._broken = broken
        self._plain_names = frozenset(
            judged.name for axis in plain_axes for point in axis for judged in point
        )
        self.used: set[Statement] = set()
        self.drops: dict[str, dict[str, None]] = {}

    def shape(self, chosen: Mapping[str, Judged]) -> Shape:
        """The shape of cells for which `chosen` is stated, plain axes aside."""
        draft = _Draft(chosen)
        self._core(draft)
        for group in self._source.groups:
            self._group(draft, group)
        self._place(draft)
        updates = tuple(tuple(self._update(draft, point) for point in axis) for axis in self._plain)
        crossed = {name for axis in updates for update in axis for name in update.values}
        stated = (chosen.keys() | self._plain_names) - draft.dropped
        for name in crossed:
            draft.values.setdefault(name, "")
        base = {name: draft.values[name] for name in sorted(draft.values)}
        return Shape(
            base=MappingProxyType(base),
            defaults=MappingProxyType(draft.defaults),
            given=frozenset(stated & base.keys()),
            updates=updates,
            problems=tuple(draft.problems),
        )

    def _core(self, draft: _Draft) -> None:
        for name, factor in FACTORS.items():
            self._declared(draft, name, factor.default, required=factor.required)
        if (queue := self._names.catalog.queues.get(str(draft.values.get("aqm")))) is not None:
            self._params(draft, "aqm", queue)

    def _group(self, draft: _Draft, group: str) -> None:
        for rest, factor in GROUP_FACTORS.items():
            self._declared(draft, f"{group}.{rest}", factor.default, required=factor.required)
        control = self._names.catalog.congestion_controls.get(str(draft.values.get(f"{group}.cc")))
        if control is None:
            return
        self._params(draft, group, control)
        ecn = f"{group}.ecn"
        draft.defaults[ecn] = control.ecn_default
        draft.values.setdefault(ecn, control.ecn_default)
        if (judged := draft.chosen.get(ecn)) is not None:
            draft.problems += self._ecn(draft, judged)

    def _declared(self, draft: _Draft, name: str, default: Value | None, *, required: bool) -> None:
        """A core factor or one of a group: what is stated, else its default."""
        if default is not None:
            draft.defaults[name] = draft.values[name] = default
        judged = draft.chosen.get(name)
        if judged is not None and judged.value is not None:
            draft.values[name] = judged.value
        elif required and name not in self._plain_names | self._broken and not self._source.incomplete:
            group = name.partition(".")[0]
            where = self._source.groups.get(group, f"{self._source.path}:1:1")
            draft.problems.append(Problem(where, name, "is missing: every cell needs it"))

    def _params(self, draft: _Draft, owner: str, entry: Entry) -> None:
        """The parameters of a queue or congestion control: what is stated, else their defaults."""
        draft.entries[owner] = entry
        given: dict[str, Value] = {}
        stated = [
            judged
            for judged in draft.chosen.values()
            if judged.meaning.owner == owner and judged.meaning.factor is None
        ]
        for judged in stated:
            param = entry.params.get(judged.meaning.param)
            value = param_value(param, judged) if param is not None else None
            if value is not None and not isinstance(value, Problem):
                given[judged.meaning.param] = value
        draft.applicable[owner] = applicable = entry.applicable(given)
        for name, param in entry.params.items():
            if name in applicable and param.default is not None:
                draft.defaults[f"{owner}.{name}"] = draft.values[f"{owner}.{name}"] = param.default
        for judged in stated:
            values, problems = self._settle(draft, judged)
            draft.values |= values
            draft.problems += problems

    def _update(self, draft: _Draft, point: JudgedPoint) -> Update:
        """What a point of a plain axis comes to in this shape."""
        values: dict[str, Value] = {}
        problems: list[Problem] = []
        for judged in point:
            if judged.value is not None:
                values[judged.name] = judged.value
                problems += self._ecn(draft, judged)
            else:
                settled, wrong = self._settle(draft, judged)
                values |= settled
                problems += wrong
        return Update(MappingProxyType(values), tuple(problems))

    def _settle(self, draft: _Draft, judged: Judged) -> tuple[dict[str, Value], list[Problem]]:
        """The value of a stated parameter where its owner has it; dropped or a problem where not."""
        meaning, name = judged.meaning, judged.name
        entry = draft.entries.get(meaning.owner)
        if entry is None:  # the owner is unknown, and that has been said
            self.used.add(judged.statement)
            return {}, []
        param = entry.params.get(meaning.param)
        if param is not None and meaning.param in draft.applicable[meaning.owner]:
            self.used.add(judged.statement)
            value = param_value(param, judged)
            return ({}, [value]) if isinstance(value, Problem) else ({name: value}, [])
        if judged.statement.origin == "axis":
            draft.dropped.add(name)
            self.drops.setdefault(name, {})[entry.name] = None
            return {}, []
        self.used.add(judged.statement)
        statement = judged.statement
        if param is not None:
            message = f"applies to {entry.name} only where {when_text(param.when, meaning.owner)}"
            return {}, [Problem(statement.where, name, message)]
        message = f"{entry.name} has no parameter {meaning.param}"
        return {}, [Problem(statement.key_where, name, message, self._param_hint(judged, entry))]

    def _param_hint(self, judged: Judged, entry: Entry) -> str:
        """What a parameter that `entry` lacks may have been meant to be."""
        owner, param = judged.meaning.owner, judged.meaning.param
        offered = [*entry.params, *(GROUP_FACTORS if owner != "aqm" else ())]
        if (close := did_you_mean(param, offered)) is not None:
            return close
        if any(param in other.params for other in self._names.entries(owner).values()):
            return (
                f"as an axis, {judged.name}: [{judged.statement.raw}], it is dropped where it does not apply"
            )
        return f"it has {', '.join(entry.params) or 'none'}"

    def _ecn(self, draft: _Draft, judged: Judged) -> list[Problem]:
        """Whether the group's congestion control runs with the stated way of using ECN."""
        group = judged.meaning.owner
        entry = draft.entries.get(group)
        factor = judged.meaning.factor
        if factor is None or factor.name != "ecn" or not isinstance(entry, CongestionControl):
            return []
        if judged.value in entry.ecn_allowed:
            return []
        message = f"{entry.name} does not run with ECN {judged.value}"
        hint = f"it runs with {', '.join(entry.ecn_allowed)}"
        if judged.statement.origin == "axis":
            hint += "; leave the combination out by exclude"
        return [Problem(judged.statement.where, judged.name, message, hint)]

    def _place(self, draft: _Draft) -> None:
        """Whether every group finds its nodes in the topology."""
        found = TOPOLOGIES.get(str(draft.values.get("topology")))
        if found is None:
            return
        groups = [self._placed(draft, group) for group in self._source.groups]
        try:
            found.place(groups)
        except InputError as error:
            draft.problems += [self._located(draft, problem) for problem in error.problems]

    def _placed(self, draft: _Draft, group: str) -> _Placed:
        sender, receiver = (draft.values.get(f"{group}.{end}") for end in _PLACING)
        return _Placed(group, str(sender) if sender else None, str(receiver) if receiver else None)

    def _located(self, draft: _Draft, problem: Problem) -> Problem:
        judged = draft.chosen.get(problem.path)
        where = judged.statement.where if judged else self._source.groups.get(problem.path, "")
        return Problem(where, problem.path, problem.message, problem.hint)


def shaping_names(names: Names) -> frozenset[str]:
    """Factors whose value decides on what other factors a cell has, or on whether they fit together."""
    found = {"aqm", "topology"}
    for group in names.groups:
        found.add(f"{group}.cc")
        found.update(f"{group}.{end}" for end in _PLACING)
        found.update(f"{group}.{name}" for name in _selectors(names.entries(group).values()))
    found.update(f"aqm.{name}" for name in _selectors(names.entries("aqm").values()))
    return frozenset(found)


def _selectors(entries: Iterable[Entry]) -> set[str]:
    """Parameters on which others depend."""
    return {name for entry in entries for param in entry.params.values() for name in param.when}
