# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Argument lists as data: text with `{param}` fields, optional parts, conditional parts.

In a `module.yml` a template is a list of
- text: `codel`, `"{limit}"`, `"{step_packets}p"`; one argument each;
- a list: left out as a whole if one of its fields has no value: `[tupdate, "{tupdate}"]`;
- a map `{when: {form: robust}, args: [...]}`: present only with these values of the named parameters.

Fields are written as tc reads them (`5ms`, `100mbit`, plain packets and bytes); `{target.us}` converts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.text.units import RATE_UNITS, Duration, Packets, Rate, Size, Value
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from l4sbench.text.parameters import Condition

_FIELD = re.compile(r"\{([a-z][a-z0-9_]*)(?:\.([a-z_]+))?\}")
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
UNITS = frozenset({*_NS, *RATE_UNITS, "bytes", "packets"})


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter's value within a text, in `unit` or, if None, as tc writes it."""

    name: str
    unit: str | None


@dataclass(frozen=True, slots=True)
class Text:
    """One argument."""

    pieces: tuple[str | Field, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Arguments that are present or left out together."""

    items: tuple[Text | Part, ...]
    when: Condition
    optional: bool


Item = Text | Part


def parse_text(text: str) -> Text:
    """Split one argument into text and fields.

    Raises:
        ValueError: a brace does not belong to a field, or a unit is unknown.
    """
    pieces: list[str | Field] = []
    end = 0
    for found in _FIELD.finditer(text):
        if found.start() > end:
            pieces.append(text[end : found.start()])
        if found[2] is not None and found[2] not in UNITS:
            unknown = f"unknown unit {quoted(found[2])!r} in {quoted(text)!r}"
            raise ValueError(f"{unknown}; choose from {', '.join(sorted(UNITS))}")
        pieces.append(Field(found[1], found[2]))
        end = found.end()
    if end < len(text):
        pieces.append(text[end:])
    if any(isinstance(piece, str) and ("{" in piece or "}" in piece) for piece in pieces):
        raise ValueError(f"{quoted(text)!r} has a brace outside of a field; write {{name}} or {{name.unit}}")
    return Text(tuple(pieces))


def fields(items: Sequence[Item]) -> Iterator[Field]:
    """Yield every field of a template, in order."""
    for item in items:
        if isinstance(item, Part):
            yield from fields(item.items)
        else:
            yield from (piece for piece in item.pieces if isinstance(piece, Field))


def holds(when: Condition, chosen: Mapping[str, Value | None]) -> bool:
    """Return True if every named parameter has one of the listed values."""
    return all(chosen.get(name) in allowed for name, allowed in when.items())


def render(
    items: Sequence[Item], values: Mapping[str, Value | None], chosen: Mapping[str, Value | None]
) -> tuple[str, ...]:
    """Return the arguments for these values, without optional parts that lack a value.

    Args:
        items: The template.
        values: Values of fields.
        chosen: Values for conditions, as chosen, including the word `default`.

    Raises:
        ValueError: a value is missing outside of an optional part, or cannot be converted to a unit.
    """
    args: list[str] = []
    for item in items:
        if isinstance(item, Text):
            args.append(render_text(item, values))
        elif holds(item.when, chosen) and not (item.optional and _lacks(item, values)):
            args += render(item.items, values, chosen)
    return tuple(args)


def render_text(text: Text, values: Mapping[str, Value | None]) -> str:
    """Return one argument for these values.

    Raises:
        ValueError: a value is missing or cannot be converted to a unit.
    """
    out: list[str] = []
    for piece in text.pieces:
        if isinstance(piece, str):
            out.append(piece)
            continue
        value = values.get(piece.name)
        if value is None:
            raise ValueError(f"{piece.name} has no value here")
        out.append(write(value) if piece.unit is None else _plain(number(value, piece.unit)))
    return "".join(out)


def write(value: Value) -> str:
    """Return a value as tc reads it: `5ms`, `100mbit`; packets, bytes and numbers plain."""
    match value:
        case Duration(ns=amount):
            return _largest(amount, _NS)
        case Rate(bits_per_s=amount):
            return _largest(amount, RATE_UNITS)
        case Packets(count=amount) | Size(bytes=amount):
            return str(amount)
        case bool():
            return "1" if value else "0"
        case float():
            return _plain(value)
    return str(value)


def number(value: Value, unit: str) -> float | int:
    """Return a value as a number of `unit`.

    Raises:
        ValueError: the value is of another kind.
    """
    match value:
        case Duration(ns=amount) if unit in _NS:
            return _exact(amount, _NS[unit])
        case Rate(bits_per_s=amount) if unit in RATE_UNITS:
            return _exact(amount, RATE_UNITS[unit])
        case Size(bytes=amount) if unit == "bytes":
            return amount
        case Packets(count=amount) if unit == "packets":
            return amount
    raise ValueError(f"cannot convert {value} to {unit}")


def _lacks(part: Part, values: Mapping[str, Value | None]) -> bool:
    own = (item for item in part.items if isinstance(item, Text))
    return any(
        values.get(piece.name) is None for text in own for piece in text.pieces if isinstance(piece, Field)
    )


def _largest(amount: int, units: Mapping[str, int]) -> str:
    """Return the amount in the largest unit that keeps it whole: 12500us, not 12.5ms."""
    suffix, size = next((s, n) for s, n in reversed(list(units.items())) if amount % n == 0)
    return f"{amount // size}{suffix}"


def _exact(amount: int, size: int) -> float | int:
    return amount // size if amount % size == 0 else amount / size


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0").rstrip(".")
