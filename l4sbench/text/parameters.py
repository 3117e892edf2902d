# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parameters: named settings with a type, a range and a meaning, and how values are read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias

from l4sbench.errors import BadValueError, did_you_mean
from l4sbench.text.expressions import matches
from l4sbench.text.units import (
    EXPECTED,
    Duration,
    Kind,
    Packets,
    Percent,
    PerPacket,
    Plain,
    Quantity,
    Rate,
    Size,
    Value,
    parse_quantity,
)
from l4sbench.text.wording import quoted

Condition: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Parameter -> values it may have; holds if every parameter has one of its values."""

Reference: TypeAlias = Literal["", "queue", "cc", "send", "topology", "workload", "program"]

HOUR: Final = Duration(3600 * 10**9)
DAY: Final = Duration(24 * 3600 * 10**9)

_DECLARED: Final = "parameter"

OWN: Final = "default"
"""The word that leaves a parameter to the queue itself, as in `aqm.limit: default`."""

_PUNCTUATION: Final = "_.:%+/=,-"
_WORD: Final = re.compile(f"[A-Za-z0-9{_PUNCTUATION}]+")  # the hyphen is last

_IN_BITS: Final = 1e6
"""A rate without unit from which it is in bit/s: no link has as many Mbit/s."""
_UNITS: Final[Mapping[str, str]] = {
    "rate": "mbit",
    "duration": "ms",
    "size": "B",
    "packets": "p",
    "percent": "%",
    "per_packet": "/packet",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named setting: a factor of cells or flow groups, or a parameter that a catalog entry declares.

    Attributes:
        name: dotted name; without the prefix (`aqm.`, `<group>.`) for flow groups and catalog entries.
        kind: type of its values.
        meaning: one sentence, with units where the kind does not imply them.
        default: value if a matrix does not state it; None: see `required` and `derive`.
        required: True if every cell must state it. A parameter that is neither stated, nor required, nor
            derived, nor has a default is absent.
        derive: source of a value that is not stated: `buffer`, `rate`, or the name of another parameter.
        own: value a queue uses when its command leaves the parameter out, as far as known; such a parameter
            also accepts the word `default`.
        choices: allowed words of a `str` or values of an `int`; empty: any name, any number.
        pattern: regular expression that a `str` must match.
        word: True if a `str` becomes an argument of a command, and must be one word of it.
        minimum: smallest allowed value.
        maximum: largest allowed value.
        positive: True if zero is not allowed.
        scales: True if an `int` may also be stated as a number per packet of the bandwidth-delay product and
            the buffer; a cell has the whole number that follows.
        unit: unit that a bare number most likely means, for error messages; empty: the usual one of the kind.
        refers: kind of thing that a `str` names; `program`: it is a command that begins with the path of one.
        when: values of sibling parameters with which this one applies.
        source: what defines it, such as `RFC 8290`; empty: the sources of its entry, or l4sbench itself.
    """

    name: str
    kind: Kind
    meaning: str = ""
    default: Value | None = None
    required: bool = False
    derive: str | None = None
    own: Value | None = None
    choices: tuple[str, ...] | tuple[int, ...] = ()
    pattern: str | None = None
    word: bool = False
    minimum: Value | None = None
    maximum: Value | None = None
    positive: bool = False
    scales: bool = False
    unit: str = ""
    refers: Reference = ""
    when: Condition = field(default_factory=dict)
    source: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Words accepted in place of a quantity or number."""
        return (OWN,) if self.own is not None and self.kind != "str" else ()

    def parse(self, raw: object) -> Value:
        """Return the value of `raw`, as read from YAML or a command line.

        Raises:
            BadValueError: `raw` is not a valid value; the message says what is expected.
        """
        if isinstance(raw, str) and raw in self.words:
            return raw
        try:
            value = self._typed(str(raw) if isinstance(raw, Quantity) else raw)
            self._check_range(value)
        except BadValueError as error:
            if error.hint is None and self.words:
                raise BadValueError(error.message, f"{OWN} leaves it to the queue") from None
            raise
        return value

    def _typed(self, raw: object) -> Value:
        match self.kind:
            case "bool":
                return _boolean(raw)
            case "int" if self.scales and isinstance(raw, str) and "/" in raw:
                return PerPacket.parse(raw)
            case "int" | "float":
                return _number(self.kind, raw)
            case "str":
                return self._word(raw)
        expected = EXPECTED[self.kind]
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            hint = f"did you mean {self._with_unit(raw)}?" if raw >= 0 else None
            raise BadValueError(f"expected {expected}, but {shown(raw)} has no unit", hint)
        if not isinstance(raw, str):
            raise BadValueError(f"expected {expected}, not {shown(raw)}")
        return parse_quantity(self.kind, raw)

    def _with_unit(self, raw: float) -> str:
        """Return a number with the unit that it most likely has; with two if it may be seconds or a share."""
        number, unit = shown(raw), self.unit or _UNITS[self.kind]
        if self.kind == "rate" and _IN_BITS <= raw < _BEYOND:
            return str(Rate(round(raw)))  # bit/s, as tc has a number without unit
        if 0 < raw < 1 and self.kind == "percent":
            return f"{number}% or {raw * 100:g}%"
        if 0 < raw < 1 and unit == "ms":
            return f"{number}ms or {number}s"
        return f"{number}{unit}"

    def _word(self, raw: object) -> str:
        choices = tuple(map(str, self.choices))
        expected = f"expected one of {', '.join(choices)}" if choices else "expected a name"
        if isinstance(raw, bool):
            # `off` is a text in YAML 1.2 but a boolean in 1.1, which many editors and tools still use
            word = "on" if raw else "off"
            hint = f'write "{word}", in quotes' if word in choices else None
            raise BadValueError(f"{expected}, but {shown(raw)} is a boolean", hint)
        if not isinstance(raw, str):
            raise BadValueError(f"{expected}, not {shown(raw)}")
        if choices and raw not in choices:
            hint = did_you_mean(raw, choices)
            if "off" in choices and raw.lower() in {"no", "none", "false", "0"}:
                hint = 'did you mean "off"?'
            raise BadValueError(f"{expected}, not {shown(raw)}", hint)
        if not raw:
            raise BadValueError(f"{expected}, not an empty text")
        if self.pattern is not None and not matches(raw, self.pattern):
            raise BadValueError(f"{shown(raw)} does not match the pattern {self.pattern}")
        if self.word:
            as_word(raw)
        return raw

    def _check_range(self, value: Value) -> None:
        if self.scales and isinstance(value, PerPacket):
            return  # the number that follows is checked in each cell
        if self.kind == "int" and self.choices and value not in self.choices:
            raise BadValueError(f"expected one of {', '.join(map(str, self.choices))}, not {plain(value)}")
        limit = None
        if self.positive and not _amount(value) > 0:
            limit = "more than 0"
        elif self.minimum is not None and _amount(value) < _amount(self.minimum):
            limit = f"at least {plain(self.minimum)}"
        elif self.maximum is not None and _amount(value) > _amount(self.maximum):
            limit = f"at most {plain(self.maximum)}"
        if limit is not None:
            raise BadValueError(f"{plain(value)} is out of range; it must be {limit}")


def declares(parameter: Parameter, **default: Any) -> Any:
    """Return a field of a dataclass that declares a parameter, which has the field's name unless it has one.

    `default` is the field's, if it has one.
    """
    return field(metadata={_DECLARED: parameter}, **default)


def declared(kind: type) -> Mapping[str, Parameter]:
    """Return the parameters that the fields of a dataclass declare, by the fields' names."""
    found = {one.name: one.metadata.get(_DECLARED) for one in fields(kind)}
    return {name: replace(one, name=one.name or name) for name, one in found.items() if one is not None}


