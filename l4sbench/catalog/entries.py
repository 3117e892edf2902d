# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Catalog entries as values, and the arithmetic on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import floor
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.catalog.template import Field, Item, Text, holds, number, render, render_text
from l4sbench.text.parameters import OWN, Condition, Parameter
from l4sbench.text.units import Duration, Packets, Percent, PerPacket, Rate, Size, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from l4sbench.catalog.exports import Exports

PACKET_BYTES = 1500
"""Bytes of one packet in buffer arithmetic, as in both published artifact sets."""


@dataclass(frozen=True)
class KernelNeeds:
    """Requirements on a host.

    Attributes:
        kernel: Oldest kernel release, such as `6.17`.
        config: Kernel configuration symbols without `CONFIG_`; `y` or `m`.
        modules: Kernel modules, where these are not built in.
        iproute2: Oldest iproute2 release whose `tc` can set it up.
        family: The only value of the factor `family` that it is for; None: it is for all.
    """

    kernel: str | None = None
    config: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    iproute2: str | None = None
    family: str | None = None


@lru_cache(maxsize=1024)
def _ratio(decimal: float) -> tuple[int, int]:
    """Return a decimal number as the fraction it is written as: 1/10 for 0.1, not its nearest float."""
    return Fraction(str(decimal)).as_integer_ratio()


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a cell; buffers and rates are derived from it."""

    rate: Rate
    rtt: Duration
    buffer_bdp: float

    @property
    def bdp_bytes(self) -> int:
        """One bandwidth-delay product."""
        return self.rate.bits_per_s * self.rtt.ns // 8_000_000_000

    @property
    def buffer_bytes(self) -> int:
        """`buffer_bdp` bandwidth-delay products, rounded down as published."""
        over, under = _ratio(self.buffer_bdp)
        return over * self.rate.bits_per_s * self.rtt.ns // (under * 8_000_000_000)

    @property
    def buffer_packets(self) -> int:
        """Buffer of a queue that counts packets: floor(bytes / 1500) + 1, as published."""
        return self.buffer_bytes // PACKET_BYTES + 1

    def whole(self, scale: PerPacket) -> int:
        """Return the whole number that follows from one per packet (RFC 7928 section 8.2).

        The packets are those of one bandwidth-delay product and of the buffer, 1500 bytes each and not
        rounded; their product is rounded, a half upwards.
        """
        bdp_packets = Fraction(self.rate.bits_per_s * self.rtt.ns, 8 * 10**9 * PACKET_BYTES)
        packets = bdp_packets * (1 + Fraction(*_ratio(self.buffer_bdp)))
        return floor(scale.each * packets + Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class Expectation:
    """Value that one key of a qdisc's `options` must read back as, with a tolerance `within` for numbers."""

    key: str
    value: str | float | int | bool
    within: float = 0.0


@dataclass(frozen=True)
class ReadbackCheck:
    """An `Expectation` before its values are known.

    Attributes:
        key: Name below `options` in `tc -j qdisc show`; dots descend.
        value: A plain value, or a text with fields. Durations become microseconds and rates bytes per second,
            as in the output of tc.
        within: Tolerated difference; None: 0, or 2 us for durations, because kernels store them rounded.
        when: Values of parameters with which the value is expected.
    """

    key: str
    value: Text | float | int | bool
    within: float | None
    when: Condition


