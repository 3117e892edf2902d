# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Entries and their parameters in words, as `l4sbench explain` and docs/catalog.md print them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.catalog.entries import Queue
from l4sbench.catalog.template import Part, Text, holds, render
from l4sbench.disk import assets
from l4sbench.text.parameters import OWN, plain
from l4sbench.text.units import EXPECTED, Packets, Size
from l4sbench.text.wording import counted
from l4sbench.traffic import SENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from l4sbench.catalog.entries import CatalogEntry, KernelNeeds
    from l4sbench.text.parameters import Parameter
    from l4sbench.text.units import Value

_KINDS: Final = {"int": "whole number", "float": "number", "bool": "true or false", "str": "word"}
_DERIVED: Final = {"buffer": "from buffer_bdp", "rate": "the rate of the bottleneck"}

_KB: Final = 1000

_FAMILIES: Final = {
    "sq-drop": "one queue, which drops",
    "sq-ecn": "one queue, which marks",
    "dualq": "two coupled queues",
    "fq": "a queue per flow",
}


def facts(entry: CatalogEntry) -> tuple[tuple[str, str], ...]:
    """Return what an entry is and needs, besides its parameters, as pairs of heading and text."""
    if isinstance(entry, Queue):
        marks = " and ".join(f"ECT({mark[-1]})" for mark in entry.marks) or "none"
        own: tuple[tuple[str, str], ...] = (
            ("in a matrix", f"aqm: {entry.name}"),
            ("family", f"{entry.family} ({_FAMILIES[entry.family]})"),
            ("marks", f"{marks}; {'treats L4S apart' if entry.l4s else 'does not know L4S'}"),
            ("buffer_bdp sets", _limit(entry)),
        )
    else:
        modes = ", ".join(entry.ecn_allowed)
        reacts = ", ".join(entry.ecn_reacts) or "none"
        own = (
            ("in a matrix", f"<group>.cc: {entry.name}"),
            ("L4S", "yes, it sends ECT(1)" if entry.l4s else "no"),
            ("ECN", f"{modes}; default {entry.ecn_default}; reacts to marks with {reacts}"),
        )
    more = (("also called", ", ".join(entry.also)), ("needs", _needs(entry.needs)))
    return (*own, *(pair for pair in more if pair[1]))


def kind_of(queue: Queue, given: Mapping[str, Value]) -> str:
    """Return the kind of queue with which its tc command begins, with these parameters stated."""
    chosen = {name: given.get(name, queue.params[name].default) for name in queue.applicable(given)}
    first = next(one for one in queue.template if isinstance(one, Text) or holds(one.when, chosen))
    return render((first.items[0] if isinstance(first, Part) else first,), {}, {})[0]


def _limit(queue: Queue) -> str:
    own = queue.params[queue.buffer].own
    if own is None:
        return f"aqm.{queue.buffer}; it has no limit of its own"
    return f"aqm.{queue.buffer}; aqm.{queue.buffer}: {OWN} leaves it at its own, {amount(own)}"


def amount(value: Value) -> str:
    """Return how much a queue holds, for people: `10240 packets`, `62.5 kB`."""
    match value:
        case Packets(count=count):
            return counted(count, "packet")
        case Size(bytes=count) if count >= _KB:
            return f"{count / _KB:g} kB"
    return written(value)


def limits(held: Iterable[tuple[str, Packets | Size]]) -> str:
    """Return how much queues hold: `FIFO limit 62.5 kB to 250 kB; CoDel, PIE limit 42 packets`."""
    of_queue: dict[str, set[Packets | Size]] = {}
    for queue, limit in held:
        of_queue.setdefault(queue, set()).add(limit)
    alike: dict[str, list[str]] = {}
    for queue, found in of_queue.items():
        ends = dict.fromkeys((min(found, key=_number), max(found, key=_number)))
        alike.setdefault(" to ".join(map(amount, ends)), []).append(queue)
    return "; ".join(f"{', '.join(queues)} limit {text}" for text, queues in alike.items())


def _number(limit: Packets | Size) -> int:
    return limit.count if isinstance(limit, Packets) else limit.bytes


def _needs(needs: KernelNeeds) -> str:
    parts = (
        f"Linux {needs.kernel}" if needs.kernel else "",
        ", ".join(f"CONFIG_{n}" for n in needs.config),
        f"iproute2 {needs.iproute2}" if needs.iproute2 else "",
        f"family: {needs.family}" if needs.family else "",
    )
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Description:
    """A parameter in words.

    Attributes:
        name: as in `Parameter`.
        meaning: one sentence, without a full stop.
        kind: its values, with the unit if they have one: `duration such as 10ms`.
        default: the value, and its origin, that holds where a matrix does not state it.
        values: the allowed range or words; empty: all of its kind.
        when: the values of other parameters with which it applies; empty: always.
        source: what defines it.
    """

    name: str
    meaning: str
    kind: str
    default: str
    values: str
    when: str
    source: str


def described(param: Parameter, entry: CatalogEntry | None = None) -> Description:
    """Return a parameter in words; `entry` declares it, and its sources are those of the parameter."""
    return Description(
        name=param.name,
        meaning=param.meaning.strip().rstrip("."),
        kind=_kind(param),
        default=_default(param),
        values=_values(param),
        when=" and ".join(f"{name} is {_any(values)}" for name, values in param.when.items()),
        source=param.source or (", ".join(entry.sources) if entry else ""),
    )


def _kind(param: Parameter) -> str:
    if param.kind in EXPECTED:
        return EXPECTED[param.kind].removeprefix("a ")
    return _KINDS[param.kind]


def _default(param: Parameter) -> str:
    if param.required:
        return "none, every cell states it"
    own = f"the queue's own, {written(param.own)}" if param.own is not None else ""
    if param.default is not None:
        differs = own and param.own != param.default
        return f"{written(param.default)} ({own})" if differs else written(param.default)
    if param.derive is not None:
        origin = _DERIVED.get(param.derive, f"as {param.derive}")
        return f"{origin} ({own})" if own else origin
    return own or "not set"


_LISTED: Final = {"queue": "queues", "cc": "ccs", "topology": "topologies"}


def _values(param: Parameter) -> str:
    if param.choices:
        return _any(param.choices)
    if param.refers == "workload":
        return _any(tuple(assets.workloads()))
    if param.refers == "send":
        return _any((*SENDS, "one of l4sbench list senders"))
    if param.refers in _LISTED:
        return f"one of l4sbench list {_LISTED[param.refers]}"
    low = "more than 0" if param.positive else ""
    if param.minimum is not None:
        low = f"at least {written(param.minimum)}"
    if param.maximum is None:
        return low or (f"of the form {param.pattern}" if param.pattern else "")
    if param.minimum is not None:
        return f"{written(param.minimum)} to {written(param.maximum)}"
    return f"{low}, at most {written(param.maximum)}" if low else f"at most {written(param.maximum)}"


def _any(values: tuple[Value, ...]) -> str:
    words = [written(value) for value in values]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def written(value: Value) -> str:
    """Return a value as a matrix states it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(plain(value))
