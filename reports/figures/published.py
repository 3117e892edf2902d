# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Heat maps as the PAM 2025 and ANRW 2024 coexistence studies print them, to stand beside them in a paper.

Drawn after the figures in <https://github.com/fatihsarpkaya/L4S-PAM2025> (folder `Plots`, at 60114fc) and
<https://github.com/fatihsarpkaya/L4S> (folder `results`, at 66e3977): panels, order and names of the rows,
what is printed in a cell, colour maps and their ends. It keeps their weaknesses: no intervals, no trials,
and a delay of 130 ms looks like one of 15. `heatmaps` has what we would print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import altair as alt

from reports.colours import BLACK, COOLWARM, PLASMA, RDBU, WHITE, Scale, ink
from reports.figures.ground import Ground, Tick, colour_bar, configured, layered, table
from reports.figures.style import PUBLISHED_FONT, config
from reports.published.look import MULTI_QUEUE, ROWS

if TYPE_CHECKING:
    from reports.figures.sheets import Entry, Panel, Sheet

Value: TypeAlias = Literal["goodput", "delay"]
Style: TypeAlias = Literal["pam25", "anrw24"]

GOODPUT: Final = Scale(COOLWARM, (0, 100), (0, 1))
GOODPUT_ANRW24: Final = Scale(RDBU.reversed(), (0, 100), (0, 1))
DELAY: Final = Scale(PLASMA.reversed(), (0, 15), (0.25, 1))
"""0 to 15 ms around a centre of 5: a value v has the colour at (v + 5) / 20."""

_PANEL_HEIGHT: Final = 165


@dataclass(frozen=True)
class _Look:
    scale: Scale
    ticks: tuple[float, ...]
    ink: Callable[[str], str]
    first: Callable[[Entry], float | None]
    second: Callable[[Entry], float | None]
    bracket: bool


def _goodput(entry: Entry) -> float | None:
    return entry.l4s_mbps


def _classic_goodput(entry: Entry) -> float | None:
    return entry.classic_mbps


def _delay(entry: Entry) -> float | None:
    return entry.delay_ms


def _classic_delay(entry: Entry) -> float | None:
    return entry.classic_delay_ms


_LOOKS: Final[dict[tuple[Style, Value], _Look]] = {
    ("pam25", "goodput"): _Look(
        GOODPUT, (0, 20, 40, 60, 80, 100), lambda _: BLACK, _goodput, _classic_goodput, bracket=True
    ),
    ("pam25", "delay"): _Look(
        DELAY, (0, 2, 4, 6, 8, 10, 12, 14), lambda _: WHITE, _delay, _classic_delay, bracket=True
    ),
    ("anrw24", "goodput"): _Look(
        GOODPUT_ANRW24, (0, 20, 40, 60, 80, 100), ink, _goodput, _classic_goodput, bracket=False
    ),
    ("anrw24", "delay"): _Look(
        DELAY, (0, 2, 4, 6, 8, 10, 12, 14), ink, _delay, _classic_delay, bracket=False
    ),
}


def split(sheet: Sheet) -> tuple[Sheet, ...]:
    """The single-queue and the multi-queue part, as they are published apart; only those that have rows."""
    single = [row for row, queue in enumerate(sheet.queues) if queue not in MULTI_QUEUE]
    multi = [row for row, queue in enumerate(sheet.queues) if queue in MULTI_QUEUE]
    return tuple(
        sheet.only(rows, name) for name, rows in (("singlequeue", single), ("multiqueue", multi)) if rows
    )


