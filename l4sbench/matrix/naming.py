# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The meaning of names and values in a matrix.

Core factors and those of flow groups are resolved here, once per statement. Parameters are resolved per queue
and congestion control, in `l4sbench.matrix.shapes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean, suggest
from l4sbench.facts.factors import EVENT_FACTORS, EVENTS, FACTORS, GROUP_FACTORS, Owner, name_of
from l4sbench.text.wording import quoted
from l4sbench.topology import is_path
from l4sbench.traffic import SENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from l4sbench.catalog import Catalog, CatalogEntry
    from l4sbench.matrix.reading import Statement
    from l4sbench.text.parameters import Parameter, Reference
    from l4sbench.text.units import Value

SETTINGS = (
    "matrix",
    "description",
    "extends",
    "origin",
    "licence",
    "catalog",
    "trials",
    "rule",
    "roles",
    "baselines",
    "seed",
    "spread",
    "quick",
    "flows",
    "events",
    "axes",
    "exclude",
    "include",
)


_MEANT: Final = {
    "name": "matrix",
    **dict.fromkeys(("queue", "qdisc"), "aqm"),
    "bandwidth": "rate",
    "delay": "rtt",
    **dict.fromkeys(("repetitions", "runs"), "trials"),
}
"""Keys of other tools -> what they are called here."""


def _workload(name: str, path: str) -> object:
    from l4sbench.disk.workloads import workload

    return workload(name, path)


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a name: a declared factor, or a parameter of `owner` (`aqm` or a flow group)."""

    factor: Parameter | None = None
    owner: str = ""
    param: str = ""


class Names:
    """The valid names in a matrix with these flow groups and this catalog."""

    def __init__(self, groups: Iterable[str], catalog: Catalog) -> None:
        self.groups = tuple(groups)
        self.catalog = catalog
        self._known: dict[str, Meaning | Problem] = {}
        self._checks: dict[Reference, Callable[[str, str], object]] = {
            "queue": lambda name, _path: catalog.queue(name),
            "cc": self._control,
            "topology": lambda name, _path: catalog.topology(name),
            "workload": _workload,
            "send": self._send,
            "program": self._executable,
        }

    def _send(self, name: str, _path: str) -> object:
        return name in SENDS or self.catalog.sender(name)

    def _control(self, name: str, path: str) -> object:
        """Look a congestion control up; that of a sender is one only beside its sender."""
        controls = self.catalog.congestion_controls
        if name not in controls and any(one.control(name) for one in self.catalog.senders.values()):
            return name
        return self.catalog.congestion_control(name, path)

    def _executable(self, command: str, path: str) -> object:
        from l4sbench.disk.executables import command_of

        return self.catalog.executable(command_of(command).program, path)

    def meaning(self, name: str) -> Meaning | Problem:
        """Return the meaning of `name`, or a problem without a position if it has none."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Meaning | Problem:
        if (factor := FACTORS.get(name)) is not None:
            return Meaning(factor)
        kind, owner, key = name_of(name)
        if kind is Owner.EVENT:
            if (factor := EVENT_FACTORS.get(key)) is not None:
                return Meaning(factor)
            return Problem("", name, f"an event cannot change {quoted(key)}", suggest(key, EVENT_FACTORS))
        if key and (kind is Owner.QUEUE or owner in self.groups):
            if kind is Owner.GROUP and (factor := GROUP_FACTORS.get(key)) is not None:
                return Meaning(factor, owner=owner)
            return Meaning(owner=owner, param=key)
        head, dot, rest = name.partition(".")
        if dot and head == EVENTS:
            return Problem("", name, "is not a factor of an event", "write it as events.step.rate")
        return self._unknown(name, head, rest)

    def _unknown(self, name: str, head: str, rest: str) -> Problem:
        """Return the problem of an unknown name, with similar names as a hint."""
        if rest and head in FACTORS and not any(factor.startswith(f"{head}.") for factor in FACTORS):
            return Problem("", name, f"unknown key: {head} has no parameters", did_you_mean(name, FACTORS))
        core = did_you_mean(name, FACTORS)
        if not rest:
            if name in self.groups:
                return Problem(
                    "",
                    name,
                    "unknown key",
                    f"write factors of a flow group dotted, such as {quoted(name)}.ecn",
                )
            if name in SETTINGS:
                message = "is of the whole matrix, not a factor of cells"
                return Problem("", name, message, "write it at the top of the file")
            hint = f"did you mean {_MEANT[name]}?" if name in _MEANT else did_you_mean(name, self._offered())
            return Problem("", name, "unknown key", hint)
        dotted = [f"{group}.{rest}" for group in self.groups] if did_you_mean(head, self.groups) else ()
        if core is not None and not dotted:
            return Problem("", name, "unknown key", core)
        hint = did_you_mean(name, dotted) or suggest(head, self.groups)
        return Problem("", name, f"there is no flow group {quoted(head)}", hint)

    def _offered(self) -> list[str]:
        """Return every key that a matrix of these groups may have at its top, the likeliest first."""
        groups = [f"{group}.{name}" for name in GROUP_FACTORS for group in self.groups]
        params = [
            f"{owner}.{param}"
            for owner in ("aqm", *self.groups)
            for entry in self.entries(owner).values()
            for param in entry.params
        ]
        return [*FACTORS, *SETTINGS, *self.groups, *groups, *params]

    def value(self, factor: Parameter, name: str, raw: Any) -> Value:
        """Return the value of `raw` for a core factor or a factor of a group.

        Raises:
            BadValueError: the value is not valid, or names an entry that the catalog does not have.
        """
        value = factor.parse(raw)
        if factor.refers == "queue" and isinstance(value, str):
            value = self.catalog.queue_name(value)
        if factor.refers == "topology" and isinstance(value, str) and is_path(value):
            value = Path(value).stem  # `own_topologies` has read the file
        if factor.refers == "send" and isinstance(value, str) and is_path(value):
            value = Path(value).name  # `own_senders` has read its folder
        if factor.refers == "program" and isinstance(value, str):
            from l4sbench.disk.executables import command_of

            value = command_of(value).text  # `own_executables` has read the file
        if isinstance(value, str) and (check := self._checks.get(factor.refers)) is not None:
            try:
                check(value, name)
            except InputError as error:
                problem = error.problems[0]
                raise BadValueError(problem.message, problem.hint) from None
        return value

    def entries(self, owner: str) -> Mapping[str, CatalogEntry]:
        """Return the entries that may declare parameters of `owner`: queues or congestion controls."""
        return self.catalog.queues if owner == "aqm" else self.catalog.congestion_controls


@dataclass(frozen=True, slots=True)
class Resolved:
    """A statement and its meaning; `value` is None for parameters, whose value depends on the cell."""

    statement: Statement
    meaning: Meaning
    value: Value | None

    @property
    def name(self) -> str:
        """Dotted name of the factor."""
        return self.statement.name


def resolve(names: Names, statement: Statement) -> Resolved | Problem:
    """Return the meaning of a statement, or what is wrong with it wherever it is used."""
    meaning = names.meaning(statement.name)
    if isinstance(meaning, Problem):
        return replace(meaning, where=statement.key_where)
    if meaning.factor is None:
        return Resolved(statement, meaning, None)
    try:
        return Resolved(statement, meaning, names.value(meaning.factor, statement.name, statement.raw))
    except BadValueError as error:
        return statement.problem(error)


def param_value(param: Parameter, resolved: Resolved) -> Value | Problem:
    """Return the value that a statement gives to a parameter as its owner declares it."""
    try:
        return param.parse(resolved.statement.raw)
    except BadValueError as error:
        return resolved.statement.problem(error)


def when_text(when: Mapping[str, Iterable[Value]], owner: str) -> str:
    """Return a parameter's condition as error messages write it."""
    return " and ".join(
        f"{owner}.{name} is {' or '.join(str(value) for value in values)}" for name, values in when.items()
    )
