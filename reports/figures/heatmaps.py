# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Heat maps that can be read in grey, by the colour-blind, and with their uncertainty.

Goodput: colours part at the L4S group's fair share (its flows over all flows), not at half of the link.
What is outside of the rule's limits carries a triangle, what the interval leaves open a hatch, and every
cell a small bar with its interval between 0 and 100 % of the link's rate. Delay: a logarithmic scale, so
that 130 ms does not look like 15, with a star below the rule's limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from reports.colours import BLACK, CIVIDIS, FAIR, WHITE, Scale, ink
from reports.figures.ground import Tick, colour_bar
from reports.figures.painting import (
    Painted,
    bar_height,
    columns,
    figure,
    hatch_colour,
    interval_bars,
    panel_of,
)

if TYPE_CHECKING:
    import altair as alt

    from reports.against import Comparison
    from reports.figures.sheets import Entry, Panel, Sheet
    from reports.result.rules import Rule

LEAST_DELAY_MS: Final = 0.1
MOST_DELAY_MS: Final = 100.0
DELAY_TICKS: Final = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0, 100.0)
DELAY_MARKS: Final = (1.0, 5.0)
"""Lines on the colour bar, ms: what the studies call low latency, and the target of the classic queues."""

DELAY: Final = Scale(CIVIDIS.reversed(), (math.log10(LEAST_DELAY_MS), math.log10(MOST_DELAY_MS)), (0, 1))
"""Of the decimal logarithm of ms."""

DIFFERENCE: Final = Scale(FAIR, (-50, 0, 50), (0, 0.5, 1))
"""Percent of the link's rate, run minus published."""


def goodput_scale(fair_percent: float) -> Scale:
    """Percent of the link's rate, the two colours parting at the fair share."""
    return Scale(FAIR, (0, fair_percent, 100), (0, 0.5, 1))


def painted_goodput(sheet: Sheet, panel: Panel) -> tuple[Painted, ...]:
    """The cells of a goodput map.

    Triangles and hatches say what the decision's rule says of a cell: who is starved, and whether its
    interval leaves that in doubt. A cell is crossed when its trials are bimodal.
    """
    scale = goodput_scale(sheet.fair_percent)
    found: list[Painted] = []
    for entry in panel.entries:
        if entry.percent is None or entry.l4s_mbps is None or entry.classic_mbps is None:
            found.append(_no_value(entry))
            continue
        ground = scale.colour(entry.percent)
        text, bracket = f"{entry.l4s_mbps:.1f}", f"({entry.classic_mbps:.1f})"
        hatch = hatch_colour(ground) if entry.straddles or entry.bimodal else None
        mark = _MARKS.get(entry.word, "")
        found.append(Painted(entry, text, bracket, ground, ink(ground), hatch, mark, entry.bimodal))
    return tuple(found)


_MARKS: Final[Mapping[str, str]] = {"l4s-starved": "below", "classic-starved": "above", "both": "changed"}
"""Verdict -> the mark of a cell."""


def painted_delay(panel: Panel, rule: Rule) -> tuple[Painted, ...]:
    """The cells of a delay map: smoothed RTT minus base RTT, the rule's limit of low latency as a star."""
    found: list[Painted] = []
    for entry in panel.entries:
        if entry.delay_ms is None:
            found.append(_no_value(entry))
            continue
        ground = DELAY.colour(math.log10(max(entry.delay_ms, LEAST_DELAY_MS)))
        mark = "low-latency" if entry.delay_ms < rule.low_latency_ms else ""
        other = "" if entry.classic_delay_ms is None else f"({_ms(entry.classic_delay_ms)})"
        found.append(
            Painted(entry, _ms(entry.delay_ms), other, ground, ink(ground), None, mark, crossed=False)
        )
    return tuple(found)


