# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision for programs: entries and cells as CSV, all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reports.result.cells import factors_of

if TYPE_CHECKING:
    import polars as pl

    from reports.result.regret import Regret
    from reports.result.verdicts import Decision

FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""

_PLACE: Final = ("question", "row", "column", "queue", "label", "cell")


def entries_csv(decision: Decision) -> str:
    """One line per entry of the decision table: the columns of table `verdicts`."""
    return decision.frame().write_csv()


def cells_csv(decision: Decision) -> str:
    """One line per cell: its place in the decision table, its figures, and all its factors."""
    return _cells(decision).write_csv()


def _cells(decision: Decision) -> pl.DataFrame:
    factors = factors_of(decision.cells.drop(*(name for name in _PLACE if name != "cell"), "decided"))
    figures = [name for name in decision.cells.columns if name not in (*factors, *_PLACE)]
    return decision.cells.select(*_PLACE, *figures, *factors)


def document(
    decision: Decision, regrets: Sequence[Regret] = (), metrics: pl.DataFrame | None = None
) -> dict[str, object]:
    """All of a decision as JSON values; field names are those of the tables, with their units.

    `metrics` are further figures of all cells (`reports.result.metrics.cell_metrics`).
    """
    rule = decision.rule
    return {
        "format": FORMAT,
        "rule": rule.model_dump(mode="json"),
        "verdicts": decision.frame().to_dicts(),
        "cells": _cells(decision).to_dicts(),
        "metrics": [] if metrics is None else metrics.to_dicts(),
        "kernels": list(decision.kernels),
        "modules": list(decision.modules),
        "testbeds": list(decision.testbeds),
        "same_in_all_cells": dict(decision.fixed),
        "left_out": [
            {"cell": out.cell, "trial": out.trial, "status": out.status, "reasons": out.reasons}
            for out in decision.left_out
        ],
        "flags": dict(decision.flagged),
        "cells_without_a_competitor": decision.solo,
        "regret": [
            {
                "l4s": regret.l4s,
                "prevalence": regret.prevalence,
                "cost_percent": regret.cost_percent,
                "harm_percent": regret.harm_percent,
                "regret_percent": regret.regret_percent,
                "delay_ms": regret.delay_ms,
                "classic_delay_ms": regret.classic_delay_ms,
                "missing_percent": regret.missing_percent,
            }
            for regret in regrets
        ],
    }
