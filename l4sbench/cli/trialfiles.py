# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report RUN --flent` and `--qlog`: the run's trials as files for other programs."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import as_filter, is_filter
from l4sbench.cli.terminal import answer, answer_json, as_path, say
from l4sbench.errors import InputError
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reports.flent import FlentFile, Origin
    from reports.qlog import QlogFile
    from reports.result.load import RunTables

FLENT: Final = "flent"
QLOG: Final = "qlog"

_HELP: Final[Mapping[str, str]] = {
    FLENT: "write each valid trial into DIR as .flent.gz, for flent and its GUI (default: report/flent/)",
    QLOG: "write each TCP flow of each valid trial into DIR as qlog (.sqlog; default: report/qlog/)",
}
_HINTS: Final[Mapping[str, str]] = {
    FLENT: "; to look at one: flent -p totals -o plot.png FILE",
    QLOG: "; each is the course of one flow by its socket",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --flent and --qlog."""
    for name, words in _HELP.items():
        parser.add_argument(f"--{name}", nargs="?", const="", metavar="DIR", help=words)


def wanted(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the kinds of such files that are wanted; a filter behind an option is a filter, not a folder."""
    for name in _HELP:
        if (place := getattr(args, name)) and is_filter(place):
            args.filters = [as_filter(place), *args.filters]
            setattr(args, name, "")
    return tuple(name for name in _HELP if getattr(args, name) is not None)


def write(args: argparse.Namespace) -> int:
    """Write the trials of a run, or of the cells that pass the filters, and print the folder."""
    from l4sbench.app import api
    from l4sbench.app.reading import refuse_other, writing
    from l4sbench.disk.files import write_whole

    run: Path = args.run
    (kind,) = wanted(args)
    place = getattr(args, kind)
    folder = Path(place) if place else (args.output or run / "report") / kind
    tables = api.load(run, *args.filters, every=args.all)
    mark, expected, files = _of_kind(kind, tables, run)
    names: list[str] = []
    if place or args.output:
        for name in expected:
            refuse_other(folder / name, mark, f"a file for {kind}")
    with writing(folder, f"--{kind} DIR writes them into another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            write_whole(folder / file.name, file.content)
            names.append(file.name)
    if not names:
        raise InputError(f"{as_path(run)} has no valid trial with flows", "choose other filters")
    if args.json:
        answer_json([str(folder / name) for name in names])
    else:
        say(f"{counted(len(names), 'file')}{_HINTS[kind]}")
        answer(as_path(folder))
    return 0


def _of_kind(
    kind: str, tables: RunTables, run: Path
) -> tuple[bytes, Iterable[str], Iterable[FlentFile | QlogFile]]:
    """Return the mark of files of a kind, their names, and the files."""
    if kind == FLENT:
        from reports import flent

        return flent.MARK, flent.flent_names(tables), flent.flent_files(tables, _origin(run))
    from l4sbench.version import __version__
    from reports import qlog

    return qlog.MARK, qlog.qlog_names(tables), qlog.qlog_files(tables, __version__)


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
