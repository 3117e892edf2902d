# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Numbers in words, and what messages quote, for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Final

QUOTED_CHARS: Final = 20
"""Number of characters that a message quotes of a file: enough to recognise the place, at which it states
line and column, and too few to read a file by naming it as a matrix."""

_MORE: Final = "..."


def as_duration(seconds: float) -> str:
    """Return a time for people: `42 s`, `3 min 20 s`, `5 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(seconds / 60)} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def as_range(low_s: float, high_s: float) -> str:
    """Return a range of times for people, its ends rounded outwards: `40 to 70 s`, `90 s to 4 min`."""
    (low, low_unit), (high, high_unit) = _rounded(low_s, math.floor), _rounded(high_s, math.ceil)
    if (low, low_unit) == (high, high_unit):
        return f"{high} {high_unit}"
    return f"{low}{'' if low_unit == high_unit else f' {low_unit}'} to {high} {high_unit}"


_UNITS: Final = ((120, 1, "s"), (7200, 60, "min"), (math.inf, 3600, "h"))
"""Each unit with its seconds, and the time from which on the next one is used."""


def _rounded(seconds: float, towards: Callable[[float], int]) -> tuple[int, str]:
    """Return a time in its unit, to 1 below 20, to 5 below 100, else to 10."""
    unit_s, unit = next((unit_s, unit) for most_s, unit_s, unit in _UNITS if seconds <= most_s)
    number = seconds / unit_s
    step = 1 if number < 20 else 5 if number < 100 else 10
    return towards(number / step) * step, unit


def counted(number: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(text: str) -> str:
    """Return text from a file as messages quote it: whole, or so much of its beginning that it is short."""
    return text if len(text) <= QUOTED_CHARS else text[: QUOTED_CHARS - len(_MORE)] + _MORE


def quoted_name(name: str, known: Container[str]) -> str:
    """Return a dotted name from a file as messages quote it; the end of it that is a known name remains."""
    parts = name.split(".")
    for place in range(len(parts)):
        if (end := ".".join(parts[place:])) in known:
            return ".".join([quoted(".".join(parts[:place])), end] if place else [end])
    return quoted(name)


def quoted_within(message: str, source: str) -> str:
    """Return the message of a parser with everything that it quotes of `source` as messages quote it."""
    found: list[str] = []
    begin = 0
    while begin < len(message):
        end = begin + QUOTED_CHARS + 1
        if end > len(message) or message[begin:end] not in source:
            found.append(message[begin])
            begin += 1
            continue
        while end < len(message) and message[begin : end + 1] in source:
            end += 1
        found.append(quoted(message[begin:end]))
        begin = end
    return "".join(found)
