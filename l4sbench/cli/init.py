# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench init`: a first matrix, from options or from answers to a few questions."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_catalog, add_command
from l4sbench.cli.terminal import Styled, answer, as_command, say
from l4sbench.errors import InputError, Problem
from l4sbench.printable import printable
from l4sbench.wording import counted

if TYPE_CHECKING:
    from l4sbench.app.starter import Starter

_OPTIONS: Final = {
    "cc": "the congestion control in question",
    "against": "those that it competes with",
    "queues": "queues at the bottleneck",
    "rate": "rates of the bottleneck",
    "rtt": "round-trip times",
    "buffers": "buffers in bandwidth-delay products",
    "duration": "measured time of a trial",
    "trials": "trials per cell",
}


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "init",
        init,
        help="write a first matrix, with comments, from options or from answers to a few questions",
        examples=(
            "l4sbench init mine.yaml",
            "l4sbench init mine.yaml --queues fq-codel,dualpi2 --rate 50mbit --against cubic,bbr1",
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the matrix to write, such as mine.yaml")
    for name, about in _OPTIONS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=f"{about} (default: as quickstart)")
    add_catalog(parser)


def init(args: argparse.Namespace) -> int:
    """Write the matrix and print its path."""
    from l4sbench.app.starter import Starter
    from l4sbench.catalog import Catalog

    starter = Starter(Catalog.load(args.catalog))
    if args.file.exists() or args.file.is_symlink():
        raise InputError(f"{args.file} exists already", "choose another name")
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if not given and sys.stdin.isatty():
        starter = _asked(starter)
    problems: list[Problem] = []
    for name, text in given.items():
        try:
            starter = starter.choose(name, text)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    cells = starter.write(args.file)
    answer(str(args.file))
    plan, run = (as_command("l4sbench", command, args.file) for command in ("plan", "run"))
    say(f"{counted(cells, 'cell')}; {plan} lists them, {run} runs them")
    return 0


def _asked(starter: Starter) -> Starter:
    """Return the starter with an answer to every question; Enter takes the default."""
    from l4sbench.app.starter import CHOICES

    defaults = starter.defaults
    say("Enter takes what is in brackets; commas separate several values.")
    for choice in CHOICES:
        while True:
            print(
                printable(f"{choice.question} [{defaults[choice.name]}]: "),
                end="",
                file=sys.stderr,
                flush=True,
            )
            line = sys.stdin.readline()
            if not line:
                raise KeyboardInterrupt
            try:
                starter = starter.choose(choice.name, line.strip() or defaults[choice.name])
            except InputError as error:
                found = error.problems[0]
                say(Styled("error:", "red"), f" {replace(found, path='')}")
            else:
                break
    return starter
