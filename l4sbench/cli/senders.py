# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench senders build`: build the programs of senders before a run asks for them."""

from __future__ import annotations

import argparse

from l4sbench.cli.options import Subparsers, add_catalog, add_command, add_subcommands
from l4sbench.cli.terminal import answer, as_path, say


def add_parser(commands: Subparsers) -> None:
    """Add the command and its subcommand to the parser."""
    parser = add_command(
        commands,
        "senders",
        None,
        help="build senders such as QUIC stacks; list senders prints them",
        examples=("l4sbench senders build quinn",),
    )
    building = add_command(
        add_subcommands(parser),
        "build",
        build,
        help="build senders, once each; this fetches what their lock files name",
        examples=("l4sbench senders build", "l4sbench senders build quinn quic-go"),
    )
    building.add_argument("senders", nargs="*", metavar="NAME", help="their names (default: all)")
    building.add_argument(
        "--trust", action="store_true", help="trust the code of those from outside l4sbench, now and later"
    )
    add_catalog(building)


def build(args: argparse.Namespace) -> int:
    """Build the senders; print their programs' paths."""
    from l4sbench.catalog import Catalog
    from l4sbench.catalog.outside import trusted_senders
    from l4sbench.testbeds import senders

    catalog = Catalog.load(args.catalog)
    wanted = args.senders or tuple(catalog.senders)
    for one in trusted_senders(catalog, wanted, consent=args.trust):
        if not one.program.is_built:
            senders.require_toolchain(one)
            say(f"building {one.name}, which takes some minutes")
        answer(as_path(senders.build(one)))
    return 0
