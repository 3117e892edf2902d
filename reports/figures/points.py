# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells as points: every trial of every cell, and goodput against delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.sheets import ends
from reports.figures.style import SHAPES, config, heading, looks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.figures.sheets import Sheet, SheetPanel
    from reports.result.cells import GroupResult
    from reports.result.load import RunTables
    from reports.result.rules import Rule

ROW_HEIGHT: Final = 13
DOTS_WIDTH: Final = 260
SIDE: Final = 230
LEAST_MS: Final = 0.1


def trial_dots(tables: RunTables, sheet: Sheet, rule: Rule) -> alt.HConcatChart:
    """Draw every trial of every cell: L4S goodput in percent of the rate, with mean, interval and limits.

    This shows first what a mean hides: two groups of trials, or one outlier.
    """
    values = _trial_percents(tables, [cell.id for cell in sheet.cells], rule)
    charts = [
        _dots(panel, sheet, values, rule, first=number == 0) for number, panel in enumerate(sheet.grid.panels)
    ]
    limits = rule.limits_of_rate(*sheet.flows)
    grey = f"grey: outside of {limits.low:.3g}-{limits.high:.3g} %; " if limits else ""
    title = heading(
        f"Trials {sheet.title}",
        [
            "L4S goodput in percent of the link's rate: a ring per trial, mean and 95 % interval of the cell",
            f"{grey}dashed: fair share",
        ],
    )
    return configured(alt.hconcat(*charts, spacing=14, title=title), config())


def _trial_percents(
    tables: RunTables, cells: Sequence[str], rule: Rule
) -> dict[str, list[tuple[int, float]]]:
    rates = tables.trials.filter(pl.col("cell").is_in(cells) & (pl.col("status") == "ok"))
    own = tables.groups.filter(pl.col("group") == rule.l4s).join(
        rates.select("cell", "trial", "rate_mbps"), on=["cell", "trial"]
    )
    percent = (pl.col(rule.value) / pl.col("rate_mbps") * 100).alias("percent")
    found: dict[str, list[tuple[int, float]]] = {}
    for cell, trial, value in own.select("cell", "trial", percent).sort("cell", "trial").iter_rows():
        found.setdefault(cell, []).append((trial, value))
    return found


def _dots(
    panel: SheetPanel,
    sheet: Sheet,
    values: dict[str, list[tuple[int, float]]],
    rule: Rule,
    *,
    first: bool,
) -> alt.LayerChart:
    places = [(row, x) for row in range(len(sheet.rows)) for x in range(len(sheet.xs))]
    names = {(row, x): f"{sheet.rows[row]}, {sheet.grid.columns[x].text}" for row, x in places}
    own = [(names[place], panel.places[place].result) for place in places if place in panel.places]
    rings = [
        {"cell": cell.id, "where": where, "trial": trial, "percent": percent}
        for where, cell in own
        for trial, percent in values.get(cell.id, [])
    ]
    means = [
        {"cell": cell.id, "where": where, "percent": cell.share.value}
        | dict(zip(("low", "high"), ends(cell.share), strict=True))
        for where, cell in own
        if cell.share
    ]
    scale = alt.Scale(domain=[0, 100], nice=False)
    limits = rule.limits_of_rate(*sheet.flows)
    grey = [{"a": 0, "b": limits.low}, {"a": limits.high, "b": 100}] if limits else []
    outside: alt.Chart = alt.Chart(table(grey)).mark_rect(color="#e6e6e6")
    fair: alt.Chart = alt.Chart(table([{"a": sheet.fair_percent}])).mark_rule(
        strokeDash=[4, 3], strokeWidth=0.8
    )
    across = alt.X("percent:Q", scale=scale, title="L4S goodput, % of the rate", axis=alt.Axis(tickCount=5))
    down = alt.Y(
        "where:N",
        sort=list(names.values()),
        title=None,
        scale=alt.Scale(domain=list(names.values())),
        axis=alt.Axis(labels=first, ticks=False, grid=True, labelLimit=260, labelPadding=8),
    )
    base = alt.Chart(table(means))
    bars: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(
        strokeWidth=2.2, color=OKABE_ITO[0]
    )
    ticks: alt.Chart = base.mark_tick(thickness=2.5, height=10, color=OKABE_ITO[0], opacity=1)
    points: alt.Chart = alt.Chart(table(rings)).mark_point(
        size=26, strokeWidth=1.1, color="#111111", opacity=0.9
    )
    layers = [
        *([outside.encode(x=alt.X("a:Q", scale=scale), x2="b:Q")] if grey else []),
        fair.encode(x=alt.X("a:Q", scale=scale)),
        bars.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=down),
        ticks.encode(x=across, y=down, tooltip=["cell:N", alt.Tooltip("percent:Q", format=".2f")]),
        points.encode(
            x=across, y=down, tooltip=["cell:N", "trial:Q", alt.Tooltip("percent:Q", format=".2f")]
        ),
    ]
    title = alt.TitleParams(str(panel.about), fontSize=11.5, fontWeight="normal", offset=5)
    return layered(layers, DOTS_WIDTH, ROW_HEIGHT * len(names), title=title)


