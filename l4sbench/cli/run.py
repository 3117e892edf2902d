# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench run`: run what has not ended yet, write the tables, print the decision table."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, add_matrix, add_run_choices
from l4sbench.cli.terminal import as_path, say, styled, warn

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.engine import RunResult


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "run",
        run,
        help="run what has not ended yet, write the tables, print the decision table",
        examples=(
            "l4sbench run quickstart",
            "l4sbench run my.yaml aqm='fq*' --trials 1",
            "l4sbench run my.yaml --new            begin a new run directory",
            "l4sbench run my.yaml --catalog mine   with queues of your own",
        ),
    )
    add_matrix(parser)
    add_run_choices(parser)
    parser.add_argument(
        "--capture", action="store_true", help="keep the packets of every trial that runs now (pcap)"
    )


def run(args: argparse.Namespace) -> int:
    """Run, and print the decision table and where everything lies."""
    from l4sbench import api
    from l4sbench.cli.plan import warn_of
    from l4sbench.cli.progress import run_progress
    from l4sbench.cli.report import show_decision

    with run_progress() as on_event:
        ended = api.run(
            args.matrix,
            *args.filters,
            on=args.on,
            jobs=args.jobs,
            trials=args.trials,
            new=args.new,
            catalog=args.catalog,
            capture=args.capture,
            slices=args.slices,
            runs=args.runs,
            on_state=say,
            on_plan=warn_of,
            on_event=on_event,
        )
    report = show_decision(ended.path, ended.decision) if ended.decision else None
    for problem in ended.problems:
        warn(problem)
    _sum_up(ended.result, ended.path, report)
    return ended.result.exit_code


def _sum_up(result: RunResult, path: Path, report: Path | None) -> None:
    counts = {"ok": result.ok, "invalid": result.invalid, "failed": result.failed, "not run": result.left}
    ran = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    say(f"trials: {ran or 'nothing had to be run'}")
    say(f"run:    {as_path(path)}")
    if report:
        say(f"report: {as_path(report)}")
    if result.interrupted:
        say("interrupted; the same command goes on from here")
    if result.error is not None:
        say(f"{styled('error:', 'red', sys.stderr)} {result.error}")
