# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Basis of a report, with verdicts and without: what trials ran on, and which do not count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from reports.result.labels import Setting


@dataclass(frozen=True)
class LeftOut:
    """A trial that does not count, why, and the kinds of these reasons where they are known.

    Its status may be `ok`, where only what a rule measures is not known.
    """

    cell: str
    trial: int
    status: str
    reasons: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Former:
    """Trials, and the cells they are of, that a run has and its matrix no longer: they do not count."""

    trials: int = 0
    cells: int = 0


@dataclass(frozen=True, kw_only=True)
class Basis:
    """Basis of a report.

    Attributes:
        kernels: Kernels that the trials ran on.
        modules: Modules of l4sbench that they loaded.
        testbeds: Testbeds that they ran on.
        left_out: Trials that do not count.
        flagged: Number of valid trials by flag.
        fixed: The factors that are the same in all cells, by column.
        former: Trials of the run that its matrix no longer has, and that are left out.
        not_run: Number of cells that the matrix has and that have no trial yet, baselines not counted.
    """

    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    testbeds: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    flagged: Mapping[str, int]
    fixed: Mapping[str, Setting]
    former: Former = Former()
    not_run: int = 0


def trials_left_out(trials: pl.DataFrame) -> tuple[LeftOut, ...]:
    """Return those of `trials`, rows of that table, that do not count."""
    rows = trials.filter(pl.col("status") != "ok").select("cell", "trial", "status", "reasons", "faults")
    return tuple(
        LeftOut(cell, trial, status, reasons or "", tuple(faults or ()))
        for cell, trial, status, reasons, faults in rows.iter_rows()
    )
