# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A few cells side by side: a column per cell, and in it a trial over time, on the axes of the others."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from l4sbench.errors import InputError
from l4sbench.facts.factors import Owner, name_of
from reports.colours import OKABE_ITO
from reports.figures.fit import KEPT, LETTER_PX
from reports.figures.ground import configured, layered, table
from reports.figures.panels import HEIGHT, queue_looks
from reports.figures.series import series_of
from reports.figures.sheets import value_text
from reports.figures.style import DASHES, config, heading
from reports.result.cells import factors_of

if TYPE_CHECKING:
    from reports.figures.series import TrialSeries
    from reports.result.cells import Factors
    from reports.result.load import RunTables

MOST: Final = 4
"""Columns that a page is wide enough for."""

POINTS: Final = 150
"""Largest number of points per line: columns are narrower than a figure of one trial."""

_WIDTHS: Final = {2: 290, 3: 220, 4: 180}
_ROOM: Final = 1.06
"""Height of an axis in units of its largest value, so that no label is above a plot."""

_SHARED: Final = ("aqm", "buffer_bdp", "rate_mbps", "rtt_ms")
_GROUP: Final = "group"
_QUEUE: Final = "queue"
_MEASURES: Final[tuple[tuple[str, str, str], ...]] = (
    ("goodput_mbps", "goodput, Mbit/s", _GROUP),
    ("srtt_ms", "smoothed RTT, ms", _GROUP),
    ("delay_ms", "queue, ms", _QUEUE),
    ("ce_percent", "CE marks, %", _GROUP),
    ("cwnd_packets", "cwnd, packets", _GROUP),
)
"""Columns of a series, their titles, and what lines of them are of."""


def require_columns(cells: int) -> None:
    """Raise InputError unless that many cells have room beside each other."""
    if not 2 <= cells <= MOST:
        raise InputError(
            f"2 to {MOST} cells have room side by side, not {cells}",
            "choose them by filters, such as cell=ONE,OTHER or aqm=dualpi2,fifo",
        )


def cells_in_columns(tables: RunTables, shown: Sequence[tuple[str, int]]) -> alt.VConcatChart:
    """Draw trials of different cells beside each other: goodput, delays, marks and windows over time.

    A measure has one scale in all columns. Measures that no trial has are left out.

    Args:
        tables: The run.
        shown: Cells, each with the number of a valid trial.

    Raises:
        InputError: there are too few or too many cells, or nothing was sampled in one of the trials.
    """
    require_columns(len(shown))
    places = pl.DataFrame(shown, schema={"cell": pl.String, "trial": pl.Int64}, orient="row")
    own = tables.trials.join(places, on=["cell", "trial"], how="semi")
    found = {(series.cell, series.trial): series for series in series_of(tables, own, POINTS)}
    for cell, trial in shown:
        if (cell, trial) not in found:
            raise InputError(f"nothing was sampled in trial {trial} of {cell}")
    columns = [found[place] for place in shown]
    known = factors_of(tables)
    factors = [known[series.cell] for series in columns]
    differing = _differing(factors)
    titles = [_title(own, differing, series) for own, series in zip(factors, columns, strict=True)]
    return _drawn(columns, titles, _heading(columns, factors[0], differing))


def _differing(cells: Sequence[Factors]) -> list[str]:
    """Return the columns of factors that differ; those of queues differ only among cells that have them."""

    def differs(column: str) -> bool:
        own = [factors for factors in cells if column in factors]
        if name_of(column).kind is not Owner.QUEUE:
            own = list(cells)
        return len({setting and setting.value for setting in (factors.get(column) for factors in own)}) > 1

    names = dict.fromkeys(column for factors in cells for column in factors)
    return [column for column in names if differs(column)]


def _title(factors: Factors, differing: Sequence[str], series: TrialSeries) -> str:
    """Return the words above a column: what distinguishes its cell from the others."""
    words = [value_text(factors[column]) for column in differing if column in factors]
    return ", ".join([*(words or [series.cell]), f"trial {series.trial}"])


def _heading(columns: Sequence[TrialSeries], factors: Factors, differing: Sequence[str]) -> alt.TitleParams:
    shared = [value_text(factors[name]) for name in _SHARED if name in factors and name not in differing]
    bins = sorted({series.bin_ms for series in columns})
    means = f"means over {' and '.join(map(str, bins))} ms"
    return heading(
        ", ".join([f"{len(columns)} cells side by side", *shared]),
        [f"one trial of each; {means}; dotted: the fair share"],
    )


