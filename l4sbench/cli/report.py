# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report`: the decision table of a run, from its tables alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli import figures, trialfiles
from l4sbench.cli.options import (
    Subparsers,
    add_command,
    add_filters,
    add_notes,
    add_run,
    add_runs,
    run_command,
)
from l4sbench.cli.terminal import (
    answer,
    answer_json,
    as_command,
    as_path,
    as_table,
    colour,
    is_terminal,
    say,
    warn,
)
from l4sbench.errors import InputError
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from l4sbench.app.reporting import Report
    from l4sbench.app.stored import StoredRun
    from reports.result.basis import Basis
    from reports.result.measured import Measurements
    from reports.result.regret import Regret
    from reports.result.verdicts import Decision


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
            "l4sbench report quickstart --notes",
            "l4sbench report quickstart --json",
            "l4sbench report quickstart --figures --format svg,pdf",
            "l4sbench report RUN aqm=fifo,codel --figures --series columns   cells side by side",
            "l4sbench report NEW --figures --beside OLD    both runs on one plot",
            "l4sbench report quickstart --flent aqm=dualpi2   files for flent",
            "l4sbench report quickstart --qlog aqm=dualpi2    TCP flows as qlog",
            "l4sbench report pam25-cubic --against pam25   compare with published cells",
            "l4sbench report segsize26 --claims segsize26   check a study's claims",
        ),
    )
    add_run(parser)
    add_filters(parser)
    parser.add_argument("--rule", metavar="RULE", help="verdict rule (default: the matrix's)")
    parser.add_argument("--all", action="store_true", help="count former cells, not in the matrix now, too")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    add_notes(parser)
    parser.add_argument(
        "--prevalence",
        type=Path,
        metavar="FILE",
        help="how common queues and competitors are, as YAML, for the expected regret (default: all alike)",
    )
    parser.add_argument(
        "--against",
        metavar="STUDY",
        help="compare with a published study (pam25, anrw24, replication), cells and verdicts, as Markdown",
    )
    parser.add_argument(
        "--claims",
        metavar="STUDY",
        help="check the claims of a study about its schemes (segsize26 or a .yml file), as Markdown",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write the report into DIR instead of report/ of the run, which stays as it is",
    )
    parser.add_argument("--open", action="store_true", help="open the page of the report in a browser")
    figures.add_options(parser)
    trialfiles.add_options(parser)
    add_runs(parser)


def report(args: argparse.Namespace) -> int:
    """Print the decision table; without filters, also write it as the run's report."""
    from l4sbench.app import api
    from l4sbench.app.reading import reading

    _require_matching(args)
    args.run = api.find_run(args.run, args.runs)
    with reading(args.run):
        catch_up(args.run)
        if figures.wanted(args):
            return figures.write(args)
        if trialfiles.wanted(args):
            return trialfiles.write(args)
        if args.against:
            return _against(args)
        if args.claims:
            return _claims(args)
        return _result(args)


def _require_matching(args: argparse.Namespace) -> None:
    """Refuse options that do not go together. Raises InputError with the command that was meant."""
    # both take up a filter
    with_figures, with_files = figures.wanted(args), trialfiles.wanted(args)
    commands = [*(["figures"] if with_figures else []), *with_files]
    if len(commands) > 1:
        raise InputError(f"--{commands[0]} and --{commands[1]} are two commands", "leave out one of them")
    if args.output and args.filters and not (with_figures or with_files):
        raise InputError("a report is of a whole run", "leave out either the filters or -o")
    if args.beside and not with_figures:
        raise InputError("--beside is for figures", "l4sbench report RUN --figures --beside RUN")
    if args.by and (args.beside or args.map or args.series == "columns" or not with_figures):
        raise InputError("--by is for the figures of a run", "l4sbench report RUN --figures --by FACTOR")
    if (args.width or args.no_title) and not with_figures:
        raise InputError("--width and --no-title are for figures", "l4sbench report RUN --figures")
    if args.span and (args.beside or args.map or args.by or args.series == "columns" or not with_figures):
        raise InputError("--span is for the figures of packets", "l4sbench report RUN --figures --span SPAN")
    if args.open and (args.filters or args.json or with_figures or with_files or args.against or args.claims):
        raise InputError("--open is for the page of a whole run", "l4sbench report RUN --open")
    if args.notes and (args.json or with_figures or with_files or args.against or args.claims):
        raise InputError("--notes is for the decision table", "l4sbench report RUN --notes")


