# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a factor's name means in a matrix, and whether a stated value can be meant at all.

Core factors and those of flow groups are judged here, once per statement. Parameters are judged per queue and
congestion control, in `l4sbench.matrix.shapes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.factors import FACTORS, GROUP_FACTORS, BadValueError, Factor, boolean_hint, shown
from l4sbench.topology import topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from l4sbench.catalog import Catalog, CongestionControl, Param, Queue
    from l4sbench.matrix.reading import Statement
    from l4sbench.units import Value

SETTINGS = (
    "matrix",
    "description",
    "extends",
    "catalog",
    "trials",
    "rule",
    "baselines",
    "seed",
    "flows",
    "axes",
    "exclude",
    "include",
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name stands for: a declared factor, or a parameter of `owner` (`aqm` or a flow group)."""

    factor: Factor | None = None
    owner: str = ""
    param: str = ""


class Names:
    """The names that mean something in a matrix with these flow groups and this catalog."""

    def __init__(self, groups: Iterable[str], catalog: Catalog) -> None:
        self.groups = tuple(groups)
        self.catalog = catalog
        self._known: dict[str, Meaning | Problem] = {}
        self._checks: dict[str, Callable[[str, str], object]] = {
            "aqm": lambda name, _path: catalog.queue(name),
            "cc": catalog.congestion_control,
            "topology": lambda name, _path: topology(name),
        }

    def meaning(self, name: str) -> Meaning | Problem:
        """What `name` stands for; a problem without a place when it stands for nothing."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Meaning | Problem:
        if (factor := FACTORS.get(name)) is not None:
            return Meaning(factor)
        head, dot, rest = name.partition(".")
        if dot and rest and head == "aqm":
            return Meaning(owner=head, param=rest)
        if dot and rest and head in self.groups:
            if (factor := GROUP_FACTORS.get(rest)) is not None:
                return Meaning(factor, owner=head)
            return Meaning(owner=head, param=rest)
        return self._unknown(name, head, rest)

    def _unknown(self, name: str, head: str, rest: str) -> Problem:
        """Why `name` means nothing, with what it may have been meant to be."""
        if head in FACTORS and rest:
            return Problem("", name, f"unknown key: {head} has no parameters", did_you_mean(name, FACTORS))
        core = did_you_mean(name, FACTORS)
        if not rest:
            if name in self.groups:
                return Problem(
                    "", name, "unknown key", f"factors of a flow group are dotted, such as {name}.ecn"
                )
            return Problem("", name, "unknown key", core or did_you_mean(name, [*SETTINGS, *self.groups]))
        if core is not None:
            return Problem("", name, "unknown key", core)
        close = did_you_mean(head, self.groups)
        groups = (
            f"the flow groups are {', '.join(self.groups)}" if self.groups else "there are no flow groups"
        )
        hint = None
        if close is not None:
            hint = did_you_mean(name, [f"{group}.{rest}" for group in self.groups]) or close
        return Problem("", name, f"no flow group is called {head}; {groups}", hint)

    def value(self, factor: Factor, name: str, raw: Any) -> Value:
        """The value `raw` stands for as core factor or factor of a group.

        Raises:
            BadValueError: it is none, or names what the catalog does not offer.
        """
        value = factor.parse(raw)
        if isinstance(value, str) and (check := self._checks.get(factor.name)) is not None:
            try:
                check(value, name)
            except InputError as error:
                problem = error.problems[0]
                raise BadValueError(problem.message, problem.hint) from None
        return value

    def entries(self, owner: str) -> Mapping[str, Queue | CongestionControl]:
        """What may declare parameters for `owner`: the queues, or the congestion controls."""
        return self.catalog.queues if owner == "aqm" else self.catalog.congestion_controls


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement and what it means; `value` is None where it is a parameter's and depends on the cell."""

    statement: Statement
    meaning: Meaning
    value: Value | None

    @property
    def name(self) -> str:
        """The factor's dotted name."""
        return self.statement.name


def judge(names: Names, statement: Statement) -> Judged | Problem:
    """What a statement means, or what is wrong with it wherever it is used."""
    meaning = names.meaning(statement.name)
    if isinstance(meaning, Problem):
        return Problem(statement.key_where, meaning.path, meaning.message, meaning.hint)
    if meaning.factor is None:
        return Judged(statement, meaning, None)
    try:
        return Judged(statement, meaning, names.value(meaning.factor, statement.name, statement.raw))
    except BadValueError as error:
        return Problem(statement.where, statement.name, error.message, error.hint)


def param_value(param: Param, judged: Judged) -> Value | Problem:
    """The value that a statement gives to a parameter as its owner declares it."""
    raw, where, name = judged.statement.raw, judged.statement.where, judged.name
    if isinstance(raw, bool) and param.kind == "str":
        hint = boolean_hint(raw, param.choices)
        return Problem(where, name, f"expected a word, but {shown(raw)} is a boolean", hint)
    try:
        if param.kind in _UNITS and raw not in param.words:  # its messages tell the hint apart
            Factor(name, param.kind, "", unit=_UNITS[param.kind]).parse(raw)
        return param.parse(raw)
    except BadValueError as error:
        return Problem(where, name, error.message, error.hint)
    except ValueError as error:
        hint = did_you_mean(raw, param.choices) if param.choices and isinstance(raw, str) else None
        return Problem(where, name, str(error), hint)


_UNITS: Mapping[str, str] = {"rate": "mbit", "duration": "ms", "size": "B", "packets": "p"}


def when_text(when: Mapping[str, Iterable[Value]], owner: str) -> str:
    """A parameter's condition as an error message says it."""
    return " and ".join(
        f"{owner}.{name} is {' or '.join(str(value) for value in values)}" for name, values in when.items()
    )
