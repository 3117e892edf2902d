# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench compare`: changes from one run to another that are more than noise."""

from __future__ import annotations

import argparse
from pathlib import Path

from l4sbench.cli.options import Subparsers, add_command, add_filters, add_runs
from l4sbench.cli.terminal import answer, answer_json, as_path, say

REGRESSED = 1


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "compare",
        compare,
        help="compare two runs cell by cell, and exit with 1 when something got worse by more than noise",
        examples=(
            "l4sbench compare runs/quickstart/20260102T030405Z quickstart",
            "l4sbench compare BASE NEW aqm=dualpi2 --json",
            "l4sbench compare BASE NEW --page compare.html   every number, to look at",
            "l4sbench compare BASE NEW --junit compare.xml   for a CI's test report",
            "l4sbench compare BASE NEW --margins my.yml      which differences matter",
            "l4sbench compare RUN RUN --between lab=default,mine   two kernels of one run",
        ),
    )
    for name in ("base", "new"):
        what = "that is held to be good" if name == "base" else "in question"
        parser.add_argument(
            name, metavar=name.upper(), help=f"the run {what}: a directory, or a matrix's name for its latest"
        )
    add_filters(parser)
    parser.add_argument("--rule", metavar="RULE", help="verdict rule (default: that of the base's matrix)")
    parser.add_argument(
        "--all", action="store_true", help="compare former cells, not in the matrices now, too"
    )
    parser.add_argument("--margins", type=Path, metavar="FILE", help="which differences matter, as YAML")
    parser.add_argument(
        "--between",
        metavar="FACTOR=BASE,NEW",
        help="compare cells with one value of a factor with those that differ only in it: lab=default,mine",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="also write it as a page, one HTML file with every number"
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="also write it as JUnit XML, a test per cell"
    )
    add_runs(parser)


def compare(args: argparse.Namespace) -> int:
    """Print the comparison; return 1 when a cell regressed."""
    from l4sbench.app import api
    from l4sbench.app.reading import refuse_other, refuse_page
    from l4sbench.app.sheets import write_comparison
    from l4sbench.cli.report import catch_up
    from l4sbench.disk.files import write_whole
    from reports.compare.render import SUITES, as_document, as_junit, as_text

    if args.junit:
        refuse_other(args.junit, f'name="{SUITES}"'.encode(), "JUnit XML")
    if args.page:
        refuse_page(args.page)
    base, new = (api.find_run(one, args.runs) for one in (args.base, args.new))
    for run in dict.fromkeys((base, new)):
        catch_up(run)
    found = api.compare(
        base,
        new,
        *args.filters,
        rule=args.rule,
        margins=args.margins,
        runs=args.runs,
        every=args.all,
        between=args.between,
    )
    if args.json:
        answer_json(as_document(found))
    else:
        answer(as_text(found))
    if args.page:
        say(f"page: {as_path(write_comparison(found, args.page))}")
    if args.junit:
        args.junit.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.junit, as_junit(found, args.new))
        say(f"JUnit XML: {as_path(args.junit)}")
    return REGRESSED if found.regressed else 0
