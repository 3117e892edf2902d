# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench show`: the cells of a run, or one of them with its trials."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, add_run, add_runs
from l4sbench.cli.terminal import Styled, answer, answer_json, as_command, as_path, as_table, say
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.app.runs import CellSummary, RunSummary
    from l4sbench.store.trialfile import TrialEnding

_WIDTH = 96
_COLOURS = {"ok": "green", "invalid": "yellow", "failed": "red"}


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "show",
        show,
        help="show the cells of a run and how their trials ended, or one cell with its trials",
        examples=(
            "l4sbench show quickstart",
            "l4sbench show quickstart aqm=dualpi2 buffer_bdp=1",
            "l4sbench show quickstart 'dualpi2_1bdp*'        cells by their ids",
        ),
    )
    add_run(parser)
    parser.add_argument(
        "cells",
        nargs="*",
        default=[],  # as for filters
        metavar="CELL",
        help="FACTOR=PATTERN, or a pattern of cell ids; all must match",
    )
    add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def show(args: argparse.Namespace) -> int:
    """Print a table of cells, or a single cell with its trials."""
    from l4sbench.app.api import find_run, load_matrix
    from l4sbench.app.runs import cells_of, summary

    path = find_run(args.run, args.runs)
    matrix = load_matrix(path / "matrix.yaml")
    run, cells = summary(path, matrix), cells_of(path, matrix, args.cells)
    if args.json:
        answer_json({**_run_values(run), "cells": [_cell_values(cell) for cell in cells]})
    elif len(cells) == 1:
        _print_cell(run, cells[0])
    else:
        _print_run(run, cells)
    return 0


def _print_run(run: RunSummary, cells: Sequence[CellSummary]) -> None:
    answer(Styled(run.name, "bold"), f": {counted(len(cells), 'cell')}, trials that have ended: {run.trials}")
    if run.user is not None:
        say(f"in use by {run.user}")
    answer()
    for line in as_table([_row(cell) for cell in cells]):
        answer(line)
    answer()
    page = run.path / "report" / "index.html"
    hint = f"{as_command('l4sbench', 'report', run.matrix)} writes its report"
    say(f"report: {as_path(page)}" if page.is_file() else hint)
    say(f"one cell: {as_command('l4sbench', 'show', run.matrix)} CELL, with its id or a part of it and *")


def _row(cell: CellSummary) -> Mapping[str, object]:
    counts = Counter(trial.status.value for trial in cell.trials)
    ended = ", ".join(f"{number} {status}" for status, number in counts.items()) or "none ended"
    reasons = list(dict.fromkeys(reason for trial in cell.trials for reason in trial.reasons))
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    remark = "not in the matrix any more" if cell.former else ""
    first = textwrap.shorten(reasons[0], 60, placeholder="...") + more if reasons else ""
    return {"cell": cell.id, "trials": ended, "remarks": "; ".join(text for text in (remark, first) if text)}


def _print_cell(run: RunSummary, cell: CellSummary) -> None:
    from l4sbench.catalog.describe import written
    from l4sbench.store import Run

    answer(Styled(cell.id, "bold"), " (not in the matrix any more)" if cell.former else "")
    if not cell.trials:
        answer("  no trial has ended")
        say(f"run it: {as_command('l4sbench', 'run', run.path / 'matrix.yaml', f'cell={cell.id}')}")
        return
    found = next(Run(run.path).ended([cell.id])).cell
    for name in sorted(found.given):
        answer(f"  {name} = {written(found.factors[name])}")
    rest = (f"{name} {written(value)}" for name, value in found.factors.items() if name not in found.given)
    for line in textwrap.wrap(f"by default: {', '.join(rest)}", _WIDTH, break_on_hyphens=False):
        answer(f"  {line}")
    goodputs = _goodputs(run.path, cell)
    for trial in cell.trials:
        status = trial.status.value
        answer()
        answer(f"trial {trial.trial}: ", Styled(status, _COLOURS[status]), _numbers(trial, goodputs))
        for reason in trial.reasons:
            for line in textwrap.wrap(reason, _WIDTH, subsequent_indent="  "):
                answer(f"  {line}")
        ran = f"{trial.testbed}, Linux {trial.kernel_release}, {trial.wall_s:.1f} s of wall time"
        answer(f"  seed {trial.seed}, {ran}")
        answer(f"  raw files: {as_path(trial.raw)}")
    again = as_command("l4sbench", "run", run.path / "matrix.yaml", f"cell={cell.id}")
    say(f"again, elsewhere: {again} --dir OTHER")


def _numbers(trial: TrialEnding, goodputs: Mapping[int, Mapping[str, float]]) -> str:
    found = goodputs.get(trial.trial, {})
    return "".join(f", {group} {mbps:.1f} Mbit/s" for group, mbps in found.items())


def _goodputs(path: Path, cell: CellSummary) -> Mapping[int, Mapping[str, float]]:
    """Return the sum of goodputs in Mbit/s by trial and flow group, as far as the tables have them."""
    import polars as pl

    from l4sbench.app.api import load
    from l4sbench.errors import InputError

    if cell.former:
        return {}
    try:
        flows = load(path, f"cell={cell.id}").flows
    except InputError:
        return {}
    sums = flows.group_by("trial", "group", maintain_order=True).agg(pl.col("goodput_mbps").sum())
    found: dict[int, dict[str, float]] = {}
    for trial, group, mbps in sums.iter_rows():
        found.setdefault(trial, {})[group] = mbps
    return found


def _run_values(run: RunSummary) -> dict[str, object]:
    return {
        "run": run.name,
        "path": str(run.path),
        "trials_ended": run.ended,
        "trials_planned": run.planned,
        "trials_of_former_cells": run.former,
        "in_use_by": run.user,
    }


def _cell_values(cell: CellSummary) -> dict[str, object]:
    return {
        "cell": cell.id,
        "former": cell.former,
        "trials": [
            {
                "trial": trial.trial,
                "status": trial.status.value,
                "reasons": list(trial.reasons),
                "seed": trial.seed,
                "testbed": trial.testbed,
                "kernel_release": trial.kernel_release,
                "raw": str(trial.raw),
            }
            for trial in cell.trials
        ],
    }
