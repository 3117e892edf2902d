# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The factors every cell has, and those every flow group has: kinds, defaults, meanings, table columns.

A default once released never changes, because cell ids leave it out; a new meaning is a new factor. The
parameters of queues and congestion controls (`aqm.<param>`, `<group>.<param>`) are not listed here: the
catalog declares them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from l4sbench.errors import did_you_mean
from l4sbench.units import (
    EXPECTED,
    Duration,
    Kind,
    Packets,
    Plain,
    Rate,
    Size,
    Value,
    parse_quantity,
)

GROUP_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""What a flow group may be called: it becomes part of factor, file and column names."""


class BadValueError(ValueError):
    """A value that a factor cannot take: what was expected, and perhaps what was meant."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Factor:
    """One named setting.

    Attributes:
        name: dotted name; for the factors of a flow group the part after the group's name.
        kind: what its values are.
        meaning: one sentence, with units where the kind does not say them.
        default: its value when a matrix does not state it; None: see `required`.
        required: every cell must state it. A factor that is neither stated, nor required, nor has a default
            is absent from a cell.
        choices: the words a `str` may be; empty: any name.
        minimum: smallest value allowed.
        positive: whether zero is refused.
        unit: the unit a bare number most likely means, for error messages.
    """

    name: str
    kind: Kind
    meaning: str
    default: Value | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: Value | None = None
    positive: bool = False
    unit: str = ""

    def parse(self, raw: object) -> Value:
        """The value that `raw`, as read from YAML or a command line, stands for.

        Raises:
            BadValueError: what is expected instead.
        """
        if isinstance(raw, Rate | Duration | Size | Packets):
            raw = str(raw)
        if self.kind in EXPECTED:
            value = _quantity(self.kind, raw, self.unit)
        elif self.kind == "str":
            value = _word(raw, self.choices)
        elif self.kind == "bool":
            value = _boolean(raw)
        else:
            value = _number(self.kind, raw)
        self._check_range(value)
        return value

    def _check_range(self, value: Value) -> None:
        if self.positive and not _amount(value) > 0:
            raise BadValueError(f"{plain(value)} is out of range: it must be more than 0")
        if self.minimum is not None and _amount(value) < _amount(self.minimum):
            raise BadValueError(f"{plain(value)} is out of range: at least {plain(self.minimum)} is allowed")


def _table(*factors: Factor) -> Mapping[str, Factor]:
    return MappingProxyType({factor.name: factor for factor in factors})


FACTORS: Final = _table(
    Factor("topology", "str", "Named nodes and networks.", default="line6"),
    Factor("rate", "rate", "Rate of the bottleneck.", required=True, positive=True, unit="mbit"),
    Factor("rtt", "duration", "Round-trip time without queues.", required=True, positive=True, unit="ms"),
    Factor("duration", "duration", "Measured time, after warm-up.", required=True, positive=True, unit="s"),
    Factor(
        "warmup",
        "duration",
        "Time before the measured time; kept out of the metrics.",
        default=Duration(0),
        unit="s",
    ),
    Factor("aqm", "str", "Queue at the bottleneck, by its name in the catalog.", required=True),
    Factor(
        "buffer_bdp",
        "float",
        "Limit of the bottleneck's queue, in bandwidth-delay products.",
        default=1.0,
        positive=True,
    ),
    Factor(
        "path.noise",
        "float",
        "Largest processing jitter of a sender in packet times at the bottleneck; 0 turns it off. "
        "Only the virtual testbed applies it.",
        default=1.0,
        minimum=0.0,
    ),
    Factor(
        "sample.interval",
        "duration",
        "Time between two samples of sockets and queues.",
        default=Duration(100_000_000),
        minimum=Duration(1_000_000),
        unit="ms",
    ),
    Factor(
        "capture",
        "str",
        "What is kept of packets at both sides of the bottleneck's queue: off, or headers, from which the "
        "tables packets and packet_flows are made.",
        default="off",
        choices=("off", "headers"),
    ),
    Factor(
        "traffic.tool",
        "str",
        "What makes the traffic; auto: what suits the testbed.",
        default="auto",
        choices=("auto", "lean", "iperf3"),
    ),
    Factor(
        "expect.bottleneck",
        "bool",
        "Whether a trial whose queue never filled, marked or dropped is invalid.",
        default=True,
    ),
)
"""Factors of every cell, by name."""

ECN_MODES: Final = ("off", "classic", "accecn", "dctcp")

GROUP_FACTORS: Final = _table(
    Factor("cc", "str", "Congestion control of the group, by its name in the catalog.", required=True),
    Factor("count", "int", "Number of flows.", default=1, minimum=1),
    Factor(
        "ecn",
        "str",
        "How its flows use ECN: off, classic (RFC 3168), accecn, dctcp (the receiver echoes as DCTCP). "
        "Default: what its congestion control declares.",
        choices=ECN_MODES,
    ),
    Factor("start", "duration", "When it starts, after the trial's start.", default=Duration(0), unit="s"),
    Factor("from", "str", "Node its flows come from; default: its own."),
    Factor("to", "str", "Node its flows go to; default: its own."),
)
"""Factors of every flow group, by the part of the name after the group's."""

