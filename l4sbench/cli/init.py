# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench init`: a first matrix, from options or from answers to a few questions."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.starter import CHOICES, checked, defaults, require_new, write
from l4sbench.cli.options import Subparsers, add_catalog, add_command
from l4sbench.cli.terminal import Styled, answer, as_command, ask, say
from l4sbench.errors import InputError, Problem
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "init",
        init,
        help="write a first matrix, with comments, from options or from answers to a few questions",
        examples=(
            "l4sbench init mine.yaml",
            "l4sbench init mine.yaml --queues fq_codel,dualpi2 --rate 50mbit --against cubic,bbr1",
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the matrix to write, such as mine.yaml")
    for choice in CHOICES:
        about = f"{choice.about} (default: {choice.default})"
        parser.add_argument(f"--{choice.name}", metavar=choice.name.upper(), help=about)
    add_catalog(parser)


def init(args: argparse.Namespace) -> int:
    """Write the matrix and print its path."""
    from l4sbench.catalog import Catalog

    catalog = Catalog.load(args.catalog)
    require_new(args.file)
    given = {choice: getattr(args, choice.name) for choice in CHOICES}
    chosen: dict[str, str] = {}
    problems: list[Problem] = []
    for choice, text in given.items():
        try:
            if text is not None:
                chosen[choice.name] = checked(choice, text, catalog)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    if not chosen and sys.stdin.isatty():
        chosen = _asked(catalog)
    cells = write(args.file, chosen, catalog)
    answer(str(args.file))
    plan, run = (as_command("l4sbench", command, args.file) for command in ("plan", "run"))
    say(f"{counted(cells, 'cell')}; {plan} lists them, {run} runs them")
    return 0


def _asked(catalog: Catalog) -> dict[str, str]:
    """Return an answer to every question; Enter takes the default."""
    chosen, known = dict[str, str](), defaults()
    say("Enter takes what is in brackets; commas separate several values.")
    for choice in CHOICES:
        while choice.name not in chosen:
            line = ask(f"{choice.about} [{known[choice.name]}]: ")
            if not line:
                raise KeyboardInterrupt
            try:
                chosen[choice.name] = checked(choice, line.strip() or known[choice.name], catalog)
            except InputError as error:
                say(Styled("error:", "red"), f" {replace(error.problems[0], path='')}")
    return chosen
