# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench collect`: update the tables of a run from its raw files."""

from __future__ import annotations

import argparse

from l4sbench.cli.options import Subparsers, add_command, add_run, add_runs
from l4sbench.cli.terminal import answer, as_path, say, warn


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "collect",
        collect,
        help="update the tables of a run from its raw files",
        examples=("l4sbench collect quickstart", "l4sbench collect runs/quickstart/20260102T030405Z --full"),
    )
    add_run(parser)
    parser.add_argument("--full", action="store_true", help="parse every trial again, not only new ones")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="write the tables into DIR, for `l4sbench report DIR`; the run stays as it is",
    )
    add_runs(parser)


def collect(args: argparse.Namespace) -> int:
    """Write the tables and print their path; returns 1 when raw files could not be read."""
    from l4sbench.app import api

    tables, collected = api.collect(args.run, full=args.full, into=args.output, runs=args.runs)
    for problem in collected.problems:
        warn(problem)
    say(f"{collected.parsed} of {collected.trials} trials parsed")
    answer(as_path(tables))
    return 1 if collected.problems else 0
