# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The decision tables as the studies print them, entry by entry, with the cells that stand behind each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML

from l4sbench.errors import InputError, did_you_mean
from reports.published import FOLDER

_L4S_CC: Final = "l4s.cc"

Star: TypeAlias = Literal["all", "some", "none"]
_STARS: Final[Mapping[str, Star]] = {"*": "all", "(*)": "some", "": "none"}


@dataclass(frozen=True)
class PrintedEntry:
    """One entry of a printed table.

    Attributes:
        l4s: L4S congestion control it is about (`l4s.cc`).
        row, column: Labels.
        ok: Whether the study prints a tick rather than a cross.
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

    def of(self, cells: pl.DataFrame) -> pl.DataFrame:
        """The cells behind it, of a frame that has the factors as columns."""
        return cells.filter(*(pl.col(name).is_in(list(values)) for name, values in self.match.items()))


@dataclass(frozen=True)
class PrintedTable:
    """A printed decision table: the study's name, where it stands, and the rule that reproduces it."""

    study: str
    source: str
    rule: str
    entries: tuple[PrintedEntry, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Row(_Strict):
    label: str
    aqm: tuple[str, ...]


class _Column(_Strict):
    label: str
    cc: str = Field(alias="classic.cc")
    ecn: tuple[str, ...] = Field(alias="classic.ecn")
    fallback: str = Field(alias="l4s.fallback")


class _Exception(_Strict):
    l4s: str
    row: str
    column: str
    text: str


class _Table(_Strict):
    study: str
    source: str
    l4s: tuple[str, ...]
    rule: str
    rows: tuple[_Row, ...]
    columns: tuple[_Column, ...]
    grid: tuple[tuple[str | tuple[str, ...], ...], ...]
    exceptions: tuple[_Exception, ...] = ()

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
            _L4S_CC: (l4s,),
            "l4s.fallback": (column.fallback,),
            "classic.cc": (column.cc,),
            "classic.ecn": column.ecn,
            "aqm": row.aqm,
        }
        word = printed.rstrip("(*)")
        star = _STARS[printed.removeprefix(word)]
        return PrintedEntry(*place, word == "ok", star, match, "; ".join(why))


def printed_tables() -> tuple[PrintedTable, ...]:
    """The printed decision tables of all studies."""
    listed = YAML(typ="safe").load((FOLDER / "printed.yml").read_text(encoding="utf-8"))
    tables = [_Table.model_validate(table) for table in listed["tables"]]
    return tuple(PrintedTable(table.study, table.source, table.rule, table.entries()) for table in tables)


def printed_table(study: str) -> PrintedTable:
    """The printed decision table of a study.

    Raises:
        InputError: there is none of that name.
    """
    tables = {table.study: table for table in printed_tables()}
    if study not in tables:
        hint = did_you_mean(study, tables) or f"studies are {', '.join(tables)}"
        raise InputError(f"there is no published study {study}", hint)
    return tables[study]
