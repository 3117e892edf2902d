# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The form of a collector: one kind of raw file in, rows of one table out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench import tables

if TYPE_CHECKING:
    from l4sbench.program.trial import EndedTrial


SEPARATOR: Final = "; "
"""Between the items of a list that is one text of a table."""


class BadRawError(Exception):
    """A raw file cannot be read. The message names the file and the problem."""


def unreadable(what: str, error: BaseException) -> BadRawError:
    """Return the error for raw files that made their parser fail, in one line."""
    reason = " ".join(str(error).split())[:200]
    return BadRawError(f"{what} cannot be read: {type(error).__name__} {reason}".rstrip())


@dataclass(frozen=True)
class Collector:
    """A function from one kind of raw output to rows of one table.

    `parse` is a pure function of the trial's raw files. It leaves out the columns `cell` and `trial`, and
    returns None when the trial has no such files (the testbed writes another kind, or the trial ended
    early). It raises `BadRawError` for files that exist and cannot be read.
    """

    name: str
    table: str
    parse: Callable[[EndedTrial], pl.DataFrame | None]

    def rows(self, trial: EndedTrial) -> pl.DataFrame:
        """Return the rows of one trial with the table's columns.

        Values are checked once the rows of many trials are joined (`tables.conform`), which is cheaper.

        Raises:
            BadRawError: a raw file cannot be read, or made `parse` fail. Raw files come from elsewhere, and
                one of them must not cost the rows of all other trials.
        """
        own = [pl.lit(trial.cell.id).alias("cell"), pl.lit(trial.trial, pl.Int64).alias("trial")]
        try:
            frame = self.parse(trial)
            if frame is None:
                return tables.empty(self.table)
            return tables.shape(self.table, frame.with_columns(own))
        except BadRawError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:
            raise unreadable(f"the files of {self.name}", error) from error
