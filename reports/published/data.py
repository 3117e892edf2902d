# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Published results as data (SOURCE.md): cell means, printed decision tables and errata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Literal, TypeAlias

import polars as pl
from pydantic import Field

from l4sbench.disk.document import load_model
from l4sbench.errors import InputError, suggest
from l4sbench.text.models import Strict

FOLDER: Final = Path(__file__).parent

FACTORS: Final = (
    *("l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn", "aqm", "buffer_bdp", "rate_mbps", "rtt_ms"),
)
"""Columns of table `trials` that every published cell has; a study may have more."""


@dataclass(frozen=True)
class PublishedCell:
    """One published cell: means over its trials.

    Attributes:
        factors: The values of `FACTORS`, and of what else the study varies.
        trials: Number of trials.
        l4s_mbps, classic_mbps: Goodput at the receiver, in the study's measured time.
        delay_ms, classic_delay_ms: Mean smoothed RTT minus base RTT; None where it was not published.
    """

    factors: Mapping[str, str | float]
    trials: int
    l4s_mbps: float
    classic_mbps: float
    delay_ms: float | None = None
    classic_delay_ms: float | None = None

    @property
    def key(self) -> tuple[str | float, ...]:
        """The values of the factors in order."""
        return tuple(self.factors.values())

    @property
    def percent(self) -> float:
        """L4S goodput in percent of the link's rate."""
        return self.l4s_mbps / float(self.factors["rate_mbps"]) * 100


@cache
def published_cells(file: str = "cells.csv") -> tuple[PublishedCell, ...]:
    """Read published cells, in the order of their factors; no two have the same factors.

    The columns before `trials` are the factors.
    """
    types = dict.fromkeys(("buffer_bdp", "rate_mbps", "rtt_ms"), pl.Float64)
    frame = pl.read_csv(FOLDER / file, schema_overrides=types)
    further = frame.columns[: frame.columns.index("trials")]
    factors = (*FACTORS, *(name for name in further if name not in FACTORS))
    means = [field.name for field in fields(PublishedCell) if field.name in frame.columns]
    return tuple(
        PublishedCell({name: row[name] for name in factors}, **{name: row[name] for name in means})
        for row in frame.sort(factors).iter_rows(named=True)
    )


class Erratum(Strict):
    """A known error of published cells: those whose factors have the values of `match`.

    `cells`: file of the cells. `corrected`: printed entries with such cells once the error is fixed, where
    someone measured that.
    """

    cells: str = "cells.csv"
    match: Mapping[str, str]
    text: str
    source: str
    corrected: Literal["ok", "not ok"] | None = None

    def touches(self, factors: Mapping[str, object]) -> bool:
        """Return True if the erratum is about the cell with these factors."""
        return all(str(factors[name]) == value for name, value in self.match.items())

    def __str__(self) -> str:
        """Return the erratum with its source, for reports."""
        return f"{self.text} ({self.source})"


class _Errata(Strict):
    errata: tuple[Erratum, ...]


@cache
def errata(file: str = "cells.csv") -> tuple[Erratum, ...]:
    """Read the known errata of a file of published cells."""
    return tuple(own for own in load_model(FOLDER / "errata.yml", _Errata).errata if own.cells == file)


Star: TypeAlias = Literal["all", "some", "none"]
_STARS: Final[Mapping[str, Star]] = {"*": "all", "(*)": "some", "": "none"}


@dataclass(frozen=True)
class PrintedEntry:
    """One entry of a printed table.

    Attributes:
        l4s: L4S congestion control it is about (`l4s.cc`).
        row, column: Labels.
        ok: True if the study prints a tick rather than a cross.
        star: `all` or `some` where it prints the star of ultra-low latency, for all or some of its queues;
            else `none`.
        match: Factor -> values of the cells behind it.
        exception: Why the study's own cells do not give this entry by its rule; empty where they do.
    """

    l4s: str
    row: str
    column: str
    ok: bool
    star: Star
    match: Mapping[str, tuple[str, ...]]
    exception: str

    def covers(self, factors: Mapping[str, object]) -> bool:
        """Return True if the cell with these factors is behind the entry."""
        return all(factors[name] in values for name, values in self.match.items())


class _Row(Strict):
    label: str
    aqm: tuple[str, ...]


class _Column(Strict):
    label: str
    cc: str = Field(alias="classic.cc")
    ecn: tuple[str, ...] = Field(alias="classic.ecn")
    fallback: str = Field(alias="l4s.fallback")


class _Exception(Strict):
    l4s: str
    row: str
    column: str
    text: str


class PrintedTable(Strict):
    """A study: its published cells, and the decision table that it prints, if it prints one.

    Attributes:
        study: Its name.
        source: Where the table, or else the cells, are published.
        rule: The rule that reproduces the table.
        cells: File of the published cells.
        value: Column of table `flows` that is measured as the published goodput was.
        l4s, rows, columns, grid, exceptions: The table.
    """

    study: str
    source: str
    rule: str
    cells: str = "cells.csv"
    value: Literal["goodput_whole_mbps", "goodput_mbps"] = "goodput_whole_mbps"
    l4s: tuple[str, ...] = ()
    rows: tuple[_Row, ...] = ()
    columns: tuple[_Column, ...] = ()
    grid: tuple[tuple[str | tuple[str, ...], ...], ...] = ()
    exceptions: tuple[_Exception, ...] = ()

    @cached_property
    def published(self) -> tuple[PublishedCell, ...]:
        """The published cells; where there is a table, those with its queues."""
        queues = {queue for row in self.rows for queue in row.aqm}
        return tuple(c for c in published_cells(self.cells) if not queues or c.factors["aqm"] in queues)

    @cached_property
    def entries(self) -> tuple[PrintedEntry, ...]:
        """The grid as entries: per L4S congestion control, row and column."""
        return tuple(
            self._entry(l4s, row, column, printed if isinstance(printed, str) else printed[place])
            for place, l4s in enumerate(self.l4s)
            for row, line in zip(self.rows, self.grid, strict=True)
            for column, printed in zip(self.columns, line, strict=True)
        )

    def _entry(self, l4s: str, row: _Row, column: _Column, printed: str) -> PrintedEntry:
        place = (l4s, row.label, column.label)
        why = [e.text for e in self.exceptions if (e.l4s, e.row, e.column) == place]
        match: Mapping[str, tuple[str, ...]] = {
            "l4s.cc": (l4s,),
            "l4s.fallback": (column.fallback,),
            "classic.cc": (column.cc,),
            "classic.ecn": column.ecn,
            "aqm": row.aqm,
        }
        word = printed.rstrip("(*)")
        star = _STARS[printed.removeprefix(word)]
        return PrintedEntry(*place, word == "ok", star, match, "; ".join(why))


class _Printed(Strict):
    tables: tuple[PrintedTable, ...]


def studies() -> tuple[str, ...]:
    """Return the names of the studies."""
    return tuple(_printed_tables())


def _printed_tables() -> Mapping[str, PrintedTable]:
    return {table.study: table for table in load_model(FOLDER / "printed.yml", _Printed).tables}


def printed_table(study: str) -> PrintedTable:
    """Read a study with its printed decision table.

    Raises:
        InputError: no study has that name.
    """
    tables = _printed_tables()
    if study not in tables:
        hint = suggest(study, tables)
        raise InputError(f"{study} is not a published study", hint)
    return tables[study]
