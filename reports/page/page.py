# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Makes the page of a run from its decision and tables, by the templates beside this file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from l4sbench import __version__
from reports.page.details import details
from reports.page.facts import facts
from reports.page.model import number, questions
from reports.page.series import digest, scripts
from reports.page.tones import STEPS, delay_steps
from reports.page.writing import write_drawing, write_page, write_series
from reports.render.terminal import GLYPHS, meanings, plural

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.verdicts import Decision

TEMPLATES: Final = Path(__file__).parent / "templates"
SCRIPTS: Final = ("base.js", "cell.js", "charts.js", "find.js", "page.js")


@dataclass(frozen=True)
class Heading:
    """What the page calls the run: the matrix's name, and what it says it asks."""

    name: str
    about: str = ""


@dataclass(frozen=True)
class Panel:
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
    decision: Decision,
    heading: Heading,
    report: Path,
    *,
    remarks: Sequence[str] = (),
    panels: Sequence[Panel] = (),
) -> Path:
    """Write the page of a run into its report's folder; returns the page's file.

    `remarks` are sentences below the decision tables, `panels` further parts below the list of cells.
    Equal tables give equal files, byte for byte. The page appears last, whole or not at all.

    Raises:
        InputError: a table lacks or holds what no run gives.
        DiskFull: no room is left.
    """
    series = write_series(report, digest(tables), scripts(tables))
    drawing = write_drawing(report)
    text = render(tables, decision, heading, remarks=remarks, panels=panels, series=series, drawing=drawing)
    return write_page(report, text, (series, drawing))


def render(
    tables: RunTables,
    decision: Decision,
    heading: Heading,
    *,
    remarks: Sequence[str] = (),
    panels: Sequence[Panel] = (),
    series: str = "",
    drawing: str = "",
) -> str:
    """The page as text; `series` and `drawing` are what it loads from beside itself."""
    asked = questions(decision)
    cells = {
        cell.mean.cell: (entry, cell)
        for question in asked
        for entry in question.entries
        for cell in entry.cells
    }
    data = details(tables, decision, cells) | {"series": series, "drawing": drawing}
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            heading=heading,
            decision=decision,
            rule=decision.rule,
            questions=asked,
            glyphs=GLYPHS,
            meanings=meanings(decision),
            facts=facts(decision),
            remarks=remarks,
            panels=panels,
            steps=2 * STEPS + 1,
            delay_steps=delay_steps(),
            style=_own("page.css"),
            script=Markup("\n").join(_own(name) for name in SCRIPTS),
            data=as_script_data(data),
            version=__version__,
        )
    )


def templates() -> Environment:
    """Our templates. They escape what they are given, and know no name that they are not given."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, plural=plural)
    return environment


def _own(name: str) -> Markup:
    """One of our own files, which goes into the page as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 (not from outside)


def as_script_data(plain: object) -> Markup:
    """JSON that nothing in it can end the script element of."""
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)  # noqa: S704 (just escaped)
