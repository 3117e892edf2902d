# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench plan`: print what would run and why, for how long, and what looks wrong. Touches no host."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, add_matrix, add_run_choices, run_options
from l4sbench.cli.terminal import OneByOne, answer, answer_json, answer_table, kernels_text, say, warn
from l4sbench.text.wording import as_duration, counted

if TYPE_CHECKING:
    from l4sbench.app.adaptive import Forecast
    from l4sbench.app.api import Planned
    from l4sbench.planning.plan import Caution, CellPlan, Plan

_MOST_CELLS: Final = 3


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "plan",
        plan,
        help="print what would run and why, for how long, and what looks wrong",
        examples=(
            "l4sbench plan quickstart",
            "l4sbench plan my.yaml aqm='fq*' rtt=10ms,20ms --cells",
            "l4sbench plan pam25-cubic --set duration=10s --set 'buffer_bdp=[1,4]'",
            "l4sbench plan my.yaml --json",
            "l4sbench plan my.yaml --export by-hand      for ansible-playbook (l4sbench docs ssh)",
        ),
    )
    add_matrix(parser)
    add_run_choices(parser)
    parser.add_argument("--cells", action="store_true", help="print a line for every cell")
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    parser.add_argument(
        "--export",
        metavar="DIR",
        type=Path,
        help="write playbooks, roles and the cells' variables to DIR, to run trials by hand with Ansible",
    )


def plan(args: argparse.Namespace) -> int:
    """Print the plan."""
    from l4sbench.disk.garbage import collector_paused

    if args.export is not None:
        return _export(args)
    with collector_paused():  # until the end: a plan holds millions of objects, and hardly any are garbage
        return _plan(args)


def _plan(args: argparse.Namespace) -> int:
    from l4sbench.app.api import plan_of
    from l4sbench.app.plans import cell_of, limits_of, summary

    planned = plan_of(args.matrix, args.filters, run_options(args))
    if args.json:
        _print_json(planned)
        return 0
    _print_head(planned.plan)
    if args.cells:
        answer_table([cell_of(cell) for cell in planned.plan.asked])
    else:
        _print_rows(planned.plan)
    _print_baselines(planned.plan, every=args.cells)
    answer()
    _print_lines(f"queues: {limits_of(planned.plan)}")
    answer(summary(planned.plan, planned.jobs))
    if planned.forecast is not None:
        answer(_more(planned.forecast, planned))
    _print_kernels(planned)
    warn_of(planned.plan, every=args.cells)
    for line in planned.advice:
        warn(line)
    source = "" if args.on == "virtual" else "as last recorded: "
    for problem in planned.problems:
        warn(f"{source}{problem}")
    for problem in planned.untrusted:
        warn(str(problem))
    if planned.unbuilt:
        say(f"note: run builds {', '.join(planned.unbuilt)} first; until then its trials are pending")
    if planned.untested:
        say(f"note: {planned.untested}")
    return 0


def _print_json(planned: Planned) -> None:
    from l4sbench.planning.plan import as_json, cells_as_json

    plain = as_json(planned.plan, planned.jobs, cells=False)
    if planned.plan.cells:
        plain["cells"] = OneByOne(cells_as_json(planned.plan))
    if planned.forecast is not None:
        plain["trials_added_probably"] = planned.forecast.trials
    if planned.installs:
        plain["installs"] = list(planned.installs)
    plain["problems"] = [str(problem) for problem in (*planned.untrusted, *planned.problems)]
    answer_json(plain)


def _print_kernels(planned: Planned) -> None:
    """Print which kernels the hosts boot for which cells, how many hosts restart, and what is installed."""
    plan = planned.plan
    for batch in plan.staged:
        if not batch.to_run:
            restarts = "nothing to run"
        elif batch.changes:
            hosts = counted(len(batch.changes), "host")
            restarts = f"after a restart of {hosts}, about {as_duration(batch.change_s)}"
        else:
            restarts = "running now" if batch is plan.staged[0] else "no restart"
        known = "" if batch.stage.known or not batch.changes else ", not booted here before"
        cells = counted(len(batch.cells), "cell")
        answer(f"kernels: {kernels_text(batch.stage.state)} ({cells}, {restarts}{known})")
    for line in planned.installs:
        answer(f"installs on {line}")


