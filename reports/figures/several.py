# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Several runs on one plot: what changed from one kernel, host or setting to another, cell by cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt

from l4sbench.errors import InputError
from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.points import LEAST_MS
from reports.figures.sheets import ends
from reports.figures.style import SHAPES, config, heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.figures.sheets import Sheet, SheetPanel
    from reports.result.stats import Estimate
    from reports.result.verdicts import JudgedCell

MOST_RUNS: Final = len(SHAPES)
"""Runs differ in shape as well as in colour."""

WIDTH: Final = 250
LINE_HEIGHT: Final = 9
"""Height of one run's line in a cell's row, pixels."""

_SCALES: Final = {
    "percent": alt.Scale(domain=[0, 100], nice=False),
    "delay_ms": alt.Scale(type="log", domain=[LEAST_MS, 300], nice=False),
}
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
    abouts = dict.fromkeys(str(panel.about) for _, sheet in runs for panel in sheet.grid.panels)
    charts = [_panel(runs, about, last=about == list(abouts)[-1]) for about in abouts]
    title = heading(
        f"{len(names)} runs, {runs[0][1].title}",
        [
            "L4S flows: means over trials with 95 % intervals, where a cell has several trials",
            "delay: smoothed RTT minus base RTT; dashed: fair share",
        ],
    )
    return configured(alt.vconcat(*charts, spacing=18, title=title), config())


def _panel(runs: Sequence[tuple[str, Sheet]], about: str, *, last: bool) -> alt.HConcatChart:
    own = [
        (name, sheet, panel)
        for name, sheet in runs
        for panel in sheet.grid.panels
        if str(panel.about) == about
    ]
    rows = [row for name, sheet, panel in own for row in _rows(name, sheet, panel)]
    cells = list(dict.fromkeys(row["where"] for row in rows))
    names = [name for name, _ in runs]
    fair = [{"fair": percent} for percent in sorted({sheet.fair_percent for _, sheet, _ in own})]
    goodput = _points(rows, cells, names, "percent", first=True, last=last)
    rule: alt.Chart = alt.Chart(table(fair)).mark_rule(strokeDash=[4, 3], strokeWidth=0.8)
    goodput.insert(0, rule.encode(x=alt.X("fair:Q", scale=_SCALES["percent"])))
    height = max(LINE_HEIGHT * len(names), 16) * len(cells)
    title = alt.TitleParams(about, fontSize=11.5, fontWeight="normal", offset=5)
    return alt.hconcat(
        layered(goodput, WIDTH, height, title=title),
        layered(_points(rows, cells, names, "delay_ms", first=False, last=last), WIDTH, height),
        spacing=14,
    )


def _points(
    rows: Sequence[dict[str, Any]], cells: list[str], names: list[str], field: str, *, first: bool, last: bool
) -> list[alt.Chart]:
    """Return the marks of one column: intervals, and means over them."""
    legend = alt.Legend(title=None, orient="top", direction="vertical", symbolOpacity=1) if first else None
    colour = alt.Color(
        "run:N", sort=names, scale=alt.Scale(domain=names, range=list(OKABE_ITO)), legend=legend
    )
    shape = alt.Shape("run:N", sort=names, scale=alt.Scale(domain=names, range=list(SHAPES)), legend=legend)
    scale = _SCALES[field]
    axis = alt.Axis(title=_TITLES[field] if last else None, tickCount=5)
    if field == "delay_ms":
        axis = alt.Axis(
            title=_TITLES[field] if last else None,
            values=[0.1, 0.3, 1, 3, 10, 30, 100, 300],
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


def _rows(name: str, sheet: Sheet, panel: SheetPanel) -> Iterator[dict[str, Any]]:
    labels = sheet.rows
    for (row, x), cell in sorted(panel.places.items()):
        where = f"{labels[row]}, {sheet.grid.columns[x].text}"
        yield {"run": name, "where": where, "cell": cell.id} | _values(cell)


def _values(cell: JudgedCell) -> dict[str, float | None]:
    return _of("percent", cell.result.share) | _of("delay_ms", cell.result.l4s.delay, LEAST_MS)


def _of(field: str, estimate: Estimate | None, least: float = 0.0) -> dict[str, float | None]:
    """Return an estimate and the ends of its interval as columns, none below `least`."""
    low, high = ends(estimate)
    values = {field: estimate and estimate.value, f"{field}_low": low, f"{field}_high": high}
    return {name: None if value is None else max(value, least) for name, value in values.items()}
