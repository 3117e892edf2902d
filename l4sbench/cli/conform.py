# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench conform`: what a standard requires of senders and queues, measured row by row."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_catalog, add_command, add_lab, add_runs, count, run_options
from l4sbench.cli.terminal import (
    answer,
    answer_json,
    answer_table,
    as_blocks,
    as_command,
    as_path,
    is_terminal,
    say,
    warn,
)
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.app.conforming import Conforming
    from l4sbench.app.prepare import Prepared
    from reports.published.standards import Conformance

BROKEN = 1

_ABOUT = {"sender": "senders (--cc)", "queue": "queues (--aqm)", "pair": "either (--cc, --aqm)"}
"""Kinds of rows, and the options that name candidates for them."""


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "conform",
        conform,
        help="measure what a standard requires of senders and queues; exit with 1 where a MUST fails",
        examples=(
            "l4sbench list sheets",
            "l4sbench explain rfc9331/A6               a row with its limits",
            "l4sbench conform rfc9331 --cc prague --quick",
            "l4sbench conform rfc9331 --cc prague,dctcp,bbr3 --row A6 --row A9",
            "l4sbench conform rfc9331 --cc prague:fallback=on",
            "l4sbench conform rfc9332 --aqm dualpi2,dualpi2:min_qlen_step=2p",
            "l4sbench conform rfc9331 --cc ./mine.yml --trust    your own program (l4sbench docs conform)",
            "l4sbench conform rfc9331 --controls       do the rows find what they must?",
        ),
    )
    parser.add_argument("sheet", metavar="SHEET", help="a sheet's name, or a .yml file")
    for name, shown, what in (
        ("cc", "CC", "senders: congestion controls, or .yml files"),
        ("aqm", "QUEUES", "queues"),
    ):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar=shown,
            help=f"{what}, separated by commas, with parameters as NAME:PARAMETER=VALUE; may be repeated",
        )
    parser.add_argument(
        "--row", action="append", default=[], metavar="ID", help="only this row; may be repeated"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rows, cells and trials, with a run of its own"
    )
    parser.add_argument("--controls", action="store_true", help="run the negative controls, which must fail")
    parser.add_argument(
        "--margins", type=Path, metavar="FILE", help="limits in place of proposed ones, as YAML"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="also write them as JUnit XML, a test per row"
    )
    parser.add_argument(
        "--on", default="virtual", metavar="TESTBED", help="where trials run, as in `l4sbench run`"
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="trials at once (default: number of cores)")
    parser.add_argument("--trials", type=count, metavar="N", help="trials per cell, instead of the sheet's")
    parser.add_argument("--new", action="store_true", help="start a new run directory")
    parser.add_argument(
        "--retry",
        action="append",
        choices=("failed", "invalid"),
        default=[],
        help="run trials again that failed three times, or that were invalid",
    )
    parser.add_argument("--trust", action="store_true", help="trust code from outside, as in `l4sbench run`")
    add_lab(parser, "lab whose kernel trials run on (lab build --name)")
    add_catalog(parser)
    add_runs(parser)


def conform(args: argparse.Namespace) -> int:
    """Run the cells of a sheet that have not ended, and print the verdicts; return 1 where a MUST fails."""
    from l4sbench.app.conforming import conforming
    from l4sbench.app.reading import refuse_other
    from reports.published.standards import load_margins, load_sheet
    from reports.published.standards.render import SUITES

    if args.controls and (args.cc or args.aqm):
        raise InputError("--controls takes the candidates of the sheet", "leave out --cc and --aqm")
    if args.junit:
        refuse_other(args.junit, f'name="{SUITES}"'.encode(), "JUnit XML")
    sheet = load_sheet(args.sheet)
    if args.margins:
        sheet = sheet.with_margins(load_margins(args.margins))
    options = run_options(args)
    asked = conforming(
        sheet, _names(args.cc), _names(args.aqm), options, rows=args.row, controls=args.controls
    )
    run: Path | None = None
    if asked.prepared is not None:
        run, code = _run(asked.prepared)
        if run is None:
            return code
    found = asked.judged(run)
    _show(found, args)
    _warn_of(found)
    if run is not None:
        _write(asked, found, run, args)
    if args.junit:
        _write_junit(found, args.junit)
    broken = any(not one.trusted if args.controls else one.broken for one in found.verdicts)
    return BROKEN if broken else 0


