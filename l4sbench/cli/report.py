# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report`: the decision table of a run, from its tables alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, add_filters, add_run, add_runs
from l4sbench.cli.terminal import answer, as_json, as_path, colour, is_terminal, say

if TYPE_CHECKING:
    from reports.verdicts import Decision


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "report",
        report,
        help="print the decision table of a run and write its report, from its tables alone",
        examples=(
            "l4sbench report quickstart",
            "l4sbench report quickstart buffer_bdp=1",
            "l4sbench report quickstart --json",
        ),
    )
    add_run(parser)
    add_filters(parser)
    parser.add_argument("--rule", metavar="RULE", help="verdict rule (default: what the matrix says)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    add_runs(parser)


def report(args: argparse.Namespace) -> int:
    """Print the decision table; without filters, write it as the run's report too."""
    from l4sbench import api

    path, decision = api.decide(args.run, args.filters, rule=args.rule, runs=args.runs)
    if args.json:
        answer(as_json(decision.frame().to_dicts()))
        return 0
    if args.filters:
        show(decision)
        return 0
    say(f"report: {as_path(show_decision(path, decision))}")
    return 0


def show_decision(run: Path, decision: Decision) -> Path:
    """Print a decision table, and write it into the run directory; returns the report's file."""
    from l4sbench.store.files import write_whole
    from l4sbench.tables import write
    from reports.render import markdown

    show(decision)
    write("verdicts", [decision.frame().lazy()], run / "tables" / "verdicts.parquet")
    page = run / "report" / "decision.md"
    page.parent.mkdir(exist_ok=True)
    write_whole(page, markdown(decision))
    return page


def show(decision: Decision) -> None:
    """Print a decision table for a person, or plainly into a pipe."""
    from reports.render import as_text, terminal

    if not is_terminal(sys.stdout):
        answer(as_text(decision).rstrip())
        return
    from rich.console import Console

    Console(no_color=not colour(sys.stdout), highlight=False).print(terminal(decision))
