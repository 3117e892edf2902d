# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Heat maps as the PAM 2025 coexistence study prints them, to compare with them in a paper.

Panels, order and names of the rows, what is printed in a cell, colour maps and their ends follow the study
(`reports.published.look`), weaknesses included: no intervals, no trials, and a delay of 130 ms looks like one
of 15. `heatmaps` has our own maps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import altair as alt

from reports.colours import BLACK
from reports.figures.ground import Ground, Tick, colour_bar, configured, layered, square, table
from reports.figures.style import PUBLISHED_FONT, config
from reports.published.look import LOOKS, MULTI_QUEUE, ROWS, Look, Value, panel_title
from reports.result.grid import Grid, Panel

if TYPE_CHECKING:
    from reports.figures.sheets import Sheet, SheetPanel

_PANEL_HEIGHT: Final = 165
_TICK_HEIGHT: Final = 10
"""Room for a label of the colour bar; on the bar of one row only every second has room."""


def split(sheet: Sheet) -> tuple[Sheet, ...]:
    """Split a sheet into its single-queue and its multi-queue part, as published; only those with rows."""
    multi = [row for row, queue in enumerate(sheet.queues) if queue in MULTI_QUEUE]
    single = [row for row in range(len(sheet.queues)) if row not in multi]
    parts = (("singlequeue", single), ("multiqueue", multi))
    return tuple(_only(sheet, rows, name) for name, rows in parts if rows)


def _only(sheet: Sheet, rows: Sequence[int], part: str) -> Sheet:
    """Return a sheet with those of its rows, in that order."""
    panels = (
        Panel(panel.about, {(rows.index(row), x): c for (row, x), c in panel.places.items() if row in rows})
        for panel in sheet.grid.panels
    )
    kept = tuple(panel for panel in panels if panel.places)
    return replace(
        sheet, part=part, grid=Grid(tuple(sheet.grid.rows[row] for row in rows), sheet.grid.columns, kept)
    )


def published_map(sheet: Sheet, value: Value = "goodput") -> alt.HConcatChart:
    """Draw one sheet in the published look.

    Args:
        sheet: The cells; `split` makes the two parts that the PAM study prints.
        value: `goodput`: colour and first number are the L4S group's goodput in Mbit/s (the published links
            had 100), the classic group's in brackets. `delay`: likewise smoothed RTT minus base RTT, ms.
    """
    look = LOOKS[value]
    ground = _ground(sheet)
    panels: list[alt.LayerChart] = [_panel(panel, sheet, value, look, ground) for panel in sheet.grid.panels]
    every = math.ceil((len(look.ticks) - 1) * _TICK_HEIGHT / ground.height)
    ticks = [Tick(tick, f"{tick:g}") for tick in look.ticks[::every]]
    bar = colour_bar(look.scale, ticks, ground.height)
    chart = alt.hconcat(*panels, bar, spacing=16)
    return configured(chart, config(font=PUBLISHED_FONT) | {"view": {"stroke": None}})


def _ground(sheet: Sheet) -> Ground:
    labels = tuple(ROWS.get(queue, (label,)) for queue, label in zip(sheet.queues, sheet.rows, strict=True))
    xs = tuple(f"{column.amount:.1f}" for column in sheet.grid.columns)
    across = sheet.across.replace("size", "Size")
    # The published panels are equally high, however many rows they have.
    height = min(max(round(_PANEL_HEIGHT / len(labels)), 33), 55)
    return Ground(labels, xs, across, 45, height, label_size=10.5, tick_size=10, title_size=10)


def _panel(panel: SheetPanel, sheet: Sheet, value: Value, look: Look, ground: Ground) -> alt.LayerChart:
    first = panel is sheet.grid.panels[0]
    base = alt.Chart(table(_rows(panel, value, look)))
    cells = base.mark_rect(strokeWidth=0.4).encode(
        x=ground.x("left"),
        x2="right:Q",
        y=ground.y("top", labelled=first),
        y2="bottom:Q",
        color=alt.Color("colour:N", scale=None),
        stroke=alt.Stroke("colour:N", scale=None),
        tooltip=[alt.Tooltip("cell:N"), alt.Tooltip("first:Q"), alt.Tooltip("second:Q")],
    )
    inks = alt.Color("ink:N", scale=None)
    texts = (_text(base, "text:N", 11, -5), _text(base, "bracket:N", 8, 8))
    layers: list[alt.Chart] = [cells, *(text.encode(color=inks) for text in texts)]
    if first:
        layers.append(ground.ticks())
    words = panel_title(next(iter(panel.places.values())), *sheet.groups)
    title = alt.TitleParams(words, fontSize=12, fontWeight="normal", anchor="middle", color=BLACK, offset=6)
    return layered(layers, ground.width, ground.height, title=title)


def _text(base: alt.Chart, field: str, size: float, dy: float) -> alt.Chart:
    marks: alt.Chart = base.mark_text(fontSize=size, dy=dy, baseline="middle", align="center")
    return marks.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), text=field)


def _rows(panel: SheetPanel, value: Value, look: Look) -> list[dict[str, object]]:
    """Return the cells with a valid trial as rows of data."""
    found: list[dict[str, object]] = []
    for (row, x), cell in panel.places.items():
        groups = cell.result.l4s, cell.result.classic
        own, other = (group.goodput if value == "goodput" else group.delay for group in groups)
        if own is None:
            continue
        found.append(
            {
                "cell": cell.id,
                "x": x + 0.5,
                "y": row + 0.5,
                **square(row, x),
                "first": own.value,
                "second": other and other.value,
                "text": f"{own.value:.1f}",
                "bracket": f"({other.value:.1f})" if other else "",
                "colour": look.scale.colour(own.value),
                "ink": look.ink,
            }
        )
    return found


def published_maps(
    sheets: Sequence[Sheet], value: Value = "goodput"
) -> tuple[tuple[Sheet, alt.HConcatChart], ...]:
    """Draw all figures of sheets in the published look, each with the part of a sheet it shows."""
    return tuple((part, published_map(part, value)) for sheet in sheets for part in split(sheet))
