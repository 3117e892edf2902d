# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench docs`: the documentation, also where there is no checkout."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from l4sbench.cli.options import Subparsers, add_command
from l4sbench.cli.terminal import answer, answer_table, is_terminal

_WIDTH: Final = 100


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "docs",
        docs,
        help="print a page of the documentation, or list the pages",
        examples=(
            "l4sbench docs                             list the pages",
            "l4sbench docs tutorial",
            "l4sbench docs troubleshooting host-too-busy   one section",
        ),
    )
    parser.add_argument(
        "page", nargs="?", metavar="PAGE", help="the page's name, such as matrix or adr/0002-cell-id"
    )
    parser.add_argument(
        "section", nargs="?", default="", metavar="SECTION", help="a heading of it, as in links"
    )


def docs(args: argparse.Namespace) -> int:
    """Print a page: rendered on a terminal, as Markdown elsewhere."""
    from l4sbench.app.pages import page, pages

    if args.page is None:
        answer_table([{"page": name, "title": title} for name, title in pages().items()])
        return 0
    text = page(args.page, args.section)
    if not is_terminal(sys.stdout):
        answer(text.rstrip("\n"))
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text, hyperlinks=False), width=min(console.width, _WIDTH))
    return 0
