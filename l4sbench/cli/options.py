# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What several commands share: how a command is declared, and how a matrix and a run are named."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.app.prepare import RunOptions

    # the type that argparse's add_subparsers returns has no public name
    Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001
else:
    Subparsers: TypeAlias = object

_FILTER = re.compile(r"[^=/\s]+=.*", re.DOTALL)


def add_command(
    commands: Subparsers,
    name: str,
    command: Callable[[argparse.Namespace], int],
    *,
    help: str,  # noqa: A002  (argparse's own word)
    examples: Sequence[str],
) -> argparse.ArgumentParser:
    """A parser for `name` that runs `command`, its help ending in examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog="\n".join(("examples:", *(f"  {example}" for example in examples))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command)
    return parser


def add_matrix(parser: argparse.ArgumentParser) -> None:
    """Arguments of commands that read a matrix: MATRIX, filters, --catalog."""
    parser.add_argument("matrix", metavar="MATRIX", help="a matrix file, or the name of a shipped one")
    add_filters(parser)
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="folder with further queues and congestion controls, one folder each; may be repeated",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """FACTOR=PATTERN arguments, the same on every command."""
    parser.add_argument(
        "filters",
        nargs="*",
        metavar="FACTOR=PATTERN",
        type=as_filter,
        help="only cells that match all of these: aqm='fq*' rtt=10ms,20ms (commas mean or)",
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """--dir: where run directories are."""
    parser.add_argument(
        "--dir", dest="runs", default=Path("runs"), type=Path, metavar="RUNS", help="where runs are kept"
    )


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """RUN: the run that a command reads."""
    parser.add_argument("run", metavar="RUN", help="a run directory, or a matrix's name for its latest run")


def add_run_choices(parser: argparse.ArgumentParser) -> None:
    """What `run` lets choose, and what `plan` therefore must know."""
    parser.add_argument(
        "--on",
        default="virtual",
        metavar="TESTBED",
        help="where trials run: virtual (default), or ssh:INVENTORY for hosts of your own",
    )
    parser.add_argument(
        "--slices", type=count, default=1, metavar="N", help="slices that share the trials (--on fabric)"
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="trials at a time (default: the cores)")
    parser.add_argument("--trials", type=count, metavar="N", help="trials per cell, whatever the matrix says")
    parser.add_argument("--new", action="store_true", help="a new run directory, not the latest one")
    add_runs(parser)


def run_options(args: argparse.Namespace) -> RunOptions:
    """Return the options of a command with `add_matrix` and `add_run_choices`."""
    from l4sbench.app.prepare import RunOptions

    return RunOptions(
        on=args.on,
        jobs=args.jobs,
        trials=args.trials,
        new=args.new,
        catalog=tuple(args.catalog),
        capture=getattr(args, "capture", False),
        slices=args.slices,
        runs=args.runs,
    )


def as_filter(text: str) -> str:
    """A FACTOR=PATTERN as it was given.

    Raises:
        InputError: it is none.
    """
    if not is_filter(text):
        raise InputError(f"{text!r} is no FACTOR=PATTERN", "such as aqm='fq*' or rtt=10ms,20ms")
    return text


def is_filter(text: str) -> bool:
    """Whether this is a FACTOR=PATTERN."""
    return bool(_FILTER.fullmatch(text))
