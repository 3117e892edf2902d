# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Distributions of delay: how much of the time it stayed below (CDF) or was above (CCDF) a value.

What is shown is the sender's smoothed RTT minus the nominal base RTT, sampled at even distances: an average
over a few round trips that hides what single packets met. It is no packet's delay in the queue, and is not
called so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import altair as alt
import polars as pl

from l4sbench.errors import InputError
from reports.figures.colours import OKABE_ITO
from reports.figures.grid import configured, layered, table
from reports.figures.sheets import at_words
from reports.figures.style import DASHES, config, looks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.figures.sheets import Panel, Sheet
    from reports.load import RunTables
    from reports.rules import Rule

Kind: TypeAlias = Literal["cdf", "ccdf"]
Group: TypeAlias = Literal["l4s", "classic"]

LEAST_MS: Final = 0.1
BEHIND: Final = 10
"""A point needs so many samples beyond it: the quantile q is drawn with 10/(1-q) samples or more."""

_WHOLE: Final = 10_000
_SHARES: Final = (*range(0, _WHOLE, 100), 9950, 9980, 9990, 9995, 9998, 9999)
"""Quantiles that lines go through, in parts of `_WHOLE`."""

WIDTH: Final = 250
HEIGHT: Final = 150


def delay_samples(tables: RunTables, cells: Sequence[str], group: str) -> pl.DataFrame:
    """`cell`, `delay_ms`: samples of all valid trials after the warm-up, in the measured time.

    The delay is the sender's smoothed RTT minus the cell's base RTT. Samples of all flows of the group count.
    """
    trials = tables.trials.filter((pl.col("status") == "ok") & pl.col("cell").is_in(cells))
    warmup = pl.col("warmup_s") if "warmup_s" in trials.columns else pl.lit(0.0)
    about = trials.select("cell", "trial", "rtt_ms", warmup.fill_null(0.0).alias("from_s"), "duration_s")
    sockets = tables.scan("sockets").filter((pl.col("group") == group) & (pl.col("side") == "sender"))
    rows = (
        sockets.select("cell", "trial", "t_ms", "srtt_ms").join(about.lazy(), on=["cell", "trial"]).collect()
    )
    since = pl.col("t_ms") / 1000 - pl.col("from_s")
    return rows.filter(
        (since >= 0) & (since <= pl.col("duration_s")) & pl.col("srtt_ms").is_not_null()
    ).select("cell", (pl.col("srtt_ms") - pl.col("rtt_ms")).alias("delay_ms"))


