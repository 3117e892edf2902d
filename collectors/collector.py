# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The form of a collector: one kind of raw file in, rows of one table out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

import polars as pl

from l4sbench import tables
from l4sbench.disk.plain import open_plain
from l4sbench.facts.faults import Fault, FaultKind

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.program.trial import EndedTrial


SEPARATOR: Final = "; "
"""Between the items of a list that is one text of a table."""


MOST_BYTES: Final = 64 << 20
"""Largest result or read-back that is read. A flow of a day has 11 MB, of iperf3 55 MB."""

MOST_SAMPLES_BYTES: Final = 2 << 30
"""Largest file of samples that is read. 50 flows have 600 MB in ten minutes (both sockets every 100 ms, 1 kB
each), and 1.2 GB with the control connections of iperf3."""

Rows: TypeAlias = "list[dict[str, object]]"
"""Rows of a table by column; a column that a row lacks is null."""

Content: TypeAlias = "pl.DataFrame | Rows"
"""Rows of a table, whichever way is cheaper: a frame costs more than a few rows."""


class BadRawError(Exception):
    """A raw file cannot be read. The message names the file and the problem."""

    @property
    def fault(self) -> Fault:
        """The fault of a trial with that file."""
        return Fault.of(FaultKind.RAW, problem=str(self))


class ToolError(BadRawError):
    """A traffic tool reports in its result that it could not send. The message is the tool's."""


def unreadable(what: str, error: BaseException) -> BadRawError:
    """Return the error for raw files that made their parser fail, in one line."""
    reason = " ".join(str(error).split())[:200]
    return BadRawError(f"{what} cannot be read: {type(error).__name__} {reason}".rstrip())


def raw_bytes(path: str | Path, name: str) -> bytes:
    """Return the content of a raw file that messages call `name`.

    Raises:
        BadRawError: it is larger than `MOST_BYTES`.
        OSError: it is no regular file, or cannot be opened.
    """
    with open_plain(path) as file:
        _refuse_large(file, name, MOST_BYTES)
        return file.read()


def raw_text(path: str | Path, name: str) -> str:
    """Return the text of a raw file, with U+FFFD for what is not UTF-8. Raises as `raw_bytes`."""
    return raw_bytes(path, name).decode(errors="replace")


def refuse_samples(path: Path) -> None:
    """Refuse a file of samples that is too large, or large without content: a hole of a sparse file is NULs.

    Raises:
        BadRawError: it is such a file.
        OSError: it is no regular file, or cannot be opened.
    """
    with open_plain(path) as file:
        size_bytes = _refuse_large(file, path.name, MOST_SAMPLES_BYTES)
        if size_bytes > MOST_BYTES and any(b"\0" in part for part in iter(lambda: file.read(1 << 20), b"")):
            raise BadRawError(f"{path.name} has NULs")


def read_samples(path: Path, schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Return the samples of a file of lab-sampler, with these columns.

    Raises:
        BadRawError: a line is not an object, a field has another type, or as `refuse_samples`.
        OSError: as `refuse_samples`.
    """
    refuse_samples(path)
    if not path.stat().st_size:
        return pl.DataFrame(schema=schema)
    try:
        return pl.read_ndjson(path, schema=schema)
    except pl.exceptions.PolarsError as error:
        raise BadRawError(f"{path.name}: {error}") from error


def _refuse_large(file: BinaryIO, name: str, most_bytes: int) -> int:
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes > most_bytes:
        raise BadRawError(f"{name} is larger than {most_bytes >> 20} MB")
    return size_bytes


@dataclass(frozen=True)
class Collector:
    """A function from one kind of raw output to rows of one table.

    `parse` is a pure function of the trial's raw files. It leaves out the columns `cell` and `trial`, and
    returns None when the trial has no such files (the testbed writes another kind, or the trial ended
    early). It raises `BadRawError` for files that exist and cannot be read.
    """

    name: str
    table: str
    parse: Callable[[EndedTrial], Content | None]

    def content(self, trial: EndedTrial) -> Content:
        """Return the rows of one trial, as they were made.

        Raises:
            BadRawError: a raw file cannot be read, or made `parse` fail. Raw files come from elsewhere, and
                one of them must not cost the rows of all other trials.
        """
        try:
            found = self.parse(trial)
        except BadRawError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:
            raise self._unreadable(error) from error
        return [] if found is None else found

    def rows(self, trial: EndedTrial) -> pl.DataFrame:
        """Return the rows of one trial with the table's columns; values are not checked.

        Raises:
            BadRawError: as `content`, or the columns are not those of the table.
        """
        found = self.content(trial)
        try:
            frame = (
                found if isinstance(found, pl.DataFrame) else pl.DataFrame(found, infer_schema_length=None)
            )
            own = [pl.lit(trial.cell.id).alias("cell"), pl.lit(trial.trial, pl.Int64).alias("trial")]
            return (
                tables.shape(self.table, frame.with_columns(own)) if len(found) else tables.empty(self.table)
            )
        except (Exception, pl.exceptions.PanicException) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: BaseException) -> BadRawError:
        return unreadable(f"the files of {self.name}", error)


def together(table: str, contents: Sequence[tuple[EndedTrial, Content]]) -> pl.DataFrame:
    """Return the rows of several trials as the table stores them, all values checked.

    The same as the rows of each trial by itself, one after the other, at a fraction of the work.

    Raises:
        ValueError, TypeError: some rows do not fit the table; or they may fit, but only by themselves.
        polars.exceptions.PolarsError: likewise.
    """
    framed = [(trial, own) for trial, own in contents if isinstance(own, pl.DataFrame) and own.height]
    listed = [(trial, own) for trial, own in contents if not isinstance(own, pl.DataFrame) and own]
    parts = []
    if framed:
        heights = [own.height for _, own in framed]
        cells = _repeated("cell", [trial.cell.id for trial, _ in framed], heights)
        trials = _repeated("trial", [trial.trial for trial, _ in framed], heights)
        parts.append(pl.concat([own for _, own in framed], how="diagonal").hstack([cells, trials]))
    if listed:
        rows = [row for _, own in listed for row in own]
        heights = [len(own) for _, own in listed]
        cells = _repeated("cell", [trial.cell.id for trial, _ in listed], heights)
        trials = _repeated("trial", [trial.trial for trial, _ in listed], heights)
        kinds = tables.columns(table)
        names = dict.fromkeys(name for row in rows for name in row)
        columns = [_column(name, [row.get(name) for row in rows], kinds.get(name)) for name in names]
        parts.append(pl.DataFrame([cells, trials, *columns]))
    return tables.conform(table, pl.concat(parts, how="diagonal")) if parts else tables.empty(table)


def _repeated(name: str, values: Sequence[str | int], times: Sequence[int]) -> pl.Series:
    return pl.Series(name, [value for value, many in zip(values, times, strict=True) for _ in range(many)])


def _column(name: str, values: list[object], kind: pl.DataType | None) -> pl.Series:
    if kind is None and len({type(value) for value in values} - {type(None)}) > 1:
        raise TypeError(f"the values of {name} differ in kind")
    return pl.Series(name, values, dtype=kind, strict=True)
