# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Several runs, or values of a factor, on one plot: what changed from one to another, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from l4sbench.errors import InputError
from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.points import DELAY_TICKS, LEAST_MS, delay_end_ms
from reports.figures.sheets import ends
from reports.figures.style import DASHES, SHAPES, config, heading, looks
from reports.result.labels import BUFFER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reports.figures.sheets import Sheet
    from reports.result.stats import Estimate
    from reports.result.verdicts import JudgedCell

MOST_RUNS: Final = len(SHAPES)
"""Runs and values differ in shape as well as in colour."""

WIDTH: Final = 250
LINE_HEIGHT: Final = 9
"""Height of one mark's line in a cell's row, pixels."""

_TITLES: Final = {"percent": "goodput, % of the rate", "delay_ms": "delay, ms"}


def runs_beside(runs: Sequence[tuple[str, Sheet]]) -> alt.VConcatChart:
    """Draw the cells of several runs below each other: goodput and delay of the L4S group, a mark per run.

    Cells belong together that are alike in words: competitor, queue, and what goes across.

    Args:
        runs: Names of runs, and their sheets of one competitor, all with the same slug.

    Raises:
        InputError: there are too few or too many runs, two have the same name, or the sheets differ.
    """
    names = [name for name, _ in runs]
    if not 2 <= len(names) <= MOST_RUNS:
        raise InputError(f"one plot shows 2 to {MOST_RUNS} runs, not {len(names)}")
    if len(set(names)) < len(names):
        raise InputError("every run on a plot needs a name of its own")
    if len({sheet.slug for _, sheet in runs}) != 1:
        raise InputError("runs on one plot need sheets of one competitor, flow counts and settings")
    items = [item for name, sheet in runs for item in _items(name, sheet)]
    return _beside(items, names, f"{len(names)} runs, {runs[0][1].title}")


def values_beside(sheet: Sheet) -> alt.VConcatChart:
    """Draw goodput and delay of the L4S group by the factor of a sheet's `by`.

    A number goes across, with a line per queue; of words each is a mark, as of several runs.

    Raises:
        InputError: there are too many values for marks.
    """
    if all(isinstance(value.value, int | float) and not isinstance(value.value, bool) for value in sheet.by):
        return _lines(sheet)
    names = list(sheet.names)
    if len(names) > MOST_RUNS:
        raise InputError(f"one plot shows at most {MOST_RUNS} values, not {len(names)}")
    items = [
        _Item(name, str(view.panel.about), view.words, cell, sheet.fair_percent)
        for views in sheet.views()
        for view in views
        for name, cell in view.series
    ]
    return _beside(items, names, f"By {sheet.by[0].of.factor}, {sheet.title}")


@dataclass(frozen=True)
class _Item:
    """A cell with the name of its mark, its panel, and its place in it in words."""

    name: str
    about: str
    where: str
    cell: JudgedCell
    fair_percent: float


def _items(name: str, sheet: Sheet) -> Iterator[_Item]:
    labels = sheet.rows
    for panel in sheet.grid.panels:
        for (row, x), cell in sorted(panel.places.items(), key=lambda item: item[0]):
            where = f"{labels[row]}, {sheet.grid.columns[x].text}"
            yield _Item(name, str(panel.about), where, cell, sheet.fair_percent)


_DELAY: Final = "delay: smoothed RTT minus base RTT; dashed: fair share"


def _beside(items: Sequence[_Item], names: list[str], title: str) -> alt.VConcatChart:
    abouts = list(dict.fromkeys(item.about for item in items))
    scales = _scales(item.cell for item in items)
    charts = [
        _panel(
            [item for item in items if item.about == about], names, scales, about, last=about == abouts[-1]
        )
        for about in abouts
    ]
    head = heading(
        title, ["L4S flows: means over trials with 95 % intervals, where a cell has several trials", _DELAY]
    )
    return configured(alt.vconcat(*charts, spacing=18, title=head), config())


def _scales(cells: Iterable[JudgedCell]) -> Mapping[str, alt.Scale]:
    """Return the scales of goodput and delay, which all panels of a figure share."""
    end_ms = delay_end_ms(cell.result.l4s for cell in cells)
    return {
        "percent": alt.Scale(domain=[0, 100], nice=False),
        "delay_ms": alt.Scale(type="log", domain=[LEAST_MS, end_ms], nice=False),
    }


