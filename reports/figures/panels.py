# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The panels of one trial over time, above each other on one axis.

The specification names its data sets and holds their rows apart, under `datasets`: a page can keep one
specification and exchange the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered
from reports.figures.series import QUEUE_DELAYS
from reports.figures.style import DASHES, Theme, config

if TYPE_CHECKING:
    from reports.figures.series import StatePanel, TrialSeries

WIDTH: Final = 600
HEIGHT: Final = 92

Rows = list[dict[str, Any]]


def time_series(series: TrialSeries, theme: Theme = "light") -> alt.VConcatChart:
    """Draw the panels over one time axis; in a browser, dragging or scrolling moves them together."""
    groups = list(series.groups)
    inks = {group: OKABE_ITO[place % len(OKABE_ITO)] for place, group in enumerate(groups)}
    colours = alt.Scale(domain=groups, range=list(inks.values()))
    dashes = alt.Scale(domain=groups, range=[DASHES[i % len(DASHES)] for i in range(len(groups))])

    def of_flows(
        field: str, title: str, *, legend: alt.Legend | None = None, last: bool = False
    ) -> alt.Chart:
        return _lines("flows", field, title, series, last=last).encode(
            color=alt.Color("group:N", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("group:N", scale=dashes, legend=legend),
            detail="flow:N",
        )

    fair: alt.Chart = alt.Chart(alt.NamedData(name="fair"), name="fair_share")
    fair = fair.mark_rule(strokeDash=[2, 2], strokeWidth=1).encode(
        x=_time(series, last=False, field="from_s"),
        x2="to_s:Q",
        y=alt.Y("mbps:Q"),
        tooltip=[alt.Tooltip("mbps:Q", title="fair share, Mbit/s")],
    )
    goodput = layered([of_flows("goodput_mbps", "goodput, Mbit/s", legend=_LEGEND), fair], WIDTH, HEIGHT)
    panels: list[alt.Chart | alt.LayerChart] = [
        goodput,
        of_flows("srtt_ms", "smoothed RTT, ms"),
        *([_queue_panel(series)] if series.queue.height else []),
        *([of_flows("ce_percent", "CE marks, %")] if "ce_percent" not in series.flat else []),
        of_flows("cwnd_packets", "cwnd, packets", last=not _shown_state(series)),
        *_state_panels(series, inks),
    ]
    absent = ["CE marks"] if "ce_percent" in series.flat else []
    absent += [panel.title for panel in series.panels if panel.flat]
    nothing = f"; all the time zero: {', '.join(absent)}" if absent else ""
    notes = [series.cell, f"means over {series.bin_ms} ms; dotted: the fair share{nothing}"]
    title = alt.TitleParams(series.title, subtitle=notes)
    chart: alt.VConcatChart = alt.vconcat(*panels, spacing=8, title=title)
    zoom = alt.TopLevelSelectionParameter(
        name="zoom",
        select=alt.IntervalSelectionConfig(type="interval", encodings=["x"]),
        bind="scales",
        # names as they are now, because Altair numbers those of layers
        views=[panel.layer[0].name if hasattr(panel, "layer") else panel.name for panel in chart.vconcat],
    )
    chart = chart.properties(datasets=datasets(series), params=[zoom])
    chart = chart.resolve_scale(color="independent", strokeDash="independent")
    return configured(chart, config(theme))


_LEGEND: Final = alt.Legend(
    title=None, orient="top", direction="horizontal", symbolSize=400, columns=0, offset=4, padding=0
)


def datasets(series: TrialSeries) -> dict[str, Rows]:
    """Return the rows of `time_series` by the names of data sets in its specification."""
    return {
        "flows": series.flows.to_dicts(),
        "queue": series.queue.to_dicts(),
        "fair": [asdict(share) for share in series.fair],
        **{name: panel.rows.to_dicts() for name, panel in named_panels(series).items()},
    }


def named_panels(series: TrialSeries) -> dict[str, StatePanel]:
    """Return the panels of state by the names of their data sets."""
    return {f"state{place}": panel for place, panel in enumerate(series.panels)}


def _shown_state(series: TrialSeries) -> dict[str, StatePanel]:
    """Return the panels of state that show anything, by the names of their data sets."""
    return {name: panel for name, panel in named_panels(series).items() if not panel.flat}


def _state_panels(series: TrialSeries, inks: Mapping[str, str]) -> list[alt.Chart]:
    """Draw what congestion controls report: colours are groups, dashes the lines of a panel."""
    charts: list[alt.Chart] = []
    panels = _shown_state(series)
    for name, panel in panels.items():
        last = name == list(panels)[-1]
        legend = _LEGEND if len(panel.lines) > 1 else None
        looks = [DASHES[i % len(DASHES)] for i in range(len(panel.lines))]
        dashes = alt.Scale(domain=list(panel.lines), range=looks)
        # whose it is has to be said where not all groups have it
        groups = [group for group in series.groups if group in panel.groups]
        some = _LEGEND if len(groups) < len(series.groups) else None
        scale = alt.Scale(domain=groups, range=[inks[group] for group in groups])
        own: dict[str, Any] = {"color": alt.Color("group:N", scale=scale, legend=some), "detail": "name:N"}
        if not panel.words:
            chart = _lines(name, "value", panel.title, series, last=last)
            dashed = alt.StrokeDash("line:N", scale=dashes, legend=legend)
            charts.append(chart.encode(strokeDash=dashed, **own).properties(name=name))
            continue
        marks: alt.Chart = alt.Chart(alt.NamedData(name=name), name=name).mark_tick(thickness=3, height=9)
        marks = marks.encode(
            x=_time(series, last=last),
            y=alt.Y("value:N", title=panel.title, axis=alt.Axis(titleX=-58), sort=None),
            tooltip=[alt.Tooltip("t_s:Q", title="s"), alt.Tooltip("value:N", title=panel.title)],
            **own,
        )
        charts.append(marks.properties(width=WIDTH, height=HEIGHT))
    return charts


def _time(series: TrialSeries, *, last: bool, field: str = "t_s") -> alt.X:
    axis = alt.Axis(title="time since the trial's start, s") if last else alt.Axis(title=None, labels=False)
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, series.end_s], nice=False), axis=axis)


