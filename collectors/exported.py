# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Columns that catalog entries export: from the counters that samplers wrote to the tables' columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench import tables
from l4sbench.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from l4sbench.catalog import Column, Exports
    from l4sbench.catalog.exports import Table
    from l4sbench.program import Program

Schema = dict[str, type[pl.DataType]]

MARKS: Final = "marks_packets"

_KINDS: Final[Mapping[str, type[pl.DataType]]] = {"str": pl.String, "int": pl.Int64, "float": pl.Float64}


def exports_of(table: Table, programs: Mapping[str, Program]) -> tuple[Exports, ...]:
    """Return what may be in a trial's samples, each source once.

    The programs say what was sampled. For older runs, whose programs do not, and for queues other than the
    one under test, it is what l4sbench's own catalog says.
    """
    found = {exports.source: exports for exports in _builtin() if exports.table == table}
    for program in programs.values():
        for sampler in program.samplers:
            found |= {exports.source: exports for exports in sampler.exports if exports.table == table}
    return tuple(found.values())


@cache
def _builtin() -> tuple[Exports, ...]:
    return tuple(Catalog.load().exports.values())


def counters(exports: Iterable[Exports]) -> Schema:
    """Return the names of the counters in samples, with their types."""
    found: Schema = {}
    for source in exports:
        for column in source.columns:
            kind = _type_of(source.table, column)
            # what a column scales, or another one has as a real number, may have a fraction
            exact = kind is not pl.Float64 and column.unit is None
            for name in column.counters:
                counter = source.counter(name.removeprefix("-"))
                found[counter] = kind if exact and found.get(counter) is not pl.Float64 else pl.Float64
    return found


def _type_of(table: str, column: Column) -> type[pl.DataType]:
    if column.kind is not None:
        return _KINDS[column.kind]
    return type(tables.columns(table)[column.name])


def values(exports: Exports) -> dict[str, pl.Expr]:
    """Return the columns of one source, computed from its counters; null where it reported none."""
    return {column.name: _value(exports, column) for column in exports.columns}


def _value(exports: Exports, column: Column) -> pl.Expr:
    names = [(exports.counter(name.removeprefix("-")), name.startswith("-")) for name in column.counters]
    if len(names) == 1 and not names[0][1]:
        total = pl.col(names[0][0])
    else:
        there = pl.any_horizontal(pl.col(name).is_not_null() for name, _ in names)
        total = pl.when(there).then(
            pl.sum_horizontal(-pl.col(name) if minus else pl.col(name) for name, minus in names)
        )
    times, over = column.scale
    return total if times == over else total * times / over


def merged(sources: Sequence[Mapping[str, pl.Expr]]) -> list[pl.Expr]:
    """Return each column once: what the first of the sources says that reported it."""
    names = dict.fromkeys(name for source in sources for name in source)
    return [pl.coalesce([source[name] for source in sources if name in source]).alias(name) for name in names]


def mark_counters(programs: Mapping[str, Program]) -> frozenset[str]:
    """Return the names of the counters that count marks, of whatever kind of queue."""
    return frozenset(
        name
        for exports in exports_of("queues", programs)
        for column in exports.columns
        if column.name == MARKS
        for name in column.counters
    )
