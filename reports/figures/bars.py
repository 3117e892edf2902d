# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Many flows against many: goodput per flow and the fair share, one panel per pair of flow counts.

The published bars (PAM 2025, multiple flows) show the L4S flows alone and no spread; these show the classic
flows beside them, with the confidence intervals of the means.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import altair as alt

from l4sbench.errors import InputError
from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.sheets import ends
from reports.figures.style import config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.figures.sheets import Pairing, Sheet, SheetPanel
    from reports.result.labels import Setting
    from reports.result.verdicts import JudgedCell

HEIGHT: Final = 120
STEP: Final = 30
"""Width of a queue's pair of bars, pixels."""

_NAMES: Final = ("L4S, per flow", "classic, per flow")
_WIDTH: Final = 860


def flow_bars(sheets: Sequence[Sheet], panel: int = 0, x: int = 0) -> alt.VConcatChart:
    """Draw the goodput per flow of one competitor at one buffer.

    Args:
        sheets: Sheets of one family: alike but for the numbers of flows.
        panel: Index among `pairings`: the question and the competitor's ECN.
        x: Index among `columns`: the buffer.

    Raises:
        InputError: the sheets are of several families, or none has a cell in such a panel and column, or no
            cell a valid trial.
    """
    if len({sheet.family for sheet in sheets}) != 1:
        raise InputError("bars need sheets that differ in nothing but the numbers of flows")
    abouts, settings = pairings(sheets), columns(sheets)
    if panel >= len(abouts) or x >= len(settings):
        raise InputError(f"these sheets have no panel {panel} with a column {x}")
    parts = list(_parts(sheets, abouts[panel], settings[x]))
    if not parts:
        raise InputError("these sheets have no cell there")
    tops = [row["high"] or row["mbps"] for part in parts for row in _rows(part)]
    if not tops:
        raise InputError("these cells have no valid trial, so there are no bars")
    most = max([*tops, *(fair for part in parts for fair in _fairs(part))])
    side_by_side = max(1, _WIDTH // (STEP * len(parts[0].sheet.rows) + 60))
    lines: list[alt.HConcatChart] = []
    for _, same in groupby(parts, key=lambda part: _order(part.sheet)[0]):
        charts = [_bars(part, most, first=part is parts[0]) for part in same]
        lines += [
            alt.hconcat(*charts[at : at + side_by_side], spacing=14)
            for at in range(0, len(charts), side_by_side)
        ]
    words = f"{abouts[panel]}, {settings[x].text}"
    title = alt.TitleParams(
        f"Goodput per flow: {words}",
        subtitle=f"means over trials (n = {_trials(parts)}) with 95 % intervals; "
        "dashed: fair share, the link's rate over all flows",
    )
    return configured(alt.vconcat(*lines, spacing=16, title=title), config())


def pairings(sheets: Sequence[Sheet]) -> tuple[Pairing, ...]:
    """Return the questions and competitors of all panels of these sheets; not every sheet has each."""
    ordered = sorted(sheets, key=_order)
    return tuple(dict.fromkeys(panel.about for sheet in ordered for panel in sheet.grid.panels))


def columns(sheets: Sequence[Sheet]) -> tuple[Setting, ...]:
    """Return what goes across in any of these sheets; not every sheet has each."""
    found = dict.fromkeys(column for sheet in sheets for column in sheet.grid.columns)
    return tuple(sorted(found, key=lambda column: column.amount))


class _Part(NamedTuple):
    """A panel of a sheet at one of its columns."""

    sheet: Sheet
    panel: SheetPanel
    x: int

    @property
    def cells(self) -> list[tuple[str, JudgedCell]]:
        """The cells there, with the labels of their rows."""
        return list(self.sheet.column(self.panel, self.x))


def _parts(sheets: Sequence[Sheet], about: Pairing, column: Setting) -> Iterator[_Part]:
    """Yield the parts of sheets that have this panel and column, wherever each has it."""
    for sheet in sorted(sheets, key=_order):
        for panel in sheet.grid.panels:
            if panel.about == about and column in sheet.grid.columns:
                part = _Part(sheet, panel, sheet.grid.columns.index(column))
                if part.cells:
                    yield part


def _order(sheet: Sheet) -> tuple[int, int, int]:
    """Order one against N, N against one, N against N, and the rest, as the published figure does."""
    l4s, classic = sheet.flows
    kind = 0 if l4s == 1 else 1 if classic == 1 else 2 if l4s == classic else 3
    return (kind, l4s, classic)


def _trials(parts: Sequence[_Part]) -> str:
    counts = sorted({cell.result.valid for part in parts for _, cell in part.cells})
    return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"


def _rows(part: _Part) -> Iterator[dict[str, Any]]:
    for queue, cell in part.cells:
        for name, group in zip(_NAMES, (cell.result.l4s, cell.result.classic), strict=True):
            if group.goodput is not None:
                low, high = ends(group.goodput)
                yield {
                    "cell": cell.id,
                    "queue": queue,
                    "whose": name,
                    "mbps": group.goodput.value / group.flows,
                    "low": None if low is None else low / group.flows,
                    "high": None if high is None else high / group.flows,
                }


def _fairs(part: _Part) -> list[float]:
    return sorted({cell.result.rate_mbps / sum(part.sheet.flows) for _, cell in part.cells})


def _bars(part: _Part, most: float, *, first: bool) -> alt.LayerChart:
    sheet, rows = part.sheet, list(_rows(part))
    colours = alt.Scale(domain=list(_NAMES), range=[OKABE_ITO[0], "#f2b48a"])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", columns=0, symbolStrokeWidth=0.6)
    place = alt.X(
        "queue:N",
        sort=list(sheet.rows),
        axis=alt.Axis(title=None, labelAngle=-45, labelLimit=200, ticks=False),
        scale=alt.Scale(domain=list(sheet.rows), paddingInner=0.25),
    )
    beside = alt.XOffset("whose:N", sort=list(_NAMES), scale=alt.Scale(domain=list(_NAMES)))
    up = alt.Scale(domain=[0, most * 1.05], nice=False)
    base = alt.Chart(table(rows))
    bars: alt.Chart = base.mark_bar(stroke="#111111", strokeWidth=0.6).encode(
        x=place,
        xOffset=beside,
        y=alt.Y("mbps:Q", title="goodput per flow, Mbit/s", scale=up),
        color=alt.Color("whose:N", scale=colours, legend=legend if first else None, sort=list(_NAMES)),
        tooltip=["queue:N", "whose:N", alt.Tooltip("mbps:Q", format=".2f"), "cell:N"],
    )
    whiskers: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.4)
    whiskers = whiskers.encode(x=place, xOffset=beside, y=alt.Y("low:Q"), y2="high:Q")
    fair: alt.Chart = alt.Chart(table([{"fair_mbps": fair} for fair in _fairs(part)])).mark_rule(
        strokeDash=[5, 3], strokeWidth=1.2
    )
    fair = fair.encode(y=alt.Y("fair_mbps:Q"))
    title = alt.TitleParams(
        f"{sheet.flows[0]} against {sheet.flows[1]}", fontSize=11.5, fontWeight="normal", anchor="middle"
    )
    return layered([bars, whiskers, fair], STEP * len(sheet.rows), HEIGHT, title=title)