def goodput_against_delay(sheet: Sheet) -> alt.VConcatChart:
    """Draw both groups' mean goodput against their mean delay, a panel per competitor and buffer.

    Better is up and to the right, as Winstein and Balakrishnan draw it (TCP ex Machina, SIGCOMM 2013). L4S
    groups are filled, classic ones hollow, a line joins the two of a cell; bars are 95 % intervals.
    """
    lines = [
        alt.hconcat(
            *(
                _scatter(panel, sheet, x, first=x == 0, last=number == len(sheet.grid.panels) - 1)
                for x in range(len(sheet.xs))
            ),
            spacing=14,
        )
        for number, panel in enumerate(sheet.grid.panels)
    ]
    title = heading(
        f"Goodput and delay {sheet.title}",
        [
            "means over trials with 95 % intervals; filled: L4S flows, hollow: the classic flows of the cell",
            "delay: smoothed RTT minus base RTT; dashed: fair share of the L4S flows",
        ],
    )
    return configured(alt.vconcat(*lines, spacing=14, title=title), config())


def _scatter(panel: SheetPanel, sheet: Sheet, x: int, *, first: bool, last: bool) -> alt.LayerChart:
    rows, joins = _points(panel, sheet, x)
    places = looks(sheet.queues)
    names = list(sheet.rows)
    legend = alt.Legend(title=None, orient="right", symbolSize=80, symbolOpacity=1) if first else None
    colour = alt.Color(
        "queue:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[OKABE_ITO[p] for p in places]),
        legend=legend,
    )
    shape = alt.Shape(
        "queue:N", sort=names, scale=alt.Scale(domain=names, range=[SHAPES[p] for p in places]), legend=legend
    )
    # reversed: to the right is better
    delay = alt.Scale(type="log", domain=[300, LEAST_MS], nice=False)
    ticks = alt.Axis(
        title="delay, ms" if last else None,
        values=[0.1, 0.3, 1, 3, 10, 30, 100, 300],
        labelExpr="format(datum.value, '~g')",
    )
    across = alt.X("delay_ms:Q", scale=delay, axis=ticks)
    up = alt.Y(
        "mbps:Q",
        scale=alt.Scale(domain=[0, max(cell.result.rate_mbps for cell in panel.places.values())], nice=True),
        axis=alt.Axis(title="goodput, Mbit/s" if first else None),
    )
    base = alt.Chart(table(rows))
    thin: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.2)
    wide: alt.Chart = base.transform_filter("isValid(datum.delay_low)").mark_rule(strokeWidth=1.2)
    join: alt.Chart = alt.Chart(table(joins)).mark_rule(strokeWidth=0.7, opacity=0.6)
    filled: alt.Chart = base.transform_filter("datum.group == 'L4S'").mark_point(
        filled=True, size=60, opacity=1
    )
    hollow: alt.Chart = base.transform_filter("datum.group != 'L4S'").mark_point(
        filled=False, size=50, opacity=1, strokeWidth=1.4
    )
    tooltip = [
        alt.Tooltip("queue:N"),
        alt.Tooltip("group:N"),
        alt.Tooltip("mbps:Q", format=".2f"),
        alt.Tooltip("delay_ms:Q", format=".2f"),
    ]
    rates = {cell.result.rate_mbps for _, cell in sheet.column(panel, x)}
    fairs = sorted(rate_mbps * sheet.fair_percent / 100 for rate_mbps in rates)
    fair: alt.Chart = alt.Chart(table([{"mbps": fair} for fair in fairs]))
    layers = [
        fair.mark_rule(strokeDash=[4, 3], strokeWidth=0.8).encode(y=up),
        join.encode(x=across, x2="delay_ms2:Q", y=up, y2="mbps2:Q", color=colour),
        thin.encode(x=across, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        wide.encode(x=alt.X("delay_low:Q", scale=delay), x2="delay_high:Q", y=up, color=colour),
        filled.encode(x=across, y=up, color=colour, shape=shape, tooltip=tooltip),
        hollow.encode(x=across, y=up, color=colour, shape=shape, tooltip=tooltip),
    ]
    words = f"{panel.about}, {sheet.grid.columns[x].text}"
    title = alt.TitleParams(words, fontSize=11, fontWeight="normal", offset=4, limit=SIDE + 40)
    return layered(layers, SIDE, SIDE * 0.75, title=title)


def _points(panel: SheetPanel, sheet: Sheet, x: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    joins: list[dict[str, Any]] = []
    for queue, cell in sheet.column(panel, x):
        mine, other = _point("L4S", cell.result.l4s), _point("classic", cell.result.classic)
        if mine and other:
            about = {"cell": cell.id, "queue": queue}
            rows += [about | mine, about | other]
            joins.append(
                about
                | {name: mine[name] for name in ("delay_ms", "mbps")}
                | {f"{name}2": other[name] for name in ("delay_ms", "mbps")}
            )
    return rows, joins


def _point(name: str, group: GroupResult) -> dict[str, Any]:
    """Return a group's point as a row; empty without a mean."""
    if group.goodput is None or group.delay is None:
        return {}
    low, high = ends(group.goodput)
    least, most = ends(group.delay)
    return {
        "group": name,
        "mbps": group.goodput.value,
        "delay_ms": max(group.delay.value, LEAST_MS),
        "low": low,
        "high": high,
        "delay_low": None if least is None else max(least, LEAST_MS),
        "delay_high": None if most is None else max(most, LEAST_MS),
    }
