# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench lab list`, `remove` and `bisect`: labs side by side, and kernels judged one after the other."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, add_filters, add_runs, count, lab_name
from l4sbench.cli.terminal import answer, answer_json, answer_table, as_path, say
from l4sbench.errors import L4sbenchError

if TYPE_CHECKING:
    from l4sbench.testbeds.virtual.lab import NamedLab

GOOD: Final = 0
BAD: Final = 1
SKIP: Final = 125
"""Exit code by which git bisect leaves a commit out."""
ABORT: Final = 255
"""Exit code by which git bisect stops."""


def add_parsers(own: Subparsers) -> None:
    """Add the commands to those of `lab`."""
    listing = add_command(
        own,
        "list",
        list_labs,
        help="list the labs that are built, each with its kernel",
        examples=("l4sbench lab list",),
    )
    listing.add_argument("--json", action="store_true", help="print them as JSON")
    removing = add_command(
        own,
        "remove",
        remove,
        help="remove a lab that was built with --name, and the built tree that it kept",
        examples=("l4sbench lab remove mine",),
    )
    removing.add_argument("name", type=lab_name, metavar="NAME", help="name of the lab")
    removing.add_argument("--keep-tree", action="store_true", help="leave the built tree for a later build")
    judging = add_command(
        own,
        "bisect",
        bisect,
        help="build a kernel tree, run the matrix of a good run and compare: a step of git bisect run",
        examples=(
            "git bisect run l4sbench lab bisect ~/runs/mine/20260102T030405Z --kernel-tree .",
            "l4sbench lab bisect GOOD --kernel-tree DIR aqm=codel     one kernel, some cells",
        ),
    )
    judging.add_argument(
        "good", metavar="GOOD", help="the run of a good kernel: a directory, or a matrix's name"
    )
    add_filters(judging)
    judging.add_argument(
        "--kernel-tree",
        type=Path,
        required=True,
        metavar="DIR",
        help="git work tree with the kernel in question",
    )
    judging.add_argument("--margins", type=Path, metavar="FILE", help="which differences matter, as YAML")
    judging.add_argument(
        "--name", type=lab_name, default="bisect", help="name of the lab to build (default: bisect)"
    )
    judging.add_argument("--jobs", type=count, metavar="N", help="compilations and trials at once")
    add_runs(judging)


def list_labs(args: argparse.Namespace) -> int:
    """Print the labs."""
    from l4sbench.testbeds.virtual.lab import labs

    found = labs()
    if args.json:
        answer_json({"labs": [_as_values(lab) for lab in found]})
        return 0
    if not found:
        say("no lab is built; l4sbench lab build")
        return 0
    rows = [
        {
            "lab": lab.name,
            "Linux": lab.kernel_release,
            "from": f"{lab.source} in {as_path(Path(lab.tree))}" if lab.tree else lab.source,
            "built": _when(lab.built_s),
            "state": f"{lab.problem}; {lab.command}" if lab.problem else "ready",
        }
        for lab in found
    ]
    answer_table(rows)
    return 0


def _as_values(lab: NamedLab) -> dict[str, object]:
    return {
        "name": lab.name,
        "kernel_release": lab.kernel_release,
        "source": lab.source,
        "kernel_tree": lab.tree or None,
        "built": _when(lab.built_s),
        "problem": lab.problem,
        "command": lab.command,
    }


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def remove(args: argparse.Namespace) -> int:
    """Remove a lab."""
    from l4sbench.testbeds.virtual.lab import remove_lab

    freed = remove_lab(args.name, keep_tree=args.keep_tree)
    say(f"removed the lab {args.name}: {freed / 1e6:.0f} MB")
    return 0


def bisect(args: argparse.Namespace) -> int:
    """Judge one kernel; the exit code is for git bisect run."""
    from l4sbench.app.bisection import StepOutcome, judge_kernel
    from l4sbench.cli.progress import build_progress, run_progress
    from reports.compare.render import as_text

    codes = {StepOutcome.GOOD: GOOD, StepOutcome.BAD: BAD, StepOutcome.SKIP: SKIP}
    try:
        with build_progress() as on_build, run_progress(None) as on_event:
            found = judge_kernel(
                args.good,
                args.kernel_tree,
                args.filters,
                name=args.name,
                runs=args.runs,
                margins=args.margins,
                jobs=args.jobs,
                on_build=on_build,
                on_event=on_event,
            )
    except L4sbenchError as error:
        # every exit code from 1 to 127 would call the commit bad
        say(f"error: {error.message}{f'; {error.hint}' if error.hint else ''}")
        say("git bisect stops here; mend this and call git bisect run again")
        return ABORT
    if found.comparison is not None:
        answer(as_text(found.comparison))
    answer(f"{found.word.value}: {found.reason}")
    return codes[found.word]
