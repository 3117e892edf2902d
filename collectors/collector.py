# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The form of a collector: one kind of raw file in, rows of one table out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from l4sbench import tables

if TYPE_CHECKING:
    from l4sbench.program.trial import EndedTrial


class BadRawError(Exception):
    """A raw file cannot be read. The message names the file and the problem."""


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
            BadRawError: a raw file cannot be read.
            ValueError: the columns are not the table's, which is a bug of the collector.
        """
        frame = self.parse(trial)
        if frame is None:
            return tables.empty(self.table)
        own = [pl.lit(trial.cell.id).alias("cell"), pl.lit(trial.trial, pl.Int64).alias("trial")]
        return tables.shape(self.table, frame.with_columns(own))
