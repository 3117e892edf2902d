# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Heat maps that can be read in grey, by the colour-blind, and with their uncertainty.

Goodput: colours part at the L4S group's fair share (its flows over all flows), not at half of the link. Cells
outside of the rule's limits have a triangle, cells that their interval leaves open a hatch, and every cell a
small bar with its interval between 0 and 100 % of the link's rate. Delay: a logarithmic scale, so that 130 ms
does not look like 15, with a star below the rule's limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reports.colours import DELAY, DIFFERENCE, Scale, goodput_scale
from reports.figures.ground import Tick, colour_bar
from reports.figures.painting import Painted, bar_height, columns, figure, interval_bars, panel_of
from reports.figures.sheets import limited, undecided

if TYPE_CHECKING:
    import altair as alt

    from reports.figures.sheets import Sheet, SheetPanel
    from reports.published import StudyComparison
    from reports.result.rules import Rule

LEAST_DELAY_MS: Final = 0.1
DELAY_TICKS: Final = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0, 100.0)
DELAY_MARKS: Final = (1.0, 5.0)
"""Lines on the colour bar, ms: the studies' limit of low latency, and the target of the classic queues."""

_MARKS: Final[Mapping[str, str]] = {"l4s-starved": "below", "classic-starved": "above", "both": "changed"}
"""Verdict -> the mark of a cell."""

_NO_VALUE: Final = ("none", "valid")
"""The two lines of a cell without a valid trial."""


def painted_goodput(sheet: Sheet, panel: SheetPanel) -> tuple[Painted, ...]:
    """Paint the cells of a goodput map.

    Triangles and hatches show the verdict of the decision's rule on a cell: who is starved, and whether the
    interval leaves that in doubt. A cell is crossed when its trials are bimodal.
    """
    scale = goodput_scale(sheet.fair_percent)
    found: list[Painted] = []
    for place, cell in panel.places.items():
        result = cell.result
        if result.share is None or result.l4s.goodput is None or result.classic.goodput is None:
            found.append(Painted(cell, *place, *_NO_VALUE))
            continue
        words = f"{result.l4s.goodput.value:.1f}", f"({result.classic.goodput.value:.1f})"
        crossed = bool(result.bimodal)
        hatched = cell.straddles or crossed
        ground, mark = scale.colour(result.share.value), _MARKS.get(cell.word, "")
        found.append(Painted(cell, *place, *words, ground, mark, hatched, crossed))
    return tuple(found)


def painted_delay(panel: SheetPanel, rule: Rule) -> tuple[Painted, ...]:
    """Paint the cells of a delay map: smoothed RTT minus base RTT, a star where the rule gives one."""
    found: list[Painted] = []
    for place, cell in panel.places.items():
        own, classic = cell.result.l4s.delay, cell.result.classic.delay
        if own is None:
            found.append(Painted(cell, *place, *_NO_VALUE))
            continue
        ground = DELAY.colour(math.log10(max(own.value, LEAST_DELAY_MS)))
        mark = "low-latency" if cell.has_low_latency(rule) else ""
        other = f"({_ms(classic.value)})" if classic else ""
        found.append(Painted(cell, *place, _ms(own.value), other, ground, mark))
    return tuple(found)


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 0.95 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def goodput_map(sheet: Sheet, rule: Rule) -> alt.VConcatChart:
    """Draw one sheet's goodput, Mbit/s: the L4S group's as number and colour, the classic in brackets."""
    painted = [painted_goodput(sheet, panel) for panel in sheet.grid.panels]
    cells = [cell for some in painted for cell in some]
    limits, fair = rule.limits_of_rate(*sheet.flows), sheet.fair_percent
    at = (limits.low, limits.high) if limits else ()
    ticks = [Tick(float(value), f"{value}") for value in range(0, 101, 20) if abs(value - fair) > 4]
    ticks = [tick for tick in ticks if all(abs(tick.value - limit) > 4 for limit in at)]
    ticks += [Tick(limit, f"{limit:.3g}", mark=True) for limit in at]
    if all(abs(fair - limit) > 4 for limit in at):
        ticks.append(Tick(fair, f"{fair:.3g} fair"))
    whose = f"the L4S {_flows(sheet.flows[0])} (of the classic {_flows(sheet.flows[1])})"
    starved = f"\u25bc {rule.l4s} starved, \u25b2 {rule.classic} starved, diamond: both; by rule {rule.rule}"
    marks = [f"\u25bc below {limits.low:.3g} %, \u25b2 above {limits.high:.3g} %" if limits else starved]
    if any(side.keeps.interval for cell in cells for side in limited(cell.cell)):
        marks.append(
            f"bar: 95 % interval on 0-100 %, ticks at {limits.low:.3g} and {limits.high:.3g}"
            if limits
            else f"bars: 95 % intervals of {rule.l4s} and below it {rule.classic}, ticks at their limits"
        )
    hatches = {
        "hatched: an interval straddles a limit": any(cell.hatched and not cell.crossed for cell in cells),
        "crossed: trials in two groups": any(cell.crossed for cell in cells),
    }
    notes = [
        f"Mbit/s of {whose}, mean over trials{_trials(cells)}; colour: percent of the link's rate",
        "; ".join(marks),
        "; ".join(text for text, drawn in hatches.items() if drawn),
        *undecided(sheet),
    ]
    return _map(
        *("goodput", sheet, painted, notes, goodput_scale(fair), ticks, "L4S goodput, % of the rate"),
        bars=interval_bars,
    )


