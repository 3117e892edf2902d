# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a history: a line per cell and number over the nights, and marks where what ran changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reports.page.compared import metric_words
from reports.page.sheet import sheet
from reports.render.words import GLYPHS

if TYPE_CHECKING:
    from reports.compare.changes import MetricChange
    from reports.compare.history import CellHistory, GroupHistory, History
    from reports.result.stats import Estimate

WIDTH, HEIGHT = 420.0, 118.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 8.0, 12.0, 18.0
"""A chart and its margins, in units of its drawing."""

MOST_DOTS: Final = 20_000
"""Number of means up to which each has a dot; of more only those that got worse have one."""

LISTED: Final = 14
"""Number of nights whose numbers a cell has in a table."""


@dataclass(frozen=True)
class NightLinks:
    """Addresses of a night's report and comparison, relative to the page; empty where there is none."""

    report: str = ""
    comparison: str = ""


@dataclass(frozen=True)
class Dot:
    """The mean of a night in a chart; `text` has it with its interval."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class ChartLine:
    """A flow group in a chart: means joined by a path, their intervals as a band, and dots."""

    name: str
    path: str
    band: str
    dots: tuple[Dot, ...]
    newest: str


@dataclass(frozen=True)
class Chart:
    """Numbers of a cell over the nights.

    Attributes:
        title: The quantity, with its unit.
        spoken: The chart in words, for who cannot see it.
        ticks: Values with their places, from below.
        lines: One per flow group.
        worse: Places of nights that got worse, and what did, in words.
    """

    title: str
    spoken: str
    ticks: tuple[tuple[str, float], ...]
    lines: tuple[ChartLine, ...]
    worse: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class _Axis:
    """Places of nights from left to right; `step` is the width of one."""

    nights: int

    @property
    def step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / self.nights

    def x(self, place: int) -> float:
        """Return the middle of a night."""
        return round(LEFT + (place + 0.5) * self.step, 1)

    def before(self, place: int) -> float:
        """Return the border between a night and the one before."""
        return round(LEFT + place * self.step, 1)


def history_page(history: History, links: Sequence[NightLinks]) -> str:
    """Return the page of a history as text; `links` are those of its nights."""
    axis = _Axis(len(history.nights))
    marked = [place for place, night in enumerate(history.nights) if night.marks]
    means = sum(len(cell.groups) for cell in history.cells) * 2 * axis.nights
    return sheet(
        "history.html.j2",
        ("history.css",),
        ("filter.js", "history.js"),
        history=history,
        links=links,
        axis=axis,
        marks={place: number for number, place in enumerate(marked, 1)},
        cells=sorted(history.cells, key=_urgency),
        charts=lambda cell: _charts(cell, axis, dots=means <= MOST_DOTS),
        glyphs=GLYPHS,
        listed=range(max(0, axis.nights - LISTED), axis.nights)[::-1],
        estimate=_text,
        worse_words=lambda cell, place: _worse_words(cell.worse[place], cell.lost[place]),
        size=(WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM),
    )


def _urgency(cell: CellHistory) -> tuple[int, int]:
    """Return a key to sort by: what got worse lately comes first, and order stays otherwise."""
    return (0, -cell.regressed[-1]) if cell.regressed else (1, 0)


def _charts(cell: CellHistory, axis: _Axis, *, dots: bool) -> tuple[Chart, ...]:
    quantities: tuple[tuple[str, str, Callable[[GroupHistory], tuple[Estimate | None, ...]]], ...] = (
        ("goodput", "Mbit/s", lambda group: group.goodput),
        ("delay", "ms", lambda group: group.delay),
    )
    found = []
    for name, unit, of in quantities:
        groups = [(group.name, of(group)) for group in cell.groups if any(of(group))]
        if not groups:
            continue
        top = _nice(max(_end(point) for _, points in groups for point in points if point))
        own = [
            [metric for metric in metrics if (metric.metric == "delay_ms") == (name == "delay")]
            for metrics in cell.worse
        ]
        worse = {place: _worse_words(metrics, cell.lost[place]) for place, metrics in enumerate(own)}
        worse = {place: words for place, words in worse.items() if words}
        lines = tuple(_line(group, points, top, axis, dots, worse) for group, points in groups)
        title = f"{name}, {unit}"
        spoken = f"{name} over {axis.nights} nights; " + "; ".join(
            f"{line.name} {line.newest} {unit} in the newest" for line in lines
        )
        ticks = tuple((f"{value:g}", _y(value, top)) for value in (0.0, top / 2, top))
        marked = tuple((axis.before(place), words) for place, words in worse.items())
        found.append(Chart(title, spoken, ticks, lines, marked))
    return tuple(found)


def _worse_words(metrics: Iterable[MetricChange], lost: bool) -> str:
    """Return what was worse in a night; empty for nothing."""
    return _LOST if lost else "; ".join(map(metric_words, metrics))


_LOST: Final = "no valid trial any more"


def _line(
    name: str,
    points: Sequence[Estimate | None],
    top: float,
    axis: _Axis,
    dots: bool,
    worse: Container[int],
) -> ChartLine:
    path, band, shown = [], [], []
    for stretch in _stretches(points):
        means = [f"{axis.x(place)} {_y(point.value, top)}" for place, point in stretch]
        path.append(f"M{'L'.join(means)}")
        ends = [(axis.x(place), point.interval) for place, point in stretch if point.interval]
        above = [f"{x} {_y(interval[1], top)}" for x, interval in ends]
        below = [f"{x} {_y(interval[0], top)}" for x, interval in reversed(ends)]
        if len(ends) > 1:
            band.append(f"M{'L'.join((*above, *below))}Z")
        shown += [
            Dot(axis.x(place), _y(point.value, top), _text(point))
            for place, point in stretch
            if dots or place in worse
        ]
    newest = next((point for point in reversed(points) if point), None)
    return ChartLine(name, "".join(path), "".join(band), tuple(shown), _text(newest))


def _stretches(points: Sequence[Estimate | None]) -> list[list[tuple[int, Estimate]]]:
    """Return the nights that have a mean, those one after the other together."""
    found: list[list[tuple[int, Estimate]]] = [[]]
    for place, point in enumerate(points):
        if point is None:
            found.append([])
        else:
            found[-1].append((place, point))
    return [stretch for stretch in found if stretch]


def _end(point: Estimate) -> float:
    return point.high if point.high is not None else point.value


def _nice(value: float) -> float:
    """Return the next number that is 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten: half of it is short."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if value <= step * power * (1 + 1e-9))


def _y(value: float, top: float) -> float:
    inside = min(max(value / top, 0.0), 1.0)
    return round(HEIGHT - BOTTOM - inside * (HEIGHT - TOP - BOTTOM), 1)


def _text(found: Estimate | None) -> str:
    """Return a mean with its interval: `47.1 (46.0 to 48.2)`; a dash for none."""
    if found is None:
        return "\N{EN DASH}"
    digits = 1 if abs(found.value) >= 10 else 2
    ends = found.interval
    between = f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})" if ends else ""
    return f"{found.value:.{digits}f}{between}".replace("-", "\N{MINUS SIGN}")
