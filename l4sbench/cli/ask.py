# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench ask`: an answer from the table of the atlas, without a lab; with --run also from the lab."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.cli.options import Subparsers, add_command, add_runs
from l4sbench.cli.terminal import Styled, answer, answer_table, as_command, ask, say
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.app.asking import Atlas, AtlasAnswer
    from l4sbench.app.atlas import AtlasCell, AtlasInterval

_STYLES: Final = {"ok": "green", "not known": "yellow"}
_IMAGES: Final = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
_ASKED: Final = (
    ("aqm", "queue (such as fq-codel): ", ""),
    ("rate", "rate of the link (such as 50mbit): ", ""),
    ("rtt", "round-trip time (such as 20ms): ", ""),
    ("buffer_bdp", "buffer in bandwidth-delay products [1]: ", "1"),
)


def add_parser(commands: Subparsers) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "ask",
        run_ask,
        help="answer at once from the atlas, a table of measured cells, whether it is okay to switch",
        examples=(
            "l4sbench ask aqm=fq-codel rate=50mbit rtt=20ms buffer_bdp=2 against=cubic",
            "l4sbench ask 50 Mbit/s, 20 ms, FQ-CoDel",
            "l4sbench ask                                     it asks the questions",
            "l4sbench ask aqm=dualpi2 rate=4mbit rtt=20ms --run      run exactly this cell, too",
            "l4sbench ask --page atlas.html                   the whole atlas as a map",
            "l4sbench ask --ranking aqm=fifo                  who leaves how much to whom",
        ),
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="aqm=, rate=, rtt=, buffer_bdp= (1), against=, ecn= of the competitor, to=, "
        "min_qlen_step= of dualpi2; or plain words",
    )
    parser.add_argument(
        "--run", action="store_true", help="run exactly this cell in the lab, and compare it with the answer"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="write the whole atlas as one page with a map, which opens from disk or any web server",
    )
    parser.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help="write the map of rate and RTT as an image, FILE.svg, FILE.png or FILE.pdf",
    )
    parser.add_argument(
        "--ranking",
        action="store_true",
        help="rank congestion controls by what they leave to others and keep, over all cells or one queue's",
    )
    add_runs(parser)


def run_ask(args: argparse.Namespace) -> int:
    """Print the answer, with --run also the lab's, or the ranking; or write the page of the whole atlas."""
    from l4sbench.app.asking import Atlas

    several = {"--page": args.page, "--map": args.map, "--ranking": args.ranking, "--run": args.run}
    if len(given := [option for option, value in several.items() if value]) > 1:
        raise InputError(f"{' and '.join(given)} do not go together", "give one of them at a time")
    atlas = Atlas.load()
    if args.page is not None:
        return _write_page(atlas, args.page, args.words)
    if args.map is not None:
        return _write_map(atlas, args.map, args.words)
    if args.ranking:
        return _show_ranking(atlas, args.words)
    words = args.words or _dialogue(atlas)
    found = atlas.ask(*words)
    _show(atlas, found)
    return _run(atlas, found, args.runs) if args.run else 0


def _write_page(atlas: Atlas, file: Path, words: list[str]) -> int:
    if words:
        raise InputError("--page shows the whole atlas and takes no question")
    return _write(file, atlas.page())


def _write_map(atlas: Atlas, file: Path, words: list[str]) -> int:
    if words:
        raise InputError("--map shows the whole atlas and takes no question")
    if (form := _IMAGES.get(file.suffix.lower())) is None:
        raise InputError(f"{file.name} does not end like an image", f"choose from {', '.join(_IMAGES)}")
    return _write(file, atlas.map(form))


def _write(file: Path, content: str | bytes) -> int:
    from l4sbench.disk.files import write_whole

    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, content)
    answer(str(file))
    return 0


def _show_ranking(atlas: Atlas, words: list[str]) -> int:
    found = atlas.ranking(*words)
    if not found.ranked:
        answer("all pairs of congestion controls have no cell in common that has run and is not old")
        return 0
    others = sorted({other for one in found.ranked for other in one.beside})
    rows = [
        {
            "": str(one.contender),
            "leaves %": _of(one.leaves_percent),
            "keeps %": _of(one.keeps_percent),
            **{f"to {other}": _of(one.beside.get(other)) for other in others},
        }
        for one in found.ranked
    ]
    answer_table(rows)
    answer("")
    answer(
        f"percent of a fair share, means [95 % confidence intervals] over {found.cells} cells of each pair, "
        f"{found.trials} trials"
    )
    answer(f"these cells are behind {', '.join(found.queues)}")
    return 0


