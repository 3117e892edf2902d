# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report RUN --flent`: the run's trials as data files of flent."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import as_filter, is_filter
from l4sbench.cli.terminal import answer, answer_json, as_path, say
from l4sbench.errors import InputError
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from reports.flent import Origin


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --flent."""
    parser.add_argument(
        "--flent",
        nargs="?",
        const="",
        metavar="DIR",
        help="write each valid trial into DIR as .flent.gz, for flent and its GUI (default: report/flent/)",
    )


def wanted(args: argparse.Namespace) -> bool:
    """Return True if such files are wanted; a filter behind --flent is taken as a filter, not as a folder."""
    if args.flent and is_filter(args.flent):
        args.filters = [as_filter(args.flent), *args.filters]
        args.flent = ""
    return args.flent is not None


def write(args: argparse.Namespace) -> int:
    """Write the trials of a run, or of the cells that pass the filters, and print the folder."""
    from l4sbench.app import api
    from l4sbench.app.reading import refuse_other, writing
    from l4sbench.disk.files import write_whole
    from reports.flent import MARK, flent_files, flent_names

    run: Path = args.run
    folder = Path(args.flent) if args.flent else (args.output or run / "report") / "flent"
    tables = api.load(run, *args.filters, every=args.all)
    names: list[str] = []
    if args.flent or args.output:
        for name in flent_names(tables):
            refuse_other(folder / name, MARK, "a file for flent")
    with writing(folder, "--flent DIR writes them into another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for file in flent_files(tables, _origin(run)):
            write_whole(folder / file.name, file.content)
            names.append(file.name)
    if not names:
        raise InputError(f"{as_path(run)} has no valid trial with flows", "choose other filters")
    if args.json:
        answer_json([str(folder / name) for name in names])
    else:
        say(f"{counted(len(names), 'file')}; to look at one: flent -p totals -o plot.png FILE")
        answer(as_path(folder))
    return 0


def _origin(run: Path) -> Origin:
    from l4sbench.store import Run
    from l4sbench.version import __version__
    from reports.flent import Origin

    manifest = Run.open(run).manifest
    try:
        began = datetime.fromisoformat(str(manifest.created))
    except ValueError as error:
        message = f"{manifest.created!r} is not a valid time"
        raise InputError(f"{run / 'manifest.json'}: created: {message}") from error
    return Origin(
        str(manifest.matrix), run.resolve().name, began.replace(tzinfo=began.tzinfo or UTC), __version__
    )
