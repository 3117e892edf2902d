# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench show`: the cells of a run with what they got, or one of them with its trials."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, add_run, add_runs
from l4sbench.cli.terminal import Styled, answer, answer_json, as_command, as_path, as_table, say, warn
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.app.numbers import CellNumbers, CellVerdict, GroupNumbers, Numbers
    from l4sbench.app.runs import CellSummary, RunSummary
    from l4sbench.store.trialfile import TrialEnding

_WIDTH = 96
_ENDLESS = 10_000
_COLOURS = {"ok": "green", "invalid": "yellow", "failed": "red"}


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "show",
        show,
        help="show the cells of a run with goodput, delay and verdict, or one cell with its trials",
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
    from l4sbench.app.api import find_run
    from l4sbench.app.runs import cells_of, summary
    from l4sbench.app.stored import StoredRun

    stored = StoredRun(find_run(args.run, args.runs))
    matrix = stored.matrix
    run, cells = summary(stored.path, matrix), cells_of(stored.path, matrix, args.cells)
    if args.json:
        numbers = _read(stored.path)
        answer_json({**_run_values(run), "cells": [_cell_values(cell, numbers) for cell in cells]})
    elif len(cells) == 1:
        _print_cell(run, cells[0], _read(stored.path))
    else:
        _print_run(run, cells, matrix.trials.min, _read(stored.path))
    return 0


def _read(run: Path) -> Numbers:
    """Return the numbers in a run's report; none, with a warning, where it cannot be read."""
    from l4sbench.app.numbers import Numbers, read_numbers
    from l4sbench.errors import InputError

    try:
        return read_numbers(run)
    except InputError as error:
        warn(f"no numbers: {error}")
        return Numbers()


def _print_run(run: RunSummary, cells: Sequence[CellSummary], wanted: int, numbers: Numbers) -> None:
    from l4sbench.app.runs import ended_text

    own = [cell for cell in cells if not cell.former]
    ended, all_ended = (sum(len(cell.trials) for cell in some) for some in (own, cells))
    planned = None if run.planned is None else wanted * len(own)
    needed = sum(min(len(cell.trials), wanted) for cell in own)
    former = all_ended - ended
    if planned is not None and needed < planned:  # others may have more than they need
        ended = needed
    counts = {_counts(cell) for cell in cells}
    same = f", {next(iter(counts))} per cell" if len(counts) == 1 and ended else ""
    text = f": {counted(len(cells), 'cell')}, {ended_text(ended, planned, former)}{same}"
    answer(Styled(run.name, "bold"), text)
    if run.user is not None:
        say(f"in use by {run.user}")
    if numbers.groups:
        groups = " v ".join(numbers.groups)
        for line in textwrap.wrap(
            f"{groups}: means over valid trials; delay: smoothed RTT minus base RTT", _width()
        ):
            answer(line)
    answer()
    judged = any(cell.verdict for cell in numbers.cells.values())
    _print_table(
        [cell.id for cell in cells],
        [_row(cell, numbers, with_trials=not same, with_verdict=judged) for cell in cells],
        [_remarks(cell, numbers) for cell in cells],
    )
    answer()
    named = _named(run)
    report = as_command("l4sbench", "report", named)
    if numbers.groups and (since := _since(run, own, numbers)) > 0:
        say(f"{counted(since, 'trial')} ended after the report was written: {report} takes them in")
    page = run.path / "report" / "index.html"
    hint = f"goodput, delay and verdicts: {report} writes its report"
    say(f"report: {as_path(page)}" if page.is_file() else hint)
    say(f"one cell: {as_command('l4sbench', 'show', named)} CELL, with its id or a part of it and *")


def _since(run: RunSummary, own: Sequence[CellSummary], numbers: Numbers) -> int:
    """Return how many trials have ended since the report; those that ran again have other folders."""
    if not numbers.folders:  # an older l4sbench wrote it
        return run.ended + run.former - numbers.trials
    return sum(
        numbers.folders.get(cell.id, {}).get(trial.trial) != trial.raw.parent.name
        for cell in own
        for trial in cell.trials
    )


def _named(run: RunSummary) -> str | Path:
    """Return what another command finds the same run by: the matrix's name if it does, else the directory."""
    from l4sbench.app.api import find_run
    from l4sbench.errors import InputError

    try:
        return run.matrix if find_run(run.matrix) == run.path else run.path
    except InputError:
        return run.path


def _print_table(
    names: Sequence[str], rows: Sequence[Mapping[str, object]], remarks: Sequence[Sequence[str]]
) -> None:
    """Print a line per cell, where they are too long two; remarks are below the cell that has them."""
    width = _width()
    lines = as_table([{"cell": name, **row} for name, row in zip(names, rows, strict=True)])
    if max(map(len, lines)) > width:
        numbers = as_table(rows)
        lines = [f"{name}\n  {line}" for name, line in zip(("cell", *names), numbers, strict=True)]
    for line, own in zip(lines, ((), *remarks), strict=True):
        for part in line.split("\n"):
            answer(part)
        for remark in own:
            for part in textwrap.wrap(remark, min(width, _WIDTH) - 4, subsequent_indent="  "):
                answer(f"    {part}")


