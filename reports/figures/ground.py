# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ground of a heat map: cells in places counted from the upper left, labelled axes, a colour bar.

Places are numbers rather than names, so that marks (hatches, interval bars, limits) can be put anywhere
within a cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import altair as alt

from reports.colours import BLACK

if TYPE_CHECKING:
    from reports.colours import Scale

_Top = TypeVar("_Top", bound=alt.TopLevelMixin)

LINE: Final = 1.15
"""Height of a line of text in units of its font size."""


@dataclass(frozen=True)
class Ground:
    """Rows, columns and the size of a cell in pixels; `labels` holds one tuple of lines per row."""

    labels: tuple[tuple[str, ...], ...]
    xs: tuple[str, ...]
    across: str
    cell_width: int
    cell_height: int
    label_size: float
    tick_size: float
    title_size: float

    @property
    def width(self) -> int:
        """Width of the panel, pixels."""
        return self.cell_width * len(self.xs)

    @property
    def height(self) -> int:
        """Height of the panel, pixels."""
        return self.cell_height * len(self.labels)

    def x(self, field: str = "x") -> alt.X:
        """Return the horizontal place, with the axis."""
        labels = json.dumps(self.xs)
        axis = alt.Axis(
            values=[index + 0.5 for index in range(len(self.xs))],
            labelExpr=f"{labels}[floor(datum.value)]",
            labelFontSize=self.tick_size,
            titleFontSize=self.title_size,
            title=self.across,
            grid=False,
            domain=False,
            tickSize=4,
            labelAngle=0,
            labelOverlap=False,
        )
        scale = alt.Scale(domain=[0, len(self.xs)], nice=False, zero=False)
        return alt.X(f"{field}:Q", axis=axis, scale=scale)

    def y(self, field: str = "y", *, labelled: bool = True) -> alt.Y:
        """Return the vertical place, with the rows' names where `labelled`."""
        # Vega puts the first of several lines at the place: move it up by half of the others
        moved = [
            index + 0.5 - (len(lines) - 1) * self.label_size * LINE / 2 / self.cell_height
            for index, lines in enumerate(self.labels)
        ]
        axis = alt.Axis(
            values=moved,
            labelExpr=f"{json.dumps(self.labels)}[floor(datum.value)]",
            labelFontSize=self.label_size,
            labelLineHeight=self.label_size * LINE,
            labelLimit=300,
            labelOverlap=False,
            labelPadding=7,
            grid=False,
            domain=False,
            ticks=False,
            title=None,
        )
        scale = alt.Scale(domain=[len(self.labels), 0], nice=False, zero=False)
        return alt.Y(f"{field}:Q", axis=axis if labelled else None, scale=scale)

    def ticks(self) -> alt.Chart:
        """Draw ticks at the middle of the rows, left of the panel."""
        rows = [{"y": index + 0.5} for index in range(len(self.labels))]
        marks: alt.Chart = alt.Chart(table(rows)).mark_rule(color=BLACK, clip=False)
        return marks.encode(x=alt.value(-4), x2=alt.value(0), y=alt.Y("y:Q"))


def square(row: int, x: int) -> dict[str, int]:
    """Return the corners of a place."""
    return {"left": x, "right": x + 1, "top": row, "bottom": row + 1}


def table(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as data within the specification."""
    return alt.InlineData(values=[dict(row) for row in rows])


def layered(layers: Sequence[alt.Chart], width: float, height: float, **properties: Any) -> alt.LayerChart:
    """Draw layers over each other, the first at the bottom; sizes in pixels."""
    return cast("alt.LayerChart", alt.layer(*layers).properties(width=width, height=height, **properties))


def configured(chart: _Top, settings: Mapping[str, Any]) -> _Top:
    """Finish a figure with its `config` (`reports.figures.style.config`)."""
    return cast("_Top", chart.configure(**settings))


_BAR_WIDTH: Final = 12
_BAR_FONT_SIZE: Final = 10


@dataclass(frozen=True)
class Tick:
    """A value on a colour bar; a `mark` is drawn across the bar as a line."""

    value: float
    label: str
    mark: bool = False


def colour_bar(
    scale: Scale, ticks: Sequence[Tick], height: int, *, title: str | None = None
) -> alt.LayerChart:
    """Draw a vertical colour bar of thin steps, in exactly the colours of the cells.

    Vega's own legend has neither limits across it nor uneven scales. The bar is linear in `scale.values`.
    """
    low, high = scale.values[0], scale.values[-1]
    steps = 128
    span = (high - low) / steps
    bands = [
        {
            "from": low + index * span,
            "to": low + (index + 1) * span,
            "colour": scale.colour(low + (index + 0.5) * span),
        }
        for index in range(steps)
    ]
    axis_scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    values = [tick.value for tick in ticks]
    label = f"{json.dumps([tick.label for tick in ticks])}[indexof({json.dumps(values)}, datum.value)]"
    axis = alt.Axis(
        orient="right",
        values=values,
        labelExpr=label,
        title=title,
        titleAngle=-90,
        titlePadding=8,
        # Vega does not measure labels made by an expression: leave room for the longest
        minExtent=8 + 0.6 * _BAR_FONT_SIZE * max(len(tick.label) for tick in ticks),
        grid=False,
        domain=False,
        labelFontSize=_BAR_FONT_SIZE,
        titleFontSize=_BAR_FONT_SIZE,
        tickSize=4,
        labelOverlap=False,
    )
    band = (
        alt.Chart(table(bands))
        # a hair of overlap, or renderers show seams between the steps
        .mark_rect(strokeWidth=0.6)
        .encode(
            y=alt.Y("from:Q", scale=axis_scale, axis=axis),
            y2="to:Q",
            color=alt.Color("colour:N", scale=None),
            stroke=alt.Stroke("colour:N", scale=None),
        )
    )
    marks = [{"value": tick.value} for tick in ticks if tick.mark]
    layers: list[alt.Chart] = [band]
    if marks:
        layers.append(
            alt.Chart(table(marks))
            .mark_rule(color=BLACK, strokeWidth=1.5)
            .encode(y=alt.Y("value:Q", scale=axis_scale, axis=axis))
        )
    frame = [{"low": low, "high": high}]
    layers.append(
        alt.Chart(table(frame))
        .mark_rect(fillOpacity=0, stroke=BLACK, strokeWidth=1)
        .encode(y=alt.Y("low:Q", scale=axis_scale, axis=axis), y2="high:Q")
    )
    return layered(layers, _BAR_WIDTH, height)