RESERVED: Final = frozenset(name.partition(".")[0] for name in FACTORS)
"""Words that cannot name a flow group, because factors begin with them."""

_SECONDS: Final = frozenset({"duration", "warmup", "start"})
_SUFFIX: Final[Mapping[str, str]] = {"rate": "mbps", "size": "bytes", "packets": "packets"}


def factor_of(name: str) -> Factor | None:
    """The declaration of a dotted factor name; None for parameters and for what is no factor.

    Any `<group>.cc`, `<group>.count` ... counts: which groups there are is the matrix's business.
    """
    if (factor := FACTORS.get(name)) is not None:
        return factor
    group, _, rest = name.partition(".")
    return None if group in RESERVED else GROUP_FACTORS.get(rest)


def column_of(name: str, value: Value) -> tuple[str, Plain]:
    """The column a factor has in tables, its unit in the name, and the value as stored there.

    `rate` = 100mbit gives `("rate_mbps", 100.0)`, `aqm.target` = 5ms gives `("aqm.target_ms", 5.0)`;
    `duration`, `warmup` and `<group>.start` are in seconds.
    """
    match value:
        case Rate():
            return f"{name}_mbps", value.mbps
        case Duration() if name.rpartition(".")[2] in _SECONDS:
            return f"{name}_s", value.s
        case Duration():
            return f"{name}_ms", value.ms
        case Size():
            return f"{name}_bytes", value.bytes
        case Packets():
            return f"{name}_packets", value.count
        case _:
            return name, value


def plain(value: Value) -> Plain:
    """A value as JSON holds it: quantities as their canonical text, whole floats as integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str | bool | int):
        return value
    return str(value)


def boolean_hint(raw: object, choices: tuple[str, ...] | None) -> str | None:
    """What to write instead of a YAML boolean where one of `choices` is needed; None when nothing is meant.

    `off` is a string in YAML 1.2 but a boolean in 1.1, which many editors and tools still speak.
    """
    if not isinstance(raw, bool) or not choices:
        return None
    word = "on" if raw else "off"
    return f'write "{word}", in quotes' if word in choices else None


def _amount(value: Value) -> int | float:
    match value:
        case Rate():
            return value.bits_per_s
        case Duration():
            return value.ns
        case Size():
            return value.bytes
        case Packets():
            return value.count
        case str():
            raise TypeError("a word has no size")
        case _:
            return value


def shown(raw: object) -> str:
    """A YAML value as an error message quotes it."""
    match raw:
        case None:
            return "nothing"
        case bool():
            return "true" if raw else "false"
        case str():
            return f'"{raw}"'
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case _:
            return str(raw)


def _quantity(kind: Kind, raw: object, unit: str) -> Value:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        hint = f"did you mean {raw}{unit}?" if unit and raw >= 0 else None
        raise BadValueError(f"expected {EXPECTED[kind]}, but {raw} has no unit", hint)
    if not isinstance(raw, str):
        raise BadValueError(f"expected {EXPECTED[kind]}, not {shown(raw)}")
    try:
        return parse_quantity(kind, raw)
    except ValueError as error:
        message, _, hint = str(error).partition(": ")
        raise BadValueError(message, hint or None) from None


def _word(raw: object, choices: tuple[str, ...]) -> str:
    expected = f"expected one of {', '.join(choices)}" if choices else "expected a name"
    if isinstance(raw, bool):
        raise BadValueError(f"{expected}, but {shown(raw)} is a boolean", boolean_hint(raw, choices))
    if not isinstance(raw, str):
        raise BadValueError(f"{expected}, not {shown(raw)}")
    if choices and raw not in choices:
        hint = did_you_mean(raw, choices)
        if "off" in choices and raw.lower() in {"no", "none", "false", "0"}:
            hint = 'did you mean "off"?'
        raise BadValueError(f"{expected}, not {shown(raw)}", hint)
    if not raw:
        raise BadValueError(f"{expected}, not an empty text")
    return raw


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw in {"true", "false"}:
        return raw == "true"
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(raw).lower())
    raise BadValueError(
        f"expected true or false, not {shown(raw)}", f"did you mean {meant}?" if meant else None
    )


_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")


def _number(kind: Kind, raw: object) -> Value:
    whole = kind == "int"
    if isinstance(raw, str) and (_INTEGER if whole else _DECIMAL).fullmatch(raw):
        raw = int(raw) if whole else float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int if whole else int | float):
        raise BadValueError(f"expected a {'whole ' if whole else ''}number, not {shown(raw)}")
    if abs(raw) >= 1e18 or not math.isfinite(raw):
        raise BadValueError(f"{shown(raw)} is out of range")
    return raw if whole else float(raw)