@dataclass(frozen=True)
class Queue:
    """A queue discipline as experiments name it: one tc line and its properties.

    Attributes:
        name: Value of the factor `aqm`.
        label: Name in tables.
        also: Other names that the field has for it, which questions to the atlas understand.
        family: Row of the decision table: `sq-drop`, `sq-ecn`, `dualq` or `fq`.
        marks: ECN codepoints it marks instead of dropping: `ect0`, `ect1`; empty: none.
        l4s: True if it treats ECT(1) differently, to the benefit of L4S flows.
        about: One sentence.
        sources: What defines it: RFCs, papers, manual pages.
        needs: Requirements on the bottleneck's host.
        params: By name, in the order of `module.yml`.
        buffer: Parameter that limits the length of the queue.
        thresholds: Parameters at which it starts to mark or drop: durations, sizes or packets.
        steps: Sojourn times above which it marks every L4S packet, each with the parameter that is the least
            number of packets in the queue for that.
        exports: Counters of a kind of queue; other entries may use the same kind.
        digest: Digest of everything that affects trials, without labels and documentation.
    """

    name: str
    label: str
    also: tuple[str, ...]
    family: str
    marks: tuple[str, ...]
    l4s: bool
    about: str
    sources: tuple[str, ...]
    needs: KernelNeeds
    params: Mapping[str, Parameter]
    buffer: str
    thresholds: tuple[str, ...]
    steps: Mapping[str, str]
    template: tuple[Item, ...]
    readback: tuple[ReadbackCheck, ...]
    module: KernelModule | None
    exports: Exports | None
    folder: Path
    digest: str

    @cached_property
    def _selectors(self) -> frozenset[str]:
        return frozenset(name for param in self.params.values() for name in param.when)

    @cached_property
    def _all(self) -> frozenset[str]:
        return frozenset(self.params)

    def applicable(self, given: Mapping[str, Value]) -> frozenset[str]:
        """Return the names of the parameters that apply with these values of their siblings."""
        if not self._selectors:
            return self._all
        chosen = {name: given.get(name, self.params[name].default) for name in self._selectors}
        return frozenset(name for name, param in self.params.items() if holds(param.when, chosen))

    def effective(self, given: Mapping[str, Value], at: Bottleneck) -> dict[str, Value | None]:
        """Return the value of every applicable parameter, including the queue's own defaults."""
        stated = self._stated(given, at)
        return {name: self.params[name].own if value is None else value for name, value in stated.items()}

    def tc(self, given: Mapping[str, Value], at: Bottleneck) -> tuple[str, ...]:
        """Return the queue's part of the tc command: kind and options."""
        return render(self.template, self._stated(given, at), self._chosen(given))

    def module_params(self, given: Mapping[str, Value], at: Bottleneck) -> tuple[tuple[str, str], ...]:
        """Return all parameters of its kernel module."""
        return _filled(self.module.params, self.effective(given, at)) if self.module else ()

    def expects(self, given: Mapping[str, Value], at: Bottleneck) -> tuple[str, tuple[Expectation, ...]]:
        """Return kind and options that `tc -j qdisc show` must print, without options left to the queue."""
        values, chosen = self._stated(given, at), self._chosen(given)
        checks = (check for check in self.readback if holds(check.when, chosen))
        found = (_expect(check, values) for check in checks)
        return self.tc(given, at)[0], tuple(item for item in found if item is not None)

    @property
    def keeps_own_limit(self) -> bool:
        """True if it marks or drops before it is full, and has a limit of its own where none is set."""
        return bool(self.marks or self.thresholds) and OWN in self.params[self.buffer].words

    def limit(self, given: Mapping[str, Value], at: Bottleneck) -> Packets | Size | None:
        """Return how much it holds, in packets or bytes as it counts them; None if that is not known."""
        param, value = self.params[self.buffer], given.get(self.buffer)
        if value is None:
            value = _derive(param, {}, at)
        elif value == OWN:
            value = param.own
        return value if isinstance(value, Packets | Size) else None

    def limit_bytes(self, given: Mapping[str, Value], at: Bottleneck) -> int:
        """Return how much it holds, assuming full-size packets if it counts packets."""
        limit = given.get(self.buffer)
        if limit is None:
            return at.buffer_bytes
        return in_bytes(limit if limit != OWN else self.params[self.buffer].own, at.rate)

    def threshold_bytes(self, given: Mapping[str, Value], at: Bottleneck) -> tuple[str, int] | None:
        """Return the lowest threshold at which it marks or drops: parameter, bytes at the link's rate."""
        values = ((self._value(name, given), name) for name in self.thresholds)
        found = [(in_bytes(value, at.rate), name) for value, name in values if value is not None]
        return (min(found)[1], min(found)[0]) if found else None

    def bare_steps(self, given: Mapping[str, Value]) -> tuple[tuple[str, Duration, str], ...]:
        """Return the steps that hold for a lone packet: parameter, value, parameter of the least queue."""
        found: list[tuple[str, Duration, str]] = []
        for name, least in self.steps.items():
            at, packets = self._value(name, given), self._value(least, given)
            if isinstance(at, Duration) and isinstance(packets, Packets) and packets.count == 0:
                found.append((name, at, least))
        return tuple(found)

    def _value(self, name: str, given: Mapping[str, Value]) -> Value | None:
        """Return the value of a parameter that is not derived; None if it does not apply or is unknown."""
        if name not in self.applicable(given):
            return None
        param = self.params[name]
        value = given.get(name, param.default)
        return param.own if value is None or value == OWN else value

    def _chosen(self, given: Mapping[str, Value]) -> dict[str, Value | None]:
        """Return the applicable parameters, stated or by default, without derived values."""
        return {name: given.get(name, self.params[name].default) for name in self.applicable(given)}

    def _stated(self, given: Mapping[str, Value], at: Bottleneck) -> dict[str, Value | None]:
        """Return the values for the command; None: left out of it."""
        values: dict[str, Value | None] = {}
        chosen = self._chosen(given)
        for name, param in self.params.items():
            if name in chosen:
                value = chosen[name]
                if value is None and param.derive is not None:
                    value = _derive(param, values, at)
                values[name] = None if value == OWN and param.words else value
        return values