def _dialogue(atlas: Atlas) -> list[str]:
    if not sys.stdin.isatty():
        raise InputError(
            "ask needs a question", "for example `l4sbench ask aqm=fq-codel rate=50mbit rtt=20ms`"
        )
    usual = atlas.usual.classic
    against = ("against", f"competitor ({', '.join(atlas.competitors)}) [{usual}]: ", usual)
    words: list[str] = []
    for key, prompt, default in (*_ASKED, against):
        if not (line := ask(prompt)):
            raise KeyboardInterrupt  # the end of the input
        words.append(f"{key}={line.strip() or default}")
    return words


def _show(atlas: Atlas, found: AtlasAnswer) -> None:
    answer(str(found.question))
    answer(Styled(found.word, _STYLES.get(found.word, "red")), found.reason)
    if found.instead is not None:
        answer(f"set this instead: {found.instead}")
    if found.neighbours:
        _show_neighbours(found)
    own = found.question.column.aqm
    _describe(atlas, own)
    if found.instead is not None and (other := found.instead.question.column.aqm) != own:
        _describe(atlas, other)
        answer(f"`l4sbench explain {other}` has its parameters")  # `fq` is not that of Linux


def _describe(atlas: Atlas, aqm: str) -> None:
    queue = atlas.catalog.queue(aqm)
    answer(f"{queue.name} is {queue.label}: {queue.about.strip()}")


def _show_neighbours(found: AtlasAnswer) -> None:
    if found.distance > 1.001:
        answer(
            f"distance from the nearest cell: factor {found.distance:.2g} in rate, RTT and buffer together"
        )
    if found.old:
        answer("some of these cells are old: another kernel, other modules or another wire made them")
    answer("")
    answer_table(list(map(_row, found.neighbours)), right=frozenset({"rate", "rtt", "buffer", "trials"}))
    answer("")
    answer(
        "% of the link's rate, and smoothed RTT minus base RTT: means over trials [95 % confidence interval]"
    )


def _row(cell: AtlasCell) -> dict[str, object]:
    return {
        "rate": f"{cell.rate_mbps:g} Mbit/s",
        "rtt": f"{cell.rtt_ms:g} ms",
        "buffer": f"{cell.buffer_bdp:g} BDP",
        "verdict": cell.verdict or "not run",
        "trials": cell.trials,
        f"{cell.column.l4s} %": _of(cell.l4s_percent),
        f"{cell.column.classic} %": _of(cell.classic_percent),
        "its delay, ms": _of(cell.l4s_delay_ms),
        "other's delay, ms": _of(cell.classic_delay_ms),
    }


def _of(value: AtlasInterval | None) -> str:
    if value is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{value.low:.3g} to {value.high:.3g}]"
    return f"{value.mean:.3g}{ends}"


def _run(atlas: Atlas, found: AtlasAnswer, runs: Path) -> int:
    """Run the question's cell in the lab, and print whether the table was right."""
    from l4sbench.app import api
    from l4sbench.app.prepare import RunOptions, prepare
    from l4sbench.app.question import changes_of
    from l4sbench.cli.progress import run_progress

    changes = changes_of(found.question, atlas.timing(found.question))
    words = [word for change in changes for word in ("--set", change)]
    say(f"running: {as_command('l4sbench', 'run', 'atlas', *words)}")
    prepared = prepare("atlas", (), RunOptions(changes=changes, runs=runs))
    with run_progress(None) as on_event:
        ended = api.run_prepared(prepared, on_state=say, on_event=on_event)
    if ended.decision is None:
        return ended.result.exit_code
    measured = ended.decision.verdicts[0].worst
    answer("")
    trials = measured.result.valid
    answer(f"the lab: {measured.word.value} ({'sure' if measured.sure else 'not sure'}, {trials} trials)")
    answer(found.compared(measured.word.value))
    return ended.result.exit_code
