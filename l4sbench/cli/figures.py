# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report RUN --figures`: the run's figures as files."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.cli.options import as_filter, is_filter
from l4sbench.cli.terminal import answer, answer_json, as_path, say, warn
from l4sbench.errors import BadValueError, InputError
from l4sbench.text.units import Duration
from l4sbench.text.wording import counted

if TYPE_CHECKING:
    from reports.figures import Paper, Written
    from reports.result.verdicts import Decision


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --figures and the options that go with it."""
    parser.add_argument(
        "--figures",
        nargs="?",
        const="",
        metavar="DIR",
        help="write the run's figures and an index of them into DIR (default: report/figures/ of the run)",
    )
    parser.add_argument(
        "--map",
        action="store_true",
        help="write one figure: where it is okay to switch by rate and RTT, into report/map/ of the run",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="RUN",
        help="with --figures: put this run on one plot with the other; may be repeated, draws nothing else",
    )
    parser.add_argument(
        "--by",
        metavar="FACTOR",
        help="put the values of a factor on one plot, by colour or across (default: the only one that "
        "differs besides queues and competitors, or the lab; none: queues on one plot, values apart)",
    )
    parser.add_argument(
        "--format",
        default="svg",
        metavar="FORMATS",
        help="formats, separated by commas: svg, png, pdf, html (interactive), json (default: svg)",
    )
    parser.add_argument(
        "--width",
        metavar="WIDTH",
        help="width of every figure, such as 3.3in, 8.4cm or 84mm; fonts stay readable (default: as wide as "
        "its plots need)",
    )
    parser.add_argument(
        "--no-title", action="store_true", help="figures without title and subtitle, which a caption has"
    )
    parser.add_argument(
        "--series",
        choices=("none", "median", "all", "trials", "band", "columns"),
        default="median",
        help="trials of a cell that --figures shows over time (default: the one nearest to the median); "
        "trials and band: all on one plot, a line each or the median in a band; columns: 2 to 4 cells side "
        "by side, draws nothing else",
    )
    parser.add_argument(
        "--span",
        metavar="SPAN",
        help="with --figures: draw the packets of captured trials in this part of their time, such as "
        "2s-2.5s, and nothing else",
    )


def wanted(args: argparse.Namespace) -> bool:
    """Return True if figures are wanted; a filter behind --figures is taken as a filter, not as a folder."""
    if args.figures and is_filter(args.figures):
        args.filters = [as_filter(args.figures), *args.filters]
        args.figures = ""
    return args.figures is not None or args.map


def write(args: argparse.Namespace) -> int:
    """Write the figures of a run, or of the cells that pass the filters, and print the index."""
    from l4sbench.app import api
    from l4sbench.app.captures import StoredCaptures
    from l4sbench.app.reading import refuse_others, writing
    from l4sbench.app.stored import StoredRun
    from reports.figures import figures, formats
    from reports.figures import write as write_figures

    forms = formats(args.format)
    _paper(args)  # a wrong width is said before anything is drawn
    span_s = _span_s(args.span) if args.span else None
    if args.beside:
        return _write_several(args, forms)
    report = args.output or args.run / "report"
    if args.map:
        decision = api.decide(args.run, *args.filters, rule=args.rule, every=args.all)
        return _write_map(args, decision, report / "map" / _below(args.filters), forms)
    result = StoredRun(args.run).result(args.filters, rule=args.rule, every=args.all)
    folder = Path(args.figures) if args.figures else report / "figures" / _below(args.filters)
    tables = api.load(args.run, *args.filters, every=args.all)
    refuse_others(folder)
    many = counted(len(result.cells), "cell")
    say(f"drawing figures of {many} into {as_path(folder)}, about one per second")
    with writing(folder, "--figures DIR writes them into another folder"):
        written = write_figures(
            figures(
                tables,
                result,
                args.series,
                lambda why: warn(f"not drawn: {why}"),
                args.by,
                StoredCaptures(args.run),
                span_s,
            ),
            folder,
            forms,
            _announce,
            _command(args),
            _paper(args),
        )
    return _answer(args, folder, written)


def _paper(args: argparse.Namespace) -> Paper:
    from reports.figures import Paper, width_of

    return Paper(width_of(args.width) if args.width else None, titled=not args.no_title)


def _span_s(text: str) -> tuple[float, float]:
    """Parse a span of time such as `2s-2.5s`; return its begin and end in seconds. Raises InputError."""
    begin, _, end = text.partition("-")
    try:
        found = Duration.parse(begin).ns / 1e9, Duration.parse(end).ns / 1e9
    except BadValueError as error:
        raise InputError(f"{text} is not a valid span of time: {error}", "such as 2s-2.5s") from error
    if found[0] >= found[1]:
        raise InputError(f"{text} is not a valid span of time: its end is not after its begin")
    return found


def _command(args: argparse.Namespace) -> str:
    """Return the command that draws these figures again; it names runs by matrix and time, without a path."""
    from l4sbench.app import api

    found = [api.find_run(run, args.runs) for run in (args.run, *args.beside)]
    first, *beside = (f"{run.parent.name}/{run.name}" for run in found)
    words = ["l4sbench", "report", first, *args.filters, *(["--map"] if args.map else ["--figures"])]
    words += [word for name in beside for word in ("--beside", name)]
    words += ["--rule", args.rule] if args.rule else []
    words += ["--all"] if args.all else []
    words += ["--series", args.series] if args.series != "median" and not args.map else []
    words += ["--by", args.by] if args.by else []
    words += ["--span", args.span] if args.span else []
    words += ["--width", args.width] if args.width else []
    words += ["--no-title"] if args.no_title else []
    words += ["--format", args.format] if args.format != "svg" else []
    return shlex.join(words)


def _write_map(args: argparse.Namespace, decision: Decision, folder: Path, forms: Sequence[str]) -> int:
    """Write the map of rate and RTT, beside other maps of the run but not among its figures."""
    from l4sbench.app.reading import refuse_others, writing
    from reports.figures import the_plane
    from reports.figures import write as write_figures

    folder = Path(args.figures) if args.figures else folder
    refuse_others(folder)
    figure = the_plane(decision)
    with writing(folder, "--map --figures DIR writes it into another folder"):
        written = write_figures(iter([figure]), folder, forms, _announce, _command(args), _paper(args))
    return _answer(args, folder, written)


def _write_several(args: argparse.Namespace, forms: Sequence[str]) -> int:
    """Write figures of several runs into a folder of their own, so that they replace no others."""
    from l4sbench.app import api
    from l4sbench.app.reading import refuse_others, writing
    from reports.figures import of_runs
    from reports.figures import write as write_figures

    several = api.decide_several(
        [args.run, *args.beside], args.filters, rule=args.rule, runs=args.runs, every=args.all
    )
    report = args.output or args.run / "report"
    folder = Path(args.figures) if args.figures else report / "figures" / "runs" / _below(args.filters)
    refuse_others(folder)
    with writing(folder, "--figures DIR writes them into another folder"):
        shown = of_runs(several, lambda why: warn(f"not drawn: {why}"))
        written = write_figures(shown, folder, forms, _announce, _command(args), _paper(args))
    return _answer(args, folder, written)


def _announce(one: Written) -> None:
    say(f"{as_path(one.files[0])}: {one.caption}")


def _answer(args: argparse.Namespace, folder: Path, written: Sequence[Written]) -> int:
    """Print the index, or everything as JSON."""
    if args.json:
        answer_json(
            [
                {"name": one.name, "caption": one.caption, "files": [str(file) for file in one.files]}
                for one in written
            ]
        )
    else:
        answer(as_path(folder / "index.html"))
    return 0


def _below(filters: list[str]) -> str:
    """Return a folder for the figures of a part of a run, so that they replace no others."""
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-.") for text in sorted(filters))