def catch_up(run: Path) -> None:
    """Take trials that ended since into the tables of a run, and print whether the run goes on."""
    from l4sbench.app import api
    from l4sbench.store import user_of

    caught = api.catch_up(run)
    for problem in caught.problems:
        warn(problem)
    if caught.trials:
        say(f"collected {counted(caught.trials, 'trial')} that the tables did not have")
    if (user := user_of(run)) is not None:
        say(f"the run goes on, so that this is preliminary: {user}")


def _result(args: argparse.Namespace) -> int:
    from l4sbench.app.prepare import RunOptions
    from l4sbench.app.stored import StoredRun

    run = StoredRun(args.run)
    result = run.result(args.filters, rule=args.rule, every=args.all)
    options = RunOptions(_testbed_of(result), runs=args.runs)
    command = run_command(run.path, run.matrix.name, args.filters, options)
    if args.json:
        answer_json(_document(result, command, args.prevalence))
        return 0
    if args.filters:
        show(result, command, args.prevalence, notes=args.notes)
        return 0
    page = show_result(run, result, command, args.prevalence, args.output, every=args.all, notes=args.notes)
    if page:
        say(f"report: {as_path(page)}")
        if args.open:
            _open(page)
    return 0


def _document(result: Decision | Measurements, command: str, prevalence: Path | None) -> dict[str, object]:
    from l4sbench.app.reporting import regrets
    from reports.render import data, measured
    from reports.result.verdicts import Decision

    costs = regrets(result, prevalence)
    if isinstance(result, Decision):
        return data.document(result, costs, command=command)
    return measured.document(result)


def _testbed_of(basis: Basis) -> str:
    """Return the testbed of a result's trials as the argument of --on; tables do not have inventories."""
    others = [name for name in basis.testbeds if name != "virtual"]
    return {"ssh": "ssh:INVENTORY"}.get(others[0], others[0]) if others else "virtual"


def _open(page: Path) -> None:
    """Show a page in the user's browser."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        warn(f"there is no browser here; copy {as_path(page.parent)} to a machine that has one")


def _against(args: argparse.Namespace) -> int:
    """Print the run's cells beside published ones; without filters, also add them to the report."""
    from l4sbench.app.reporting import regrets
    from l4sbench.app.stored import StoredRun
    from reports import page as pages
    from reports.published import as_document, compare, markdown

    run = StoredRun(args.run)
    groups = {role: run.matrix.roles.get(role, role) for role in ("l4s", "classic")}
    found = compare(run.tables(args.filters, every=args.all), args.against, **groups)
    text = markdown(found, _command(run, args), _remark(run))
    target = None if args.filters else _target(run, args.output, every=args.all)
    if target:
        document = target.write_beside(f"against-{args.against}.md", text)
        decision = run.decide(rule=args.rule, every=args.all)
        beside = pages.beside_published(found, _remark(run))
        page = target.write(decision, regrets(decision, args.prevalence), [beside])
        say(f"report: {as_path(document)}\npage:   {as_path(page)}")
    if args.json:
        answer_json(as_document(found))
    else:
        answer(text.rstrip())
    return 0