def _panel(
    items: Sequence[_Item], names: list[str], scales: Mapping[str, alt.Scale], about: str, *, last: bool
) -> alt.HConcatChart:
    rows = [
        {"run": item.name, "where": item.where, "cell": item.cell.id} | _values(item.cell) for item in items
    ]
    cells = list(dict.fromkeys(item.where for item in items))
    fair = [{"fair": percent} for percent in sorted({item.fair_percent for item in items})]
    goodput, delay = (
        _points(rows, cells, names, field, scales[field], first=field == "percent", last=last)
        for field in _TITLES
    )
    rule: alt.Chart = alt.Chart(table(fair)).mark_rule(strokeDash=[4, 3], strokeWidth=0.8)
    goodput.insert(0, rule.encode(x=alt.X("fair:Q", scale=scales["percent"])))
    height = max(LINE_HEIGHT * len(names), 16) * len(cells)
    title = alt.TitleParams(about, fontSize=11.5, fontWeight="normal", offset=5)
    return alt.hconcat(
        layered(goodput, WIDTH, height, title=title),
        layered(delay, WIDTH, height),
        spacing=14,
    )


LINES_HEIGHT: Final = 150


def _lines(sheet: Sheet) -> alt.VConcatChart:
    """Draw a line per queue over the numbers of a factor, goodput beside delay."""
    own = sheet.by[0].column
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    queues: dict[str, str] = {}
    for panel in sheet.grid.panels:
        for (at, x), cell in sorted(panel.places.items(), key=lambda item: item[0]):
            value = cell.result.factors[own]
            row, column = sheet.grid.rows[at], sheet.grid.columns[x]
            queue = str(row.label.without(own))
            queues[queue] = row.queue
            place = {"queue": queue, "at": value.amount, "cell": cell.id}
            rest = "" if column.column == own else column.text
            found.setdefault((str(panel.about), rest), []).append(place | _values(cell))
    names = list(queues)
    places = looks([queues[name] for name in names])
    scales = _scales(sheet.cells)
    charts = [
        alt.hconcat(
            *(
                _line_panel(rows, names, places, field, scales[field], sheet, ", ".join(filter(None, about)))
                for field in _TITLES
            ),
            spacing=14,
        )
        for about, rows in found.items()
    ]
    head = heading(
        f"By {sheet.by[0].of.factor}, {sheet.title}",
        ["L4S flows: means over trials with 95 % intervals", _DELAY],
    )
    return configured(alt.vconcat(*charts, spacing=18, title=head), config())


def _line_panel(
    rows: Sequence[dict[str, Any]],
    names: list[str],
    places: Sequence[int],
    field: str,
    scale: alt.Scale,
    sheet: Sheet,
    about: str,
) -> alt.LayerChart:
    first = field == "percent"
    of = sheet.by[0]
    legend = alt.Legend(title=None, orient="top", columns=3, symbolSize=300, symbolType="stroke")
    colours = alt.Scale(domain=names, range=[OKABE_ITO[place] for place in places])
    dashes = alt.Scale(domain=names, range=[DASHES[place] for place in places])
    colour = alt.Color("queue:N", sort=names, scale=colours, legend=legend if first else None)
    dash = alt.StrokeDash("queue:N", sort=names, scale=dashes, legend=legend if first else None)
    values = sorted({value.amount for value in sheet.by})
    # factors are varied in steps of a ratio more often than of a difference
    wide = values[0] > 0 and values[-1] / values[0] >= _WIDE
    values_scale = alt.Scale(type="log" if wide else "linear", zero=False, nice=False, padding=12)
    name = "buffer (BDP)" if of.column == BUFFER else of.of.factor + (f", {of.unit}" if of.unit else "")
    axis = alt.Axis(title=name, values=values, labelExpr="format(datum.value, '~g')", labelOverlap="greedy")
    across = alt.X("at:Q", scale=values_scale, axis=axis)
    ticks = alt.Axis(title=_TITLES[field], tickCount=5)
    if not first:
        ticks = alt.Axis(title=_TITLES[field], values=DELAY_TICKS, labelExpr="format(datum.value, '~g')")
    base = alt.Chart(table([row for row in rows if row[field] is not None]))
    line: alt.Chart = base.mark_line(point=True)
    bars: alt.Chart = base.transform_filter(f"isValid(datum.{field}_low)").mark_rule(strokeWidth=1.2)
    shown: list[str | alt.Tooltip] = ["queue:N", "at:Q", alt.Tooltip(f"{field}:Q", format=".2f"), "cell:N"]
    up = alt.Y(f"{field}:Q", scale=scale, axis=ticks)
    layers = [
        bars.encode(x=across, y=alt.Y(f"{field}_low:Q", scale=scale), y2=f"{field}_high:Q", color=colour),
        line.encode(x=across, y=up, color=colour, strokeDash=dash, tooltip=shown),
    ]
    if first:
        fair: alt.Chart = alt.Chart(table([{"fair": sheet.fair_percent}]))
        fair = fair.mark_rule(strokeDash=[4, 3], strokeWidth=0.8)
        layers.insert(0, fair.encode(y=alt.Y("fair:Q", scale=scale)))
    title = alt.TitleParams(about if first else "", fontSize=11.5, fontWeight="normal", offset=5)
    return layered(layers, WIDTH, LINES_HEIGHT, title=title)


