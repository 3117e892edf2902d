# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What one catalog entry says: values only, and what follows from them by arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from l4sbench.catalog.template import Condition, Field, Item, Text, holds, number, render, render_text
from l4sbench.units import EXPECTED, Duration, Kind, Packets, Rate, Size, Value, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PACKET_BYTES = 1500
"""Bytes that stand for one packet in buffer arithmetic, as in both published artifact sets."""
OWN = "default"
"""The word that leaves a parameter to the queue itself, as in `aqm.limit: default`."""

_QUANTITIES = {"rate": Rate, "duration": Duration, "size": Size, "packets": Packets}


@dataclass(frozen=True)
class Param:
    """One setting a queue or congestion control offers.

    Attributes:
        name: As in `aqm.<name>` or `<group>.<name>`.
        kind: What a value of it is.
        default: Its value when nobody says otherwise; None: derived (`derive`), else left out.
        derive: Where an unsaid value comes from: `buffer`, `rate`, or another parameter's name.
        own: What the queue does when the parameter is left out of its command, as far as known; a parameter
            that has it may be set to the word `default`.
        choices: The allowed words of a `str`.
        pattern: What a `str` must look like, as a regular expression.
        minimum: Smallest value allowed.
        maximum: Largest value allowed.
        when: Values of sibling parameters with which this one applies.
        doc: Its meaning, with units.
    """

    name: str
    kind: Kind
    default: Value | None = None
    derive: str | None = None
    own: Value | None = None
    choices: tuple[str, ...] | None = None
    pattern: str | None = None
    minimum: Value | None = None
    maximum: Value | None = None
    when: Condition = field(default_factory=dict)
    doc: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Words allowed in the place of a quantity or number."""
        return (OWN,) if self.own is not None and self.kind != "str" else ()

    def parse(self, raw: object) -> Value:
        """The value that `raw`, as read from YAML or a command line, stands for.

        Raises:
            ValueError: with a message that says what is expected.
        """
        if isinstance(raw, str) and raw in self.words:
            return raw
        value = self._typed(raw)
        # bounds have the parameter's own kind: the reader parsed them with this method
        if self.minimum is not None and value < self.minimum:  # type: ignore[operator]
            raise ValueError(f"{value} is out of range: at least {self.minimum} is allowed")
        if self.maximum is not None and value > self.maximum:  # type: ignore[operator]
            raise ValueError(f"{value} is out of range: at most {self.maximum} is allowed")
        return value

    def _typed(self, raw: object) -> Value:
        if (quantity := _QUANTITIES.get(self.kind)) is not None:
            if isinstance(raw, Rate | Duration | Size | Packets) and isinstance(raw, quantity):
                return raw
            if not isinstance(raw, str):
                raise ValueError(f"expected {EXPECTED[self.kind]}, not {raw!r}{self._or_words()}")
            return parse_quantity(self.kind, raw)
        match self.kind, raw:
            case "bool", True | False | "true" | "false":
                return raw in (True, "true")
            case "int", int() if not isinstance(raw, bool):
                return raw
            case "int", str() if re.fullmatch(r"[+-]?\d+", raw):
                return int(raw)
            case "float", int() | float() if not isinstance(raw, bool):
                return float(raw)
            case "float", str() if re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", raw):
                return float(raw)
            case "str", str():
                return self._string(raw)
        expected = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a word"}
        raise ValueError(f"expected {expected[self.kind]}, not {raw!r}{self._or_words()}")

    def _or_words(self) -> str:
        return f" (or the word {OWN})" if self.words else ""

    def _string(self, raw: str) -> str:
        if self.choices is not None and raw not in self.choices:
            raise ValueError(f"expected one of {', '.join(self.choices)}, not {raw!r}")
        if self.pattern is not None and not re.fullmatch(self.pattern, raw):
            raise ValueError(f"{raw!r} does not look like {self.pattern}")
        return raw


@dataclass(frozen=True)
class Needs:
    """What a host must have.

    Attributes:
        kernel: Oldest kernel release, such as `6.17`.
        config: Kernel configuration symbols without `CONFIG_`; `y` or `m`.
        modules: Kernel modules, where these are not built in.
        iproute2: Oldest iproute2 release whose `tc` can set it up.
    """

    kernel: str | None = None
    config: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    iproute2: str | None = None


@lru_cache(maxsize=1024)
def _ratio(decimal: float) -> tuple[int, int]:
    """The fraction that a number is as written: a tenth for 0.1, and not its nearest float."""
    return Fraction(str(decimal)).as_integer_ratio()


@dataclass(frozen=True)
class Setting:
    """What a cell says about the path; buffers and rates are derived from it."""

    rate: Rate
    rtt: Duration
    buffer_bdp: float

    @cached_property
    def bdp_bytes(self) -> int:
        """One bandwidth-delay product."""
        return self.rate.bits_per_s * self.rtt.ns // 8_000_000_000

    @cached_property
    def buffer_bytes(self) -> int:
        """`buffer_bdp` bandwidth-delay products, rounded down as published."""
        over, under = _ratio(self.buffer_bdp)
        return over * self.rate.bits_per_s * self.rtt.ns // (under * 8_000_000_000)

    @property
    def buffer_packets(self) -> int:
        """The buffer of a queue that counts packets: floor(bytes / 1500) + 1, as published."""
        return self.buffer_bytes // PACKET_BYTES + 1


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one key of a qdisc's `options` must read back as: the value, or a number within `within` of it."""

    key: str
    value: str | float | int | bool
    within: float = 0.0


