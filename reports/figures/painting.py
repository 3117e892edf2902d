# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""How the cells of our own heat maps are drawn: colour, two lines of text, marks, hatches, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from reports.colours import BLACK, WCAG_AA, WHITE, contrast, ink, mixed
from reports.figures.ground import Ground, configured, layered, table
from reports.figures.style import config

if TYPE_CHECKING:
    from reports.figures.sheets import Entry, Panel, Sheet

CELL_WIDTH: Final = 56
CELL_HEIGHT: Final = 44
WIDTH: Final = 860
"""Panels that would make a figure wider than this go below; pixels."""

_HATCH_GAP: Final = 8
_LEAST_HATCH: Final = 1.25
_BAR_MARGIN: Final = 0.08
_BAR_Y: Final = 0.88


@dataclass(frozen=True)
class Painted:
    """What one cell looks like; the colours are known before anything is drawn, so contrast can be checked.

    Attributes:
        ground: Colour of the cell.
        ink: Colour of its text.
        hatch: Colour of hatch lines, None where there are none.
        mark: `below`, `above`, `low-latency`, `changed` or empty.
        crossed: Whether the hatch is crossed: its trials fall into two groups.
    """

    entry: Entry
    text: str
    bracket: str
    ground: str
    ink: str
    hatch: str | None
    mark: str
    crossed: bool


def hatch_colour(ground: str) -> str:
    """A colour that can be told from the ground and on which the cell's text is no harder to read."""
    lighter = mixed(ground, WHITE, 0.5)
    if ink(ground) == BLACK and contrast(lighter, ground) >= _LEAST_HATCH:
        return lighter
    darker = mixed(ground, BLACK, 0.35)
    return darker if contrast(ink(ground), darker) >= WCAG_AA else lighter


def figure(
    what: str, notes: Sequence[str], panels: Sequence[alt.LayerChart], bar: alt.LayerChart, sheet: Sheet
) -> alt.VConcatChart:
    """The panels in rows, their names on the first of each row, the colour bar behind the first row."""
    step = columns(sheet)
    rows = [panels[start : start + step] for start in range(0, len(panels), step)]
    lines = [alt.hconcat(*row, *([bar] if not index else []), spacing=18) for index, row in enumerate(rows)]
    questions = {panel.question for panel in sheet.panels}
    asked = f"{next(iter(questions))} " if len(questions) == 1 else ""
    title = f"{asked}{sheet.title}: {what}"
    heading = alt.TitleParams(
        title[0].upper() + title[1:], subtitle=list(notes), subtitlePadding=5, offset=14
    )
    chart = alt.vconcat(*lines, spacing=22, title=heading)
    return configured(chart, config() | {"view": {"stroke": None}})


