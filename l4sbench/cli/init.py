# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench init`: a first matrix, from options, from answers to a few questions, or from another matrix."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.starter import CHOICES, checked, defaults, require_new, write, write_extending
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
        help="write a first matrix, with comments, from options, answers or another matrix",
        examples=(
            "l4sbench init mine.yaml",
            "l4sbench init mine.yaml --queues fq_codel,dualpi2 --rate 50mbit --against cubic,bbr1",
            "l4sbench init --from pam25-cubic -o mine.yaml    to change some of it",
        ),
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="the matrix to write, such as mine.yaml"
    )
    parser.add_argument(
        "--from",
        dest="matrix",
        metavar="MATRIX",
        help="write a matrix that extends this one, a file or one that ships with l4sbench, into FILE or "
        "my-MATRIX.yaml",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the same as FILE")
    for choice in CHOICES:
        about = f"{choice.about} (default: {choice.default})"
        parser.add_argument(f"--{choice.name}", metavar=choice.name.upper(), help=about)
    add_catalog(parser)


def init(args: argparse.Namespace) -> int:
    """Write the matrix and print its path."""
    from l4sbench.catalog import Catalog

    if args.file and args.output:
        raise InputError("there are two files to write", "leave out either FILE or -o")
    file: Path | None = args.file or args.output
    if args.matrix:
        file = file or Path(f"my-{Path(args.matrix).stem}.yaml")
        return _extend(args, file)
    if file is None:
        raise InputError("init needs a FILE to write", "l4sbench init mine.yaml")
    catalog = Catalog.load(args.catalog)
    require_new(file)
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
    return _told(file, write(file, chosen, catalog))


def _extend(args: argparse.Namespace, file: Path) -> int:
    """Write a matrix that extends another and print its path."""
    given = [f"--{choice.name}" for choice in CHOICES if getattr(args, choice.name) is not None]
    given += ["--catalog"] if args.catalog else []
    if given:
        hint = f"leave out {', '.join(given)}, and state that in {file}"
        raise InputError("--from takes everything from the other matrix", hint)
    return _told(file, write_extending(file, args.matrix))


def _told(file: Path, cells: int) -> int:
    answer(str(file))
    plan, run = (as_command("l4sbench", command, file) for command in ("plan", "run"))
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
