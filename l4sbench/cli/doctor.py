# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench doctor`: print what is missing on this machine, or for how long hosts pause."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, count
from l4sbench.cli.terminal import Styled, answer, answer_json, answer_table, say
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.testbeds.ssh.pauses import Pauses

_SECONDS: Final = 10
_MOST_SECONDS: Final = 60
_HERE: Final = "this machine"


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "doctor",
        doctor,
        help="print what is missing on this machine and how to install it",
        examples=(
            "l4sbench doctor",
            "l4sbench doctor --json",
            "l4sbench doctor --pauses                       how often and for how long this machine pauses",
            "l4sbench doctor --pauses --on ssh:hosts.yml    and every host of an inventory",
        ),
    )
    parser.add_argument("--json", action="store_true", help="print every check as JSON")
    parser.add_argument(
        "--missing-packages",
        action="store_true",
        help="print only the Debian packages to install, one per line; few once the lab is built",
    )
    parser.add_argument(
        "--pauses",
        action="store_true",
        help="measure gaps of at least 1 ms in a timer of 10 kHz, instead of the checks",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        metavar="N",
        help=f"with --pauses: measure for N seconds (default: {_SECONDS})",
    )
    parser.add_argument(
        "--on",
        metavar="ssh:INVENTORY",
        help="with --pauses: measure the hosts of an inventory, one after the other, not this machine",
    )


def _seconds(text: str) -> int:
    number = count(text)
    if number > _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is out of range; it must be at most {_MOST_SECONDS}")
    return number


def doctor(args: argparse.Namespace) -> int:
    """Print every check; return 3 if a requirement of the virtual testbed is missing."""
    if args.pauses:
        return _pauses(args)
    for name in ("seconds", "on"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name} is for measuring pauses", f"l4sbench doctor --pauses --{name} ...")
    from l4sbench.testbeds.nodes.checks import node_checks
    from l4sbench.testbeds.virtual.lab import doctor as look

    needed = look()
    # virtual trials do not need booted nodes: missing requirements of theirs are printed, but no failure
    nodes = [replace(check, name=f"nodes: {check.name}") for check in node_checks()]
    checks = [*needed, *nodes]
    if args.missing_packages:
        built = any(check.name == "lab" and check.ok for check in needed)
        lacking = nodes if built else checks
        for package in sorted({name for check in lacking for name in check.packages}):
            answer(package)
        return 0
    if args.json:
        answer_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            colour = "yellow" if check in nodes else "red"
            mark = Styled("ok     ", "green") if check.ok else Styled("missing", colour)
            answer(mark, f"  {check.name.ljust(width)}  {check.detail}")
            if not check.ok and check.mend:
                answer(f"{' ' * (width + 11)}{check.mend}")
    return 0 if all(check.ok for check in needed) else 3


def _pauses(args: argparse.Namespace) -> int:
    """Measure and print the pauses of this machine, or of the hosts of an inventory."""
    from l4sbench.testbeds.ssh.pauses import pauses_here, pauses_on

    seconds = args.seconds or _SECONDS
    found: Mapping[str, Pauses]
    if args.on is None:
        say(f"measuring for {seconds} s")
        found = {_HERE: pauses_here(seconds)}
    else:
        kind, _, inventory = args.on.partition(":")
        if kind != "ssh" or not inventory:
            hint = "--on ssh:hosts.yml; `l4sbench slice inventory NAME` prints the inventory of a slice"
            raise InputError(f"{args.on} is not a valid place for --pauses; it must be ssh:INVENTORY", hint)
        say(f"measuring every host for {seconds} s, one after the other")
        found = pauses_on(Path(inventory), seconds)
    if args.json:
        answer_json({host: pauses.as_values() for host, pauses in found.items()})
        return 0
    rows = [_row(host, pauses) for host, pauses in found.items()]
    answer_table(rows, right=frozenset(rows[0]) - {"host"})
    return 0


def _row(host: str, found: Pauses) -> Mapping[str, object]:
    sizes = {"median, ms": found.median_ms, "99 %, ms": found.p99_ms, "longest, ms": found.max_ms}
    return {
        "host": host,
        "pauses": found.pauses,
        "per s": f"{found.per_s:.1f}",
        **{title: "-" if size is None else f"{size:.1f}" for title, size in sizes.items()},
        "of the time, %": f"{100 * found.share:.1f}",
    }
