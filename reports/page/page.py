# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a run, made of its decision and tables by the templates beside this file."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from l4sbench.printable import printable, printable_json
from l4sbench.text.wording import counted
from l4sbench.version import __version__
from reports.colours import DIFFERENCE, goodput_scale
from reports.page.details import FIELD, LINE, NUMBER, details
from reports.page.links import Beside, beside
from reports.page.model import delay_bars, goodput_bars, longest_ms, questions, sides_text, spoken
from reports.page.series import digest, scripts
from reports.page.writing import write_drawing, write_page, write_series
from reports.published import difference_maps
from reports.render import words
from reports.render.answer import Head, answers, scope_text
from reports.result.metrics import cell_metrics
from reports.result.regret import MEANING
from reports.result.verdicts import Decision

if TYPE_CHECKING:
    import polars as pl

    from reports.page.live import Live
    from reports.published import StudyComparison
    from reports.render.answer import Answer
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.regret import Regret
    from reports.result.verdicts import JudgedCell

TEMPLATES: Final = Path(__file__).parent / "templates"
SCRIPTS: Final = ("base.js", "keep.js", "cell.js", "path.js", "charts.js", "find.js", "page.js")

_SEPARATORS: Final = frozenset((LINE, FIELD, NUMBER))
_PARTS: Final = re.compile(f"([{''.join(sorted(_SEPARATORS))}])")

STEPS: Final = 5
"""Steps of the diverging colour scales on each side of their middle; `page.css` has the colours."""

DELAY_LIMITS_MS: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Ends of the steps of the delay scale. L4S promises 1 ms, and CoDel aims at 5 ms."""


_ALONE: Final = Beside()


@dataclass(frozen=True)
class Heading:
    """The heading of the page: the name of the matrix, and its description."""

    name: str
    about: str = ""


@dataclass(frozen=True)
class Section:
    """A further part of the page, below the decision tables.

    Attributes:
        name: Names it in links; letters and dashes.
        title: Its heading.
        body: HTML, its words escaped.
    """

    name: str
    title: str
    body: Markup


def write(
    tables: RunTables,
    result: Decision | Measurements,
    heading: Heading,
    report: Path,
    *,
    metrics: pl.DataFrame | None = None,
    costs: Sequence[Regret] = (),
    panels: Sequence[Section] = (),
) -> Path:
    """Write the page of a run into its report's folder, and return the page's file.

    A page of measurements has cells, but no decision table and no heat maps.

    `metrics` are those of its cells (`reports.result.metrics.cell_metrics`), if they are known; `costs` are
    those of switching, `panels` further parts below the list of cells.
    Equal tables give equal files, byte for byte. The page appears last, whole or not at all.

    Raises:
        InputError: a table is not that of a run.
        DiskFull: no room is left.
    """
    series = write_series(report, digest(tables), scripts(tables))
    drawing = write_drawing(report)
    text = render(
        tables,
        result,
        heading,
        metrics=metrics,
        costs=costs,
        panels=panels,
        series=series,
        drawing=drawing,
        around=beside(tables, report),
    )
    return write_page(report, text, (series, drawing))


def render(
    tables: RunTables,
    result: Decision | Measurements,
    heading: Heading,
    *,
    metrics: pl.DataFrame | None = None,
    costs: Sequence[Regret] = (),
    panels: Sequence[Section] = (),
    series: str = "",
    drawing: str = "",
    around: Beside = _ALONE,
    live: Live | None = None,
) -> str:
    """Return the page as text; `series` and `drawing` are the files beside it that it loads.

    It has links to what is `around` it. `live` is the state of a run that goes on: the page shows it, and
    reloads itself.
    """
    decision = result if isinstance(result, Decision) else None
    asked = questions(decision) if decision else ()
    cells = [(entry, cell) for question in asked for entry in question.entries for cell in entry.cells]
    if metrics is None:
        metrics = cell_metrics(tables, *result.pair)
    data = details(tables, result, cells, metrics) | {
        "series": series,
        "drawing": drawing,
        "raw": around.raw,
        "without_raw": around.without_raw,
    }
    page = (
        templates()
        .get_template("page.html.j2")
        .render(
            heading=heading,
            basis=result,
            decision=decision,
            rule=decision.rule if decision else None,
            questions=asked,
            words=words,
            answers=dict(answers(decision, costs)) if decision else {},
            longest_ms=longest_ms(asked),
            files=around.files,
            scope=scope_text(decision) if decision else "",
            regret_meaning=MEANING,
            costs=costs,
            panels=panels,
            steps=2 * STEPS + 1,
            delay_steps=_delay_steps(),
            live=live,
            style=Markup("\n").join(own(name) for name in ("page.css", *(("live.css",) if live else ()))),
            script=Markup("\n").join(own(name) for name in (*SCRIPTS, "live.js" if live else "resume.js")),
            data=as_script_data(data),
            version=__version__,
        )
    )
    return printable(page)  # at the end, as a control character is one wherever it is in HTML


def beside_published(comparison: StudyComparison, remark: str = "") -> Section:
    """Return the part of a page that puts the run beside a published study: verdicts, errata, cells.

    `remark` is a sentence about the run that comes first.
    """
    agreeing, corrected, known = comparison.agreeing
    body = (
        templates()
        .get_template("beside.html.j2")
        .render(
            comparison=comparison,
            remark=remark,
            agreeing=agreeing,
            corrected=corrected,
            known=known,
            maps=difference_maps(comparison),
            tone=lambda percent: DIFFERENCE.step(percent, STEPS),
            stars=words.STAR,
            pairs=sorted(comparison.pairs, key=lambda pair: pair.cell.id),
        )
    )
    # the template escapes whatever it is given
    return Section("against", f"Beside published results: {comparison.study.study}", Markup(body))  # noqa: S704


@cache  # compiling them takes longer than filling them in
def templates() -> Environment:
    """Return the page's templates, which escape all values and know no name that they are not given."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number,
        counted=counted,
        between=words.between,
        sides=sides_text,
        goodput_bars=goodput_bars,
        delay_bars=delay_bars,
        answer_tone=_answer_tone,
        firm=_firm,
        spoken=spoken,
        sentence=_sentence,
        tone=_tone,
        delay_tone=_delay_tone,
    )
    return environment