def columns(sheet: Sheet) -> int:
    """How many panels stand side by side."""
    each = _ground(sheet).width + 18
    return max(1, min(len(sheet.panels), (WIDTH - 200) // each))


def bar_height(sheet: Sheet) -> int:
    """Of the colour bar: that of a panel, unless its title needs more; pixels."""
    return max(_ground(sheet).height, 170)


def _ground(sheet: Sheet) -> Ground:
    labels = tuple(_lines(label) for label in sheet.rows)
    return Ground(
        labels, sheet.xs, sheet.across, CELL_WIDTH, CELL_HEIGHT, label_size=11, tick_size=11, title_size=11
    )


def _lines(label: str) -> tuple[str, ...]:
    """A row's name: the queue, and on a second line what differs."""
    queue, *settings = label.split(", ")
    return (queue, ", ".join(settings)) if settings else (queue,)


def panel_of(
    panel: Panel, sheet: Sheet, cells: Sequence[Painted], bars: Sequence[alt.Chart], labelled: bool
) -> alt.LayerChart:
    """One panel: squares, hatches, two lines of text, marks, bars; the rows' names if `labelled`."""
    ground = _ground(sheet)
    lines = (0.31, 0.63) if bars else (0.38, 0.7)
    rows = [_row(painted, *lines) for painted in cells]
    base = alt.Chart(table(rows))
    squares = base.mark_rect(stroke=WHITE, strokeWidth=1.5).encode(
        x=ground.x("left"),
        x2="right:Q",
        y=ground.y("top", labelled=labelled),
        y2="bottom:Q",
        color=alt.Color("ground:N", scale=None),
        tooltip=_tooltip(),
    )
    place = {"x": alt.X("x:Q"), "color": alt.Color("ink:N", scale=None)}
    number = base.mark_text(fontSize=12.5, fontWeight="bold", baseline="middle").encode(
        y=alt.Y("number_y:Q"), text="text:N", **place
    )
    bracket = base.mark_text(fontSize=9.5, baseline="middle").encode(
        y=alt.Y("bracket_y:Q"), text="bracket:N", **place
    )
    several = len({other.question for other in sheet.panels}) > 1
    words = [panel.question, f"against {panel.column}"] if several else [f"against {panel.column}"]
    title = alt.TitleParams(words, fontSize=11.5, fontWeight="normal", offset=5)
    layers = [squares, *_hatches(cells), *_calm(cells, lines), number, bracket, *_marks(cells), *bars]
    return layered(layers, ground.width, ground.height, title=title)


def _row(painted: Painted, number_y: float, bracket_y: float) -> dict[str, Any]:
    entry = painted.entry
    return {
        "cell": entry.cell,
        "queue": entry.queue,
        "at": entry.at,
        "valid": entry.valid,
        "percent": entry.percent,
        "low": entry.low,
        "high": entry.high,
        "l4s_mbps": entry.l4s_mbps,
        "classic_mbps": entry.classic_mbps,
        "delay_ms": entry.delay_ms,
        "classic_delay_ms": entry.classic_delay_ms,
        "x": entry.x + 0.5,
        "number_y": entry.row + number_y,
        "bracket_y": entry.row + bracket_y,
        "left": entry.x,
        "right": entry.x + 1,
        "top": entry.row,
        "bottom": entry.row + 1,
        "text": painted.text,
        "bracket": painted.bracket,
        "ground": painted.ground,
        "ink": painted.ink,
    }


def _tooltip() -> list[alt.Tooltip]:
    shown = {
        "queue": "queue",
        "at": "at",
        "percent": "L4S goodput, % of the rate",
        "low": "95 % interval from",
        "high": "to",
        "l4s_mbps": "L4S goodput, Mbit/s",
        "classic_mbps": "classic goodput, Mbit/s",
        "delay_ms": "L4S delay, ms",
        "classic_delay_ms": "classic delay, ms",
        "valid": "valid trials",
        "cell": "cell",
    }
    numbers = {"percent", "low", "high", "l4s_mbps", "classic_mbps", "delay_ms", "classic_delay_ms"}
    return [
        alt.Tooltip(f"{field}:Q", title=title, format=".2f")
        if field in numbers
        else alt.Tooltip(f"{field}:N", title=title)
        for field, title in shown.items()
    ]


_SHAPES: Final = {
    "changed": "diamond",
    "below": "triangle-down",
    "above": "triangle-up",
    "low-latency": "M0,-1L0.23,-0.32L0.95,-0.31"
    "L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z",
}
_SIZES: Final = {"changed": 34, "below": 38, "above": 38, "low-latency": 34}


def _marks(cells: Sequence[Painted]) -> list[alt.Chart]:
    """Triangles and stars in the upper right corner; drawn, as not every font has them."""
    layers = []
    for mark, shape in _SHAPES.items():
        rows = [
            {"x": p.entry.x + 0.88, "y": p.entry.row + 0.16, "ink": p.ink} for p in cells if p.mark == mark
        ]
        if rows:
            layers.append(
                alt.Chart(table(rows))
                .mark_point(shape=shape, size=_SIZES[mark], filled=True, opacity=1)
                .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), color=alt.Color("ink:N", scale=None))
            )
    return layers