def quantiles(samples: pl.Series) -> list[tuple[float, float]]:
    """(share, value) along a distribution, as far as the number of samples carries it.

    The quantile of share q is the least sample that at least q of all samples do not exceed.
    """
    ordered = samples.drop_nulls().sort()
    count = ordered.len()
    # whole numbers: 0.56 * 50 is more than 28 to a computer
    return [
        (share / _WHOLE, float(ordered[max(0, -(-share * count // _WHOLE) - 1)]))
        for share in _SHARES
        if count * (_WHOLE - share) >= BEHIND * _WHOLE
    ]


def delay_distribution(
    tables: RunTables, sheet: Sheet, rule: Rule, group: Group = "l4s", kind: Kind = "cdf"
) -> alt.VConcatChart:
    """Delays of one flow group in one sheet: a line per queue, a panel per competitor and buffer.

    Raises:
        InputError: no cell has enough samples.
    """
    cells = [entry.cell for panel in sheet.panels for entry in panel.entries]
    samples = delay_samples(tables, cells, rule.l4s if group == "l4s" else rule.classic)
    by_cell = {
        str(key[0]): own["delay_ms"]
        for key, own in samples.partition_by("cell", as_dict=True).items()
        if own.height > BEHIND
    }
    if not by_cell:
        raise InputError(
            f"no cell has more than {BEHIND} samples of the {group} flows' RTT, so there is no distribution",
            "run for longer, or with a shorter sample.interval",
        )
    lines = [
        alt.hconcat(
            *(
                _panel(panel, x, by_cell, sheet, kind, first=x == 0, last=number == len(sheet.panels) - 1)
                for x in range(len(sheet.xs))
            ),
            spacing=14,
        )
        for number, panel in enumerate(sheet.panels)
    ]
    whose = "L4S" if group == "l4s" else "classic"
    what = "share of samples at or below" if kind == "cdf" else "share of samples above"
    counts = sorted(series.len() for series in by_cell.values())
    title = alt.TitleParams(
        f"Delay of the {whose} flows, {sheet.title}",
        subtitle=[
            f"{what}; samples of the sender's smoothed RTT minus base RTT, all trials of a cell",
            f"{_between(counts)} samples per line; dotted: 1 and 5 ms",
        ],
    )
    return configured(alt.vconcat(*lines, spacing=14, title=title), config())


def _panel(
    panel: Panel, x: int, by_cell: dict[str, pl.Series], sheet: Sheet, kind: Kind, *, first: bool, last: bool
) -> alt.LayerChart:
    rows: list[dict[str, Any]] = []
    for entry in panel.entries:
        if entry.x == x and entry.cell in by_cell:
            rows += [
                {
                    "queue": entry.queue,
                    "delay_ms": max(value, LEAST_MS),
                    "share": share if kind == "cdf" else 1 - share,
                }
                for share, value in quantiles(by_cell[entry.cell])
            ]
    most = max(series.len() for series in by_cell.values())
    places = looks(sheet.queues)
    legend = alt.Legend(title=None, orient="right", symbolSize=500) if first else None
    colour = alt.Scale(domain=list(sheet.rows), range=[OKABE_ITO[place] for place in places])
    dash = alt.Scale(domain=list(sheet.rows), range=[DASHES[place] for place in places])
    across = alt.Axis(
        title="smoothed RTT minus base RTT, ms" if last else None,
        values=[0.1, 0.3, 1, 3, 10, 30, 100, 300],
        labelExpr="format(datum.value, '~g')",
    )
    base: alt.Chart = alt.Chart(table(rows)).mark_line(clip=True, interpolate="linear")
    drawn: alt.Chart = base.encode(
        x=alt.X("delay_ms:Q", scale=alt.Scale(type="log", domain=[LEAST_MS, 300], nice=False), axis=across),
        y=alt.Y("share:Q", scale=_share_scale(kind, most), axis=_share_axis(kind, first=first)),
        color=alt.Color("queue:N", scale=colour, legend=legend, sort=list(sheet.rows)),
        strokeDash=alt.StrokeDash("queue:N", scale=dash, legend=legend, sort=list(sheet.rows)),
        order=alt.Order("share:Q"),
        tooltip=["queue:N", alt.Tooltip("delay_ms:Q", format=".2f"), alt.Tooltip("share:Q", format=".4f")],
    )
    limits: alt.Chart = alt.Chart(table([{"at": 1.0}, {"at": 5.0}])).mark_rule(
        strokeDash=[2, 2], strokeWidth=0.8
    )
    limits = limits.encode(x=alt.X("at:Q"))
    words = f"{panel.question} against {panel.column}, {at_words(sheet, x)}"
    title = alt.TitleParams(words, fontSize=11, fontWeight="normal", offset=4, limit=WIDTH + 40)
    return layered([limits, drawn], WIDTH, HEIGHT, title=title)


def _between(counts: Sequence[int]) -> str:
    return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"


def _share_scale(kind: Kind, most: int) -> alt.Scale:
    if kind == "cdf":
        return alt.Scale(domain=[0, 1], nice=False)
    # as deep as the samples carry: the power of ten below the last point
    least = 10.0 ** math.floor(math.log10(BEHIND / max(most, BEHIND + 1)))
    return alt.Scale(type="log", domain=[least, 1], nice=False)


def _share_axis(kind: Kind, *, first: bool) -> alt.Axis:
    if kind == "cdf":
        return alt.Axis(
            title="CDF" if first else None, values=[0, 0.25, 0.5, 0.75, 0.95], labels=first, format=".2~f"
        )
    values = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0001]
    label = "format(datum.value, '~g')"
    return alt.Axis(title="CCDF" if first else None, values=values, labels=first, labelExpr=label)