@dataclass(frozen=True)
class Check:
    """An `Expectation` before its values are known.

    Attributes:
        key: Name below `options` in `tc -j qdisc show`; dots descend.
        value: A plain value, or a text with fields. Durations become microseconds, rates bytes per second, as
            tc shows them.
        within: Tolerated difference; None: nothing, or 2 us for durations (kernels store them rounded).
        when: Values of parameters with which this is expected.
    """

    key: str
    value: Text | float | int | bool
    within: float | None
    when: Condition


@dataclass(frozen=True)
class Queue:
    """A queue discipline as an experiment names it: one tc line and what is known about it.

    Attributes:
        name: Value of the factor `aqm`.
        label: As tables print it.
        family: Row of the decision table: `sq-drop`, `sq-ecn`, `dualq` or `fq`.
        marks: ECN codepoints it marks instead of dropping: `ect0`, `ect1`; empty: none.
        l4s: Whether it treats ECT(1) differently, so that an L4S flow gains by it.
        about: One sentence.
        needs: What the bottleneck's host must have.
        params: By name, in the order of `module.yml`.
        buffer: The parameter that limits how much it holds.
        thresholds: Parameters at which it starts to mark or drop: durations, sizes or packets.
        digest: Over everything that decides what is run; labels and documentation do not count.
    """

    name: str
    label: str
    family: str
    marks: tuple[str, ...]
    l4s: bool
    about: str
    needs: Needs
    params: Mapping[str, Param]
    buffer: str
    thresholds: tuple[str, ...]
    template: tuple[Item, ...]
    readback: tuple[Check, ...]
    module: KernelModule | None
    folder: Path
    digest: str

    @cached_property
    def _selectors(self) -> frozenset[str]:
        return frozenset(name for param in self.params.values() for name in param.when)

    @cached_property
    def _all(self) -> frozenset[str]:
        return frozenset(self.params)

    def applicable(self, given: Mapping[str, Value]) -> frozenset[str]:
        """Names of the parameters that mean something for these values of their siblings."""
        if not self._selectors:
            return self._all
        chosen = {name: given.get(name, self.params[name].default) for name in self._selectors}
        return frozenset(name for name, param in self.params.items() if holds(param.when, chosen))

    def effective(self, given: Mapping[str, Value], setting: Setting) -> dict[str, Value | None]:
        """What every applicable parameter comes to in this setting, the queue's own defaults included."""
        stated = self._stated(given, setting)
        return {name: self.params[name].own if value is None else value for name, value in stated.items()}

    def tc(self, given: Mapping[str, Value], setting: Setting) -> tuple[str, ...]:
        """The queue's part of the tc command: kind and options."""
        return render(self.template, self._stated(given, setting), self._chosen(given))

    def module_params(self, given: Mapping[str, Value], setting: Setting) -> tuple[tuple[str, str], ...]:
        """Its module's parameters for these values, all of them stated."""
        return _filled(self.module.params, self.effective(given, setting)) if self.module else ()

    def expects(self, given: Mapping[str, Value], setting: Setting) -> tuple[str, tuple[Expectation, ...]]:
        """Kind and options that `tc -j qdisc show` must show; what is left to the queue is not expected."""
        values, chosen = self._stated(given, setting), self._chosen(given)
        checks = (check for check in self.readback if holds(check.when, chosen))
        found = (_expect(check, values) for check in checks)
        return self.tc(given, setting)[0], tuple(item for item in found if item is not None)

    def limit_bytes(self, given: Mapping[str, Value], setting: Setting) -> int:
        """How much it holds, full-size packets assumed where it counts packets."""
        limit = given.get(self.buffer)
        if limit is None:
            return setting.buffer_bytes
        return in_bytes(limit if limit != OWN else self.params[self.buffer].own, setting.rate)

    def threshold_bytes(self, given: Mapping[str, Value], setting: Setting) -> tuple[str, int] | None:
        """Name of the lowest threshold at which it marks or drops, and queued bytes at the link's rate."""
        found: list[tuple[int, str]] = []
        applicable = self.applicable(given)
        for name in self.thresholds:
            if name in applicable:
                param = self.params[name]
                value = given.get(name, param.default)
                if value is None or value == OWN:
                    value = param.own
                if value is not None:
                    found.append((in_bytes(value, setting.rate), name))
        return (min(found)[1], min(found)[0]) if found else None

    def _chosen(self, given: Mapping[str, Value]) -> dict[str, Value | None]:
        """The applicable parameters as chosen: said or by default, nothing derived."""
        return {name: given.get(name, self.params[name].default) for name in self.applicable(given)}

    def _stated(self, given: Mapping[str, Value], setting: Setting) -> dict[str, Value | None]:
        """Values for the command; None: left out of it."""
        values: dict[str, Value | None] = {}
        chosen = self._chosen(given)
        for name, param in self.params.items():
            if name in chosen:
                value = chosen[name]
                if value is None and param.derive is not None:
                    value = _derive(param, values, setting)
                values[name] = None if value == OWN and param.words else value
        return values


