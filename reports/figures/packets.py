# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packets of a trial one by one: their sojourn in the bottleneck's queue, and their sequence numbers.

Of many packets some are drawn, always the same ones: each block of consecutive packets of a kind has one, at
a place in the block that changes from block to block, as a fixed one would show a regular pattern wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import altair as alt
import polars as pl

from l4sbench.errors import InputError
from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.panels import WIDTH
from reports.figures.style import config

if TYPE_CHECKING:
    from reports.figures.series import TrialSeries
    from reports.result.load import RunTables

MOST: Final = 2000
"""Packets of a kind that a panel shows, at most."""

HEIGHT: Final = 150

_CROSS: Final = "M-1,-1L1,1M-1,1L1,-1"
_PASSED, _SENT, _MARKED, _AGAIN, _DROPPED = "passed", "sent", "CE-marked", "sent again", "dropped"
_GOLDEN: Final = 0.6180339887498949
_LETTERS: Final = 110
_ROOM: Final = 0.12
"""Room above and below sequence numbers, and above sojourns, in units of their range."""
_AT_TOP: Final = 0.95
"""Height of dropped packets, which have no sojourn, in units of the axis."""


class Captures(Protocol):
    """The captures of a run's trials; methods raise InputError for those that cannot be read."""

    @property
    def folder(self) -> Path:
        """The run directory, which all files are in."""

    def files(self, cell: str, trial: int) -> tuple[Path, ...]:
        """Return the captures of a trial; empty where it has none."""

    def sequences(self, cell: str, trial: int) -> pl.DataFrame:
        """Return the TCP packets of a trial, by arrival.

        Columns are `flow`, `group`, `t_ms`, `begin_bytes`, `retransmit`, `lost`, `marked`.
        """


@dataclass(frozen=True)
class PacketView:
    """A trial whose packets are drawn.

    Attributes:
        series: The trial over time, which names it and its flow groups.
        files: Its captures, which the title names.
        folder: The run directory, which they are in.
        span_s: Begin and end of what is drawn, since the trial's start; None for all of it.
    """

    series: TrialSeries
    files: tuple[Path, ...]
    folder: Path
    span_s: tuple[float, float] | None = None

    @property
    def shown_s(self) -> tuple[float, float]:
        """Begin and end of what is drawn."""
        return self.span_s or (0.0, self.series.end_s)

    def heading(self, what: str, note: str) -> alt.TitleParams:
        """Return the title of a figure; below it the captures, in lines that end where folders do."""
        lines = [note]
        if self.files:
            place = self.files[0].parent.relative_to(self.folder).as_posix()
            names = ", ".join(path.name for path in self.files)
            lines += [f"captures before and behind the queue: {names} in the run's", *_broken(f"{place}/")]
        return alt.TitleParams(f"{what}: {self.series.title}", subtitle=lines)


def _broken(path: str) -> list[str]:
    lines = [""]
    for part in re.findall("[^/]*/", path):
        if lines[-1] and len(lines[-1]) + len(part) > _LETTERS:
            lines.append("")
        lines[-1] += part
    return lines


def sojourns(tables: RunTables, view: PacketView) -> alt.VConcatChart:
    """Draw the sojourn of the packets of a trial over their arrival, a panel per flow group.

    Args:
        tables: The run, with the packets in table `packets`.
        view: The trial.

    Raises:
        InputError: the table has no packets of the trial.
    """
    of_trial = (pl.col("cell") == view.series.cell) & (pl.col("trial") == view.series.trial)
    wanted = ("flow", "group", "t_ms", "sojourn_ms", "lost", "marked")
    packets = tables.scan("packets").filter(of_trial).select(wanted).collect()
    known = packets.filter(pl.col("sojourn_ms").is_finite() | pl.col("lost"))  # others stayed to the end
    lost, marked = pl.col("lost"), pl.col("marked")
    kinds = {_PASSED: ~lost & ~marked, _MARKED: marked, _DROPPED: lost}
    panels = _panels(known.rename({"sojourn_ms": "value"}), kinds, view)
    ranges = [(0.0, panel.most * (1 + _ROOM) or 1.0) for panel in panels]
    note = "time in the queue and in the shaper above it; dropped packets are at the top; axes may differ"
    chart = alt.vconcat(*_charts("sojourn, ms", panels, ranges, dict.fromkeys(_LOOKS, 0), view), spacing=10)
    return configured(chart.properties(title=view.heading("Sojourn", note)), config())


def sequence_numbers(sequences: pl.DataFrame, view: PacketView) -> alt.VConcatChart:
    """Draw sequence numbers of TCP packets over their arrival at the queue, a panel per flow group.

    Args:
        sequences: The packets, as `Captures.sequences` returns them.
        view: The trial.

    Raises:
        InputError: there is no TCP packet.
    """
    kinds = {
        _SENT: ~pl.col("retransmit"),
        _MARKED: pl.col("marked"),
        _AGAIN: pl.col("retransmit"),
        _DROPPED: pl.col("lost"),
    }
    panels = _panels(sequences.with_columns(value=pl.col("begin_bytes") / 1e6), kinds, view)
    # one scale for whole trials, whose slopes compare; in a part of one, flows may be far apart
    most = max(panel.most for panel in panels)
    ends = [(panel.least, panel.most) if view.span_s else (0.0, most) for panel in panels]
    ranges = [(low - _ROOM * (high - low or 1.0), high + _ROOM * (high - low or 1.0)) for low, high in ends]
    note = "first byte since the connection's first"
    beside = dict.fromkeys(_LOOKS, 0)
    if not view.span_s:  # all would be on one line
        note += "; marks are above their packet, the others below"
        beside |= {_MARKED: -7, _AGAIN: 7, _DROPPED: 14}
    chart = alt.vconcat(*_charts("sequence number, MB", panels, ranges, beside, view), spacing=10)
    return configured(chart.properties(title=view.heading("Sequence", note)), config())


