# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench doctor`: print what is missing on this machine and how to install it."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace

from l4sbench.cli.options import Subparsers, add_command
from l4sbench.cli.terminal import Styled, answer, as_json


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "doctor",
        doctor,
        help="print what is missing on this machine and how to install it",
        examples=("l4sbench doctor", "l4sbench doctor --json"),
    )
    parser.add_argument("--json", action="store_true", help="print every check as JSON")
    parser.add_argument(
        "--missing-packages",
        action="store_true",
        help="print only the Debian packages to install, one per line; few once the lab is built",
    )


def doctor(args: argparse.Namespace) -> int:
    """Print every check; return 3 if a requirement of the virtual testbed is missing."""
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
        answer(as_json([asdict(check) for check in checks]))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            colour = "yellow" if check in nodes else "red"
            mark = Styled("ok     ", "green") if check.ok else Styled("missing", colour)
            answer(mark, f"  {check.name.ljust(width)}  {check.detail}")
            if not check.ok and check.mend:
                answer(f"{' ' * (width + 11)}{check.mend}")
    return 0 if all(check.ok for check in needed) else 3
