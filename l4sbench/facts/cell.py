# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell: one full assignment of factors, with an id.

The id is a readable slug plus ten hex digits of a SHA-256 over canonical JSON: names sorted, quantities
normalised, factors at their default left out. So it does not depend on the order in which a matrix states its
factors, on the notation of quantities, or on factors that are added to l4sbench later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Self, TypeVar, cast

from l4sbench.facts.common import Common
from l4sbench.facts.factors import (
    DEFAULT_FAMILY,
    DEFAULT_LAB,
    EVENT_AT,
    EVENT_EVERY,
    FACTORS,
    GROUP_FACTORS,
    HOSTS,
    Owner,
    factor_of,
    name_of,
)
from l4sbench.facts.groups import Group
from l4sbench.text.parameters import plain
from l4sbench.text.units import (
    KINDS,
    UNITS,
    Duration,
    Packets,
    Percent,
    Plain,
    Rate,
    Value,
    kind_of,
    parse_quantity,
)
from l4sbench.text.wording import quoted
from l4sbench.traffic import DEFAULT_SEND, Send, kind_of_send
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_V = TypeVar("_V")
MOST_REPETITIONS: Final = 1_000
"""Times that an event may take effect after the first."""

_NOTHING: Final[Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True)
class PathEvent:
    """A change of the path at an instant of the trial: a view of the factors `events.<name>.*`.

    `at` counts from the start instant. `changes` are the factors that change, with their new values.
    `repetition` is 0 when the event takes effect for the first time.
    """

    name: str
    at: Duration
    changes: Mapping[str, Value]
    repetition: int = 0

    @property
    def id(self) -> str:
        """Its name, with the number of the time that it takes effect from the second on: `fall`, `fall.2`."""
        return f"{self.name}.{self.repetition + 1}" if self.repetition else self.name


class _Factor(Generic[_V]):
    """Attribute of a cell: the value of one core factor, with its type."""

    def __init__(self, name: str, kind: type[_V]) -> None:
        self.name = name
        self.kind = kind

    def __get__(self, cell: Cell, owner: type[Cell]) -> _V:
        own, name = cell.own, self.name
        value = own[name] if name in own else cell.common.factors[name]
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} is {value!r}, not a {self.kind.__name__}")
        return value


