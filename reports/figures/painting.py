# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The drawing of our own heat maps: colour, two lines of text, marks, hatches and intervals of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from reports.colours import BLACK, WCAG_AA, WHITE, contrast, ink, mixed
from reports.figures.ground import Ground, configured, layered, square, table
from reports.figures.sheets import ends, limited
from reports.figures.style import config, heading
from reports.render.words import side_text

if TYPE_CHECKING:
    from reports.figures.sheets import Sheet, SheetPanel
    from reports.result.verdicts import JudgedCell

CELL_WIDTH: Final = 56
CELL_HEIGHT: Final = 44
WIDTH: Final = 860
"""Panels that would make a figure wider than this go below; pixels."""

_HATCH_GAP: Final = 8
_LEAST_HATCH: Final = 1.25
_BAR_MARGIN: Final = 0.08
_BARS_Y: Final[Mapping[int, tuple[float, ...]]] = {0: (), 1: (0.88,), 2: (0.8, 0.92)}
"""Heights of the interval bars in a cell, by their number."""


@dataclass(frozen=True)
class Painted:
    """The look of one cell; its colours are known before anything is drawn, so contrast can be checked.

    Attributes:
        row, x: Its place, from 0.
        ground: Colour of the cell.
        mark: `below`, `above`, `low-latency`, `changed` or empty.
        hatched: True if hatch lines cross the cell.
        crossed: True if the hatch is crossed: the trials fall into two groups.
    """

    cell: JudgedCell
    row: int
    x: int
    text: str
    bracket: str
    ground: str = WHITE
    mark: str = ""
    hatched: bool = False
    crossed: bool = False

    @property
    def ink(self) -> str:
        """Colour of the text."""
        return ink(self.ground)

    @property
    def hatch(self) -> str | None:
        """Colour of the hatch lines, None where there are none."""
        return hatch_colour(self.ground) if self.hatched else None


def hatch_colour(ground: str) -> str:
    """Return a colour that is visible on the ground and on which the cell's text is no harder to read."""
    lighter = mixed(ground, WHITE, 0.5)
    if ink(ground) == BLACK and contrast(lighter, ground) >= _LEAST_HATCH:
        return lighter
    darker = mixed(ground, BLACK, 0.35)
    return darker if contrast(ink(ground), darker) >= WCAG_AA else lighter


def figure(
    what: str, notes: Sequence[str], panels: Sequence[alt.LayerChart], bar: alt.LayerChart, sheet: Sheet
) -> alt.VConcatChart:
    """Arrange the panels in rows, names on the first of each row, the colour bar behind the first row."""
    step = columns(sheet)
    rows = [panels[start : start + step] for start in range(0, len(panels), step)]
    lines = [alt.hconcat(*row, *([bar] if not index else []), spacing=18) for index, row in enumerate(rows)]
    questions = {panel.about.question for panel in sheet.grid.panels}
    title = f"{next(iter(questions))} {sheet.title}" if len(questions) == 1 else sheet.title
    head = heading(f"{title[0].upper()}{title[1:]}: {what}", notes, subtitlePadding=5, offset=14)
    chart = alt.vconcat(*lines, spacing=22, title=head)
    return configured(chart, config() | {"view": {"stroke": None}})


