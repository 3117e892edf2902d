# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tables as frames and as Parquet files: shape, validate, write, scan."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import dataframely as dy
import polars as pl

from l4sbench.errors import InputError
from l4sbench.files import new_file
from l4sbench.tables.schemas import EXPORTING, SCHEMAS, schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT: Final = 1
"""Version of the tables' format, in the metadata of every file. Readers refuse newer versions."""

ROW_GROUP_ROWS: Final = 100_000
FORMAT_KEY: Final = "l4sbench.format"
TABLE_KEY: Final = "l4sbench.table"


@cache
def key(table: str) -> tuple[str, ...]:
    """Return the columns that a table is sorted by; together they identify a row."""
    return tuple(SCHEMAS[table].primary_key())


@cache
def columns(table: str) -> Mapping[str, pl.DataType]:
    """Return the columns of a table with their types, in order; for `trials` without factors."""
    return {name: column.dtype for name, column in schema(table).columns().items()}


@cache
def empty(table: str) -> pl.DataFrame:
    """Return a table without rows."""
    return schema(table).create_empty()


def shape(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with the table's columns in order, of their types, sorted by key.

    Values are not checked. Columns that the frame lacks become null. Two kinds of columns need not be in the
    schema: the factors of `trials`, which follow the key by name, and what entries outside of l4sbench's own
    catalog export, which comes last by name. Anywhere else an unknown column is an error.

    Raises:
        ValueError: a column is not in the schema, or has another type.
    """
    own, key_columns = columns(table), list(key(table))
    others = sorted(set(frame.columns) - own.keys())
    if others and table not in {"trials", *EXPORTING}:
        raise ValueError(f"columns {', '.join(others)} are not in table {table}")
    names = [*own, *others]
    if others and table == "trials":
        names = [*key_columns, *others, *(name for name in own if name not in key_columns)]
    there = set(frame.columns)
    typed = [
        pl.col(name)
        if name not in own
        else pl.col(name).cast(own[name])
        if name in there
        else pl.lit(None, own[name]).alias(name)
        for name in names
    ]
    try:
        return frame.select(typed).sort(key_columns)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"table {table}: {error}") from error


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as the table stores it, by `shape`, with all values checked against the schema.

    Raises:
        ValueError: as `shape`, or values do not match the schema (dataframely's message).
    """
    shaped = shape(table, frame)
    try:
        schema(table).validate(shaped.select(list(columns(table))))
    except (dy.exc.ValidationError, dy.exc.SchemaError) as error:
        raise ValueError(f"table {table}: {error}") from error
    return shaped


def write(table: str, parts: Sequence[pl.LazyFrame], path: Path) -> None:
    """Write a table from parts that are in key order; the file appears whole or not at all.

    The file does not depend on how the rows are split into parts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = _together(table, parts) if parts else empty(table).lazy()
    with new_file(path) as temporary:
        frame.sink_parquet(
            temporary,
            compression="zstd",
            row_group_size=ROW_GROUP_ROWS,
            maintain_order=True,
            metadata={FORMAT_KEY: str(FORMAT), TABLE_KEY: table},
            engine="streaming",
        )


def _together(table: str, parts: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
    if table not in EXPORTING:
        return pl.concat(parts, how="vertical")
    there = {name for part in parts for name in part.collect_schema().names()}
    own = columns(table)
    # parts of trials whose entries export different columns
    return pl.concat(parts, how="diagonal").select([*own, *sorted(there - own.keys())])


def format_of(path: Path) -> int | None:
    """Return the format version of a table's file; None if it is not a table of l4sbench."""
    try:
        text = pl.read_parquet_metadata(path).get(FORMAT_KEY, "")
    except (OSError, pl.exceptions.PolarsError):
        return None
    return int(text) if text.isdecimal() else None


def scan(path: Path) -> pl.LazyFrame:
    """Return a table as a lazy frame.

    Raises:
        InputError: there is no table, or a newer l4sbench wrote it.
    """
    version = format_of(path)
    if version is None:
        raise InputError(
            f"{path} is not a table of l4sbench", "write the tables of a run with l4sbench collect"
        )
    if version > FORMAT:
        raise InputError(
            f"{path} has format {version}, but this l4sbench reads only up to {FORMAT}",
            "install a newer l4sbench",
        )
    return pl.scan_parquet(path)
