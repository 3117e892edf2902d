# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quantities with units: rates, durations, sizes, packet counts, percentages, numbers per packet.

Each is an exact integer of a base unit (bit/s, ns, byte, packet, 10^-9), so equal quantities are equal
however they were written: `0.1gbit` is `100mbit`. `str()` gives the canonical form, which parses back to an
equal value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, overload

from l4sbench.errors import BadValueError
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

DeclaredKind: TypeAlias = Literal[
    "rate", "duration", "size", "packets", "percent", "int", "float", "bool", "str"
]
"""Kinds of values that a parameter may be declared to have."""
Kind: TypeAlias = Literal[DeclaredKind, "per_packet"]

_NUMBER = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[A-Za-zµ/%]*)", re.ASCII)
_MAX = 2**63 - 1  # limit of kernel interfaces and Parquet

RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
DURATION_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
SIZE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PACKET_UNITS = {"p": 1}
PERCENT_UNITS = {"%": 10**7}
PER_PACKET_UNITS = {"/packet": 10**9}

UNITS: dict[str, dict[str, int]] = {
    "rate": RATE_UNITS,
    "duration": DURATION_UNITS,
    "size": SIZE_UNITS,
    "packets": PACKET_UNITS,
    "percent": PERCENT_UNITS,
    "per_packet": PER_PACKET_UNITS,
}
# Units that str() uses: powers of ten, so nothing is ever rounded.
_CANONICAL = {
    kind: [name for name, size in reversed(units.items()) if str(size).strip("0") == "1"]
    for kind, units in UNITS.items()
}
EXPECTED: dict[str, str] = {
    "rate": "a rate such as 100mbit",
    "duration": "a duration such as 10ms",
    "size": "a size such as 300kB",
    "packets": "a number of packets such as 42p",
    "percent": "a percentage such as 1%",
    "per_packet": "a number per packet such as 0.1/packet",
}
_BASE_UNIT = {
    "rate": "bit/s",
    "duration": "nanosecond",
    "size": "byte",
    "packets": "packet",
    "percent": "10^-9",
    "per_packet": "10^-9 per packet",
}


@dataclass(frozen=True, order=True, slots=True)
class Rate:
    """A data rate as tc writes it, with decimal prefixes."""

    bits_per_s: int

    def __hash__(self) -> int:
        return self.bits_per_s

    def __post_init__(self) -> None:
        _check_base(self.bits_per_s, "rate")

    @property
    def mbps(self) -> float:
        """Megabits (10^6 bit) per second."""
        return self.bits_per_s / 1e6

    @classmethod
    def of_mbps(cls, mbps: float) -> Self:
        """Return the rate of that many megabits per second, a whole number of bits."""
        return cls(round(mbps * 1e6))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `100mbit`. Raise BadValueError if it is not valid."""
        return cls(_parse("rate", text))

    def __str__(self) -> str:
        return _format("rate", self.bits_per_s)


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A span of time, never negative."""

    ns: int

    def __hash__(self) -> int:
        return self.ns

    def __post_init__(self) -> None:
        _check_base(self.ns, "duration")

    @property
    def s(self) -> float:
        """Seconds."""
        return self.ns / 1e9

    @property
    def ms(self) -> float:
        """Milliseconds."""
        return self.ns / 1e6

    @property
    def us(self) -> float:
        """Microseconds."""
        return self.ns / 1e3

    @classmethod
    def of_ms(cls, ms: float) -> Self:
        """Return the duration of that many milliseconds, a whole number of nanoseconds."""
        return cls(round(ms * 1e6))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `10ms`. Raise BadValueError if it is not valid."""
        return cls(_parse("duration", text))

    def __str__(self) -> str:
        return _format("duration", self.ns)


@dataclass(frozen=True, order=True, slots=True)
class Size:
    """An amount of data. `kB` is 1000 bytes, `KiB` 1024."""

    bytes: int

    def __hash__(self) -> int:
        return self.bytes

    def __post_init__(self) -> None:
        _check_base(self.bytes, "size")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `300kB`. Raise BadValueError if it is not valid."""
        return cls(_parse("size", text))

    def __str__(self) -> str:
        return _format("size", self.bytes)


@dataclass(frozen=True, order=True, slots=True)
class Packets:
    """A number of packets."""

    count: int

    def __hash__(self) -> int:
        return self.count

    def __post_init__(self) -> None:
        _check_base(self.count, "packets")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `42p`. Raise BadValueError if it is not valid."""
        return cls(_parse("packets", text))

    def __str__(self) -> str:
        return _format("packets", self.count)


@dataclass(frozen=True, order=True, slots=True)
class Percent:
    """A share, exact to 10^-7 percent; it may be more than the whole."""

    ppb: int

    def __hash__(self) -> int:
        return self.ppb

    def __post_init__(self) -> None:
        _check_base(self.ppb, "percentage")

    @property
    def percent(self) -> float:
        """The number before the percent sign."""
        return self.ppb / 1e7

    @property
    def share(self) -> float:
        """The share as a number; 1 is the whole."""
        return self.ppb / 1e9

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1%`. Raise BadValueError if it is not valid."""
        return cls(_parse("percent", text))

    def __str__(self) -> str:
        return _format("percent", self.ppb)