def _width() -> int:
    """Return the columns that there are: those of a terminal, or of COLUMNS; pipes and files have enough."""
    return shutil.get_terminal_size((_ENDLESS, 24)).columns


def _of(cell: CellSummary, numbers: Numbers) -> CellNumbers:
    from l4sbench.app.numbers import CellNumbers

    return numbers.cells.get(cell.id, CellNumbers())


def _row(
    cell: CellSummary, numbers: Numbers, *, with_trials: bool, with_verdict: bool
) -> Mapping[str, object]:
    found = _of(cell, numbers)
    groups, verdict = found.groups, found.verdict
    row: dict[str, object] = {}
    if numbers.groups:
        own = [groups.get(group) for group in numbers.groups]
        row["Mbit/s"] = _joined(None if mean is None else mean.goodput_mbps for mean in own)
        row["delay ms"] = _joined(None if mean is None else mean.delay_ms for mean in own)
    if with_trials:
        row["trials"] = _counts(cell)
    if with_verdict:
        row["verdict"] = _verdict(verdict)
    return row


def _joined(values: Iterable[float | None]) -> str:
    return " v ".join("\u2013" if value is None else f"{value:.1f}" for value in values)


def _verdict(verdict: CellVerdict | None) -> str:
    from reports.render.words import GLYPHS, UNSURE
    from reports.result.judging import OPEN

    if verdict is None:
        return ""
    unsure = "" if verdict.sure or verdict.word in OPEN else f", {UNSURE}"
    return f"{GLYPHS[verdict.word]} {verdict.word}{unsure}"


def _counts(cell: CellSummary) -> str:
    counts = Counter(trial.status.value for trial in cell.trials)
    return ", ".join(f"{number} {status}" for status, number in counts.items()) or "none ended"


def _remarks(cell: CellSummary, numbers: Numbers) -> list[str]:
    reasons = list(dict.fromkeys(reason for trial in cell.trials for reason in trial.reasons))
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    verdict = _of(cell, numbers).verdict
    remarks = (
        "not in the matrix any more" if cell.former else "",
        verdict.doubt if verdict else "",
        textwrap.shorten(reasons[0], 60, placeholder="...") + more if reasons else "",
    )
    return [remark for remark in remarks if remark]


def _print_cell(run: RunSummary, cell: CellSummary, numbers: Numbers) -> None:
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
    _print_means(cell, numbers)
    groups = _of(cell, numbers).groups
    for trial in cell.trials:
        status = trial.status.value
        answer()
        answer(f"trial {trial.trial}: ", Styled(status, _COLOURS[status]), _numbers(trial, groups))
        for reason in trial.reasons:
            for line in textwrap.wrap(reason, _WIDTH, subsequent_indent="  "):
                answer(f"  {line}")
        ran = f"{trial.testbed}, Linux {trial.kernel_release}, {trial.wall_s:.1f} s of wall time"
        answer(f"  seed {trial.seed}, {ran}")
        answer(f"  raw files: {as_path(trial.raw)}")
    again = as_command("l4sbench", "run", run.path / "matrix.yaml", f"cell={cell.id}")
    say(f"again, elsewhere: {again} --dir OTHER")


def _print_means(cell: CellSummary, numbers: Numbers) -> None:
    found = _of(cell, numbers)
    groups, verdict = found.groups, found.verdict
    if not groups:
        return
    answer()
    answer("means over valid trials; delay: smoothed RTT minus base RTT")
    for group, mean in groups.items():
        text = f"  {group}: {mean.goodput_mbps:.1f} Mbit/s"
        if mean.delay_ms is not None:
            text += f", delay {mean.delay_ms:.1f} ms"
        first_ms, after_ms = mean.delay_first_5s_ms, mean.delay_after_5s_ms
        if first_ms is not None and after_ms is not None:
            text += f" ({first_ms:.1f} in the first 5 s, then {after_ms:.1f})"
        answer(text)
    if verdict is not None:
        answer(f"  verdict: {_verdict(verdict)}")


def _numbers(trial: TrialEnding, groups: Mapping[str, GroupNumbers]) -> str:
    found = {group: own.trials_mbps.get(trial.trial) for group, own in groups.items()}
    return "".join(f", {group} {mbps:.1f} Mbit/s" for group, mbps in found.items() if mbps is not None)


def _run_values(run: RunSummary) -> dict[str, object]:
    return {
        "run": run.name,
        "path": str(run.path),
        "trials_ended": run.ended,
        "trials_planned": run.planned,
        "trials_of_former_cells": run.former,
        "in_use_by": run.user,
    }


def _cell_values(cell: CellSummary, numbers: Numbers) -> dict[str, object]:
    found = _of(cell, numbers)
    groups, verdict = found.groups, found.verdict
    return {
        "cell": cell.id,
        "former": cell.former,
        "goodput_mbps": {group: mean.goodput_mbps for group, mean in groups.items()},
        "delay_ms": {group: mean.delay_ms for group, mean in groups.items()},
        "verdict": None if verdict is None else verdict.word.value,
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