@dataclass(frozen=True)
class KernelModule:
    """A loadable module.

    Attributes:
        name: Name in the kernel.
        source: Folder with its C source if it is part of l4sbench; None: part of the kernel.
        params: Module parameter -> text with fields. They apply to a whole kernel, not to one flow.
        of: Entry that brings it; empty: the entry itself. `Catalog.load` fills in name and source then.
    """

    name: str
    source: Path | None = None
    params: Mapping[str, Text] = field(default_factory=dict)
    of: str = ""


@dataclass(frozen=True)
class EcnMode:
    """Settings of one ECN mode.

    Attributes:
        sender: sysctls of the sending node.
        receiver: sysctls of the receiving node.
        receiver_cc: Kernel name of the congestion control that makes the receiver echo marks as required.
    """

    sender: Mapping[str, str]
    receiver: Mapping[str, str]
    receiver_cc: str | None = None


def _tcp_ecn(value: str, receiver_cc: str | None = None) -> EcnMode:
    sysctls = MappingProxyType({"net.ipv4.tcp_ecn": value})
    return EcnMode(sysctls, sysctls, receiver_cc)


ECN_MODES: Mapping[str, EcnMode] = MappingProxyType(
    {
        "off": _tcp_ecn("0"),
        "classic": _tcp_ecn("1"),
        "accecn": _tcp_ecn("3"),
        "dctcp": _tcp_ecn("1", receiver_cc="dctcp"),
    }
)
"""Values of `<group>.ecn`; a congestion control may override the settings of each."""