def _hatches(cells: Sequence[Painted]) -> list[alt.Chart]:
    rows = [
        {
            "x": painted.entry.x + a / CELL_WIDTH,
            "y": painted.entry.row + b / CELL_HEIGHT,
            "x2": painted.entry.x + c / CELL_WIDTH,
            "y2": painted.entry.row + d / CELL_HEIGHT,
            "colour": painted.hatch,
        }
        for painted in cells
        if painted.hatch
        for a, b, c, d in hatch_lines(CELL_WIDTH, CELL_HEIGHT, crossed=painted.crossed)
    ]
    if not rows:
        return []
    lines = alt.Chart(table(rows)).mark_rule(strokeWidth=1.4)
    return [
        lines.encode(
            x=alt.X("x:Q"), x2="x2:Q", y=alt.Y("y:Q"), y2="y2:Q", color=alt.Color("colour:N", scale=None)
        )
    ]


def _calm(cells: Sequence[Painted], lines: tuple[float, float]) -> list[alt.Chart]:
    """Ground of its own under the text of hatched cells, so that no line runs through a figure."""
    top, bottom = lines[0] - 0.19, lines[1] + 0.16
    rows = [
        {
            "left": painted.entry.x + 0.18,
            "right": painted.entry.x + 0.82,
            "top": painted.entry.row + top,
            "bottom": painted.entry.row + bottom,
            "ground": painted.ground,
        }
        for painted in cells
        if painted.hatch
    ]
    if not rows:
        return []
    marks = alt.Chart(table(rows)).mark_rect(cornerRadius=5)
    return [
        marks.encode(
            x=alt.X("left:Q"),
            x2="right:Q",
            y=alt.Y("top:Q"),
            y2="bottom:Q",
            color=alt.Color("ground:N", scale=None),
        )
    ]


def hatch_lines(width: float, height: float, *, crossed: bool) -> list[tuple[float, float, float, float]]:
    """Lines at 45 degrees across a rectangle as (x, y, x2, y2), both ways when `crossed`."""
    margin = 1.0
    right, bottom = width - margin, height - margin
    lines: list[tuple[float, float, float, float]] = []
    offset = margin + _HATCH_GAP / 2
    while offset < right + bottom:
        # x + y = offset, cut by the rectangle
        left = max(margin, offset - bottom)
        end = min(right, offset - margin)
        if end - left > 1:
            lines.append((left, offset - left, end, offset - end))
            if crossed:
                lines.append((width - left, offset - left, width - end, offset - end))
        offset += _HATCH_GAP
    return lines


def interval_bars(cells: Sequence[Painted], limits: Sequence[float]) -> list[alt.Chart]:
    """In each cell with an interval: a line from 0 to 100 %, ticks at the limits, the interval, the mean."""
    shown = [p for p in cells if p.entry.low is not None and p.entry.high is not None]
    if not shown:
        return []
    thin, ticks, thick, means = [], [], [], []
    for painted in shown:
        entry, at = painted.entry, painted.entry.row + _BAR_Y
        place = {"y": at, "ink": painted.ink}
        thin.append({"x": _bar_x(entry, 0), "x2": _bar_x(entry, 100), **place})
        ticks += [
            {"x": _bar_x(entry, limit), "y": at - 0.05, "y2": at + 0.05, "ink": painted.ink}
            for limit in limits
        ]
        thick.append({"x": _bar_x(entry, entry.low or 0), "x2": _bar_x(entry, entry.high or 0), **place})
        means.append({"x": _bar_x(entry, entry.percent or 0), **place})
    colour = alt.Color("ink:N", scale=None)
    across = {"x": alt.X("x:Q"), "y": alt.Y("y:Q"), "color": colour}
    return [
        alt.Chart(table(thin)).mark_rule(strokeWidth=0.5).encode(x2="x2:Q", **across),
        alt.Chart(table(ticks)).mark_rule(strokeWidth=0.8).encode(y2="y2:Q", **across),
        alt.Chart(table(thick)).mark_rule(strokeWidth=3).encode(x2="x2:Q", **across),
        alt.Chart(table(means)).mark_point(filled=True, size=12, opacity=1).encode(**across),
    ]


def _bar_x(entry: Entry, percent: float) -> float:
    share = min(max(percent, 0.0), 100.0) / 100
    return entry.x + _BAR_MARGIN + (1 - 2 * _BAR_MARGIN) * share
