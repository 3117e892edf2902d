# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision as files: Markdown to read, CSV and JSON for programs, LaTeX for papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from reports.render.data import cells_csv, document, entries_csv
from reports.render.latex import latex
from reports.render.terminal import markdown

if TYPE_CHECKING:
    import polars as pl

    from reports.result.regret import Regret
    from reports.result.verdicts import Decision

__all__ = ["cells_csv", "document", "documents", "entries_csv", "latex"]


def documents(
    decision: Decision, regrets: Sequence[Regret] = (), metrics: pl.DataFrame | None = None
) -> Mapping[str, str]:
    """Every document of a decision by its file name.

    `metrics` are further figures of all cells, as `reports.result.metrics.cell_metrics` gives them.
    """
    from json import dumps

    table = markdown(decision, [regret.text for regret in regrets])
    return {
        "decision.md": table + _further(decision, metrics),
        "decision.csv": entries_csv(decision),
        "cells.csv": cells_csv(decision),
        "decision.json": dumps(document(decision, regrets, metrics), indent=2, ensure_ascii=False) + "\n",
        "decision.tex": latex(decision, regrets),
        **({} if metrics is None else {"metrics.csv": metrics.write_csv()}),
    }


_FURTHER: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "Jain's index (flows)": lambda row: _figure(row["jain"], 3, f" ({row['flows']})"),
    "one L4S flow over one classic": lambda row: _figure(row["ratio"], 2),
    "link used, %": lambda row: _figure(row["utilisation"] and row["utilisation"] * 100, 1),
    "variation in 1 s bins, L4S": lambda row: _figure(row["l4s_variation_1000ms"], 2),
    "variation in 1 s bins, classic": lambda row: _figure(row["classic_variation_1000ms"], 2),
    "smoothed RTT of L4S, p95, ms": lambda row: _figure(row["l4s_srtt_p95_ms"], 1),
    "p99, ms": lambda row: _figure(row["l4s_srtt_p99_ms"], 1),
    "queuing delay of L4S, p99, ms": lambda row: _figure(row["l4s_sojourn_p99_ms"], 2),
    "p99.9, ms": lambda row: _figure(row["l4s_sojourn_p999_ms"], 2),
}


def _further(decision: Decision, metrics: pl.DataFrame | None) -> str:
    """Fairness, steadiness and tails of the decision's cells as Markdown; what no cell has is no column."""
    if metrics is None:
        return ""
    of_cell: dict[str, dict[str, Any]] = {row["cell"]: row for row in metrics.iter_rows(named=True)}
    rows = [
        (f"{label}, against {column}", [show(of_cell[cell]) for show in _FURTHER.values()])
        for cell, label, column in decision.cells.select("cell", "label", "column").iter_rows()
        if cell in of_cell
    ]
    shown = [place for place in range(len(_FURTHER)) if any(figures[place] for _, figures in rows)]
    heads = list(_FURTHER)
    lines = ["", "## Further figures", "", _line("cell", [heads[place] for place in shown])]
    lines.append(_line("---", ["---"] * len(shown)))
    lines += [_line(name, [figures[place] for place in shown]) for name, figures in rows]
    return "\n".join(lines) + "\n"


def _line(first: str, rest: Sequence[str]) -> str:
    return f"| {' | '.join((first, *rest))} |"


def _figure(value: float | None, digits: int, after: str = "") -> str:
    return "" if value is None else f"{value:.{digits}f}{after}"