def delay_map(sheet: Sheet, rule: Rule) -> alt.VConcatChart:
    """Draw one sheet's delay: smoothed RTT minus base RTT of the L4S flows (of the classic flows), ms."""
    painted = [painted_delay(panel, rule) for panel in sheet.grid.panels]
    ticks = [Tick(math.log10(value), f"{value:g}", value in DELAY_MARKS) for value in DELAY_TICKS]
    trials = _trials([cell for some in painted for cell in some])
    whose = "the L4S flows (of the classic flows)"
    what = "" if rule.low_latency_of == "mean" else "p99 of L4S queuing delay per packet "
    sure = "" if rule.intervals == "none" else "with its whole interval "
    notes = [
        f"mean smoothed RTT minus base RTT of {whose}, ms, mean over trials{trials}",
        f"star: {what}{sure}below {rule.low_latency_ms:g} ms; logarithmic colours, lines at 1 and 5 ms",
    ]
    return _map("delay", sheet, painted, notes, DELAY, ticks, "L4S delay, ms")


def difference_map(sheet: Sheet, comparison: StudyComparison) -> alt.VConcatChart:
    """Draw one sheet minus published cells: L4S goodput, percent of the link's rate.

    The published goodput is in brackets, Mbit/s. A diamond marks cells on another side of the study's limits;
    cells that nobody published are left out.
    """
    pairs = {pair.cell.id: pair for pair in comparison.pairs}
    painted = [
        tuple(
            Painted(
                *(cell, *place, f"{pair.difference_percent:+z.1f}", f"({pair.published.l4s_mbps:.1f})"),
                ground=DIFFERENCE.colour(pair.difference_percent),
                mark="changed" if pair.changes_side else "",
            )
            for place, cell in panel.places.items()
            if (pair := pairs.get(cell.id))
        )
        for panel in sheet.grid.panels
    ]
    ticks = [Tick(float(value), f"{value:+d}" if value else "0") for value in range(-50, 51, 25)]
    trials = _trials([cell for some in painted for cell in some])
    notes = [
        f"L4S goodput, run minus published, percent of the link's rate{trials}",
        "in brackets: published, Mbit/s; diamond: on another side of the limits than published",
    ]
    what = "beside the published cells"
    return _map(what, sheet, painted, notes, DIFFERENCE, ticks, "run minus published, %")


def _map(
    what: str,
    sheet: Sheet,
    painted: Sequence[Sequence[Painted]],
    notes: Sequence[str],
    scale: Scale,
    ticks: Sequence[Tick],
    title: str,
    bars: Callable[[Sequence[Painted]], Sequence[alt.Chart]] = lambda _: (),
) -> alt.VConcatChart:
    panels = [
        panel_of(panel, sheet, cells, bars(cells), number % columns(sheet) == 0)
        for number, (panel, cells) in enumerate(zip(sheet.grid.panels, painted, strict=True))
    ]
    bar = colour_bar(scale, ticks, bar_height(sheet), title=title)
    return figure(what, [note for note in notes if note], panels, bar, sheet)


def _flows(count: int) -> str:
    return "flow" if count == 1 else f"{count} flows together"


def _trials(cells: Sequence[Painted]) -> str:
    counts = sorted({cell.cell.result.valid for cell in cells if cell.cell.result.valid})
    if not counts:
        return ""
    return f" (n = {counts[0]})" if len(counts) == 1 else f" (n = {counts[0]} to {counts[-1]})"
