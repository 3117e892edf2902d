# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench clean`: remove unfinished and old runs and old labs, after asking."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import Subparsers, add_command, add_runs, count
from l4sbench.cli.terminal import answer, answer_json, answer_table, as_path, ask, say, warn
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from l4sbench.app.cleaning import Litter


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "clean",
        clean,
        help="remove unfinished and old runs and old labs, after asking; never what is in use",
        examples=(
            "l4sbench clean                     runs without results, leftovers, labs of other sources",
            "l4sbench clean --keep 3 --only runs       and all but the newest three runs of each matrix",
            "l4sbench clean --older-than 30 --yes      and runs that are older than 30 days; do not ask",
        ),
    )
    parser.add_argument(
        "--keep", type=count, metavar="N", help="also runs of a matrix that are not among its newest N"
    )
    parser.add_argument(
        "--older-than",
        type=count,
        metavar="DAYS",
        help="also runs that are older, except the newest of each matrix",
    )
    parser.add_argument("--only", choices=("runs", "labs"), help="only look for these")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument("--json", action="store_true", help="print what would be removed, remove nothing")
    add_runs(parser)


def clean(args: argparse.Namespace) -> int:
    """List what nobody needs, ask, and remove it."""
    from l4sbench.app.cleaning import litter_of_labs, litter_of_runs, remove
    from l4sbench.testbeds.virtual.lab.pruning import guests_run

    found: list[Litter] = []
    if args.only != "labs":
        found += litter_of_runs(args.runs, keep=args.keep, older_than_days=args.older_than)
    if args.only != "runs":
        found += litter_of_labs()
        if guests_run():
            say("note: guests of the lab run, so that labs are not looked at")
    if args.json:
        answer_json([asdict(one) | {"path": str(one.path)} for one in found])
        return 0
    if not found:
        answer("nothing to remove")
        return 0
    answer_table(_rows(found), right=frozenset({"size"}))
    total = f"{counted(len(found), 'thing')}, {_size(sum(one.size_bytes for one in found))}"
    if any(one.kind == "lab" for one in found):
        say(
            "note: other checkouts and versions of l4sbench would build their labs again, which takes minutes"
        )
    if not args.yes and not _agreed(total):
        say("nothing was removed")
        return 0
    freed, kept = remove(found)
    for reason in kept:
        warn(reason)
    say(f"removed {_size(freed)}")
    return 1 if kept else 0


def _rows(found: Sequence[Litter]) -> list[dict[str, object]]:
    """Return a row for everything to remove; the many small parts of labs share one per folder."""
    rows: dict[Path, list[Litter]] = {}
    for one in found:
        rows.setdefault(one.path.parent if one.kind == "lab" else one.path, []).append(one)
    return [
        {
            "what": same[0].kind,
            "size": _size(sum(one.size_bytes for one in same)),
            "path": as_path(path.absolute())
            + ("" if path == same[0].path else f" ({counted(len(same), 'folder')})"),
            "why": same[0].why,
        }
        for path, same in rows.items()
    ]


def _agreed(total: str) -> bool:
    """Ask on a terminal; elsewhere print how to agree."""
    if not sys.stdin.isatty():
        say(f"{total}; --yes removes them")
        return False
    return ask(f"remove {total}? [y/N] ").strip().lower() in ("y", "yes")


def _size(size_bytes: int) -> str:
    """Return a size for people: `42 kB`, `3.1 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes / 1e3:.0f} kB"