def _names(stated: list[str]) -> list[str]:
    """Return the candidates of an option, each once."""
    return list(dict.fromkeys(name for text in stated for name in text.split(",") if name))


def _run(prepared: Prepared) -> tuple[Path | None, int]:
    """Run what has not ended; return the run directory, None where it did not come to an end."""
    from l4sbench.app import api
    from l4sbench.cli.plan import warn_of
    from l4sbench.cli.progress import run_progress
    from l4sbench.engine.loop import RunInterrupted

    try:
        with run_progress(None) as on_event:
            ended = api.run_prepared(prepared, on_state=say, on_plan=warn_of, on_event=on_event)
    except RunInterrupted as stopped:
        say("interrupted; the same command resumes it")
        return None, stopped.result.exit_code
    for problem in ended.problems:
        warn(problem)
    if ended.result.interrupted or ended.result.error is not None:
        if ended.result.error is not None:
            warn(str(ended.result.error))
        say("the same command resumes it")
        return None, ended.result.exit_code
    return ended.path, 0


def _show(found: Conformance, args: argparse.Namespace) -> None:
    from reports.published.standards import render

    if args.json:
        answer_json(render.as_document(found))
        return
    rows = render.rows(found)
    if is_terminal(sys.stdout):
        for block in as_blocks(rows, shutil.get_terminal_size().columns):
            for line in block:
                answer(line)
    else:
        answer_table(rows)
    answer()
    for line in (*render.summary(found), *render.notes(found)):
        answer(line)


def _warn_of(found: Conformance) -> None:
    """Warn of candidates that no row is about: nothing was found of them, which is no success."""
    from reports.published.standards import RowOutcome

    for candidate in found.candidates:
        own = [one for one in found.verdicts if one.case.candidate == candidate]
        if any(one.outcome is not RowOutcome.NOT_APPLICABLE for one in own):
            continue
        reasons = ", ".join(dict.fromkeys(one.reason for one in own))
        about = dict.fromkeys(_ABOUT[one.row.applies.value] for one in own)
        warn(f"no row applies to {candidate} ({reasons}); they are about {' and '.join(about)}")


def _command(args: argparse.Namespace) -> str:
    """Return the command that gives the same verdicts again."""
    words: list[str | Path] = ["l4sbench", "conform", args.sheet]
    for option, stated in (("--cc", args.cc), ("--aqm", args.aqm), ("--row", args.row)):
        words += [word for text in stated for word in (option, text)]
    words += [f"--{name}" for name in ("quick", "controls") if getattr(args, name)]
    words += ["--margins", args.margins] if args.margins else []
    words += ["--trials", str(args.trials)] if args.trials else []
    words += [word for folder in args.catalog for word in ("--catalog", folder)]
    return as_command(*words)


def _write(asked: Conforming, found: Conformance, run: Path, args: argparse.Namespace) -> None:
    """Write the verdicts and the page of trials into the run's report."""
    import json

    from l4sbench.app.reporting import Report
    from l4sbench.app.stored import StoredRun
    from l4sbench.cli.progress import working
    from reports.page import conformance_page
    from reports.published.standards import render

    assert asked.prepared is not None  # noqa: S101  (there is a run)
    stored = StoredRun(run, asked.prepared.whole)
    report = Report(stored)
    name = f"conform-{found.sheet.sheet}"
    with working("writing the report"):
        report.write_beside(f"{name}.md", render.markdown(found, _command(args)))
        report.write_beside(f"{name}.json", json.dumps(render.as_document(found), indent=2) + "\n")
        page = report.write(stored.measure())
        sheet = report.write_beside(f"{name}.html", conformance_page(found, page.name, _command(args)))
    say(f"report: {as_path(sheet)}")
    say(f"trials: {as_path(page)}")


def _write_junit(found: Conformance, path: Path) -> None:
    """Write the verdicts as JUnit XML, also those that need no run."""
    from l4sbench.disk.files import write_whole
    from reports.published.standards import render

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render.as_junit(found))
    say(f"JUnit XML: {as_path(path)}")
