# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The style of all figures: fonts, sizes, dashes and shapes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from reports.published.look import PROMINENT

if TYPE_CHECKING:
    import altair as alt

Theme: TypeAlias = Literal["light", "dark"]

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
PUBLISHED_FONT: Final = "DejaVu Sans, Verdana, sans-serif"
"""matplotlib's font. Where it is not installed the next one is taken, and widths differ a little."""

DASHES: Final = ([1, 0], [5, 2], [1, 2], [7, 2, 1, 2], [3, 3], [9, 3], [4, 1, 1, 1], [2, 4], [12, 2])
"""Lines differ in dash as well as in colour."""

HOURGLASS: Final = "M-0.8,-1L0.8,-1L-0.8,1L0.8,1Z"
SHAPES: Final = (
    *("circle", "square", "triangle-up", "diamond", "cross"),
    *("triangle-down", "triangle-right", "triangle-left", HOURGLASS),
)
"""Points differ in shape as well as in colour."""

QUEUE_COLOURS: Final[dict[str, int]] = {name: index for index, name in enumerate(PROMINENT)}
"""Value of `aqm` -> place among colours, dashes and shapes, so that a queue looks alike in all figures."""


def looks(queues: Sequence[str]) -> tuple[int, ...]:
    """Return a place among colours, dashes and shapes for each row of a sheet, different while they last."""
    taken: list[int] = []
    for queue in queues:
        wanted = QUEUE_COLOURS.get(queue)
        free = [place for place in range(len(DASHES)) if place not in taken]
        taken.append(wanted if wanted in free and wanted is not None else (free or [len(taken)])[0])
    return tuple(place % len(DASHES) for place in taken)


_LINE: Final = 76
"""Characters of a subtitle's line: about as wide as a map of three buffers."""


def heading(title: str, notes: Sequence[str], **settings: Any) -> alt.TitleParams:
    """Return a figure's title with notes below it, in lines that leave narrow figures narrow."""
    import altair as alt

    whole = [note.replace(" %", "\u00a0%") for note in notes]
    lines = [line for note in whole for line in textwrap.wrap(note, _LINE, break_on_hyphens=False)]
    return alt.TitleParams(title, subtitle=lines, **settings)


_INKS: Final[dict[Theme, dict[str, str]]] = {
    "light": {"paper": "#ffffff", "ink": "#111111", "line": "#888888", "grid": "#e3e3e3"},
    "dark": {"paper": "#16181c", "ink": "#eeeeee", "line": "#9a9a9a", "grid": "#34373d"},
}


def config(theme: Theme = "light", font: str = FONT) -> dict[str, Any]:
    """Return the `config` of a Vega-Lite specification: the style of all figures, on paper or a dark page."""
    inks = _INKS[theme]
    words = {"labelFont": font, "titleFont": font, "labelColor": inks["ink"], "titleColor": inks["ink"]}
    return {
        "background": inks["paper"],
        "font": font,
        "view": {"stroke": inks["line"]},
        "axis": {
            **words,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "gridColor": inks["grid"],
            "domainColor": inks["line"],
            "tickColor": inks["line"],
            "titlePadding": 6,
            # labels at the ends stay below their ticks, and of labels that touch one is left out
            "labelFlush": False,
            "labelSeparation": 3,
        },
        "legend": {
            **words,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "symbolStrokeWidth": 2,
            "labelLimit": 260,
        },
        "header": {**words, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"},
        "title": {
            "font": font,
            "subtitleFont": font,
            "fontSize": 13,
            "subtitleFontSize": 11,
            "fontWeight": "bold",
            "color": inks["ink"],
            "subtitleColor": inks["ink"],
            "anchor": "start",
            "offset": 8,
        },
        "text": {"font": font, "color": inks["ink"], "fontSize": 11},
        "rule": {"color": inks["ink"]},
        "line": {"strokeWidth": 1.5},
        "concat": {"spacing": 18},
    }