def _no_value(entry: Entry) -> Painted:
    return Painted(entry, "none", "valid", WHITE, BLACK, None, "", crossed=False)


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 0.95 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def goodput_map(sheet: Sheet, rule: Rule) -> alt.VConcatChart:
    """One sheet's goodput: number and colour are the L4S group's, the classic group's in brackets, Mbit/s."""
    cells = {id(panel): painted_goodput(sheet, panel) for panel in sheet.panels}
    limits, fair = rule.limits_of_rate(*sheet.flows), sheet.fair_percent
    at = (limits.low, limits.high) if limits else ()
    ticks = [Tick(float(value), f"{value}") for value in range(0, 101, 20) if abs(value - fair) > 4]
    ticks = [tick for tick in ticks if tick.value not in at]
    ticks += [Tick(limit, f"{limit:.3g}", mark=True) for limit in at]
    if all(abs(fair - limit) > 4 for limit in at):
        ticks.append(Tick(fair, f"{fair:.3g} fair"))
    drawn = [painted for some in cells.values() for painted in some]
    whose = f"the L4S {_flows(sheet.flows[0])} (of the classic {_flows(sheet.flows[1])})"
    notes = [f"Mbit/s of {whose}, mean over trials{_trials(drawn)}; colour: percent of the link's rate"]
    starved = f"\u25bc {rule.l4s} starved, \u25b2 {rule.classic} starved, diamond: both; by rule {rule.rule}"
    marks = [f"\u25bc below {limits.low:.3g} %, \u25b2 above {limits.high:.3g} %" if limits else starved]
    if any(painted.entry.low is not None for painted in drawn):
        where = f", ticks at {limits.low:.3g} and {limits.high:.3g}" if limits else ""
        marks.append(f"bar: 95 % interval on 0-100 %{where}")
    notes.append("; ".join(marks))
    marks = []
    if any(painted.hatch and not painted.crossed for painted in drawn):
        marks.append("hatched: an interval straddles a limit")
    if any(painted.crossed for painted in drawn):
        marks.append("crossed: trials in two groups")
    notes += ["; ".join(marks)] if marks else []
    panels = [
        panel_of(
            panel,
            sheet,
            cells[id(panel)],
            interval_bars(cells[id(panel)], at),
            number % columns(sheet) == 0,
        )
        for number, panel in enumerate(sheet.panels)
    ]
    bar = colour_bar(goodput_scale(fair), ticks, bar_height(sheet), title="L4S goodput, % of the rate")
    return figure("goodput", notes, panels, bar, sheet)


def delay_map(sheet: Sheet, rule: Rule) -> alt.VConcatChart:
    """One sheet's delay: smoothed RTT minus base RTT of the L4S flows (of the classic flows), ms."""
    cells = {id(panel): painted_delay(panel, rule) for panel in sheet.panels}
    drawn = [painted for some in cells.values() for painted in some]
    ticks = [Tick(math.log10(value), f"{value:g}", value in DELAY_MARKS) for value in DELAY_TICKS]
    whose = "the L4S flows (of the classic flows)"
    notes = [
        f"mean smoothed RTT minus base RTT of {whose}, ms, mean over trials{_trials(drawn)}",
        f"star: below {rule.low_latency_ms:g} ms; logarithmic colours, lines at 1 and 5 ms",
    ]
    panels = [
        panel_of(panel, sheet, cells[id(panel)], [], number % columns(sheet) == 0)
        for number, panel in enumerate(sheet.panels)
    ]
    bar = colour_bar(DELAY, ticks, bar_height(sheet), title="L4S delay, ms")
    return figure("delay", notes, panels, bar, sheet)


def difference_map(sheet: Sheet, comparison: Comparison) -> alt.VConcatChart:
    """One sheet beside published cells: L4S goodput, run minus published, percent of the link's rate.

    In brackets what was published, Mbit/s. A diamond marks cells on another side of the study's limits;
    cells that nobody published are left out.
    """
    rows = {row["cell"]: row for row in comparison.cells.to_dicts()}
    cells = {id(panel): _painted_difference(panel, rows) for panel in sheet.panels}
    drawn = [painted for some in cells.values() for painted in some]
    ticks = [Tick(float(value), f"{value:+d}" if value else "0") for value in range(-50, 51, 25)]
    notes = [
        f"L4S goodput, run minus published, percent of the link's rate{_trials(drawn)}",
        "in brackets: published, Mbit/s; diamond: on another side of the limits than published",
    ]
    panels = [
        panel_of(panel, sheet, cells[id(panel)], [], number % columns(sheet) == 0)
        for number, panel in enumerate(sheet.panels)
    ]
    bar = colour_bar(DIFFERENCE, ticks, bar_height(sheet), title="run minus published, %")
    return figure("beside the published cells", notes, panels, bar, sheet)


def _painted_difference(panel: Panel, rows: Mapping[str, Mapping[str, Any]]) -> tuple[Painted, ...]:
    found: list[Painted] = []
    for entry in panel.entries:
        row = rows.get(entry.cell)
        if row is None:
            continue
        ground = DIFFERENCE.colour(row["difference"])
        mark = "changed" if row["changes_side"] else ""
        text, other = f"{row['difference']:+z.1f}", f"({row['published_l4s_mbps']:.1f})"
        found.append(Painted(entry, text, other, ground, ink(ground), None, mark, crossed=False))
    return tuple(found)


def _flows(count: int) -> str:
    return "flow" if count == 1 else f"{count} flows together"


def _trials(drawn: Sequence[Painted]) -> str:
    counts = sorted({painted.entry.valid for painted in drawn if painted.entry.valid})
    if not counts:
        return ""
    return f" (n = {counts[0]})" if len(counts) == 1 else f" (n = {counts[0]} to {counts[-1]})"
