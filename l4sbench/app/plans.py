# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Words about a plan, for the terminal and for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from l4sbench.printable import html_table, html_text
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.planning.plan import CellPlan, Plan, PlanRow, Spread
    from l4sbench.planning.trials import Reason
    from l4sbench.text.units import Packets, Size, Value

MOST_ROWS: Final = 60
"""Rows of a plan that are printed."""

_MOST_VALUES: Final = 8


def row_of(row: PlanRow) -> Mapping[str, object]:
    """Return a row of a plan by heading: its axes, its number of cells, its trials."""
    some = "" if row.complete else " (not all combinations)"
    return {
        **{", ".join(spread.names): _values(spread) for spread in row.axes},
        "cells": row.cells,
        "trials": f"{reasons(row.trials)}{some}",
    }


def cell_of(planned: CellPlan) -> Mapping[str, object]:
    """Return a cell of a plan by heading: its id, its trials."""
    return {
        "cell": planned.cell.id,
        "trials": reasons(Counter(trial.reason for trial in planned.trials)),
    }


def _values(spread: Spread) -> str:
    shown = [" ".join(value_of(value) for value in key if value is not None) or "-" for key in spread.values]
    if len(shown) > _MOST_VALUES:
        return f"{', '.join(shown[:3])} ... {shown[-1]} ({len(shown)} values)"
    return ", ".join(shown)


def value_of(value: object) -> str:
    """Return a factor's value as a matrix states it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def reasons(trials: Mapping[Reason, int]) -> str:
    """Return numbers of trials with why they run or not: `12 new, 3 ended`."""
    return ", ".join(f"{number} {reason.value}" for reason, number in trials.items() if number)


def summary(plan: Plan, jobs: int) -> str:
    """Return how many trials of how many cells would run, and for how long with this many at once."""
    cells = counted(len(plan.asked), "cell")
    if plan.baselines:
        cells += f" and {counted(len(plan.baselines), 'baseline')}"
    trials = counted(sum(plan.trials.values()), "trial")
    if not plan.to_run:
        ended = "all ended" if not any(batch.given_up for batch in plan.batches) else reasons(plan.trials)
        return f"{cells}, {trials}, {ended}: nothing to run"
    parts = [f"{cells}, {trials} ({reasons(plan.trials)})"]
    at_once = f" with {jobs} at once" if jobs > 1 else ""
    estimate = plan.estimate(jobs)
    parts.append(f"{estimate}{at_once}")
    memory_mb = plan.memory_mb(jobs)
    if memory_mb:
        parts.append(f"{memory_mb / 1000:.1f} GB of memory")
    return "; ".join([", ".join(parts), *estimate.remarks])


def limits_of(plan: Plan) -> str:
    """Return how much the queues of a plan's cells hold, as `describe.limits` does."""
    from l4sbench.catalog import Bottleneck
    from l4sbench.catalog.describe import limits

    queues = plan.matrix.catalog.queues
    names = {name: f"aqm.{queue.buffer}" for name, queue in queues.items()}
    # of very many cells those with the least and the most buffer of each queue suffice
    ends: dict[tuple[str, Value | None], list[tuple[float, Cell]]] = {}
    for cell in (planned.cell for planned in plan.asked or plan.baselines):
        size = cell.rate.bits_per_s * cell.rtt.ns * cell.buffer_bdp
        own = ends.setdefault((cell.aqm, cell.get(names[cell.aqm])), [(size, cell), (size, cell)])
        if size < own[0][0]:
            own[0] = (size, cell)
        elif size > own[1][0]:
            own[1] = (size, cell)
    held: list[tuple[str, Packets | Size]] = []
    for (name, given), found in ends.items():
        params = {} if given is None else {queues[name].buffer: given}
        for _, cell in found:
            limit = queues[name].limit(params, Bottleneck(cell.rate, cell.rtt, cell.buffer_bdp))
            held += [] if limit is None else [(name, limit)]
    return limits(held)


def more_rows(plan: Plan) -> int:
    """Return how many rows of a plan are not printed."""
    return max(0, len(plan.rows) - MOST_ROWS)


def as_html(plan: Plan, jobs: int = 1) -> str:
    """Return a plan for a notebook."""
    matrix = plan.matrix
    head = f"{matrix.name}: {matrix.description}" if matrix.description else matrix.name
    stated = ", ".join(f"{name} {value_of(value)}" for name, value in plan.common.items())
    more = f"... and {more_rows(plan)} more rows" if more_rows(plan) else ""
    notes = [f"note: {note}" for note in plan.notes]
    cautions = [f"warning: {caution} (in {counted(len(caution.cells), 'cell')})" for caution in plan.cautions]
    return "".join(
        (
            html_text(head, stated),
            html_table([row_of(row) for row in plan.rows[:MOST_ROWS]]),
            html_text(more, summary(plan, jobs), *notes, *cautions),
        )
    )