@dataclass(frozen=True, eq=False, repr=False)
class Cell:
    """One full assignment of factors. Immutable; equal if all factors are equal.

    Attributes:
        common: what it shares with other cells.
        own: the values of the factors that vary among these.

    The other attributes are the core factors; `l4sbench.facts.factors.FACTORS` has their meanings.
    """

    topology = _Factor("topology", str)
    rate = _Factor("rate", Rate)
    rtt = _Factor("rtt", Duration)
    duration = _Factor("duration", Duration)
    warmup = _Factor("warmup", Duration)
    aqm = _Factor("aqm", str)
    buffer_bdp = _Factor("buffer_bdp", float)
    path_noise = _Factor("path.noise", float)
    path_pause = _Factor("path.pause", Duration)
    path_pause_every = _Factor("path.pause_every", Duration)
    path_pause_at = _Factor("path.pause_at", str)
    path_jitter = _Factor("path.jitter", Duration)
    path_jitter_model = _Factor("path.jitter_model", str)
    path_jitter_every = _Factor("path.jitter_every", Duration)
    path_jitter_order = _Factor("path.jitter_order", str)
    path_jitter_direction = _Factor("path.jitter_direction", str)
    path_loss = _Factor("path.loss", Percent)
    path_loss_burst = _Factor("path.loss_burst", Packets)
    path_ecn = _Factor("path.ecn", str)
    path_mark = _Factor("path.mark", Percent)
    path_ack_thinning = _Factor("path.ack_thinning", int)
    path_wifi_loss = _Factor("path.wifi_loss", Percent)
    packet_cost = _Factor("host.packet_cost", Duration)
    sample_interval = _Factor("sample.interval", Duration)
    capture = _Factor("capture", str)
    traffic_tool = _Factor("traffic.tool", str)
    expect_bottleneck = _Factor("expect.bottleneck", bool)

    __slots__ = ("_id", "common", "own")

    common: Common
    own: Mapping[str, Value]

    if TYPE_CHECKING:  # kept when it is first asked for
        _id: ClassVar[str | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_id", None)

    @classmethod
    def whole(cls, common: Common) -> Self:
        """Return a cell that has all its factors in `common`."""
        return cls(common, _NOTHING)

    @classmethod
    def of(cls, stated: Mapping[str, Value], group_names: Sequence[str] | None = None) -> Self:
        """Return a cell with these factors and the defaults of the core factors.

        This does not use the catalog, so `<group>.ecn` and parameters have no defaults here. Core quantities
        may be text. A matrix makes its cells with the catalog.

        Raises:
            BadValueError: a core factor's value is not of its kind.
            KeyError: a required factor is missing.
        """
        if group_names is None:
            named = map(name_of, stated)
            group_names = tuple(dict.fromkeys(one.group for one in named if one.key in {"cc", "send"}))
        declared = dict(FACTORS)
        for group in group_names:
            declared |= {f"{group}.{name}": factor for name, factor in GROUP_FACTORS.items()}
        declared |= {name: f for name in stated if _is_of_event(name) and (f := factor_of(name)) is not None}
        defaults = {name: f.default for name, f in declared.items() if f.default is not None}
        defaults |= HOSTS.get(str(stated.get("host")), {})
        sends = {group: kind_of_send(str(stated.get(f"{group}.send", DEFAULT_SEND))) for group in group_names}
        optional = {f"{group}.cc" for group, kind in sends.items() if not kind.by_tcp}
        needed = [name for name, factor in declared.items() if factor.required and name not in optional]
        needed += [f"{group}.ecn" for group, kind in sends.items() if kind.by_tcp]
        for name in needed:
            if name not in stated:
                raise KeyError(name)
        values = defaults | {n: f.parse(v) if (f := declared.get(n)) else v for n, v in stated.items()}
        ordered = {name: values[name] for name in sorted(values)}
        return cls.whole(
            Common(
                MappingProxyType(ordered), frozenset(stated), MappingProxyType(defaults), tuple(group_names)
            )
        )

    @property
    def factors(self) -> Mapping[str, Value]:
        """All applicable factors, including defaults, sorted by name. It is made whenever it is asked for."""
        return self.common.with_own(self.own)

    @property
    def given(self) -> frozenset[str]:
        """The factors that the matrix states, as opposed to defaults."""
        return self.common.given

    @property
    def defaults(self) -> Mapping[str, Value]:
        """The defaults in this cell by factor; factors equal to them are left out of the id."""
        return self.common.defaults

    @property
    def group_names(self) -> tuple[str, ...]:
        """Its flow groups in the order of the matrix, which determines their nodes and ports."""
        return self.common.group_names

    def get(self, name: str) -> Value | None:
        """Return the value of a factor; None if the cell does not have it."""
        own = self.own
        return own[name] if name in own else self.common.factors.get(name)

    @property
    def id(self) -> str:
        """Slug plus hash; identifies the cell's folder and its rows in every table."""
        known: str | None = self._id
        if known is None:
            known = self.common.id(self.own)
            object.__setattr__(self, "_id", known)
        return known

    @property
    def identity(self) -> str:
        """The input of the id's hash: canonical JSON of the factors that are not at their default."""
        return self.common.identity(self.own)

    @property
    def slug(self) -> str:
        """The readable part of the id. Not unique: it leaves out durations and is cut if too long."""
        return self.common.slug(self.own)

    @property
    def aqm_params(self) -> Mapping[str, Value]:
        """The queue's parameters without the prefix `aqm.`; derived ones are absent."""
        return _aqm_params(self)

    @property
    def kinds(self) -> tuple[type[Send], ...]:
        """The kinds of traffic of its flow groups; cheaper than `groups`."""
        return self.common.kinds or self.common.kinds_with(self.own)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The flow groups in the order of the matrix."""
        return _groups(self)

    @property
    def events(self) -> tuple[PathEvent, ...]:
        """The changes of the path, in the order in which they take effect."""
        return _events(self) if _has_events(self.given) else ()

    @property
    def reverse_rate(self) -> Rate | None:
        """The rate of what receivers send; None: no limit."""
        value = self.get("path.reverse_rate")
        return value if isinstance(value, Rate) else None

    @property
    def wifi_mcs(self) -> int | None:
        """The index of modulation and coding of Wi-Fi at the bottleneck; None: a link of constant rate."""
        value = self.get("path.wifi_mcs")
        return value if isinstance(value, int) else None

    def with_value(self, name: str, value: Value) -> Self:
        """Return the cell with another value of a factor that it states."""
        return self.whole(self.common.whole({**self.own, name: value}))

    @property
    def has_losses(self) -> bool:
        """True if its path ever loses packets before the bottleneck; older cells have no such factor."""
        losses = (self.get("path.loss"), *(event.changes.get("path.loss") for event in self.events))
        return any(isinstance(loss, Percent) and loss.ppb for loss in losses)

    @property
    def lab(self) -> str:
        """The lab that it runs in; cells that were written before there were several have the default one."""
        lab = self.get("lab")
        return DEFAULT_LAB if lab is None else str(lab)

    @property
    def family(self) -> Family:
        """The version of IP of its packets; that of cells that were written before there were two is IPv4."""
        family = self.get("family")
        return DEFAULT_FAMILY if family is None else Family(str(family))

    @property
    def has_own_delay(self) -> bool:
        """True if its path has the round-trip time by itself; older cells have no such factor."""
        return self.get("path.delay") == "own"

    @property
    def highest_rate(self) -> Rate:
        """The highest rate of the bottleneck during a trial."""
        changed = [cast("Rate", event.changes.get("rate", self.rate)) for event in self.events]
        return max([self.rate, *changed]) if changed else self.rate

    @property
    def length(self) -> Duration:
        """The time from the start of a trial to its end: warmup and duration."""
        return Duration(self.warmup.ns + self.duration.ns)

    @property
    def longest_rtt(self) -> Duration:
        """The longest round-trip time during a trial: the path's, also after events, or a group's own."""
        others = [cast("Duration", self.get(name)) for name in _rtts(self.given)]
        return max([self.rtt, *others]) if others else self.rtt

    @property
    def shortest_rtt(self) -> Duration:
        """The shortest round-trip time during a trial, likewise."""
        return min([self.rtt, *(cast("Duration", self.get(name)) for name in _rtts(self.given))])

    @property
    def nodes(self) -> Mapping[str, tuple[str | None, str | None]]:
        """The factors `from` and `to` of every flow group, as `Topology.place` takes them."""
        return {group.name: group.nodes for group in self.groups}

    def canonical(self) -> dict[str, Plain]:
        """Return every factor as JSON holds it: quantities as text, whole floats as integers."""
        return {name: plain(value) for name, value in self.factors.items()}

    def to_json(self) -> dict[str, object]:
        """Return the cell as JSON values; `from_json` reads it back without a catalog."""
        return {
            "id": self.id,
            "groups": list(self.group_names),
            "factors": self.canonical(),
            "kinds": {name: kind_of(value) for name, value in self.factors.items()},
            "given": sorted(self.given),
            "at_default": sorted(n for n, value in self.factors.items() if not self.common.differs(n, value)),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """Return the cell that `to_json` wrote.

        Raises:
            ValueError: the data are damaged: the stored id is not that of the factors, or a group's kind of
                traffic is not known.
        """
        kinds = cast("Mapping[str, str]", data["kinds"])
        factors = _values(cast("Mapping[str, Plain]", data["factors"]), kinds)
        at_default = cast("Iterable[str]", data["at_default"])
        defaults = MappingProxyType({name: factors[name] for name in at_default})
        given = frozenset(cast("Iterable[str]", data["given"]))
        cell = cls.whole(Common(factors, given, defaults, tuple(cast("Iterable[str]", data["groups"]))))
        if cell.id != data["id"]:
            raise ValueError(f"cell {data['id']} does not have the factors it was written with")
        for group in cell.groups:
            if not group.complete:  # or its kind of traffic is not known
                raise ValueError(f"flow group {quoted(group.name)} sends nothing that is known")
        return cell

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cell):
            return NotImplemented
        return self.group_names == other.group_names and self.factors == other.factors

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Cell({self.canonical()})"

    def __reduce__(self) -> tuple[object, ...]:
        state = (dict(self.factors), self.given, dict(self.defaults), self.group_names)
        return _restore, (type(self), *state)


def _restore(
    kind: type[Cell],
    factors: dict[str, Value],
    given: frozenset[str],
    defaults: dict[str, Value],
    group_names: tuple[str, ...],
) -> Cell:
    return kind.whole(Common(MappingProxyType(factors), given, MappingProxyType(defaults), group_names))


def _values(data: Mapping[str, Plain], kinds: Mapping[str, str]) -> MappingProxyType[str, Value]:
    return MappingProxyType({name: _value(data[name], kinds[name]) for name in sorted(data)})


def _value(data: Plain, kind: str) -> Value:
    value: Value = data
    if kind == "float" and isinstance(data, int):
        value = float(data)
    elif kind in UNITS and isinstance(data, str):
        value = parse_quantity(kind, data)
    if KINDS.get(type(value)) != kind:
        raise ValueError(f"a factor is not of kind {quoted(str(kind))}")
    return value


# Views of the cells that are looked at; cells do not keep them, because a plan may have a million cells.
_VIEWED: Final = 1024


@lru_cache(maxsize=_VIEWED)
def _aqm_params(cell: Cell) -> Mapping[str, Value]:
    return _below(cell, "aqm")


@lru_cache(maxsize=_VIEWED)
def _groups(cell: Cell) -> tuple[Group, ...]:
    return tuple(Group.of(name, _below(cell, name)) for name in cell.group_names)


@lru_cache(maxsize=_VIEWED)
def _events(cell: Cell) -> tuple[PathEvent, ...]:
    found: dict[str, dict[str, Value]] = {}
    for name, value in cell.factors.items():
        if _is_of_event(name):
            found.setdefault(name_of(name).owner, {})[name_of(name).key] = value
    events = [event for name, keys in found.items() for event in _repeated(name, keys, cell.length)]
    return tuple(sorted(events, key=lambda event: (event.at.ns, event.name)))


def _below(cell: Cell, owner: str) -> Mapping[str, Value]:
    start = f"{owner}."
    return MappingProxyType({n[len(start) :]: v for n, v in cell.factors.items() if n.startswith(start)})


def _repeated(name: str, keys: dict[str, Value], length: Duration) -> Iterator[PathEvent]:
    """Yield an event whenever it takes effect within a trial of a length, at most once too often."""
    at = cast("Duration", keys.pop(EVENT_AT))
    every = cast("Duration | None", keys.pop(EVENT_EVERY, None))
    changes = MappingProxyType(keys)
    yield PathEvent(name, at, changes)
    if every is not None:
        instants = range(at.ns + every.ns, length.ns, every.ns)[:MOST_REPETITIONS]
        for repetition, at_ns in enumerate(instants, start=1):
            yield PathEvent(name, Duration(at_ns), changes, repetition)


def _is_of_event(name: str) -> bool:
    return name_of(name).kind is Owner.EVENT


@lru_cache(maxsize=4096)
def _has_events(names: frozenset[str]) -> bool:
    return any(map(_is_of_event, names))


@lru_cache(maxsize=4096)
def _rtts(names: frozenset[str]) -> tuple[str, ...]:
    """Return the factors that are round-trip times of events or groups."""
    found = ((name, name_of(name)) for name in names)
    return tuple(name for name, own in found if own.key == "rtt" and own.kind in {Owner.GROUP, Owner.EVENT})
