# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tables as frames and as Parquet files: shape, validate, write, scan, and check what is on the disk."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import dataframely as dy
import polars as pl

from l4sbench.disk.files import new_file
from l4sbench.disk.plain import is_plain
from l4sbench.errors import InputError, TestbedError
from l4sbench.tables.schemas import EXPORTING, OF_TRIALS, SCHEMAS, schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT: Final = 2
"""Version of the tables' format, in the metadata of every file. Readers refuse newer versions."""

_ROOM_BYTES: Final = 1 << 20

Compression: TypeAlias = Literal["zstd", "lz4"]

ROW_GROUP_ROWS: Final = 25_000
"""Number of rows that are written, and read, together; several times as many are in memory at once."""

FOLDER: Final = "tables"
"""Folder of the tables in a run directory."""

FORMAT_KEY: Final = "l4sbench.format"
TABLE_KEY: Final = "l4sbench.table"

METADATA_BYTES: Final = 16 << 20
"""Limit of a table's metadata, which are read at once; those of a billion rows have 1 MB."""

PARQUET_ERRORS: Final = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors of polars for files that are not Parquet, or are damaged."""


class DamagedTable(InputError):  # noqa: N818  (named like the other errors)
    """A table that is missing, or whose content is not as its schema says."""


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


_LATER: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "flows": frozenset(
            {"send", "completed_ms", "offered_mbps", "arrived_mbps", "connections", "left_out"}
        ),
        "requests": frozenset({"fair_ms"}),
        "trials": frozenset({"faults"}),
        "verdicts": frozenset({"sure"}),
        "catalog": frozenset({"panels"}),
    }
)
"""Columns that tables of older versions of l4sbench lack."""

_JOINED: Final[Mapping[str, str]] = MappingProxyType({"flags": "; ", "kernels": ", ", "modules": ", "})
"""Columns of `trials` that are lists since format 2, and what joined their items before."""


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


def write(
    table: str,
    parts: Sequence[pl.LazyFrame],
    path: Path,
    *,
    compression: Compression = "zstd",
    flush: bool = True,
) -> None:
    """Write a table from parts that are in key order; the file appears whole or not at all.

    With `flush` it is on the disk, too. The file does not depend on how the rows are split into parts.

    Raises:
        OSError: it could not be written; ENOSPC when the disk is full.
    """
    path.parent.mkdir(exist_ok=True)  # no parents: the run directory may have been moved
    frame = _together(table, parts) if parts else empty(table).lazy()
    with new_file(path, flush=flush) as temporary:
        try:
            frame.sink_parquet(
                temporary,
                compression=compression,
                row_group_size=ROW_GROUP_ROWS,
                maintain_order=True,
                metadata={FORMAT_KEY: str(FORMAT), TABLE_KEY: table},
                engine="streaming",
            )
        except pl.exceptions.PolarsError as error:
            if shutil.disk_usage(path.parent).free < _ROOM_BYTES:  # polars reports a full disk as bad Parquet
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
            raise


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
        if not is_plain(path) or _metadata_bytes(path) > METADATA_BYTES:
            return None
        text = pl.read_parquet_metadata(path).get(FORMAT_KEY, "")
    except PARQUET_ERRORS:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _LONGEST_FORMAT else None


_LONGEST_FORMAT: Final = 10


def _metadata_bytes(path: Path) -> int:
    """Return the size of a Parquet file's metadata, which the four bytes before its last four hold."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        return int.from_bytes(file.read(4), "little")


def scan(path: Path) -> pl.LazyFrame:
    """Return a table as a lazy frame; columns that older versions did not write are null.

    Raises:
        DamagedTable: there is no table.
        InputError: a newer l4sbench wrote it.
    """
    version = format_of(path)
    if version is None:
        found = "is not a table of l4sbench, or is damaged" if path.exists() else "does not exist"
        found = "is a link" if path.is_symlink() else found
        raise DamagedTable(f"{path} {found}", mend(path.parent))
    if version > FORMAT:
        raise InputError(
            f"{path} has format {version}, but this l4sbench reads only up to {FORMAT}",
            "install a newer l4sbench",
        )
    frame = pl.scan_parquet(path)
    if version == 1 and path.stem == "trials":
        frame = frame.with_columns(pl.col(name).str.split(by) for name, by in _JOINED.items())
    later = _LATER.get(path.stem)
    if not later:
        return frame
    try:
        lacking = later.difference(frame.collect_schema().names())
    except PARQUET_ERRORS as error:
        raise DamagedTable(f"{path} is damaged: {error}", mend(path.parent)) from error
    return frame.with_columns(pl.lit(None, columns(path.stem)[name]).alias(name) for name in sorted(lacking))


def mend(folder: Path) -> str:
    """Return the hint for tables in `folder` that are missing or damaged: the command that writes them."""
    run = folder.parent if folder.name == FOLDER else folder
    return f"`l4sbench collect --full {shlex.quote(str(run))}` writes the tables again"


def check(table: str, path: Path) -> pl.DataFrame:
    """Read a table and check every value in it against its schema.

    Raises:
        DamagedTable: it is missing or damaged; the message names the file.
        InputError: a newer l4sbench wrote it.
    """
    found = scan(path)
    try:
        frame = found.collect()
        kept = pl.read_parquet_metadata(path).get(TABLE_KEY)
        if kept != table:
            raise ValueError(f"it is table {kept}")
        later = _LATER.get(table, frozenset())
        missing = [name for name in columns(table) if name not in frame.columns and name not in later]
        if missing:
            raise ValueError(f"column {', '.join(missing)} is missing")
        others = {name: kind for name, kind in columns(table).items() if frame.schema.get(name, kind) != kind}
        if others:
            raise ValueError(f"column {', '.join(others)} has another type")
        return conform(table, frame)
    except (*PARQUET_ERRORS, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DamagedTable(f"{path} is damaged: {reason}", mend(path.parent)) from error


def check_all(folder: Path) -> None:
    """Check every table of a run in `folder`, and that all are about the same trials.

    Raises:
        DamagedTable: one is missing or damaged; the message names its file.
    """
    trials = check("trials", folder / "trials.parquet").select("cell", "trial")
    for table in SCHEMAS:
        path = folder / f"{table}.parquet"
        if table == "trials" or (table == "verdicts" and not path.exists()):
            continue
        frame = check(table, path)
        if table in OF_TRIALS and (extra := frame.join(trials, on=["cell", "trial"], how="anti")).height:
            raise DamagedTable(
                f"{path} is damaged: table trials does not have {extra['cell'][0]}/{extra['trial'][0]}",
                mend(folder),
            )


@contextmanager
def blaming(*folders: Path) -> Iterator[None]:
    """Turn an error that damaged tables cause into a DamagedTable that names the file.

    Whoever reads a table relies on its schema: to check each value first would take longer than to use it. So
    the tables are checked once something failed. If they are whole, the error stays as it is.

    Raises:
        DamagedTable: a table in one of the folders is missing or damaged.
    """
    try:
        yield
    except (DamagedTable, TestbedError):
        raise
    except (Exception, pl.exceptions.PanicException):
        for folder in folders:
            check_all(folder)
        raise