def plain(value: Value) -> Plain:
    """Return a value as JSON holds it: quantities as their canonical text, whole floats as integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str | bool | int):
        return value
    return str(value)


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
        case Percent():
            return value.ppb
        case PerPacket():
            return value.billionths
        case str():
            raise TypeError("a word has no size")
        case _:
            return value


def as_word(text: str) -> str:
    """Return a text unchanged if no shell, tc or ip reads it as more than one plain word.

    Raises:
        BadValueError: it is not one word.
    """
    if not _WORD.fullmatch(text):
        raise BadValueError(f"{shown(text)} is not one word of letters, digits and {_PUNCTUATION}")
    return text


def shown(raw: object) -> str:
    """Return a YAML value as error messages quote it."""
    match raw:
        case None:
            return "nothing"
        case bool():
            return "true" if raw else "false"
        case str():
            return f'"{quoted(raw)}"'
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case _:
            return quoted(str(raw))


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw in {"true", "false"}:
        return raw == "true"
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(raw).lower())
    raise BadValueError(
        f"expected true or false, not {shown(raw)}", f"did you mean {meant}?" if meant else None
    )


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEYOND: Final = 10**18


def _number(kind: Kind, raw: object) -> Value:
    whole = kind == "int"
    if isinstance(raw, str) and (_INTEGER if whole else _DECIMAL).fullmatch(raw):
        number: int | float = float(raw)  # of any length
        if not -_BEYOND < number < _BEYOND:
            raise BadValueError(f"{shown(raw)} is out of range")
        raw = int(raw) if whole else number
    if isinstance(raw, bool) or not isinstance(raw, int if whole else int | float):
        raise BadValueError(f"expected a {'whole ' if whole else ''}number, not {shown(raw)}")
    if not -_BEYOND < raw < _BEYOND:  # nor are infinity and NaN; a whole number may be too large for a float
        raise BadValueError(f"{shown(raw)} is out of range")
    return raw if whole else float(raw)