def _drawn(columns: Sequence[TrialSeries], titles: Sequence[str], head: alt.TitleParams) -> alt.VConcatChart:
    measures = [
        (name, title, whose)
        for name, title, whose in _MEASURES
        if any(_most(series, name, whose) for series in columns)
    ]
    end_s = max(series.end_s for series in columns)
    lines: list[alt.HConcatChart] = []
    for name, title, whose in measures:
        scale = alt.Scale(domain=[0, _ROOM * _top(columns, name, whose)], nice=False)
        looks = queue_looks() if whose == _QUEUE else _group_looks(columns)
        there = {own for series in columns for own in _rows(series, whose)[whose]}
        looks = {own: look for own, look in looks.items() if own in there}
        plots = [
            _plot(
                series,
                name,
                whose,
                looks,
                width=_WIDTHS[len(columns)],
                up=alt.Y("value:Q", scale=scale, title=None if place else title, axis=_upright(place)),
                across=_across(end_s, last=name == measures[-1][0]),
                legend=name in {measures[0][0], "delay_ms"},
                title=titles[place] if name == measures[0][0] else None,
            )
            for place, series in enumerate(columns)
        ]
        lines.append(alt.hconcat(*plots, spacing=14))
    chart: alt.VConcatChart = alt.vconcat(*lines, spacing=8, title=head, usermeta={KEPT: True})
    chart = chart.resolve_scale(color="independent", strokeDash="independent")
    return configured(chart, config())


def _upright(place: int) -> alt.Axis:
    # titles in one place make all rows begin in one place
    return (
        alt.Axis(tickCount=4, titleX=-38) if not place else alt.Axis(tickCount=4, labels=False, ticks=False)
    )


def _across(end_s: float, *, last: bool) -> alt.X:
    # labels that go beyond a plot would move the next one
    ticks: dict[str, Any] = {"tickCount": 6, "labelFlush": True}
    axis = alt.Axis(title="time, s", **ticks) if last else alt.Axis(title=None, labels=False, **ticks)
    return alt.X("t_s:Q", scale=alt.Scale(domain=[0, end_s], nice=False), axis=axis)


def _rows(series: TrialSeries, whose: str) -> pl.DataFrame:
    return series.queue.with_columns(flow=pl.lit("")) if whose == _QUEUE else series.flows


def _most(series: TrialSeries, name: str, whose: str) -> float:
    """Return the largest value of a measure; 0 where nothing was sampled."""
    values = _rows(series, whose)[name].drop_nulls()
    return float(values.cast(pl.Float64).max() or 0.0) if values.len() else 0.0  # type: ignore[arg-type]


def _top(columns: Sequence[TrialSeries], name: str, whose: str) -> float:
    """Return the largest value of a measure in all columns, that of a line of the fair share included."""
    fair = [share.mbps for series in columns for share in series.fair] if name == "goodput_mbps" else []
    return max([_most(series, name, whose) for series in columns] + fair)


def _plot(
    series: TrialSeries,
    name: str,
    whose: str,
    looks: Mapping[str, tuple[str, list[int]]],
    *,
    width: float,
    up: alt.Y,
    across: alt.X,
    legend: bool,
    title: str | None,
) -> alt.LayerChart:
    rows = _rows(series, whose).select("t_s", "flow", whose, pl.col(name).alias("value"))
    named = alt.Legend(title=None, orient="top", columns=2, symbolSize=300, offset=3, padding=0)
    # equal scales, so that all columns share a legend
    colours = alt.Scale(domain=[*looks], range=[colour for colour, _ in looks.values()])
    dashes = alt.Scale(domain=[*looks], range=[dash for _, dash in looks.values()])
    line: alt.Chart = alt.Chart(table(rows.to_dicts())).mark_line(clip=True)
    layers = [
        line.encode(
            x=across,
            y=up,
            color=alt.Color(f"{whose}:N", scale=colours, legend=named if legend else None),
            strokeDash=alt.StrokeDash(f"{whose}:N", scale=dashes, legend=named if legend else None),
            detail="flow:N",
            tooltip=[f"{whose}:N", "t_s:Q", "value:Q"],
        )
    ]
    if name == "goodput_mbps":
        parts = [{"t_s": share.from_s, "to_s": share.to_s, "value": share.mbps} for share in series.fair]
        fair: alt.Chart = alt.Chart(table(parts))
        layers.append(fair.mark_rule(strokeDash=[2, 2], strokeWidth=1).encode(x=across, x2="to_s:Q", y=up))
    if not rows["value"].count():
        nothing: alt.Chart = alt.Chart(table([{"words": "not sampled"}])).mark_text()
        layers.append(nothing.encode(text="words:N", x=alt.value(width / 2), y=alt.value(HEIGHT / 2)))
    about: dict[str, Any] = {}
    if title:
        lines = textwrap.wrap(title, int(width / LETTER_PX), break_on_hyphens=False)
        about["title"] = alt.TitleParams(lines, frame="group", fontSize=11.5, fontWeight="normal", offset=6)
    return layered(layers, width, HEIGHT, **about)


def _group_looks(columns: Sequence[TrialSeries]) -> Mapping[str, tuple[str, list[int]]]:
    """Return colours and dashes of flow groups, each its own, and the same in all columns."""
    groups = dict.fromkeys(group for series in columns for group in series.groups)
    return {
        group: (OKABE_ITO[place % len(OKABE_ITO)], DASHES[place % len(DASHES)])
        for place, group in enumerate(groups)
    }
