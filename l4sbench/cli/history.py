# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench history`: the nights of a sweep, or any runs of a matrix, one after the other."""

from __future__ import annotations

import argparse
from pathlib import Path

from l4sbench.cli.options import Subparsers, add_command, add_runs, count
from l4sbench.cli.terminal import answer_table, as_path, say


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "history",
        history,
        help="list the nights of a sweep, or all runs of a matrix, and write a page with a line per number",
        examples=(
            "l4sbench history quickstart",
            "l4sbench history quickstart --last 200 -o trend.html",
            "l4sbench history quickstart --all        runs by hand, too",
        ),
    )
    parser.add_argument("run", metavar="MATRIX", help="a matrix's name, or one of its run directories")
    parser.add_argument("--last", type=count, metavar="N", help="number of nights (default: 60)")
    parser.add_argument(
        "--all", action="store_true", help="take runs that no sweep has noted in history.tsv, too"
    )
    parser.add_argument("--margins", type=Path, metavar="FILE", help="which differences matter, as YAML")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the page (default: history.html beside the runs)"
    )
    add_runs(parser)


def history(args: argparse.Namespace) -> int:
    """Print a line per night, and write the page."""
    from l4sbench.app.nights import LAST, home_of, read_history, write_history
    from l4sbench.app.reading import refuse_page

    home = home_of(args.run, args.runs)
    if args.output:
        refuse_page(args.output)
    found = read_history(home, last=args.last or LAST, every=args.all, margins=args.margins)
    rows = [
        {
            "night": night.side.name,
            "trials": night.side.trials,
            "worse": found.worse_in(place) if night.against else "-",
            "outcome": night.outcome or "-",
            "what ran otherwise": "; ".join(night.marks),
        }
        for place, night in enumerate(found.nights)
    ]
    answer_table(rows, right=frozenset({"trials", "worse"}))
    say(f"page: {as_path(write_history(found, home, args.output))}")
    return 0
