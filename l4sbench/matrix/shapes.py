# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Shapes: what cells with the same queue, congestion controls and nodes have in common.

A matrix of 100,000 cells has few shapes. Everything that needs the catalog (parameters, their defaults, ECN
modes of congestion controls) is computed once per shape; a cell is then a copy of the shape's factors updated
with the values of the other axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from l4sbench.catalog import CongestionControl
from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.facts.common import Common
from l4sbench.facts.factors import (
    EVENT_AT,
    EVENT_FACTORS,
    EVENT_TIMES,
    EVENTS,
    FACTORS,
    GROUP_FACTORS,
    HOSTS,
    Owner,
    name_of,
)
from l4sbench.matrix.naming import Names, Resolved, param_value, when_text
from l4sbench.text.wording import quoted
from l4sbench.traffic import DEFAULT_SEND, SENDS, kind_of_send
from l4sbench.traffic.send import CODEPOINT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from l4sbench.catalog import CatalogEntry
    from l4sbench.matrix.reading import MatrixSource, Statement
    from l4sbench.text.units import Value

ResolvedPoint: TypeAlias = tuple[Resolved, ...]

_MOST_INNER: Final = 2_000
"""A million cells are at their smallest if common factors and values of axes are about equally many."""


@dataclass(frozen=True, slots=True)
class Update:
    """Values that one point of an axis sets in the cells of a shape, and the problems of that."""

    values: Mapping[str, Value]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Common factors of cells.

    Attributes:
        common: what the cells have in common; the factors of plain axes vary.
        updates: for each plain axis, the values that each of its points sets; shapes with equal ones share
            them.
        problems: problems of all cells of this shape.
    """

    common: Common
    updates: tuple[tuple[Update, ...], ...]
    problems: tuple[Problem, ...]


Owns: TypeAlias = "dict[tuple[int, ...], Mapping[str, Value]]"

_OF_TCP: Final = frozenset({"cc", "ecn", "receiver_ecn", "initial_window"})
"""Factors of a flow group that only TCP of Linux has."""


class Block:
    """The cells of one shape as pairs: common factors, and the values of some axes.

    Each of the two is made once, so that a million cells are made of a few thousand of them. Outer axes go
    into the common factors. The values of inner axes are shared by all blocks in which they are the same.
    """

    def __init__(
        self, shape: Shape, outer: Sequence[int], inner: Sequence[int], shared: dict[tuple[int, ...], Owns]
    ) -> None:
        self.shape = shape
        self._outer = [shape.updates[number] for number in outer]
        self._inner = [shape.updates[number] for number in inner]
        self._commons: dict[tuple[int, ...], Common] = {}
        self._owns = shared.setdefault(tuple(map(id, self._inner)), {})
        self.flawed = bool(shape.problems) or any(point.problems for axis in shape.updates for point in axis)

    def problems(self, points: Sequence[int]) -> list[Problem]:
        """Return the problems of the cell at these points of all plain axes."""
        updates = (axis[point] for axis, point in zip(self.shape.updates, points, strict=True))
        return [*self.shape.problems, *(problem for update in updates for problem in update.problems)]

    def common(self, points: tuple[int, ...]) -> Common:
        """Return the common factors of cells at these points of the outer axes."""
        found = self._commons.get(points)
        if found is None:
            common, values = self.shape.common, _values(self._outer, points)
            found = self._commons[points] = replace(
                common, factors=common.with_own(values), varying=common.varying - values.keys()
            )
        return found

    def own(self, points: tuple[int, ...]) -> Mapping[str, Value]:
        """Return the values of cells at these points of the inner axes."""
        found = self._owns.get(points)
        if found is None:
            found = self._owns[points] = _values(self._inner, points)
        return found


def _values(axes: Sequence[Sequence[Update]], points: Sequence[int]) -> Mapping[str, Value]:
    updates = (axis[point] for axis, point in zip(axes, points, strict=True))
    return {name: value for update in updates for name, value in update.values.items()}


def halves(axes: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Return which axes of these numbers of points are outer and which inner.

    The inner ones have at most `_MOST_INNER` points together, or are a single one.
    """
    inner: list[int] = []
    points = 1
    for number in sorted(axes, key=lambda number: -axes[number]):
        if not inner or points * axes[number] <= _MOST_INNER:
            inner.append(number)
            points *= axes[number]
    return [number for number in axes if number not in inner], sorted(inner)