@dataclass(frozen=True)
class KernelModule:
    """A loadable module.

    Attributes:
        name: As the kernel knows it.
        source: Folder with its C source when it is ours; None: part of the kernel.
        params: Module parameter -> text with fields. They hold for a whole kernel, not for one flow.
    """

    name: str
    source: Path | None = None
    params: Mapping[str, Text] = field(default_factory=dict)


@dataclass(frozen=True)
class EcnMode:
    """How one way of using ECN is asked for.

    Attributes:
        sender: sysctls of the sending node.
        receiver: sysctls of the receiving node.
        receiver_cc: Congestion control the receiver must run for its way of echoing marks, by kernel name.
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
"""The values of `<group>.ecn`; a congestion control may override what one of them sets."""


@dataclass(frozen=True)
class CongestionControl:
    """A congestion control as an experiment names it.

    Attributes:
        name: Value of the factor `<group>.cc`.
        kernel_name: What `TCP_CONGESTION` takes.
        label: As tables print it.
        about: One sentence.
        needs: What sender and receiver must have.
        module: The module that brings it, if it is one.
        ecn_default: Value of `<group>.ecn` when nobody says otherwise.
        ecn_allowed: Values of `<group>.ecn` it can run with.
        ecn_reacts: Those in which it reacts to marks.
        l4s: Whether it sends ECT(1) and expects marks as L4S means them.
        receiver_cc: Congestion control its receiver runs, by kernel name; None: the host's default.
        params: By name, in the order of `module.yml`.
        sysctls: Role (`sender`, `receiver`) -> sysctl -> text with fields.
        ecn_modes: What each allowed value of `<group>.ecn` sets.
        digest: Over everything that decides what is run; labels and documentation do not count.
    """

    name: str
    kernel_name: str
    label: str
    about: str
    needs: Needs
    module: KernelModule | None
    ecn_default: str
    ecn_allowed: tuple[str, ...]
    ecn_reacts: tuple[str, ...]
    l4s: bool
    receiver_cc: str | None
    params: Mapping[str, Param]
    sysctls: Mapping[str, Mapping[str, Text]]
    ecn_modes: Mapping[str, EcnMode]
    folder: Path
    digest: str

    def applicable(self, given: Mapping[str, Value]) -> frozenset[str]:
        """Names of the parameters that mean something for these values of their siblings."""
        values = self.effective(given)
        return frozenset(name for name, param in self.params.items() if holds(param.when, values))

    def effective(self, given: Mapping[str, Value]) -> dict[str, Value | None]:
        """Every parameter's value, defaults filled in."""
        return {name: given.get(name, param.default) for name, param in self.params.items()}

    def module_params(self, given: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """The module's parameters for these values, all of them stated."""
        if self.module is None:
            return ()
        return _filled(self.module.params, self.effective(given))

    def role_sysctls(self, role: str, given: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
        """Its own sysctls of the sending or receiving node."""
        return _filled(self.sysctls.get(role, {}), self.effective(given))


def in_bytes(value: Value | None, rate: Rate) -> int:
    """How much queue a limit or threshold stands for: times at the link's rate, packets at 1500 bytes."""
    match value:
        case Size(bytes=amount):
            return amount
        case Packets(count=amount):
            return amount * PACKET_BYTES
        case Duration(ns=amount):
            return rate.bits_per_s * amount // 8_000_000_000
    raise ValueError(f"{value} is neither size, packets nor duration")


def _filled(texts: Mapping[str, Text], values: Mapping[str, Value | None]) -> tuple[tuple[str, str], ...]:
    """Texts whose fields all have a value."""
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


def _derive(param: Param, values: Mapping[str, Value | None], setting: Setting) -> Value | None:
    match param.derive:
        case "buffer" if param.kind == "packets":
            return Packets(setting.buffer_packets)
        case "buffer":
            return Size(setting.buffer_bytes)
        case "rate":
            return setting.rate
        case str() as other:
            return values.get(other)
    return None


def _expect(check: Check, values: Mapping[str, Value | None]) -> Expectation | None:
    """What to expect for these values; None where a value was not asked for."""
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
    """A value as tc prints it in JSON: times in us, rates in bytes per second."""
    if unit is not None:
        return number(value, unit)
    match value:
        case Duration():
            return number(value, "us")
        case Rate(bits_per_s=amount):
            return amount // 8
        case Packets(count=amount) | Size(bytes=amount):
            return amount
    return value