@dataclass(frozen=True)
class CongestionControl:
    """A congestion control as experiments name it.

    Attributes:
        name: Value of the factor `<group>.cc`.
        kernel_name: Name for the socket option `TCP_CONGESTION`.
        label: Name in tables.
        also: Other names that the field has for it, which questions to the atlas understand.
        about: One sentence.
        sources: What defines it: RFCs, papers, manual pages.
        needs: Requirements on sender and receiver.
        module: Kernel module that contains it, if any.
        ecn_default: Default of `<group>.ecn`.
        ecn_allowed: Values of `<group>.ecn` it can run with.
        ecn_reacts: Those with which it reacts to marks.
        l4s: True if it sends ECT(1) and interprets marks as L4S defines them.
        receiver_cc: Kernel name of its receiver's congestion control; None: the host's default.
        params: By name, in the order of `module.yml`.
        sysctls: Role (`sender`, `receiver`) -> sysctl -> text with fields.
        ecn_modes: Settings of each allowed value of `<group>.ecn`.
        exports: State that its module reports of every socket.
        digest: Digest of everything that affects trials, without labels and documentation.
    """

    name: str
    kernel_name: str
    label: str
    also: tuple[str, ...]
    about: str
    sources: tuple[str, ...]
    needs: KernelNeeds
    module: KernelModule | None
    ecn_default: str
    ecn_allowed: tuple[str, ...]
    ecn_reacts: tuple[str, ...]
    l4s: bool
    receiver_cc: str | None
    params: Mapping[str, Parameter]
    sysctls: Mapping[str, Mapping[str, Text]]
    ecn_modes: Mapping[str, EcnMode]
    exports: Exports | None
    folder: Path
    digest: str

    def applicable(self, given: Mapping[str, Value]) -> frozenset[str]:
        """Return the names of the parameters that apply with these values of their siblings."""
        values = self.effective(given)
        return frozenset(name for name, param in self.params.items() if holds(param.when, values))

    def effective(self, given: Mapping[str, Value]) -> dict[str, Value | None]:
        """Return the value of every parameter, with defaults filled in."""
        return {name: given.get(name, param.default) for name, param in self.params.items()}

    def module_params(self, given: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """Return all parameters of its kernel module."""
        if self.module is None:
            return ()
        return _filled(self.module.params, self.effective(given))

    def role_sysctls(self, role: str, given: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """Return the sysctls that it sets on the sending or receiving node."""
        return _filled(self.sysctls.get(role, {}), self.effective(given))


CatalogEntry: TypeAlias = Queue | CongestionControl


def in_bytes(value: Value | None, rate: Rate) -> int:
    """Return a limit or threshold in bytes: times at the link's rate, packets at 1500 bytes."""
    match value:
        case Size(bytes=amount):
            return amount
        case Packets(count=amount):
            return amount * PACKET_BYTES
        case Duration(ns=amount):
            return rate.bits_per_s * amount // 8_000_000_000
    raise ValueError(f"{value} is neither size, packets nor duration")


def _filled(texts: Mapping[str, Text], values: Mapping[str, Value | None]) -> tuple[tuple[str, str], ...]:
    """Fill in the texts whose fields all have a value."""
    return tuple(
        (key, render_text(text, values)) for key, text in texts.items() if not _lacking((text,), values)
    )


def _lacking(texts: Iterable[Text], values: Mapping[str, Value | None]) -> bool:
    return any(
        values.get(piece.name) is None
        for text in texts
        for piece in text.pieces
        if not isinstance(piece, str)
    )


def _derive(param: Parameter, values: Mapping[str, Value | None], at: Bottleneck) -> Value | None:
    match param.derive:
        case "buffer" if param.kind == "packets":
            return Packets(at.buffer_packets)
        case "buffer":
            return Size(at.buffer_bytes)
        case "rate":
            return at.rate
        case str() as other:
            return values.get(other)
    return None


def _expect(check: ReadbackCheck, values: Mapping[str, Value | None]) -> Expectation | None:
    """Return what to expect for these values; None if a value was not requested."""
    within = check.within or 0.0
    if not isinstance(check.value, Text):
        return Expectation(check.key, check.value, within)
    if _lacking((check.value,), values):
        return None
    only = check.value.pieces[0] if len(check.value.pieces) == 1 else None
    value = values[only.name] if isinstance(only, Field) else None
    if not isinstance(only, Field) or value is None:
        return Expectation(check.key, render_text(check.value, values), within)
    if isinstance(value, Duration) and check.within is None:
        within = 2.0
    return Expectation(check.key, _shown(value, only.unit), within)


def _shown(value: Value, unit: str | None) -> str | float | int | bool:
    """Return a value as tc prints it in JSON: times in us, rates in bytes per second."""
    if unit is not None:
        return number(value, unit)
    match value:
        case Duration():
            return number(value, "us")
        case Rate(bits_per_s=amount):
            return amount // 8
        case Packets(count=amount) | Size(bytes=amount):
            return amount
        case Percent():
            return value.share
        case PerPacket():
            return float(value.each)
    return value