def _claims(args: argparse.Namespace) -> int:
    """Print a study's claims and measures; without filters, also write them beside the report."""
    from l4sbench.app.stored import StoredRun
    from reports.published import claims

    run = StoredRun(args.run)
    found = claims.check(run.tables(args.filters, every=args.all), claims.load_study(args.claims))
    text = claims.markdown(found, _command(run, args), _remark(run))
    target = None if args.filters else _target(run, args.output)
    document = target.write_beside(f"claims-{found.study.study}.md", text) if target else None
    if args.json:
        answer_json(claims.as_document(found))
    else:
        answer(text.rstrip())
    if document:
        say(f"report: {as_path(document)}")
    return 0


def _command(run: StoredRun, args: argparse.Namespace) -> str:
    """Return the command that runs the cells which a document is about."""
    matrix = "matrix.yaml" if run.departs else run.matrix.name
    return as_command("l4sbench", "run", matrix, *args.filters)


def _remark(run: StoredRun) -> str:
    """Return that a run is of another experiment than those of the studies; empty where it may be of one."""
    if not run.departs:
        return ""
    return f"This run is not of the study's matrix but of another: {run.departs}."


def show_result(
    run: StoredRun,
    result: Decision | Measurements,
    command: str,
    prevalence: Path | None = None,
    output: Path | None = None,
    *,
    every: bool = False,
    notes: bool = False,
) -> Path | None:
    """Print a decision table, or measurements, and write the run's report; return the page.

    The report is written into the folder `output`, if there is one. `command` runs its matrix again; with
    `every` the page has former cells, too; with `notes` all that a table states about itself is printed.
    Returns None for a run directory that cannot be written.
    """
    from l4sbench.cli.progress import working

    costs = show(result, command, prevalence, notes=notes)
    target = _target(run, output, every=every)
    if target is None:
        return None
    with working("writing tables and page"):
        return target.write(result, costs)


def _target(run: StoredRun, output: Path | None, *, every: bool = False) -> Report | None:
    """Return where the report is written; None, with a warning, for a run directory that cannot be."""
    from l4sbench.app.reading import writable
    from l4sbench.app.reporting import Report

    if output is not None or writable(run.path):
        return Report(run, output, every)
    place, hint = as_path(run.path), "-o DIR writes it into another folder"
    warn(f"{place} cannot be written, so that its report is not; {hint}")
    return None


def preliminary(run: StoredRun, command: str) -> RenderableType:
    """Return the decision table, or the measurements, of a run that goes on, from trials that have ended.

    `command` runs its matrix again.
    """
    from l4sbench.app import api
    from reports.render.terminal import terminal
    from reports.result.verdicts import Decision

    api.catch_up(run.path)
    result = run.result()
    if isinstance(result, Decision):
        return terminal(result, command)
    return "\n".join(_lines(result))


def show(
    result: Decision | Measurements, command: str, prevalence: Path | None = None, *, notes: bool = False
) -> tuple[Regret, ...]:
    """Print a decision table, plainly into a pipe; return the cost of switching.

    Without verdicts it prints what the flow groups got.

    `command` runs its matrix again. With `notes` come the cost and all that a table states about itself.
    """
    from l4sbench.app.reporting import regrets
    from reports.render.terminal import as_text, terminal
    from reports.result.verdicts import Decision

    costs = regrets(result, prevalence)
    if not isinstance(result, Decision):
        answer("\n".join(_lines(result)))
    elif not is_terminal(sys.stdout):
        answer(as_text(result, command=command, regrets=costs, full=notes).rstrip())
    else:
        from rich.console import Console

        shown = terminal(result, command, costs, full=notes)
        Console(no_color=not colour(sys.stdout), highlight=False).print(shown)
    return costs


_NUMBERS = frozenset({"Mbit/s", "% of link", "delay ms", "per packet ms", "p99 ms", "trials"})


def _lines(measured: Measurements) -> list[str]:
    from reports.render.measured import notes, rows

    reported = any(group.own for cell in measured.cells for group in cell.groups)
    where = ["what the programs reported: report/measured.csv, and the page"] if reported else []
    return [*as_table(rows(measured), right=_NUMBERS), "", *notes(measured), *where]