def columns(sheet: Sheet) -> int:
    """Return how many panels are side by side."""
    each = _ground(sheet).width + 18
    return max(1, min(len(sheet.grid.panels), (WIDTH - 200) // each))


def bar_height(sheet: Sheet) -> int:
    """Return the height of the colour bar: that of a panel, unless its title needs more; pixels."""
    return max(_ground(sheet).height, 170)


def _ground(sheet: Sheet) -> Ground:
    # The queue, and on a second line what differs.
    lines = ((row.label.head, ", ".join(s.text for s in row.label.settings)) for row in sheet.grid.rows)
    labels = tuple(both if both[1] else both[:1] for both in lines)
    return Ground(
        labels, sheet.xs, sheet.across, CELL_WIDTH, CELL_HEIGHT, label_size=11, tick_size=11, title_size=11
    )


def panel_of(
    panel: SheetPanel, sheet: Sheet, cells: Sequence[Painted], bars: Sequence[alt.Chart], labelled: bool
) -> alt.LayerChart:
    """Draw one panel: squares, hatches, two lines of text, marks, bars; the rows' names if `labelled`."""
    ground = _ground(sheet)
    lines = (0.31, 0.63) if bars else (0.38, 0.7)
    rows = [_row(painted, sheet, *lines) for painted in cells]
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
    several = len({other.about.question for other in sheet.grid.panels}) > 1
    words = [*([str(panel.about.question)] if several else []), f"against {panel.about.column}"]
    title = alt.TitleParams(words, fontSize=11.5, fontWeight="normal", offset=5)
    layers = [squares, *_hatches(cells), *_calm(cells, lines), number, bracket, *_marks(cells), *bars]
    return layered(layers, ground.width, ground.height, title=title)


def _row(painted: Painted, sheet: Sheet, number_y: float, bracket_y: float) -> dict[str, Any]:
    result, row, x = painted.cell.result, painted.row, painted.x
    low, high = ends(result.share)
    means = {"percent": result.share, **result.means}
    return {
        "cell": result.id,
        "queue": sheet.rows[row],
        "at": sheet.xs[x],
        "valid": result.valid,
        "low": low,
        "high": high,
        "groups": "; ".join(side_text(painted.cell, side) for side in painted.cell.judged.sides),
        **{name: mean and mean.value for name, mean in means.items() if name in _NUMBERS},
        "x": x + 0.5,
        "number_y": row + number_y,
        "bracket_y": row + bracket_y,
        **square(row, x),
        "text": painted.text,
        "bracket": painted.bracket,
        "ground": painted.ground,
        "ink": painted.ink,
    }


_NUMBERS: Final = {
    "percent": "L4S goodput, % of the rate",
    "low": "95 % interval from",
    "high": "to",
    "l4s_mbps": "L4S goodput, Mbit/s",
    "classic_mbps": "classic goodput, Mbit/s",
    "delay_ms": "L4S delay, ms",
    "classic_delay_ms": "classic delay, ms",
}
"""Numbers of a cell that its tooltip shows, with their titles."""


def _tooltip() -> list[alt.Tooltip]:
    shown = {
        "queue": "queue",
        "at": "at",
        "groups": "groups",
        **_NUMBERS,
        "valid": "valid trials",
        "cell": "cell",
    }
    return [
        alt.Tooltip(f"{field}:Q", title=title, format=".2f")
        if field in _NUMBERS
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
    """Draw triangles and stars in the upper right corner; as shapes, since not every font has them."""
    places = {mark: [p for p in cells if p.mark == mark] for mark in _SHAPES}
    return [
        alt.Chart(table([{"x": p.x + 0.88, "y": p.row + 0.16, "ink": p.ink} for p in own]))
        .mark_point(shape=_SHAPES[mark], size=_SIZES[mark], filled=True, opacity=1)
        .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), color=alt.Color("ink:N", scale=None))
        for mark, own in places.items()
        if own
    ]


def _hatches(cells: Sequence[Painted]) -> list[alt.Chart]:
    rows = [
        {
            "x": painted.x + a / CELL_WIDTH,
            "y": painted.row + b / CELL_HEIGHT,
            "x2": painted.x + c / CELL_WIDTH,
            "y2": painted.row + d / CELL_HEIGHT,
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
    """Draw a ground of its own under the text of hatched cells, so that no line crosses a figure."""
    top, bottom = lines[0] - 0.19, lines[1] + 0.16
    rows = [
        {
            "left": painted.x + 0.18,
            "right": painted.x + 0.82,
            "top": painted.row + top,
            "bottom": painted.row + bottom,
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
    """Return lines at 45 degrees across a rectangle as (x, y, x2, y2), both ways when `crossed`."""
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


def interval_bars(cells: Sequence[Painted]) -> list[alt.Chart]:
    """Draw the intervals of a cell in it, of every group that its rule has limits for, the L4S group above.

    Each is a line from 0 to 100 %, ticks at the limits, the interval, and the mean.
    """
    thin, ticks, thick, means = [], [], [], []
    for painted in cells:
        sides = limited(painted.cell)
        for side, y in zip(sides, _BARS_Y[len(sides)], strict=True):
            if side.keeps.interval is None:
                continue
            at, (low, high) = painted.row + y, side.keeps.interval
            place = {"y": at, "ink": painted.ink}
            thin.append({"x": _bar_x(painted, 0), "x2": _bar_x(painted, 100), **place})
            ticks += [
                {"x": _bar_x(painted, limit), "y": at - 0.05, "y2": at + 0.05, "ink": painted.ink}
                for limit in side.limits
            ]
            thick.append({"x": _bar_x(painted, low), "x2": _bar_x(painted, high), **place})
            means.append({"x": _bar_x(painted, side.keeps.value), **place})
    if not thin:
        return []
    colour = alt.Color("ink:N", scale=None)
    across = {"x": alt.X("x:Q"), "y": alt.Y("y:Q"), "color": colour}
    return [
        alt.Chart(table(thin)).mark_rule(strokeWidth=0.5).encode(x2="x2:Q", **across),
        alt.Chart(table(ticks)).mark_rule(strokeWidth=0.8).encode(y2="y2:Q", **across),
        alt.Chart(table(thick)).mark_rule(strokeWidth=3).encode(x2="x2:Q", **across),
        alt.Chart(table(means)).mark_point(filled=True, size=12, opacity=1).encode(**across),
    ]


def _bar_x(painted: Painted, percent: float) -> float:
    share = min(max(percent, 0.0), 100.0) / 100
    return painted.x + _BAR_MARGIN + (1 - 2 * _BAR_MARGIN) * share
