# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench run`: run the trials that have not ended yet, write the tables, print the decision table."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import (
    Subparsers,
    add_command,
    add_matrix,
    add_notes,
    add_run_choices,
    run_command,
    run_options,
)
from l4sbench.cli.terminal import Styled, answer, as_path, say, warn

if TYPE_CHECKING:
    from rich.console import RenderableType

    from l4sbench.app.livepage import LivePage
    from l4sbench.app.prepare import Prepared
    from l4sbench.engine.loop import RunResult
    from l4sbench.facts.events import Event, OnEvent


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "run",
        run,
        help="run the trials that have not ended yet, write the tables, print the decision table",
        examples=(
            "l4sbench run quickstart",
            "l4sbench run my.yaml aqm='fq*' --trials 1",
            "l4sbench run quickstart --set rate=50mbit --set trials=5",
            "l4sbench run my.yaml --watch          see the table grow",
            "l4sbench run my.yaml --live           see the page grow in a browser",
            "l4sbench run my.yaml --new            start a new run directory",
            "l4sbench run quickstart --sure        add trials until every verdict is sure",
            "l4sbench run my.yaml --retry failed   try trials again that failed three times",
            "l4sbench run my.yaml --catalog mine   with your own queues",
            "l4sbench run my.yaml --lab mine       with the kernel of lab build --name mine",
        ),
    )
    add_matrix(parser)
    add_run_choices(parser)
    add_notes(parser)
    parser.add_argument(
        "--watch", action="store_true", help="redraw the decision table on the terminal as trials end"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="write the run's page while trials run; it reloads itself in a browser",
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="run in the background, even if this terminal or notebook closes; prints the log's path",
    )


def run(args: argparse.Namespace) -> int:
    """Run, and print the decision table and the paths of the results."""
    from l4sbench.app import api
    from l4sbench.app.path import path_of
    from l4sbench.app.prepare import prepare
    from l4sbench.app.stored import StoredRun
    from l4sbench.cli.plan import warn_of
    from l4sbench.cli.progress import run_progress, wants_bar
    from l4sbench.cli.report import preliminary, show_result
    from l4sbench.engine.loop import RunInterrupted

    options = run_options(args)
    path_rtt = path_of(args.matrix, args.filters, options, say)
    prepared = prepare(args.matrix, args.filters, options, path_rtt)
    if args.detach:
        return _detach(prepared)
    if args.watch and not wants_bar():
        say("note: --watch redraws the table on a terminal; here it is printed at the end")

    def command(run: Path) -> str:
        return run_command(run, prepared.matrix.name, args.filters, prepared.options)

    def table_of(run: Path) -> RenderableType:
        return preliminary(StoredRun(run, prepared.whole), command(run))

    live = _live_page(prepared) if args.live else None
    try:
        with ExitStack() as stack:
            on_bar = stack.enter_context(run_progress(table_of if args.watch else None))
            on_event = _both(on_bar, stack.enter_context(live.working())) if live else on_bar
            ended = api.run_prepared(prepared, on_state=say, on_plan=warn_of, on_event=on_event)
    except RunInterrupted as stopped:
        if live:
            live.stopped()
        _sum_up(stopped.result, stopped.run, None)
        return stopped.result.exit_code
    report = None
    if (result := ended.decision or ended.measured) is not None:
        stored = StoredRun(ended.path, prepared.whole)
        report = show_result(stored, result, command(ended.path), notes=args.notes)
    elif live:
        live.stopped()
    for problem in ended.problems:
        warn(problem)
    if live and live.problem and not report:
        warn(f"the page could not be written: {live.problem}")
    _sum_up(ended.result, ended.path, report)
    return ended.result.exit_code


def _live_page(prepared: Prepared) -> LivePage:
    """Return the listener that writes the page of a run that is about to begin; print where that will be."""
    from l4sbench.app.livepage import LivePage
    from l4sbench.app.stored import StoredRun

    known = prepared.latest
    place = known.path if known else Path(prepared.options.runs, prepared.matrix.name, "latest")
    say(f"page: {as_path(place / 'report' / 'index.html')}, which grows as trials end")
    return LivePage(lambda: StoredRun(place.resolve(), prepared.whole))


def _both(first: OnEvent, second: OnEvent) -> OnEvent:
    def hear(event: Event) -> None:
        first(event)
        second(event)

    return hear


def _detach(prepared: Prepared) -> int:
    """Start the same command in a session of its own, after checking its arguments."""
    import fcntl
    import subprocess

    from l4sbench.store import RunLocked

    prepared.require_trust()
    matrix = prepared.matrix
    log = Path(prepared.options.runs, matrix.name, "detached.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [word for word in sys.argv[1:] if word != "--detach"]
    # The background process keeps this file open, and with it the lock, for as long as it lives.
    with log.with_suffix(".lock").open("ab") as held, log.open("ab") as out:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{matrix.name} is already running in the background; its log: {log}"
            raise RunLocked(message, "wait until it ends, or stop it as described in the log") from None
        process = subprocess.Popen(
            [sys.executable, "-m", "l4sbench", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=(held.fileno(),),
        )
        stop = f"`kill -INT {process.pid}` stops it, {_resume('the run that it starts')}"
        out.write(f"process {process.pid}: l4sbench {shlex.join(words)}; {stop}\n".encode())
    say(f"running as process {process.pid}; {stop}")
    answer(str(log))
    return 0


def _resume(run: str) -> str:
    """Return how to resume a run: by the same command, but without --new, which would begin another."""
    if "--new" not in sys.argv[1:]:
        return "the same command resumes it"
    words = [word for word in sys.argv[1:] if word not in ("--new", "--detach")]
    return f"`{shlex.join(['l4sbench', *words])}`, without --new, resumes {run}"


def _sum_up(result: RunResult, path: Path, report: Path | None) -> None:
    counts = {
        "ok": result.ok,
        "invalid": result.invalid,
        "failed": result.failed,
        "not run": result.left,
        "not tried again": result.given_up,
    }
    ran = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    if ran:  # else it was said before
        say(f"trials: {ran}")
    say(f"run:    {as_path(path)}")
    if report:
        say(f"report: {as_path(report)}")
    for lost in result.lost:
        if lost is not result.error:
            warn(f"{lost.message}; the run continued without it")
    if result.interrupted:
        say(f"interrupted; {_resume(f'{path.parent.name}/{path.name}')}")
    if result.error is not None:
        say(Styled("error:", "red"), f" {result.error}")
