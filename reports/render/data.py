# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision for programs: entries and cells as CSV, all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import polars as pl

from reports.render.answer import answers, scope_text
from reports.render.words import RUN_AGAIN, left_out_advice, sure_command

if TYPE_CHECKING:
    from reports.result.cells import CellResult
    from reports.result.regret import Regret
    from reports.result.stats import Estimate
    from reports.result.verdicts import Decision

FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""


_STARTS: Final = ("l4s_delay_first_", "l4s_delay_after_")


def entries_csv(decision: Decision) -> str:
    """Return one line per entry of the decision table: the columns of table `verdicts`."""
    return decision.frame().write_csv()


def cells_csv(decision: Decision, metrics: pl.DataFrame | None = None) -> str:
    """Return one line per cell: its place in the decision table, its figures, and all its factors.

    Of `metrics` (`reports.result.metrics.cell_metrics`) it has the L4S group's delay at its start and after.
    """
    rows = pl.DataFrame(cell_rows(decision), infer_schema_length=None)
    if metrics is not None:
        parts = {name: name.removeprefix("l4s_") for name in metrics.columns if name.startswith(_STARTS)}
        rows = rows.join(
            metrics.select("cell", *parts).rename(parts), on="cell", how="left", maintain_order="left"
        )
    return rows.write_csv()


def cell_rows(decision: Decision) -> list[dict[str, object]]:
    """Return one row per cell of a decision, as CSV and JSON have it; names carry units."""
    return [
        {
            "question": str(cell.question),
            "row": cell.row,
            "column": str(cell.column),
            "queue": cell.label.head,
            "label": str(cell.label),
            "cell": cell.id,
            **figures(cell.result),
            "decided": cell.judged.decided,
            **{column: cell.result.value(column) for column in decision.columns},
            "verdict": cell.word.value,
            "sure": cell.sure,
            "outside_percent": cell.judged.outside_percent,
        }
        for cell in decision.cells
    ]


def figures(cell: CellResult) -> dict[str, object]:
    """Return all figures of a cell by names that carry units; None for what is not known."""
    row: dict[str, object] = {"valid": cell.valid}
    row |= {name: mean and mean.value for name, mean in cell.means.items()}
    row |= {_of(name, "sd"): mean and mean.sd for name, mean in cell.means.items()}
    row |= {_of(name, "median"): mean and mean.median for name, mean in cell.means.items()}
    row |= {"left_out": cell.left_out, "percent": cell.share and cell.share.value}
    for name, mean in cell.means.items():
        row |= {_of(name, "low"): mean and mean.low, _of(name, "high"): mean and mean.high}
    row |= {"percent_low": cell.share and cell.share.low, "percent_high": cell.share and cell.share.high}
    row["bimodal"] = cell.bimodal
    for name, group in (("l4s", cell.l4s), ("classic", cell.classic)):
        row[f"{name}_alone_mbps"] = group.alone and group.alone.value
        row |= _with_ends(f"{name}_harm", group.harm)
        row[f"{name}_delay_harm_percent"] = group.delay_harm and group.delay_harm.value
    return row | _with_ends("classic_same_harm", cell.classic.same_harm)


def _of(name: str, statistic: str) -> str:
    """Return the name of a statistic of a mean, such as `l4s_sd_mbps`."""
    stem, _, unit = name.rpartition("_")
    return f"{stem}_{statistic}_{unit}"


def _with_ends(name: str, found: Estimate | None) -> dict[str, object]:
    return {
        f"{name}_percent": found and found.value,
        f"{name}_low_percent": found and found.low,
        f"{name}_high_percent": found and found.high,
    }


def document(
    decision: Decision,
    regrets: Sequence[Regret] = (),
    metrics: pl.DataFrame | None = None,
    command: str = RUN_AGAIN,
) -> dict[str, object]:
    """Return all of a decision as JSON values; field names are those of the tables, with their units.

    `metrics` are further figures of all cells (`reports.result.metrics.cell_metrics`), `command` runs the
    matrix again.
    """
    return {
        "format": FORMAT,
        "rule": decision.rule.model_dump(mode="json"),
        "answers": [
            {"l4s": str(question), "answer": str(found), "head": found.head.value}
            for question, found in answers(decision, regrets)
        ],
        "beyond": scope_text(decision),
        "make_sure": sure_command(decision, command) or None,
        "verdicts": decision.frame().to_dicts(),
        "cells": cell_rows(decision),
        "metrics": [] if metrics is None else metrics.to_dicts(),
        "kernels": list(decision.kernels),
        "modules": list(decision.modules),
        "testbeds": list(decision.testbeds),
        "same_in_all_cells": {column: setting.value for column, setting in decision.fixed.items()},
        "left_out": [asdict(trial) for trial in decision.left_out],
        "hints": [
            {"hint": remedy.hint, "see": remedy.place, "trials": trials}
            for remedy, trials in left_out_advice(decision).items()
        ],
        "flags": dict(decision.flagged),
        "former": asdict(decision.former),
        "not_run": decision.not_run,
        "cells_without_a_competitor": decision.solo,
        "regret": [
            {
                "l4s": str(regret.question),
                "prevalence": regret.prevalence,
                "cost_percent": regret.cost_percent,
                "harm_percent": regret.harm_percent,
                "regret_percent": regret.regret_percent,
                "delay_ms": regret.delay_ms,
                "classic_delay_ms": regret.classic_delay_ms,
                "missing_percent": regret.missing_percent,
                "text": regret.text,
            }
            for regret in regrets
        ],
    }
