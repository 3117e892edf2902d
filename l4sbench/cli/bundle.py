# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench bundle`: a run as one archive that other machines can check, report on and rerun."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from l4sbench.cli.options import Subparsers, add_command, add_runs
from l4sbench.cli.terminal import answer, say
from l4sbench.errors import InputError


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "bundle",
        bundle,
        help="write a run as one archive that other machines can check, report on and rerun",
        examples=(
            "l4sbench bundle quickstart",
            "l4sbench bundle --check FILE      verify the checksum of every file",
            "l4sbench bundle --unpack FILE     verify it and add it to the runs of this machine",
        ),
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run directory, or the name of a matrix")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the archive to write")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--check", type=Path, metavar="FILE", help="verify this bundle")
    other.add_argument("--unpack", type=Path, metavar="FILE", help="verify this bundle and unpack it")
    add_runs(parser)


def bundle(args: argparse.Namespace) -> int:
    """Write, verify or unpack a bundle and print the resulting path."""
    from l4sbench.app.api import find_run
    from l4sbench.app.bundling import readme_of
    from l4sbench.cli.report import catch_up
    from l4sbench.store import bundle as bundles

    given = args.check or args.unpack
    if (given is None) == (args.run is None):
        raise InputError("specify either a RUN to bundle, or --check or --unpack with a FILE")
    if args.check:
        contents = bundles.check_bundle(args.check)
        answer(f"{args.check}: {contents.run}, {len(contents.files)} files, all intact")
        _warn_of_code(contents.files)
    elif args.unpack:
        run = bundles.unpack_bundle(args.unpack, args.runs)
        answer(str(run))
        kept = (path for name in ("catalog", "executables", "senders") for path in (run / name).rglob("*"))
        _warn_of_code(path.relative_to(run).as_posix() for path in kept)
    else:
        run = find_run(args.run, args.runs)
        catch_up(run)
        out = args.output or Path(f"{run.parent.name}-{run.name}{bundles.SUFFIX}")
        contents = bundles.write_bundle(run, out, readme_of(run, bundles.name_of(run)))
        say(f"{len(contents.files)} files of {contents.run}")
        for name, place in bundles.places_named(run, contents).items():
            say(f"note: {name} names {place}, of this machine")
        answer(str(out))
    return 0


def _warn_of_code(files: Iterable[str]) -> None:
    """Print which catalog entries among a run's files carry code, and programs among them."""
    from l4sbench.catalog.outside import entries_with_code

    found = entries_with_code(files)
    if found:
        names = ", ".join(found)
        say(f"it carries code, of {names}; a run uses it only with --trust (l4sbench docs security)")