def _export(args: argparse.Namespace) -> int:
    from l4sbench.app.api import export

    number = export(args.matrix, args.export, args.filters, run_options(args))
    answer(str(args.export))
    say(f"{counted(number, 'cell')}; {args.export / 'README.md'} has the commands")
    return 0


def warn_of(plan: Plan, *, every: bool = False) -> None:
    """Print the matrix's notes, its unusual properties, and the trials that are not tried again.

    A matrix that ships with l4sbench is unusual on purpose: its cells are counted, unless with `every`.
    """
    from l4sbench.app.words import ships
    from l4sbench.planning.trials import Reason

    for note in plan.notes:
        say(f"note: {note}")
    if plan.cautions and not every and ships(plan.matrix.path):
        count = counted(len(set().union(*(caution.cells for caution in plan.cautions))), "cell")
        name = plan.matrix.path.stem
        say(f"note: {count} of {name} are unusual on purpose, and `l4sbench plan {name} --cells` says how")
    else:
        for caution in plan.cautions:
            warn(f"{caution} ({_where(caution, len(plan.cells))})")
    if bare := plan.trials[Reason.NO_CAPTURES]:
        many = counted(bare, "trial")
        say(f"note: {many} ended without captures, to be repeated with them; all results are kept")
    if given_up := sum(batch.given_up for batch in plan.batches):
        many = counted(given_up, "trial")
        warn(f"{many} {Reason.GIVEN_UP.value} and will not be tried again; --retry failed tries again")


def _print_head(plan: Plan) -> None:
    from l4sbench.app.plans import value_of

    matrix = plan.matrix
    answer(f"{matrix.name}: {matrix.description}" if matrix.description else matrix.name)
    stated = ", ".join(f"{name} {value_of(value)}" for name, value in plan.common.items())
    _print_lines(stated)
    answer()


def _print_lines(text: str) -> None:
    for line in textwrap.wrap(text, 100, break_on_hyphens=False, break_long_words=False):
        answer(line)


def _print_rows(plan: Plan) -> None:
    from l4sbench.app.plans import MOST_ROWS, more_rows, row_of

    answer_table([row_of(row) for row in plan.rows[:MOST_ROWS]], right=frozenset({"cells"}))
    if more := more_rows(plan):
        answer(f"... and {more} more rows; --cells and --json show everything")


def _print_baselines(plan: Plan, *, every: bool) -> None:
    """Print the number of baselines of each kind, or every one of them."""
    from collections import Counter

    from l4sbench.app.plans import cell_of, reasons

    found: dict[str, list[CellPlan]] = {}
    for planned in plan.baselines:
        alone = len(planned.cell.group_names) == 1
        kind = f"{planned.cell.group_names[0]} alone" if alone else "a classic group against itself"
        found.setdefault(kind, []).append(planned)
    if found:
        answer()
    for kind, cells in found.items():
        trials = reasons(Counter(trial.reason for planned in cells for trial in planned.trials))
        answer(f"baselines, {kind}: {counted(len(cells), 'cell')}, {trials}")
        if every:
            answer_table([cell_of(planned) for planned in cells])


def _more(forecast: Forecast, planned: Planned) -> str:
    """Describe the trials that adaptive cells will probably get after the first look."""
    from l4sbench.planning.trials import looks

    at = looks(planned.plan.matrix.trials)
    took = as_duration(forecast.work_s / planned.jobs)
    source = "published trials"
    if forecast.known:
        source = f"own trials of {counted(forecast.known, 'cell')}, and from published ones elsewhere"
    first = " and ".join(str(number) for number in at[:-1]) or str(at[0])
    return (
        f"then until decided (judged after {first} trials, at most {at[-1]}): probably {forecast.trials} "
        f"more, {took}; at most {forecast.most} (estimate from {source})"
    )


def _where(caution: Caution, cells: int) -> str:
    ids: Sequence[str] = caution.cells
    if len(ids) == cells:
        return "in every cell"
    more = f" and {len(ids) - _MOST_CELLS} more" if len(ids) > _MOST_CELLS else ""
    return f"in {', '.join(ids[:_MOST_CELLS])}{more}"
