# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench list` and `l4sbench explain`: what there is, and what names mean."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_catalog, add_command, add_runs
from l4sbench.cli.terminal import Styled, answer, answer_json, answer_table, as_blocks, as_path, is_terminal
from l4sbench.errors import InputError, suggest

if TYPE_CHECKING:
    from l4sbench.app.words import Row, Term
    from l4sbench.catalog.describe import Description

_WIDTH: Final = 100
_NUMBERS: Final = frozenset({"cells", "nodes", "rows", "measured"})
_STUDY: Final = "study"


def add_parser(commands: Subparsers) -> None:
    """Add both commands to the parser."""
    listing = add_command(
        commands,
        "list",
        list_all,
        help="list queues, congestion controls, factors, rules, matrices, topologies, sheets or runs",
        examples=(
            "l4sbench list",
            "l4sbench list queues",
            "l4sbench list matrices quick          only those with this word",
            "l4sbench list runs --json",
        ),
    )
    listing.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="one of queues, ccs, factors, rules, matrices, topologies, sheets, senders, runs",
    )
    listing.add_argument(
        "words", nargs="*", default=[], metavar="WORD", help="only rows that have all of these words"
    )
    listing.add_argument("--json", action="store_true", help="print the rows as JSON")
    add_catalog(listing)
    add_runs(listing)
    explaining = add_command(
        commands,
        "explain",
        explain,
        help="explain a queue, congestion control, factor, parameter, key, rule, matrix, topology, workload, "
        "sheet or word",
        examples=(
            "l4sbench explain dualpi2",
            "l4sbench explain aqm.target",
            "l4sbench explain l4s.rtt_target",
            "l4sbench explain undecided                   (a word of the table or the documents)",
            "l4sbench explain rfc9331/A7                  (a requirement, with its limits)",
            "l4sbench explain topology parking-lot        (draws it; a file of your own, too: ./mine.yml)",
        ),
    )
    explaining.add_argument(
        "name",
        nargs="+",
        metavar="NAME",
        help="its name, or the part of it behind the dot; before it, if you like, what it is: queue, cc, "
        "sender, factor, parameter, key, rule, matrix, topology, workload or sheet",
    )
    explaining.add_argument("--json", action="store_true", help="print everything as JSON")
    add_catalog(explaining)


def list_all(args: argparse.Namespace) -> int:
    """Print one list; without a choice, which lists there are."""
    from l4sbench.app.words import LISTS

    if args.what is None:
        rows: Sequence[Row] = [{"list": name, "contents": about} for name, about in LISTS.items()]
    elif args.what in LISTS:
        rows = [row for row in _rows(args) if _has(row, args.words)]
    else:
        hint = suggest(args.what, LISTS)
        raise InputError(f"{args.what} is not a valid list", hint)
    if args.json:
        answer_json([dict(row) for row in rows])
        return 0
    if not rows:
        of = f" with {' and '.join(args.words)}" if args.words else ""
        answer(f"there are no {args.what}{of}" + (f" below {args.runs}" if args.what == "runs" else ""))
    elif is_terminal(sys.stdout):
        _print_rows(rows, shutil.get_terminal_size().columns)
    else:  # a line per row, for grep
        answer_table(rows, right=_NUMBERS)
    return 0


def _has(row: Row, words: Sequence[str]) -> bool:
    """Return True if all words are in a row; a heading is in the rows where it holds, as `quick` is."""
    text = " ".join(
        (*row.values(), *(heading for heading, value in row.items() if value == "yes"))
    ).casefold()
    return all(word.casefold() in text for word in words)


def _print_rows(rows: Sequence[Row], width: int) -> None:
    """Print rows for a terminal; those of a study under its name."""
    plain = [{name: text for name, text in row.items() if name != _STUDY} for row in rows]
    heading, *blocks = as_blocks(plain, width, right=_NUMBERS)
    for line in heading:
        answer(line)
    before = ""
    for row, block in zip(rows, blocks, strict=True):
        if (study := row.get(_STUDY, "")) != before:
            answer()
            answer(Styled(study, "bold"))
            before = study
        for line in block:
            answer(line)


def _rows(args: argparse.Namespace) -> Sequence[Row]:
    from l4sbench.app import words
    from l4sbench.catalog import Catalog

    plain: Mapping[str, Callable[[], list[Row]]] = {
        "factors": words.factors,
        "rules": words.rules,
        "matrices": words.matrices,
        "topologies": words.topologies,
        "sheets": words.sheets,
    }
    if args.what == "runs":
        return _runs(args)
    if args.what in plain:
        return plain[args.what]()
    catalog = Catalog.load(args.catalog)
    of_catalog = {"queues": words.queues, "ccs": words.ccs, "senders": words.senders}
    return of_catalog[args.what](catalog)


def _runs(args: argparse.Namespace) -> list[Row]:
    from l4sbench.app.runs import runs_below

    return [
        {
            "run": run.name,
            "latest": "yes" if run.latest else "",
            "trials": run.trials,
            "state": run.state,
            "path": as_path(run.path.absolute()),
        }
        for run in runs_below(args.runs)
    ]


def explain(args: argparse.Namespace) -> int:
    """Print every meaning of a name."""
    from dataclasses import asdict

    from l4sbench.app import words
    from l4sbench.catalog import Catalog

    kind, name = ("", *args.name)[-2:]
    if len(args.name) > 2:
        raise InputError(f"one name is explained at a time, not {' '.join(args.name)}")
    if kind and kind not in words.KINDS:
        raise InputError(f"{kind} is not a valid kind of name", suggest(kind, words.KINDS))
    found = words.explain(name, Catalog.load(args.catalog), kind)
    if args.json:
        answer_json([{**asdict(word), "facts": dict(word.facts)} for word in found])
        return 0
    for number, word in enumerate(found):
        if number:
            answer()
        _print(word)
    return 0


def _print(word: Term) -> None:
    answer(Styled(word.name, "bold"), f": {word.kind}")
    for line in textwrap.wrap(word.about, _WIDTH - 2, break_on_hyphens=False):
        answer(f"  {line}")
    width = max((len(heading) for heading, _ in word.facts), default=0)
    for heading, text in word.facts:
        lines = textwrap.wrap(text, _WIDTH - width - 4, break_on_hyphens=False, break_long_words=False)
        for number, line in enumerate(lines):
            answer(f"  {(heading if not number else '').ljust(width)}  {line}")
    if word.drawing:
        answer()
    for line in word.drawing:
        answer(f"  {line}".rstrip())
    if word.params:
        answer()
        answer("  parameters")
        answer_table([_param(param) for param in word.params], indent="  ")


def _param(param: Description) -> Mapping[str, object]:
    meaning = f"{param.meaning}; only where {param.when}" if param.when else param.meaning
    return {
        "name": param.name,
        "default": param.default,
        "values": param.values or param.kind,
        "meaning": meaning,
    }
