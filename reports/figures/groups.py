# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""All flow groups of all cells of a run without verdicts: what they got, and their delays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt

from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.style import SHAPES, config, heading

if TYPE_CHECKING:
    from reports.result.measured import Measurements

ROW_HEIGHT: Final = 13
WIDTH: Final = 230

_PANELS: Final = {
    "share_percent": "goodput, % of the link's rate",
    "delay_ms": "smoothed RTT minus base RTT, ms",
    "sojourn_ms": "queuing delay per packet, ms",
}


def group_means(measured: Measurements) -> alt.HConcatChart:
    """Draw goodput and delays of every flow group: a line per cell, cell means with 95 % intervals."""
    names = _names(measured)
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in measured.cells:
        for group in cell.groups:
            for number, found in group.numbers.items():
                place = {"cell": names[cell.id], "group": group.name}
                ends = {"low": found.low, "high": found.high}
                rows.setdefault(number, []).append(place | {"mean": found.value} | ends)
    shown = [number for number in _PANELS if number in rows] or ["share_percent"]
    charts = [
        _panel(measured, list(names.values()), number, rows.get(number, []), first=place == 0)
        for place, number in enumerate(shown)
    ]
    title = heading("Flow groups of all cells", ["mean over the trials and its 95 % interval"])
    return configured(alt.hconcat(*charts, spacing=14, title=title), config())


def _names(measured: Measurements) -> dict[str, str]:
    """Return the labels of cells by their ids; of equal ones the later ones have the hash of the id."""
    found: dict[str, str] = {}
    for cell in measured.cells:
        label = str(cell.label)
        found[cell.id] = f"{label}, {cell.id.rpartition('-')[2]}" if label in found.values() else label
    return found


def _panel(
    measured: Measurements, names: list[str], number: str, rows: list[dict[str, Any]], *, first: bool
) -> alt.LayerChart:
    groups = list(measured.groups)
    scale = alt.Scale(domain=[0, 100], nice=False) if number == "share_percent" else alt.Scale(zero=True)
    down = alt.Y(
        "cell:N",
        sort=names,
        title=None,
        scale=alt.Scale(type="band", domain=names, padding=0.1),
        axis=alt.Axis(labels=first, ticks=False, grid=True, labelLimit=260, labelPadding=8),
    )
    part = alt.YOffset("group:N", sort=groups, scale=alt.Scale(type="band", domain=groups, padding=0))
    colours = [OKABE_ITO[place % len(OKABE_ITO)] for place in range(len(groups))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(groups))]
    legend = alt.Legend(title=None, orient="top", direction="horizontal") if first else None
    colour = alt.Color("group:N", scale=alt.Scale(domain=groups, range=colours), legend=legend)
    shape = alt.Shape("group:N", scale=alt.Scale(domain=groups, range=shapes), legend=legend)
    base = alt.Chart(table(rows))
    bars: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2.2, clip=True)
    points: alt.Chart = base.mark_point(filled=True, size=46, opacity=1)
    layers = [
        bars.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=down, yOffset=part, color=colour),
        points.encode(
            x=alt.X("mean:Q", scale=scale, title=_PANELS[number], axis=alt.Axis(tickCount=5)),
            y=down,
            yOffset=part,
            color=colour,
            shape=shape,
            tooltip=["cell:N", "group:N", alt.Tooltip("mean:Q", format=".4g")],
        ),
    ]
    return layered(layers, WIDTH, (ROW_HEIGHT * len(groups) + 4) * len(names))