@dataclass(frozen=True)
class _Panel:
    """The packets of a flow group that are drawn.

    Attributes:
        about: The group, and how many packets of each kind it has, in words.
        rows: `t_s`, `flow`, and `value`, by kind.
        least: The least value of all its packets.
        most: The largest.
    """

    about: str
    rows: Mapping[str, pl.DataFrame]
    least: float
    most: float


def _panels(packets: pl.DataFrame, kinds: Mapping[str, pl.Expr], view: PacketView) -> list[_Panel]:
    """Choose the packets of each flow group that are drawn; a packet may be of several kinds."""
    series = view.series
    # flows whose sockets nobody sampled have no name there
    names = series.flows.select("flow", pl.col("group").alias("name")).unique()
    named = packets.join(names, on="flow", how="left", maintain_order="left").with_columns(
        pl.coalesce("name", "group").alias("name"), (pl.col("t_ms") / 1000).alias("t_s")
    )
    named = named.filter(pl.col("t_s").is_between(*view.shown_s))
    found = []
    for group in dict.fromkeys([*series.groups, *named["name"].unique().sort()]):
        own = named.filter(pl.col("name") == group)
        words, rows = [], {}
        for kind, which in kinds.items():
            of_kind = own.filter(which)
            if of_kind.height:
                shown, step = thinned(of_kind)
                rows[kind] = shown.select("t_s", "flow", "value")
                words.append(f"{of_kind.height} {kind}" + (f" (1 in {step} drawn)" if step > 1 else ""))
        if rows:
            values = own["value"].drop_nulls().to_list() or [0.0]
            found.append(_Panel(f"{group}: {', '.join(words)}", rows, min(values), max(values)))
    if not found:
        when = "" if view.span_s is None else "in {:g} to {:g} s of ".format(*view.span_s)
        raise InputError(
            f"no such packets were captured {when or 'in '}trial {series.trial} of {series.cell}"
        )
    return found


def thinned(packets: pl.DataFrame, most: int = MOST) -> tuple[pl.DataFrame, int]:
    """Return at most so many of the packets, always the same ones, and of how many each is one."""
    step = max(1, -(-packets.height // most))
    place, block = pl.int_range(pl.len()) % step, pl.int_range(pl.len()) // step
    chosen = ((block * _GOLDEN % 1) * step).floor().cast(pl.Int64)
    # the last block may be too short for its place
    return packets.filter((place == chosen) & (block < packets.height // step)), step


@dataclass(frozen=True)
class _Look:
    """The look of packets of a kind: outlined, in a colour, a shape and a size."""

    colour: str
    shape: str
    size: int


_LOOKS: Final[Mapping[str, _Look]] = {
    _PASSED: _Look(OKABE_ITO[0], "circle", 3),
    _SENT: _Look(OKABE_ITO[0], "circle", 3),
    _MARKED: _Look(OKABE_ITO[1], "triangle-up", 14),
    _AGAIN: _Look(OKABE_ITO[2], "diamond", 24),
    _DROPPED: _Look(OKABE_ITO[6], _CROSS, 14),
}


def _charts(
    what: str,
    panels: Sequence[_Panel],
    ranges: Sequence[tuple[float, float]],
    beside: Mapping[str, int],
    view: PacketView,
) -> list[alt.LayerChart]:
    """Return a chart per panel; `beside` moves packets of a kind downwards, pixels."""
    kinds = [kind for kind in _LOOKS if any(kind in panel.rows for panel in panels)]
    domain = alt.Scale(domain=kinds, range=[_LOOKS[kind].colour for kind in kinds])
    shapes = alt.Scale(domain=kinds, range=[_LOOKS[kind].shape for kind in kinds])
    found = []
    for panel, (low, high) in zip(panels, ranges, strict=True):
        words = "time since the trial's start, s" if panel is panels[-1] else None
        upright = alt.Axis(tickCount=5, titleX=-38)
        across = alt.Axis(title=words, labels=words is not None, tickCount=10)
        legend = None
        if panel is panels[0]:
            legend = alt.Legend(title=None, orient="top", symbolSize=50, symbolStrokeWidth=1, offset=3)
        layers = []
        for kind, rows in panel.rows.items():
            drawn = rows.select(
                pl.col("t_s").round(5),
                "flow",
                pl.lit(kind).alias("kind"),
                pl.col("value").fill_null(low + _AT_TOP * (high - low)).round(5),
            )
            points: alt.Chart = alt.Chart(table(drawn.to_dicts())).mark_point(
                strokeWidth=0.8, opacity=1, size=_LOOKS[kind].size, yOffset=beside[kind], aria=False
            )
            layers.append(
                points.encode(
                    x=alt.X("t_s:Q", scale=alt.Scale(domain=list(view.shown_s), nice=False), axis=across),
                    y=alt.Y(
                        "value:Q", title=what, scale=alt.Scale(domain=[low, high], nice=False), axis=upright
                    ),
                    color=alt.Color("kind:N", scale=domain, legend=legend),
                    shape=alt.Shape("kind:N", scale=shapes, legend=legend),
                    tooltip=["kind:N", "flow:N", "t_s:Q", "value:Q"],
                )
            )
        title = alt.TitleParams(panel.about, frame="group", fontSize=11.5, fontWeight="normal", offset=4)
        found.append(layered(layers, WIDTH, HEIGHT, title=title))
    return found