def _lines(data: str, field: str, title: str, series: TrialSeries, *, last: bool = False) -> alt.Chart:
    # zero alone makes an axis of one tick, halfway up
    upright = alt.Scale(domain=[0, 1]) if field in series.flat else alt.Scale(zero=True)
    chart: alt.Chart = alt.Chart(alt.NamedData(name=data), name=field).mark_line(clip=True)
    return chart.encode(
        x=_time(series, last=last),
        y=alt.Y(f"{field}:Q", title=title, scale=upright, axis=alt.Axis(tickCount=4, titleX=-38)),
        tooltip=[alt.Tooltip("t_s:Q", title="s"), alt.Tooltip(f"{field}:Q", title=title)],
    ).properties(width=WIDTH, height=HEIGHT)


def queue_looks() -> dict[str, tuple[str, list[int]]]:
    """Return colours and dashes of the delays of queues, by their names in legends."""
    return {label: _LOOKS[column] for column, label in QUEUE_DELAYS.items()}


_LOOKS: Final = {
    "delay_l4s_ms": (OKABE_ITO[0], DASHES[0]),
    "delay_classic_ms": (OKABE_ITO[1], DASHES[1]),
    "delay_ms": (OKABE_ITO[2], DASHES[0]),
    "backlog_ms": (OKABE_ITO[7], DASHES[0]),
}
"""Colours and dashes of the columns with the delay of a queue, seen on white and on a dark page."""


def _queue_panel(series: TrialSeries) -> alt.Chart:
    shown = set(series.queue["queue"].to_list())
    looks = {label: look for label, look in queue_looks().items() if label in shown}
    colours = alt.Scale(domain=list(looks), range=[colour for colour, _ in looks.values()])
    dashes = alt.Scale(domain=list(looks), range=[dash for _, dash in looks.values()])
    return _lines("queue", "delay_ms", "queue, ms", series).encode(
        color=alt.Color("queue:N", scale=colours, legend=_LEGEND),
        strokeDash=alt.StrokeDash("queue:N", scale=dashes, legend=_LEGEND),
    )
