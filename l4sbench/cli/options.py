# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Arguments that several commands share, and their types."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from l4sbench.cli.terminal import answer
from l4sbench.disk.userfiles import short
from l4sbench.errors import InputError
from l4sbench.facts.factors import DEFAULT_LAB, LAB_NAME

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
    command: Callable[[argparse.Namespace], int] | None,
    *,
    help: str,  # noqa: A002  (argparse's own word)
    examples: Sequence[str],
) -> argparse.ArgumentParser:
    """Add a parser for `name` that runs `command`, with examples at the end of its help.

    Without a `command` it has commands of its own, see `add_subcommands`.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog="\n".join(("examples:", *(f"  {example}" for example in examples))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if command is not None:
        parser.set_defaults(command=command)
    return parser


def add_subcommands(parser: argparse.ArgumentParser) -> Subparsers:
    """Give a parser commands of its own; without one it prints its help."""

    def show_help(_: argparse.Namespace) -> int:
        answer(parser.format_help().rstrip("\n"))
        return 0

    parser.set_defaults(command=show_help)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def add_matrix(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that read a matrix: MATRIX, filters, --catalog."""
    parser.add_argument(
        "matrix", metavar="MATRIX", help="a matrix file, or the name of one that ships with l4sbench"
    )
    add_filters(parser)
    add_catalog(parser)


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add --catalog: folders with further queues, congestion controls and senders."""
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a folder with further queues, congestion controls or senders, one folder each; may be repeated",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add FACTOR=PATTERN arguments, the same for every command."""
    parser.add_argument(
        "filters",
        nargs="*",
        default=[],  # without one, argparse lists it among the arguments that are missing
        metavar="FACTOR=PATTERN",
        type=as_filter,
        help="only cells that match all of these: aqm='fq*' rtt=10ms,20ms (a comma means or)",
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add --dir, the folder of run directories."""
    parser.add_argument(
        "--dir",
        dest="runs",
        default=Path("runs"),
        type=Path,
        metavar="RUNS",
        help="folder of run directories",
    )


def add_notes(parser: argparse.ArgumentParser) -> None:
    """Add --notes, for commands that print a decision table."""
    parser.add_argument(
        "--notes",
        action="store_true",
        help="print below the table what words mean, limits, expected regret, kernels and all else",
    )


_MOST: Final = 10_000
"""Limit of numbers on the command line: trials of a cell, trials at once, slices, compilations."""


def count(text: str) -> int:
    """Parse a whole number of at least 1 and at most 10,000."""
    if not text.isascii() or not text.isdecimal() or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"{short(text)!r} is not a whole number of at least 1")
    if len(text) > 20 or int(text) > _MOST:
        raise argparse.ArgumentTypeError(f"{short(text)} is out of range; it must be at most {_MOST}")
    return int(text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add RUN, the run that a command reads."""
    parser.add_argument(
        "run", metavar="RUN", help="a run directory, or a matrix's name or file for its latest run"
    )


def add_run_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that `plan` needs too."""
    parser.add_argument(
        "--on",
        default="virtual",
        metavar="TESTBED",
        help="where trials run: virtual (default), dask:ADDRESS for a cluster, ssh:INVENTORY for your own "
        "hosts, or fabric[:SLICE]",
    )
    parser.add_argument(
        "--slices",
        type=count,
        default=1,
        metavar="N",
        help="number of slices that share the trials (--on fabric)",
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="trials at once (default: number of cores)")
    parser.add_argument("--trials", type=count, metavar="N", help="trials per cell, instead of the matrix's")
    parser.add_argument(
        "--sure",
        action="store_true",
        help="add trials to the cells in doubt until their verdicts are sure, up to 10 each, or --trials N",
    )
    parser.add_argument(
        "--capture",
        action="store_true",
        help="capture the packets of every trial (pcap); trials that ended without run again",
    )
    add_lab(parser, "lab for cells that do not set `lab` (lab build --name), for the virtual testbed")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the matrix's small variant, its key `quick`, with a run of its own",
    )
    parser.add_argument(
        "--set",
        action="append",
        dest="changes",
        default=[],
        metavar="KEY=VALUE",
        help="take this instead of what the matrix states, with a run of its own: duration=10s, l4s.cc=cubic "
        "or 'aqm=[codel,dualpi2]'; may be repeated",
    )
    parser.add_argument("--new", action="store_true", help="start a new run directory")
    parser.add_argument(
        "--retry",
        action="append",
        choices=("failed", "invalid"),  # l4sbench.store.RETRIES, whose import takes long
        default=[],
        help="run trials again that failed three times, or that were invalid; both results are kept",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="trust the code that catalog entries of these cells bring from outside: it is built and loaded, "
        "now and later, until it changes (l4sbench docs security)",
    )
    add_runs(parser)


def add_kernel_source(parser: argparse.ArgumentParser) -> None:
    """Add the options of a build from a kernel's source."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--tarball", type=Path, metavar="FILE", help="archive of kernel sources to build from"
    )
    source.add_argument("--kernel-tree", type=Path, metavar="DIR", help="kernel tree to copy and build from")
    parser.add_argument(
        "--jobs", type=count, metavar="N", help="number of parallel compilations (default: number of cores)"
    )


def add_lab(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --lab."""
    parser.add_argument("--lab", type=lab_name, default=DEFAULT_LAB, metavar="NAME", help=text)


def lab_name(text: str) -> str:
    """Return the name of a lab unchanged.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    if not re.fullmatch(LAB_NAME, text):
        raise argparse.ArgumentTypeError(
            f"{short(text)!r} is not a valid name; use a-z, 0-9 and -, such as mine"
        )
    return text


def run_options(args: argparse.Namespace) -> RunOptions:
    """Return the options that a command has; those that it lacks have their usual values."""
    from dataclasses import fields

    from l4sbench.app.prepare import RunOptions

    stated: dict[str, Any] = vars(args)
    return RunOptions(**{one.name: stated[one.name] for one in fields(RunOptions) if one.name in stated})


def run_command(run: Path, matrix: str, filters: Sequence[str], options: RunOptions) -> str:
    """Return the command that resumes a run of a matrix, also where a bundle of it was unpacked.

    The latest run of a matrix that ships with l4sbench is called by its name, any other by the run's copy
    beside its catalog.
    """
    from l4sbench.app.prepare import RunOptions
    from l4sbench.cli.terminal import as_command
    from l4sbench.disk import assets
    from l4sbench.store import Run

    shipped = assets.folder("matrices") / f"{matrix}.yaml"
    same = shipped.is_file() and shipped.read_bytes() == (run / "matrix.yaml").read_bytes()
    runs, usual = Path(options.runs), RunOptions()
    if same:
        latest = Run.latest(runs, matrix)
        same = latest is not None and latest.path == run.resolve()
    words: list[str | Path] = ["l4sbench", "run", matrix if same else run / "matrix.yaml", *filters]
    words += ["--on", options.on] if options.on != usual.on else []
    words += ["--lab", options.lab] if options.lab != usual.lab else []
    words += ["--dir", runs] if runs != usual.runs else []
    return as_command(*words)


def as_filter(text: str) -> str:
    """Return a FACTOR=PATTERN unchanged.

    Raises:
        InputError: it is not one.
    """
    if not is_filter(text):
        raise InputError(
            f"{short(text)!r} is not a valid FACTOR=PATTERN", "for example aqm='fq*' or rtt=10ms,20ms"
        )
    return text


def is_filter(text: str) -> bool:
    """Return True for a FACTOR=PATTERN."""
    return bool(_FILTER.fullmatch(text))
