# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a collector is: one kind of raw file in, rows of one table out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from l4sbench import tables

if TYPE_CHECKING:
    from l4sbench.program.trial import EndedTrial


class BadRawError(Exception):
    """A raw file does not say what it must. The message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Collector:
    """Turns one kind of raw output into rows of one table.

    `parse` is a pure function of the trial's raw files. It leaves out the columns `cell` and `trial`, and
    gives None when the trial has no such files (the testbed writes another kind, or the trial ended
    before). It raises `BadRawError` for files that are there and cannot be read.
    """

    name: str
    table: str
    parse: Callable[[EndedTrial], pl.DataFrame | None]

    def rows(self, trial: EndedTrial) -> pl.DataFrame:
        """The rows of one trial in the table's shape.

        Their values are checked when many trials' rows are put together (`tables.conform`), which costs less.

        Raises:
            BadRawError: a raw file cannot be read.
            ValueError: columns that are not the table's, which is a bug of the collector.
        """
        frame = self.parse(trial)
        if frame is None:
            return tables.empty(self.table)
        own = [pl.lit(trial.cell.id).alias("cell"), pl.lit(trial.trial, pl.Int64).alias("trial")]
        return tables.shape(self.table, frame.with_columns(own))