_ANSWER_SIGNS: Final[Mapping[Head, str]] = {
    Head.YES: "✓",
    Head.PROBABLY: "✓",
    Head.NOT_EVERYWHERE: "◐",
    Head.PROBABLY_NOT_EVERYWHERE: "◐",
    Head.NO: "✕",
    Head.PROBABLY_NOT: "✕",
    Head.UNDECIDED: "?",
}
"""An answer is sign and word, never colour alone."""


def _answer_tone(answer: Answer) -> tuple[str, str]:
    """Return the sign of an answer, and the class of its colour: yes, no, or open for what is not sure."""
    tones = {Head.YES: "open" if answer.but else "yes", Head.NO: "no", Head.NOT_EVERYWHERE: "no"}
    return _ANSWER_SIGNS[answer.head], tones.get(answer.head, "open")


def _firm(text: str) -> str:
    """Return a text in which no line ends before a percent sign."""
    return text.replace(" %", "\u00a0%")


def _sentence(text: str) -> Markup:
    """Return a note as a sentence in HTML, what is between backquotes as code."""
    parts = f"{text[0].upper()}{text[1:]}.".split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _tone(cell: JudgedCell) -> int | None:
    """Return the step of the goodput scale: 0 (starved) to `STEPS` (fair share) to 2 * `STEPS` (all)."""
    share = cell.result.share
    return None if share is None else goodput_scale(cell.result.fair_percent).step(share.value, STEPS)


def _delay_tone(cell: JudgedCell) -> int | None:
    delay = cell.result.l4s.delay
    return None if delay is None else bisect_right(DELAY_LIMITS_MS, delay.value)


def _delay_steps() -> tuple[str, ...]:
    """Return the steps of the delay scale in words, for a legend."""
    limits = [f"{limit:g}" for limit in DELAY_LIMITS_MS]
    between = (f"{low} to {high}" for low, high in pairwise(limits))
    return (f"below {limits[0]}", *between, f"{limits[-1]} and more")


def own(name: str) -> Markup:
    """Return one of our own files, which goes into the page as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 (not from outside)


def as_script_data(plain: object) -> Markup:
    """Return JSON in which nothing can end the script element that holds it."""
    text = json.dumps(
        printable_json(plain, _visible), separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)  # noqa: S704 (just escaped)


def _visible(text: str) -> str:
    """Return a text without control characters but those that part the texts of the page's data."""
    if text.isprintable():
        return text
    return "".join(part if part in _SEPARATORS else printable(part) for part in _PARTS.split(text))