def published_map(sheet: Sheet, value: Value = "goodput", style: Style = "pam25") -> alt.HConcatChart:
    """One sheet in the published look.

    Args:
        sheet: What to show; `split` makes the two parts that the PAM study prints.
        value: `goodput`: colour and first number are the L4S group's goodput in Mbit/s (the published links
            had 100), the classic group's in brackets. `delay`: likewise smoothed RTT minus base RTT, ms.
        style: `pam25`: two numbers per cell. `anrw24`: the L4S group's alone, on `RdBu_r`.
    """
    look = _LOOKS[style, value]
    ground = _ground(sheet)
    panels: list[alt.LayerChart] = [
        _panel(panel, ground, look, first=index == 0) for index, panel in enumerate(sheet.panels)
    ]
    ticks = [Tick(tick, f"{tick:g}") for tick in look.ticks]
    bar = colour_bar(look.scale, ticks, ground.height, size=10)
    chart = alt.hconcat(*panels, bar, spacing=16)
    return configured(chart, config(font=PUBLISHED_FONT) | {"view": {"stroke": None}})


def _ground(sheet: Sheet) -> Ground:
    labels = tuple(ROWS.get(queue, (label,)) for queue, label in zip(sheet.queues, sheet.rows, strict=True))
    xs = tuple(f"{float(x):.1f}" for x in sheet.xs)
    across = "Buffer Size (BDP)" if sheet.across.startswith("Buffer") else sheet.across
    # the published panels are equally high, however many rows they have
    height = min(max(round(_PANEL_HEIGHT / len(labels)), 33), 55)
    return Ground(labels, xs, across, 45, height, label_size=10.5, tick_size=10, title_size=10)


def _panel(panel: Panel, ground: Ground, look: _Look, *, first: bool) -> alt.LayerChart:
    rows = [_row(entry, look) for entry in panel.entries if look.first(entry) is not None]
    base = alt.Chart(table(rows))
    cells = base.mark_rect(strokeWidth=0.4).encode(
        x=ground.x("left"),
        x2="right:Q",
        y=ground.y("top", labelled=first),
        y2="bottom:Q",
        color=alt.Color("colour:N", scale=None),
        stroke=alt.Stroke("colour:N", scale=None),
        tooltip=[alt.Tooltip("cell:N"), alt.Tooltip("first:Q"), alt.Tooltip("second:Q")],
    )
    inks = alt.Color("ink:N", scale=None)
    layers: list[alt.Chart] = [cells]
    if look.bracket:
        layers.append(_text(base, "text:N", 11, -5).encode(color=inks))
        layers.append(_text(base, "bracket:N", 8, 8).encode(color=inks))
    else:
        layers.append(_text(base, "text:N", 11, 0).encode(color=inks))
    if first:
        layers.append(ground.ticks(BLACK))
    title = alt.TitleParams(
        panel.published_title, fontSize=12, fontWeight="normal", anchor="middle", color=BLACK, offset=6
    )
    return layered(layers, ground.width, ground.height, title=title)


def _text(base: alt.Chart, field: str, size: float, dy: float) -> alt.Chart:
    marks: alt.Chart = base.mark_text(fontSize=size, dy=dy, baseline="middle", align="center")
    return marks.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), text=field)


def _row(entry: Entry, look: _Look) -> dict[str, object]:
    value, other = look.first(entry), look.second(entry)
    if value is None:
        raise ValueError(f"{entry.cell} has no value")
    colour = look.scale.colour(value)
    return {
        "cell": entry.cell,
        "x": entry.x + 0.5,
        "y": entry.row + 0.5,
        "left": entry.x,
        "right": entry.x + 1,
        "top": entry.row,
        "bottom": entry.row + 1,
        "first": value,
        "second": other,
        "text": f"{value:.1f}",
        "bracket": "" if other is None else f"({other:.1f})",
        "colour": colour,
        "ink": look.ink(colour),
    }


def published_maps(
    sheets: Sequence[Sheet], value: Value = "goodput", style: Style = "pam25"
) -> tuple[tuple[Sheet, alt.HConcatChart], ...]:
    """All figures of sheets in the published look, each with the part of a sheet it shows."""
    parts = [part for sheet in sheets for part in (split(sheet) if style == "pam25" else (sheet,))]
    return tuple((part, published_map(part, value, style)) for part in parts)