@dataclass
class _Draft:
    """A shape under construction."""

    chosen: Mapping[str, Resolved]
    groups: tuple[str, ...]
    values: dict[str, Value] = field(default_factory=dict)
    defaults: dict[str, Value] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    entries: dict[str, CatalogEntry] = field(default_factory=dict)
    applicable: dict[str, frozenset[str]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)


class ShapeMaker:
    """Makes the shapes of one matrix; those of `included` cells lack flow groups of which nothing is stated.

    Attributes:
        used: statements of parameters that an entry declares.
        drops: crossed parameters that were dropped -> the queues or congestion controls without them.
    """

    def __init__(
        self,
        names: Names,
        source: MatrixSource,
        plain_axes: Sequence[Sequence[ResolvedPoint]],
        broken: frozenset[str],
        *,
        included: bool = False,
    ) -> None:
        self._names = names
        self._source = source
        self._included = included
        self._plain = plain_axes
        self._broken = broken
        self._plain_names = frozenset(
            resolved.name for axis in plain_axes for point in axis for resolved in point
        )
        self._updates: dict[object, Update] = {}
        self._axes_of_updates: dict[tuple[int, ...], tuple[Update, ...]] = {}
        self.used: set[Statement] = set()
        self.drops: dict[str, dict[str, None]] = {}

    def shape(self, chosen: Mapping[str, Resolved]) -> Shape:
        """Return the shape of the cells for which `chosen` is stated, apart from plain axes."""
        draft = _Draft(chosen, self._groups(chosen))
        self._core(draft)
        for group in draft.groups:
            self._group(draft, group)
        self._events(draft)
        self._place(draft)
        updates = tuple(self._shared(self._update(draft, point) for point in axis) for axis in self._plain)
        crossed = {name for axis in updates for update in axis for name in update.values}
        stated = (chosen.keys() | self._plain_names) - draft.dropped
        for name in crossed:
            draft.values.setdefault(name, "")
        base = {name: draft.values[name] for name in sorted(draft.values)}
        common = Common(
            factors=MappingProxyType(base),
            given=frozenset(stated & base.keys()),
            defaults=MappingProxyType(draft.defaults),
            group_names=draft.groups,
            varying=frozenset(crossed),
        )
        return Shape(common, updates, tuple(draft.problems))

    def _groups(self, chosen: Mapping[str, Resolved]) -> tuple[str, ...]:
        """Return the flow groups of cells: all of the matrix, or those of an included cell."""
        if not self._included:
            return tuple(self._source.groups)
        stated = {resolved.meaning.owner for resolved in chosen.values()}
        stated |= {name_of(name).group for name in self._broken}
        own = tuple(group for group in self._source.groups if group in stated)
        return own or tuple(self._source.groups)  # without any it is reported what they lack

    def _core(self, draft: _Draft) -> None:
        host = draft.chosen.get("host")
        profile = HOSTS.get(str(host.value), {}) if host else {}
        for name, factor in FACTORS.items():
            self._declared(draft, name, profile.get(name, factor.default), required=factor.required)
        if (queue := self._names.catalog.queues.get(str(draft.values.get("aqm")))) is not None:
            self._params(draft, "aqm", queue)

    def _group(self, draft: _Draft, group: str) -> None:
        by_tcp, sends = True, SENDS[DEFAULT_SEND]
        for rest, factor in GROUP_FACTORS.items():
            self._declared(draft, f"{group}.{rest}", factor.default, required=factor.required and by_tcp)
            if rest == "send":  # it is the first: the others depend on it
                sends = kind_of_send(str(draft.values[f"{group}.send"]))
                by_tcp = sends.by_tcp and f"{group}.send" not in self._broken
        if sends.has_controls:
            self._sender(draft, group)
            return
        if not sends.by_tcp:
            self._without_cc(draft, group)
            return
        control = self._names.catalog.congestion_controls.get(str(draft.values.get(f"{group}.cc")))
        if control is None:
            stated = draft.chosen.get(f"{group}.cc")
            if stated is not None and stated.value is not None:
                draft.problems.append(self._of_a_sender(stated))
            return
        self._params(draft, group, control)
        ecn = f"{group}.ecn"
        draft.defaults[ecn] = control.ecn_default
        draft.values.setdefault(ecn, control.ecn_default)
        if (resolved := draft.chosen.get(ecn)) is not None:
            draft.problems += self._ecn(draft, resolved)

    def _sender(self, draft: _Draft, group: str) -> None:
        """Set what a group's sender offers: its congestion control, by its full name, and its codepoint."""
        sender = self._names.catalog.sender(str(draft.values[f"{group}.send"]))
        cc, codepoint = f"{group}.cc", f"{group}.{CODEPOINT.name}"
        first = next(iter(sender.controls.values()))
        stated, control = draft.chosen.get(cc), first
        if stated is not None and stated.value is not None:
            named = sender.control(str(stated.value))
            if named is None:
                draft.problems.append(_not_offered(stated, sender.name, sender.stated.ccs))
            control = named or first
        draft.defaults[cc], draft.values[cc] = first.name, control.name
        draft.defaults[codepoint] = control.codepoints[0]
        draft.values.setdefault(codepoint, control.codepoints[0])
        wanted = draft.chosen.get(codepoint)
        if wanted is not None and wanted.value not in control.codepoints:
            by = (
                sender.name
                if control.codepoints == sender.codepoints
                else f"{sender.name} with {control.own}"
            )
            draft.problems.append(_not_offered(wanted, by, control.codepoints))
        self._without_cc(draft, group, but=frozenset({"cc"}))

    def _of_a_sender(self, stated: Resolved) -> Problem:
        """Return the problem of a congestion control that only senders have, in a group without one."""
        name = str(stated.value)
        having = [one.name for one in self._names.catalog.senders.values() if one.control(name)]
        message = f"{quoted(name)} is a congestion control of {', '.join(having)}, not of Linux"
        return Problem(stated.statement.where, stated.name, message, f"write send: {having[0]}")

    def _without_cc(self, draft: _Draft, group: str, but: frozenset[str] = frozenset()) -> None:
        """Report what only TCP of Linux has, `but` some: a congestion control, its ECN, its parameters."""
        send = draft.values[f"{group}.send"]
        for name, resolved in draft.chosen.items():
            if resolved.meaning.owner != group:
                continue
            if resolved.meaning.factor is None:
                self.used.add(resolved.statement)
            elif resolved.meaning.factor.name not in _OF_TCP - but:
                continue
            message = f"does not apply to {group}.send: {send}, which TCP does not send"
            draft.problems.append(Problem(resolved.statement.key_where, name, message))
            draft.values.pop(name, None)

    def _events(self, draft: _Draft) -> None:
        """Set the factors of the events that these cells have: those of which a factor is stated."""
        keys: dict[str, set[str]] = {}
        for name in draft.chosen.keys() | self._plain_names:
            kind, event, key = name_of(name)
            if kind is Owner.EVENT:
                keys.setdefault(event, set()).add(key)
        for event, stated in sorted(keys.items()):
            for key, factor in EVENT_FACTORS.items():
                self._declared(draft, f"{EVENTS}.{event}.{key}", factor.default, required=False)
            if self._source.incomplete or not self._broken.isdisjoint(
                f"{EVENTS}.{event}.{k}" for k in EVENT_FACTORS
            ):
                continue
            lacking = ""
            if EVENT_AT not in stated:
                lacking = "its instant, such as at: 20s"
            elif stated <= EVENT_TIMES:
                changes = (key for key in EVENT_FACTORS if key not in EVENT_TIMES)
                lacking = f"what it changes: {', '.join(changes)}"
            if lacking:
                message = f"lacks {lacking}"
                draft.problems.append(Problem(self._place_of(draft, event), f"{EVENTS}.{event}", message))

    def _place_of(self, draft: _Draft, event: str) -> str:
        """Return the position of the first factor that is stated of an event."""
        axes = (resolved for axis in self._plain for point in axis for resolved in point)
        for resolved in (*draft.chosen.values(), *axes):
            kind, owner, _ = name_of(resolved.name)
            if kind is Owner.EVENT and owner == event:
                return resolved.statement.key_where
        return f"{self._source.path}:1:1"

    def _declared(self, draft: _Draft, name: str, default: Value | None, *, required: bool) -> None:
        """Set a core factor or a factor of a group: as stated, else its default."""
        if default is not None:
            draft.defaults[name] = draft.values[name] = default
        resolved = draft.chosen.get(name)
        if resolved is not None and resolved.value is not None:
            draft.values[name] = resolved.value
        elif required and name not in self._plain_names | self._broken and not self._source.incomplete:
            where = self._source.groups.get(name_of(name).owner, f"{self._source.path}:1:1")
            draft.problems.append(Problem(where, name, "is missing; every cell needs it"))

    def _params(self, draft: _Draft, owner: str, entry: CatalogEntry) -> None:
        """Set the parameters of a queue or congestion control: as stated, else their defaults."""
        draft.entries[owner] = entry
        given: dict[str, Value] = {}
        stated = [
            resolved
            for resolved in draft.chosen.values()
            if resolved.meaning.owner == owner and resolved.meaning.factor is None
        ]
        for resolved in stated:
            param = entry.params.get(resolved.meaning.param)
            value = param_value(param, resolved) if param is not None else None
            if value is not None and not isinstance(value, Problem):
                given[resolved.meaning.param] = value
        draft.applicable[owner] = applicable = entry.applicable(given)
        for name, param in entry.params.items():
            if name in applicable and param.default is not None:
                draft.defaults[f"{owner}.{name}"] = draft.values[f"{owner}.{name}"] = param.default
        for resolved in stated:
            values, problems = self._settle(draft, resolved)
            draft.values |= values
            draft.problems += problems

    def _update(self, draft: _Draft, point: ResolvedPoint) -> Update:
        """Return what a point of a plain axis sets in this shape."""
        values: dict[str, Value] = {}
        problems: list[Problem] = []
        for resolved in point:
            if resolved.value is not None:
                values[resolved.name] = resolved.value
                problems += self._ecn(draft, resolved)
            else:
                settled, wrong = self._settle(draft, resolved)
                values |= settled
                problems += wrong
        key = (tuple((name, type(value), value) for name, value in values.items()), *problems)
        return self._updates.setdefault(key, Update(values, tuple(problems)))

    def _shared(self, updates: Iterable[Update]) -> tuple[Update, ...]:
        found = tuple(updates)
        return self._axes_of_updates.setdefault(tuple(map(id, found)), found)

    def _settle(self, draft: _Draft, resolved: Resolved) -> tuple[dict[str, Value], list[Problem]]:
        """Return the value of a stated parameter if its owner has it; else drop it or return problems."""
        meaning, name = resolved.meaning, resolved.name
        entry = draft.entries.get(meaning.owner)
        if entry is None:  # the owner is unknown, which has been reported
            self.used.add(resolved.statement)
            return {}, []
        param = entry.params.get(meaning.param)
        if param is not None and meaning.param in draft.applicable[meaning.owner]:
            self.used.add(resolved.statement)
            value = param_value(param, resolved)
            return ({}, [value]) if isinstance(value, Problem) else ({name: value}, [])
        if resolved.statement.origin == "axis":
            draft.dropped.add(name)
            self.drops.setdefault(name, {})[entry.name] = None
            return {}, []
        self.used.add(resolved.statement)
        statement = resolved.statement
        if param is not None:
            message = f"applies to {entry.name} only where {when_text(param.when, meaning.owner)}"
            return {}, [Problem(statement.where, name, message)]
        message = f"{entry.name} has no parameter {quoted(meaning.param)}"
        return {}, [Problem(statement.key_where, name, message, self._param_hint(resolved, entry))]

    def _param_hint(self, resolved: Resolved, entry: CatalogEntry) -> str:
        """Return a hint about a parameter that `entry` does not have."""
        owner, param = resolved.meaning.owner, resolved.meaning.param
        offered = [*entry.params, *(GROUP_FACTORS if owner != "aqm" else ())]
        if (close := did_you_mean(param, offered)) is not None:
            return close
        if any(param in other.params for other in self._names.entries(owner).values()):
            value = quoted(str(resolved.statement.raw))
            return f"write it as an axis to drop it where it does not apply: [{value}]"
        return f"choose from {', '.join(entry.params)}" if entry.params else f"{entry.name} has no parameters"

    def _ecn(self, draft: _Draft, resolved: Resolved) -> list[Problem]:
        """Check that the group's congestion control supports the stated ECN mode."""
        group = resolved.meaning.owner
        entry = draft.entries.get(group)
        factor = resolved.meaning.factor
        if factor is None or factor.name != "ecn" or not isinstance(entry, CongestionControl):
            return []
        if resolved.value in entry.ecn_allowed:
            return []
        message = f"{entry.name} does not support ECN mode {resolved.value}"
        hint = f"choose from {', '.join(entry.ecn_allowed)}"
        if resolved.statement.origin == "axis":
            hint += ", or exclude the combination"
        return [Problem(resolved.statement.where, resolved.name, message, hint)]

    def _place(self, draft: _Draft) -> None:
        """Check that every group finds its nodes in the topology."""
        found = self._names.catalog.topology(str(draft.values["topology"]))
        nodes = {
            group: (draft.values.get(f"{group}.from"), draft.values.get(f"{group}.to"))
            for group in draft.groups
        }
        try:
            found.place(cast("dict[str, tuple[str | None, str | None]]", nodes))
        except InputError as error:
            draft.problems += [self._located(draft, problem) for problem in error.problems]

    def _located(self, draft: _Draft, problem: Problem) -> Problem:
        resolved = draft.chosen.get(problem.path)
        where = resolved.statement.where if resolved else self._source.groups.get(problem.path, "")
        return replace(problem, where=where)


def _not_offered(resolved: Resolved, sender: str, offered: Iterable[str]) -> Problem:
    """Return the problem of a congestion control or codepoint that a sender does not have."""
    message = f"sender {sender} does not offer {quoted(str(resolved.value))}"
    hint = f"choose from {', '.join(offered)}"
    if resolved.statement.origin == "axis":
        hint += ", or exclude the combination"
    return Problem(resolved.statement.where, resolved.name, message, hint)


def shaping_names(names: Names) -> frozenset[str]:
    """Return the factors whose values determine which other factors a cell has, or whether they are valid."""
    found = {"aqm", "topology", "host"}
    for group in names.groups:
        found.update(f"{group}.{name}" for name in ("send", "cc", "codepoint", "from", "to"))
        found.update(f"{group}.{name}" for name in _selectors(names.entries(group).values()))
    found.update(f"aqm.{name}" for name in _selectors(names.entries("aqm").values()))
    return frozenset(found)


def _selectors(entries: Iterable[CatalogEntry]) -> set[str]:
    """Return the parameters that others depend on."""
    return {name for entry in entries for param in entry.params.values() for name in param.when}
