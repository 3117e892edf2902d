# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""All trials of a cell over one time axis: a line per trial, or their median with a band around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import altair as alt
import polars as pl

from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.panels import HEIGHT, WIDTH, queue_looks
from reports.figures.style import config, heading

if TYPE_CHECKING:
    from reports.figures.series import TrialSeries

Together: TypeAlias = Literal["trials", "band"]

_FLOWS: Final[Mapping[str, str]] = {
    "goodput_mbps": "goodput, Mbit/s",
    "srtt_ms": "smoothed RTT, ms",
    "ce_percent": "CE marks, %",
    "cwnd_packets": "cwnd, packets",
}
_QUEUE: Final = "delay_ms"


def trials_together(series: Sequence[TrialSeries], how: Together) -> alt.VConcatChart:
    """Draw the series of a cell's trials in the same panels; measures that no trial has are left out.

    Args:
        series: The trials of one cell, at least one.
        how: `trials`: a line per trial and flow. `band`: the median over trials of a group's mean flow, and a
            band from the least to the most.
    """
    first = series[0]
    groups = list(dict.fromkeys(name for own in series for name in own.groups))
    of_queues = {queue: colour for queue, (colour, _) in queue_looks().items()}
    colours = dict(zip(groups, OKABE_ITO, strict=False)) | of_queues
    flows = _rows([own.flows.rename({"group": "whose"}) for own in series], series)
    queue = _rows([own.queue.rename({"queue": "whose"}) for own in series], series)
    queue = queue.with_columns(flow=pl.lit(""))
    measures = [
        *((flows, name, title) for name, title in _FLOWS.items()),
        (queue, _QUEUE, "queue, ms"),
    ]
    drawn = [(frame, name, title) for frame, name, title in measures if frame.height and frame[name].max()]
    panels = [
        _panel(frame, name, title, colours, first.end_s, how, last=name == drawn[-1][1])
        for frame, name, title in drawn
    ]
    what = (
        "a line per trial"
        if how == "trials"
        else "line: median over trials of the mean flow; band: least to most"
    )
    title = heading(first.words, [first.cell, f"{len(series)} trials, {what}; means over {first.bin_ms} ms"])
    chart: alt.VConcatChart = alt.vconcat(*panels, spacing=8, title=title)
    chart = chart.resolve_scale(color="independent")
    return configured(chart, config())


def _rows(frames: Sequence[pl.DataFrame], series: Sequence[TrialSeries]) -> pl.DataFrame:
    return pl.concat(
        frame.with_columns(trial=pl.lit(own.trial)) for frame, own in zip(frames, series, strict=True)
    )


def _panel(
    frame: pl.DataFrame,
    name: str,
    title: str,
    colours: Mapping[str, str],
    end_s: float,
    how: Together,
    *,
    last: bool,
) -> alt.LayerChart:
    known = frame.filter(pl.col(name).is_not_null())
    present = set(known["whose"])
    names = [whose for whose in colours if whose in present]
    legend = None
    if name in {next(iter(_FLOWS)), _QUEUE} or len(names) < frame["whose"].n_unique():
        legend = alt.Legend(title=None, orient="top", direction="horizontal", columns=0, offset=4, padding=0)
    colour = alt.Color(
        "whose:N", scale=alt.Scale(domain=names, range=[colours[whose] for whose in names]), legend=legend
    )
    axis = alt.Axis(title="time since the trial's start, s") if last else alt.Axis(title=None, labels=False)
    across = alt.X("t_s:Q", scale=alt.Scale(domain=[0, end_s], nice=False), axis=axis)
    up = alt.Axis(tickCount=4, titleX=-38)
    if how == "trials":
        own = known.select("t_s", "whose", "flow", "trial", pl.col(name).alias("value"))
        line: alt.Chart = alt.Chart(table(own.to_dicts())).mark_line(clip=True, strokeWidth=0.9, opacity=0.7)
        line = line.encode(
            x=across,
            y=alt.Y("value:Q", title=title, axis=up),
            color=colour,
            detail=["flow:N", "trial:N"],
            tooltip=["whose:N", "trial:N", "t_s:Q", "value:Q"],
        )
        return layered([line], WIDTH, HEIGHT)
    value = pl.col("value")
    means = known.group_by("whose", "trial", "t_s").agg(pl.col(name).mean().alias("value"))
    spread = means.group_by("whose", "t_s").agg(
        value.min().round(3).alias("low"),
        value.median().round(3).alias("middle"),
        value.max().round(3).alias("high"),
    )
    base = alt.Chart(table(spread.sort("whose", "t_s").to_dicts()))
    band: alt.Chart = base.mark_area(clip=True, opacity=0.25).encode(
        x=across, y=alt.Y("low:Q", title=title, axis=up), y2="high:Q", color=colour
    )
    middle: alt.Chart = base.mark_line(clip=True).encode(
        x=across, y=alt.Y("middle:Q", title=title), color=colour, tooltip=["whose:N", "t_s:Q", "middle:Q"]
    )
    return layered([band, middle], WIDTH, HEIGHT)
