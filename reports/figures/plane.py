# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A map of rate and RTT: at which points it is okay to switch, one panel per family of queues and competitor.

A tile is all cells of its point that have been measured, such as those of other buffers. Its numbers are
those of the cells that are ok and of those with a verdict, its colour is their ratio; a mark shows who is
starved.
Points without a cell are empty, so the map of a run that goes on shows what is known so far.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from l4sbench.errors import InputError
from reports.colours import FAIR, Scale, ink
from reports.figures.ground import configured, table
from reports.figures.style import config
from reports.render.words import GLYPHS
from reports.result.judging import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME: Final = "map_rate-rtt"
TILE_WIDTH: Final = 44
TILE_HEIGHT: Final = 30
_SCALE: Final = Scale(FAIR, (0.0, 1.0), (1.0, 0.0))
_EMPTY: Final = "#e8e8e8"
_STARVED: Final = (Word.L4S_STARVED, Word.CLASSIC_STARVED, Word.BOTH)


@dataclass(frozen=True)
class Tile:
    """The cells of one point: how many are ok, have a verdict, and exist; and who is starved, if anybody."""

    ok: int
    decided: int
    cells: int
    mark: str

    @property
    def text(self) -> str:
        """Text on the tile."""
        return f"{self.mark}{self.ok}/{self.decided}" if self.decided else "?"

    @property
    def ground(self) -> str:
        """Colour of the tile."""
        return _SCALE.colour(self.ok / self.decided) if self.decided else _EMPTY


@dataclass(frozen=True)
class PlaneCell:
    """A verdict at a point of the plane, and its panel: a row of queues against a column of competitors."""

    row: str
    column: str
    rate_mbps: float
    rtt_ms: float
    word: Word


def tile_of(words: Iterable[Word]) -> Tile:
    """Return the tile of the cells of a point with these verdicts."""
    number = Counter(words)
    starved = {word: number[word] for word in _STARVED if number[word]}
    if {Word.L4S_STARVED, Word.CLASSIC_STARVED} <= starved.keys():
        mark = GLYPHS[Word.BOTH]
    else:
        mark = GLYPHS[max(starved, key=lambda word: starved[word])] if starved else ""
    return Tile(number[Word.OK], number[Word.OK] + sum(starved.values()), number.total(), mark)


def plane_map(cells: Sequence[PlaneCell], trials: int, rule: str) -> alt.VConcatChart:
    """Draw the map of cells with so many trials, whose verdicts are by a rule of this name.

    Raises:
        InputError: the cells have fewer than two rates or round-trip times.
    """
    rates, rtts = sorted({cell.rate_mbps for cell in cells}), sorted({cell.rtt_ms for cell in cells})
    if len(rates) < 2 or len(rtts) < 2:
        raise InputError("a map of rate and RTT needs at least two of both", "put them on axes of the matrix")
    columns = dict.fromkeys(cell.column for cell in cells)
    by_place: dict[tuple[str, str], list[PlaneCell]] = {}
    for cell in cells:
        by_place.setdefault((cell.row, cell.column), []).append(cell)
    lines = []
    for row in dict.fromkeys(cell.row for cell in cells):
        panels = [
            _panel(by_place.get((row, column), []), f"{row} against {column}", rates, rtts, first=number == 0)
            for number, column in enumerate(columns)
        ]
        lines.append(alt.hconcat(*panels, spacing=18))
    words = Counter(cell.word for cell in cells)
    counted = ", ".join(f"{words[word]} {word}" for word in Word if words[word])
    title = alt.TitleParams(
        "Where is it okay to switch?",
        subtitle=[
            f"{len(cells)} cells, {trials} trials, rule {rule}: {counted}",
            _LEGEND,
            "\u25bc the L4S flow is starved, \u25b2 the classic flow is starved, \u25c6 either",
        ],
        anchor="start",
    )
    return configured(alt.vconcat(*lines, spacing=16, title=title), config())


def _panel(
    cells: Sequence[PlaneCell], title: str, rates: Sequence[float], rtts: Sequence[float], *, first: bool
) -> alt.LayerChart | alt.FacetChart:
    points: dict[tuple[float, float], list[Word]] = {}
    for cell in cells:
        points.setdefault((cell.rate_mbps, cell.rtt_ms), []).append(cell.word)
    rows: list[dict[str, Any]] = [
        {
            "rate": f"{rate:g}",
            "rtt": f"{rtt:g}",
            "text": tile.text,
            "ground": tile.ground,
            "ink": ink(tile.ground),
            "cells": tile.cells,
        }
        for (rate, rtt), words in sorted(points.items())
        for tile in [tile_of(words)]
    ]
    shown = [f"{rate:g}" for rate in sorted(rates, reverse=True)]
    across = [f"{rtt:g}" for rtt in rtts]
    x = alt.X(
        "rtt:N", sort=across, scale=alt.Scale(domain=across), axis=alt.Axis(title="RTT, ms", labelAngle=0)
    )
    y = alt.Y(
        "rate:N",
        sort=shown,
        scale=alt.Scale(domain=shown),
        axis=alt.Axis(title="rate, Mbit/s" if first else None, labels=first, ticks=first),
    )
    base = alt.Chart(table(rows or [_NOTHING])).encode(x=x, y=y)
    tiles = base.mark_rect(stroke="#ffffff", strokeWidth=1).encode(color=alt.Color("ground:N", scale=None))
    texts = base.mark_text(fontSize=10).encode(text="text:N", color=alt.Color("ink:N", scale=None))
    return alt.layer(tiles, texts, title=title).properties(
        width=TILE_WIDTH * len(across), height=TILE_HEIGHT * len(shown)
    )


_LEGEND: Final = (
    "on a tile: cells that are ok / cells with a verdict, over buffers and queues of the family; "
    "blue: all are ok, orange: none; ?: undecided, blank: not measured"
)
_NOTHING: Final = {"rate": None, "rtt": None, "text": "", "ground": _EMPTY, "ink": "#000000", "cells": 0}
