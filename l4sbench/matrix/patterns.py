# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Patterns of values, for filters on the command line and for `exclude`.

Commas separate alternatives. Quantities and numbers are compared by value, so `0.1gbit` matches 100mbit;
names are compared as text, with `*`, `?` and `[...]` as in file names.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self

from l4sbench.catalog import linux_name
from l4sbench.disk.document import reported
from l4sbench.disk.userfiles import short
from l4sbench.errors import BadValueError, InputError, Problem, suggest
from l4sbench.facts.factors import FACTORS, refers
from l4sbench.text.parameters import plain
from l4sbench.text.units import EXPECTED, Value, kind_of, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from l4sbench.facts.cell import Cell

CELL = "cell"
"""Name that filters use for ids of cells: `cell=codel_*`."""

MAX_ALTERNATIVES = 1_000
"""Number of alternatives that a pattern may have."""

BAR = "commas mean or; | does not"
"""Message for a pattern with `|`."""

_GLOB = frozenset("*?[")


class Pattern:
    """Alternatives for the value of one factor."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.alternatives = tuple(part.strip() for part in text.split(","))
        self._known: dict[tuple[type, Value], bool] = {}

    @classmethod
    def of(cls, factor: str, text: str) -> Self:
        """Return a pattern for a factor's value; queues may be spelled as in Linux."""
        return cls(linux_name(text) if refers(factor, "queue") else text)

    @property
    def exact(self) -> tuple[str, ...]:
        """Alternatives that are values, not globs."""
        return tuple(text for text in self.alternatives if not _GLOB & set(text))

    def matches(self, value: Value) -> bool:
        """Return True if any alternative matches."""
        key = (type(value), value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = any(_matches(text, value) for text in self.alternatives)
        return found

    def unmatched(self, values: Iterable[Value]) -> tuple[str, ...]:
        """Return the alternatives that match none of `values`."""
        offered = list(values)
        return tuple(text for text in self.alternatives if not any(_matches(text, v) for v in offered))


def _matches(text: str, value: Value) -> bool:
    if isinstance(value, str):
        return fnmatchcase(value, text)
    written = plain(value)
    if isinstance(written, bool):
        return fnmatchcase("true" if written else "false", text.lower())
    if _GLOB & set(text):
        return fnmatchcase(str(written), text)
    try:
        if isinstance(written, str):
            return parse_quantity(kind_of(value), text) == value
        return float(text) == written
    except ValueError:
        return False


def select(cells: Sequence[Cell], filters: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells that match every filter `FACTOR=PATTERN`.

    Raises:
        InputError: all filters that are malformed, name an unknown factor or match nothing; or no cell
            matches all filters.
    """
    problems: list[Problem] = []
    patterns: list[tuple[str, Pattern]] = []
    known = set[str]().union(*(common.factors for common in {cell.common for cell in cells})) | {CELL}
    for text in filters:
        name, equals, pattern = text.partition("=")
        name = name.strip()
        if not equals or not name or not pattern.strip():
            hint = "write FACTOR=PATTERN, such as aqm=codel,fq*"
            problems.append(Problem("", short(text), "is not a valid filter", hint))
        elif pattern.count(",") >= MAX_ALTERNATIVES:
            message = f"has more than {MAX_ALTERNATIVES} alternatives"
            problems.append(Problem("", short(text), message))
        elif (meant := with_commas(pattern)) is not None:
            hint = f"write {name}={short(meant)}" if meant else "write FACTOR=PATTERN, such as aqm=codel,fq*"
            problems.append(Problem("", short(text), BAR, hint))
        elif name not in known:
            offered = sorted(known, key=lambda factor: (factor not in FACTORS, factor))
            message = f"no cell has a factor {short(name)}"
            problems.append(Problem("", short(text), message, suggest(name, offered)))
        else:
            found = Pattern.of(name, pattern)
            patterns.append((name, found))
            problems += _unmatched(text, name, found, cells)
    if problems:
        raise InputError(reported(problems))
    chosen = tuple(cell for cell in cells if all(_holds(cell, name, pattern) for name, pattern in patterns))
    if not chosen:
        raise InputError(f"no cell matches all of {' '.join(filters)}")
    return chosen


def with_commas(pattern: str) -> str | None:
    """Return a pattern whose alternatives `|` separates as it has to be written; None for other patterns.

    No value has that character, so that it never means itself.
    """
    if "|" not in pattern:
        return None
    parts = (part.strip() for part in pattern.replace("|", ",").split(","))
    return ",".join(part for part in parts if part)


def _holds(cell: Cell, name: str, pattern: Pattern) -> bool:
    value: Value | None = cell.id if name == CELL else cell.get(name)
    return value is not None and pattern.matches(value)


def _unmatched(text: str, name: str, pattern: Pattern, cells: Sequence[Cell]) -> list[Problem]:
    """Report every alternative that matches no cell: most likely a typo that would go unnoticed."""
    values: dict[Value, None] = (
        {cell.id: None for cell in cells}
        if name == CELL
        else {value: None for cell in cells if (value := cell.get(name)) is not None}
    )
    shown = [str(plain(value)) if not isinstance(value, bool) else str(value).lower() for value in values]
    problems: list[Problem] = []
    for alternative in pattern.unmatched(values):
        kinds = sorted({kind_of(value) for value in values})
        word = alternative if kinds == ["str"] else ""  # values that are no words are listed
        if len(kinds) == 1 and kinds[0] in EXPECTED and not _GLOB & set(alternative):
            try:
                parse_quantity(kinds[0], alternative)
            except BadValueError as error:
                problems.append(Problem("", short(text), error.message, error.hint))
                continue
        message = f"no cell has {name}={short(alternative)}"
        problems.append(Problem("", short(text), message, suggest(word, shown)))
    return problems