_WIDE: Final = 8


def _points(
    rows: Sequence[dict[str, Any]],
    cells: list[str],
    names: list[str],
    field: str,
    scale: alt.Scale,
    *,
    first: bool,
    last: bool,
) -> list[alt.Chart]:
    """Return the marks of one column: intervals, and means over them."""
    legend = alt.Legend(title=None, orient="top", direction="vertical", symbolOpacity=1) if first else None
    colour = alt.Color(
        "run:N", sort=names, scale=alt.Scale(domain=names, range=list(OKABE_ITO)), legend=legend
    )
    shape = alt.Shape("run:N", sort=names, scale=alt.Scale(domain=names, range=list(SHAPES)), legend=legend)
    axis = alt.Axis(title=_TITLES[field] if last else None, tickCount=5)
    if field == "delay_ms":
        axis = alt.Axis(
            title=_TITLES[field] if last else None,
            values=DELAY_TICKS,
            labelExpr="format(datum.value, '~g')",
        )
    across = alt.X(f"{field}:Q", scale=scale, axis=axis)
    down = alt.Y(
        "where:N",
        sort=cells,
        title=None,
        scale=alt.Scale(domain=cells),
        axis=alt.Axis(labels=first, ticks=False, grid=True, labelLimit=300, labelPadding=8),
    )
    beside = alt.YOffset("run:N", sort=names, scale=alt.Scale(domain=names))
    base = alt.Chart(table([row for row in rows if row[field] is not None]))
    bars: alt.Chart = base.transform_filter(f"isValid(datum.{field}_low)").mark_rule(strokeWidth=1.4)
    marks: alt.Chart = base.mark_point(filled=True, size=34, opacity=1)
    shown = [
        alt.Tooltip("run:N"),
        alt.Tooltip("where:N"),
        alt.Tooltip(f"{field}:Q", format=".2f"),
        alt.Tooltip("cell:N"),
    ]
    return [
        bars.encode(
            x=alt.X(f"{field}_low:Q", scale=scale), x2=f"{field}_high:Q", y=down, yOffset=beside, color=colour
        ),
        marks.encode(x=across, y=down, yOffset=beside, color=colour, shape=shape, tooltip=shown),
    ]


def _values(cell: JudgedCell) -> dict[str, float | None]:
    return _of("percent", cell.result.share) | _of("delay_ms", cell.result.l4s.delay, LEAST_MS)


def _of(field: str, estimate: Estimate | None, least: float = 0.0) -> dict[str, float | None]:
    """Return an estimate and the ends of its interval as columns, none below `least`."""
    low, high = ends(estimate)
    values = {field: estimate and estimate.value, f"{field}_low": low, f"{field}_high": high}
    return {name: None if value is None else max(value, least) for name, value in values.items()}
