# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a comparison of two runs: what got worse or better first, and every number behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reports.compare import ChangeKind, Presence
from reports.compare.changes import HIGHER_IS_BETTER
from reports.compare.render import GLYPHS, apart_text, how, summary
from reports.page.sheet import sheet

if TYPE_CHECKING:
    from reports.compare import CellChange, Comparison, MetricChange, NumberBeside
    from reports.compare.welch import MeanDifference
    from reports.result.stats import Estimate

LEAST_MARGINS, MOST_MARGINS = 2.0, 6.0
"""Least and most margins on each side of zero that the plots show; what is farther away has an arrow."""

_WIDTH: Final = 200.0
"""Width of a plot, in units of its drawing."""


@dataclass(frozen=True)
class Links:
    """Addresses of the pages of both runs, relative to the page; empty where there is none."""

    base: str = ""
    new: str = ""


@dataclass(frozen=True)
class Plot:
    """A difference in margins with its interval, as places in a drawing; to the right is worse.

    Attributes:
        band: The ends of the margins.
        ends: The ends of the interval.
        dot: The difference; None if it is farther away than the drawing goes.
        beyond: Whether the interval goes on to the left, and to the right.
    """

    band: tuple[float, float]
    ends: tuple[float, float]
    dot: float | None
    beyond: tuple[bool, bool]


@dataclass(frozen=True)
class OutcomeCells:
    """Cells with the same outcome, those with large differences first."""

    name: str
    title: str
    cells: tuple[CellChange, ...]


@dataclass(frozen=True)
class _Look:
    """The answers to the template's questions about cells and metrics."""

    comparison: Comparison
    margins: float
    numbers: Mapping[str, Sequence[NumberBeside]]

    def plot(self, metric: MetricChange) -> Plot | None:
        """Return the plot of a metric; None without an interval or a margin."""
        if metric.difference is None or not metric.margin:
            return None
        sign = -1.0 if metric.metric in HIGHER_IS_BETTER else 1.0
        low, high = sorted(sign * end / metric.margin for end in metric.difference.interval)
        middle, most = sign * metric.difference.value / metric.margin, self.margins
        return Plot(
            band=(self._place(-1.0), self._place(1.0)),
            ends=(self._place(low), self._place(high)),
            dot=self._place(middle) if abs(middle) < most else None,
            beyond=(low < -most, high > most),
        )

    def _place(self, margins: float) -> float:
        inside = min(max(margins, -self.margins), self.margins)
        return round((inside / self.margins + 1) / 2 * _WIDTH, 1)

    def changed(self, cell: CellChange) -> bool:
        """Return True if anything about a cell changed by more than noise, or it came or went."""
        return (
            cell.change in (ChangeKind.WORSE, ChangeKind.BETTER)
            or cell.presence is not Presence.BOTH
            or cell.words[0] is not cell.words[1]
            or (self.comparison.rule is None and any(own.differs for own in self.numbers.get(cell.cell, ())))
        )

    def words(self, cell: CellChange) -> str:
        """Return the words by which a cell is found, in lower case."""
        parts = (cell.cell, cell.label, cell.change or cell.presence, *filter(None, cell.words))
        return " ".join(parts).lower()


def comparison_page(comparison: Comparison, links: Links | None = None) -> str:
    """Return the page of a comparison as text; `links` lead to the pages of both runs."""
    return sheet(
        "compared.html.j2",
        scripts=("filter.js", "compared.js"),
        comparison=comparison,
        links=links or Links(),
        look=_look(comparison),
        groups=_groups(comparison),
        glyphs=GLYPHS,
        summary=summary(comparison),
        apart=apart_text(comparison),
        how=how(comparison).replace("\n", " "),
        estimate=_estimate,
        difference=_difference,
        lost=len(comparison.present(Presence.LOST)),
        metric_words=metric_words,
        number_words=lambda name: _NUMBERS.get(name, name),
        ChangeKind=ChangeKind,
    )


def _look(comparison: Comparison) -> _Look:
    numbers: dict[str, list[NumberBeside]] = {}
    for number in comparison.numbers:
        numbers.setdefault(number.cell, []).append(number)
    farthest = max(
        (
            abs(end) / metric.margin
            for cell in comparison.cells
            for metric in cell.metrics
            if metric.difference and metric.margin
            for end in metric.difference.interval
        ),
        default=LEAST_MARGINS,
    )
    return _Look(comparison, min(max(math.ceil(farthest), LEAST_MARGINS), MOST_MARGINS), numbers)


def _groups(comparison: Comparison) -> tuple[OutcomeCells, ...]:
    def group(name: str, title: str, cells: Sequence[CellChange]) -> OutcomeCells:
        sized = sorted(cells, key=lambda cell: -(cell.furthest.in_margins if cell.furthest else 0.0))
        return OutcomeCells(name, title, tuple(sized))

    both = comparison.present(Presence.BOTH)
    by_change = {kind: [cell for cell in both if cell.change is kind] for kind in (*ChangeKind, None)}
    neither = [*by_change[ChangeKind.UNCLEAR], *by_change[ChangeKind.SAME], *by_change[None]]
    groups = (
        group("worse", "Worse by more than noise", by_change[ChangeKind.WORSE]),
        group("lost", "No valid trial any more", comparison.present(Presence.LOST)),
        group("better", "Better by more than noise", by_change[ChangeKind.BETTER]),
        group("neither", "No difference found", neither),
        group("added", "No valid trial in the base", comparison.present(Presence.NEW)),
        group("absent", "Not run again", comparison.present(Presence.NOT_RUN)),
    )
    return tuple(one for one in groups if one.cells)


def metric_words(metric: MetricChange) -> str:
    """Return a metric for people, with its unit: `delay of l4s, ms`."""
    named = {"unfairness_percent": "unfairness, %", "utilisation_percent": "utilisation, %"}
    return named.get(metric.metric) or f"delay of {metric.group}, ms"


_NUMBERS: Final = {
    "goodput_mbps": "goodput, Mbit/s",
    "share_percent": "share of the rate, %",
    "delay_ms": "delay, ms",
    "sojourn_ms": "queuing per packet, ms",
    "sojourn_p99_ms": "queuing per packet, p99, ms",
}
"""Numbers of `MeasuredGroup.numbers` in words; those that programs report keep their names."""


def _figure(value: float, size: float) -> str:
    """Return a number with digits that suit the size of what it is compared with."""
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.2f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _estimate(found: Estimate) -> tuple[str, str]:
    """Return a mean, and its interval in brackets, empty where there is none."""
    size = abs(found.value)
    ends = found.interval
    between = f"({_figure(ends[0], size)} to {_figure(ends[1], size)})" if ends else ""
    return _figure(found.value, size), between


def _difference(found: MeanDifference | None) -> tuple[str, str]:
    """Return a difference, and its interval in brackets; a dash where there is none."""
    if found is None:
        return "\u2013", "(one trial)"
    size = abs(found.value)
    low, high = found.interval
    shown = _figure(found.value, size)
    return f"{'' if found.value < 0 else '+'}{shown}", f"({_figure(low, size)} to {_figure(high, size)})"