@dataclass(frozen=True, order=True, slots=True)
class PerPacket:
    """A number of things for each packet that a path and its buffer hold, exact to 10^-9."""

    billionths: int

    def __hash__(self) -> int:
        return self.billionths

    def __post_init__(self) -> None:
        _check_base(self.billionths, "number per packet")

    @property
    def each(self) -> Fraction:
        """The number for one packet."""
        return Fraction(self.billionths, 10**9)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `0.1/packet`. Raise BadValueError if it is not valid."""
        return cls(_parse("per_packet", text))

    def __str__(self) -> str:
        return _format("per_packet", self.billionths)


Quantity: TypeAlias = Rate | Duration | Size | Packets | Percent | PerPacket
Value: TypeAlias = str | int | float | bool | Rate | Duration | Size | Packets | Percent | PerPacket
Plain: TypeAlias = str | int | float | bool


@overload
def parse_quantity(kind: Literal["rate"], text: str) -> Rate: ...
@overload
def parse_quantity(kind: Literal["duration"], text: str) -> Duration: ...
@overload
def parse_quantity(kind: Literal["size"], text: str) -> Size: ...
@overload
def parse_quantity(kind: Literal["packets"], text: str) -> Packets: ...
@overload
def parse_quantity(kind: Literal["percent"], text: str) -> Percent: ...
@overload
def parse_quantity(kind: str, text: str) -> Quantity: ...
def parse_quantity(kind: str, text: str) -> Quantity:
    """Read a quantity of the given kind.

    Raises:
        BadValueError: `text` is not valid, for instance `expected a rate such as 100mbit, not "100"`.
    """
    return _CLASSES[kind](_parse(kind, text))


_CLASSES: dict[str, type[Quantity]] = {
    "rate": Rate,
    "duration": Duration,
    "size": Size,
    "packets": Packets,
    "percent": Percent,
    "per_packet": PerPacket,
}
KINDS: Final[Mapping[type, Kind]] = {
    Rate: "rate",
    Duration: "duration",
    Size: "size",
    Packets: "packets",
    Percent: "percent",
    PerPacket: "per_packet",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
}


def kind_of(value: Value) -> Kind:
    """Return the kind of a value, as parameters name it."""
    return KINDS[type(value)]


def _check_base(amount: int, kind: str) -> None:
    if amount < 0:
        raise ValueError(f"a {kind} is never negative")


@lru_cache(maxsize=4096)  # the trials of a run state the same again and again
def _parse(kind: str, text: str) -> int:
    units = UNITS[kind]
    written = quoted(text)
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise BadValueError(f'expected {EXPECTED[kind]}, not "{written}"', _blank_hint(kind, text))
    unit = _unit(kind, match["unit"])
    if unit is None:
        hint = _unit_hint(kind, match["number"], match["unit"])
        raise BadValueError(f'expected {EXPECTED[kind]}, not "{written}"', hint)
    amount = Fraction(match["number"]) * units[unit] if len(match["number"]) <= 40 else _MAX + 1
    if amount > _MAX:
        raise BadValueError(f'expected {EXPECTED[kind]}, but "{written}" is out of range')
    if amount.denominator != 1:
        raise BadValueError(f'expected {EXPECTED[kind]}, but "{written}" is not a whole {_BASE_UNIT[kind]}')
    return amount.numerator


def _unit(kind: str, written: str) -> str | None:
    """Return the unit in its usual case, or None. Case matters for bytes (`kB`), not for bits and seconds."""
    if written in UNITS[kind]:
        return written
    folded = written.lower().replace("µ", "u")
    return folded if kind in ("rate", "duration") and folded in UNITS[kind] else None


# unit in lower case -> what it most likely means
_GUESSES: dict[str, dict[str, str]] = {
    "rate": {f"{prefix}{unit}": f"{prefix}bit" for prefix in "kmg" for unit in ("", "bps", "bit/s", "b/s")},
    "duration": {"m": "min", "mins": "min", "minutes": "min", "hours": "h", "msec": "ms", "usec": "us"}
    | dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    "size": {unit.lower(): unit for unit in SIZE_UNITS} | {"k": "kB", "m": "MB", "g": "GB", "bytes": "B"},
    "packets": dict.fromkeys(("pkt", "pkts", "packet", "packets"), "p"),
    "percent": dict.fromkeys(("percent", "pct"), "%"),
    "per_packet": dict.fromkeys(("/p", "/pkt", "/pkts", "/packets"), "/packet"),
}


def _unit_hint(kind: str, number: str, written: str) -> str:
    """Return a hint about an unknown unit."""
    if not written:
        return f"add a unit: {', '.join(UNITS[kind])}"
    guess = _GUESSES[kind].get(written.lower())
    return f"did you mean {quoted(number)}{guess}?" if guess else f"units are {', '.join(UNITS[kind])}"


def _blank_hint(kind: str, text: str) -> str | None:
    """Return a hint about blanks between a number and its unit; None where they are not what is wrong."""
    parts = text.split()
    match = _NUMBER.fullmatch("".join(parts))
    if match is None or match["number"] != parts[0]:
        return None
    unit = _unit(kind, match["unit"])
    return f"did you mean {quoted(match['number'])}{unit}?" if unit else _unit_hint(kind, *match.groups())


def _format(kind: str, base: int) -> str:
    units = UNITS[kind]
    names = _CANONICAL[kind]
    if base == 0:
        return "0s" if kind == "duration" else f"0{names[-1]}"
    unit = next((name for name in names if base >= units[name]), names[-1])
    whole, rest = divmod(base, units[unit])
    if not rest:
        return f"{whole}{unit}"
    digits = str(rest).rjust(len(str(units[unit])) - 1, "0").rstrip("0")
    return f"{whole}.{digits}{unit}"
