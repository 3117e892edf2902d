# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Distributions of delay: the share of samples at or below (CDF) or above (CCDF) a value.

`srtt`: the sender's smoothed RTT minus the nominal base RTT, sampled at even distances. As an average over a
few round trips it hides the delays of single packets, and is not called a queuing delay. `sojourn`: the time
each packet spent in the bottleneck's queue and shaper, of trials whose packets were captured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import altair as alt
import polars as pl

from l4sbench.errors import InputError
from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.points import lines_of
from reports.figures.style import DASHES, config, heading
from reports.result.load import COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.figures.sheets import Sheet, View
    from reports.result.load import RunTables
    from reports.result.rules import Rule

Kind: TypeAlias = Literal["cdf", "ccdf"]
Group: TypeAlias = Literal["l4s", "classic"]
Source: TypeAlias = Literal["srtt", "sojourn"]

BEHIND: Final = 10
"""A point needs so many samples beyond it: the quantile q is drawn with 10/(1-q) samples or more."""

_WHOLE: Final = 10_000
_SHARES: Final = (*range(0, _WHOLE, 100), 9950, 9980, 9990, 9995, 9998, 9999)
"""Quantiles that lines go through, in parts of `_WHOLE`."""

WIDTH: Final = 250
HEIGHT: Final = 150


@dataclass(frozen=True)
class _Source:
    table: str
    value: str
    axis: str
    words: str
    least_ms: float
    whose: str
    hint: str


_SOURCES: Final[dict[Source, _Source]] = {
    "srtt": _Source(
        table="sockets",
        value="srtt_ms",
        axis="smoothed RTT minus base RTT, ms",
        words="samples of the sender's smoothed RTT minus base RTT",
        least_ms=0.1,
        whose="Delay",
        hint="run for longer, or with a shorter sample.interval",
    ),
    "sojourn": _Source(
        table="packets",
        value="sojourn_ms",
        axis="sojourn in the queue, ms",
        words="packets by their time in the bottleneck's queue",
        least_ms=0.01,
        whose="Sojourn of packets",
        hint="set capture: headers in the matrix to keep the packets of its cells",
    ),
}


def delay_samples(
    tables: RunTables, cells: Sequence[str], group: str, source: Source = "srtt"
) -> pl.DataFrame:
    """Return `cell`, `delay_ms`: samples of all valid trials after the warm-up of each flow, until it ends.

    `srtt`: the senders' smoothed RTT minus the group's base RTT, its own or the cell's, of all flows of the
    group that count. `sojourn`: one row per packet of these that left the queue; none where no packets were
    captured.
    """
    about = _SOURCES[source]
    if not (tables.folder / f"{about.table}.parquet").is_file():
        return pl.DataFrame(schema={"cell": pl.String, "delay_ms": pl.Float64})
    rtts = [name for name in (f"{group}.rtt_ms", "rtt_ms") if name in tables.valid.columns]
    base = pl.coalesce(rtts) if source == "srtt" else pl.lit(0.0)
    known = tables.warmups(base.alias("base_ms")).filter(pl.col("cell").is_in(cells))
    end_ms = (pl.col("start_ms") + pl.col("seconds") * 1000).alias("end_ms")
    flows = tables.flows.filter(COUNTED).select("cell", "trial", "flow", "start_ms", end_ms)
    rows = tables.scan(about.table).filter((pl.col("group") == group) & pl.col(about.value).is_not_null())
    if source == "srtt":
        rows = rows.filter(pl.col("side") == "sender")
    first_ms = pl.col("start_ms") + pl.col("warmup_ms")
    return (
        rows.join(known.lazy(), on=["cell", "trial"], maintain_order="left")
        .join(flows.lazy(), on=["cell", "trial", "flow"], maintain_order="left")
        .filter(pl.col("t_ms").is_between(first_ms, pl.col("end_ms")))
        .select("cell", (pl.col(about.value) - pl.col("base_ms")).alias("delay_ms"))
        .collect()
    )


def captured(tables: RunTables, sheet: Sheet) -> bool:
    """Return True if packets of a sheet's cells were captured."""
    cells = [cell.id for cell in sheet.cells]
    path = tables.folder / "packets.parquet"
    return path.is_file() and bool(
        tables.scan("packets").filter(pl.col("cell").is_in(cells)).head(1).collect().height
    )


def quantiles(samples: pl.Series) -> list[tuple[float, float]]:
    """Return (share, value) along a distribution, as far as there are samples enough.

    The quantile of share q is the least sample that at least q of all samples do not exceed.
    """
    ordered = samples.drop_nulls().sort()
    count = ordered.len()
    # in whole numbers, because 0.56 * 50 is more than 28 in floating point
    return [
        (share / _WHOLE, float(ordered[max(0, -(-share * count // _WHOLE) - 1)]))
        for share in _SHARES
        if count * (_WHOLE - share) >= BEHIND * _WHOLE
    ]


def delay_distribution(
    tables: RunTables,
    sheet: Sheet,
    rule: Rule,
    group: Group = "l4s",
    kind: Kind = "cdf",
    source: Source = "srtt",
) -> alt.VConcatChart:
    """Draw the delays of one flow group in one sheet: a line per name, a panel per view of the sheet.

    Args:
        tables: The run.
        sheet: Its cells.
        rule: Names the flow groups.
        group: Whose delay.
        kind: `cdf`: the share at or below; `ccdf`: the share above, on a logarithmic scale.
        source: `srtt` or `sojourn`, see above.

    Raises:
        InputError: no cell has enough samples.
    """
    about = _SOURCES[source]
    samples = delay_samples(
        tables, [cell.id for cell in sheet.cells], rule.l4s if group == "l4s" else rule.classic, source
    )
    by_cell = {
        str(key[0]): own["delay_ms"]
        for key, own in samples.partition_by("cell", as_dict=True).items()
        if own.height > BEHIND
    }
    if not by_cell:
        raise InputError(
            f"no cell has more than {BEHIND} {about.words}, so there is no distribution of {group} flows",
            about.hint,
        )
    views = list(sheet.views())
    lines = [
        alt.hconcat(
            *(
                _panel((view, sheet), by_cell, kind, about, first=at == 0, last=own is views[-1])
                for at, view in enumerate(line)
            ),
            spacing=14,
        )
        for own in views
        for line in lines_of(own, sheet)
    ]
    whose = "L4S" if group == "l4s" else "classic"
    what = "share at or below" if kind == "cdf" else "share above"
    counts = sorted(series.len() for series in by_cell.values())
    title = heading(
        f"{about.whose} of the {whose} flows, {sheet.title}",
        [
            f"{what}; {about.words}, all trials of a cell",
            f"{_between(counts)} {'samples' if source == 'srtt' else 'packets'} per line; dotted: 1 and 5 ms",
        ],
    )
    return configured(alt.vconcat(*lines, spacing=14, title=title), config())


def _panel(
    place: tuple[View, Sheet],
    by_cell: dict[str, pl.Series],
    kind: Kind,
    about: _Source,
    *,
    first: bool,
    last: bool,
) -> alt.LayerChart:
    view, sheet = place
    rows: list[dict[str, Any]] = []
    for queue, cell in view.series:
        if cell.id in by_cell:
            rows += [
                {
                    "queue": queue,
                    "delay_ms": max(value, about.least_ms),
                    "share": share if kind == "cdf" else 1 - share,
                }
                for share, value in quantiles(by_cell[cell.id])
            ]
    most = max(series.len() for series in by_cell.values())
    places, names = sheet.looks, list(sheet.names)
    legend = alt.Legend(title=None, orient="right", symbolSize=500) if first else None
    colour = alt.Scale(domain=names, range=[OKABE_ITO[place] for place in places])
    dash = alt.Scale(domain=names, range=[DASHES[place] for place in places])
    across = alt.Axis(
        title=about.axis if last else None,
        values=[0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300],
        labelExpr="format(datum.value, '~g')",
    )
    base: alt.Chart = alt.Chart(table(rows)).mark_line(clip=True, interpolate="linear")
    drawn: alt.Chart = base.encode(
        x=alt.X(
            "delay_ms:Q", scale=alt.Scale(type="log", domain=[about.least_ms, 300], nice=False), axis=across
        ),
        y=alt.Y("share:Q", scale=_share_scale(kind, most), axis=_share_axis(kind, first=first)),
        color=alt.Color("queue:N", scale=colour, legend=legend, sort=names),
        strokeDash=alt.StrokeDash("queue:N", scale=dash, legend=legend, sort=names),
        order=alt.Order("share:Q"),
        tooltip=["queue:N", alt.Tooltip("delay_ms:Q", format=".2f"), alt.Tooltip("share:Q", format=".4f")],
    )
    limits: alt.Chart = alt.Chart(table([{"at": 1.0}, {"at": 5.0}])).mark_rule(
        strokeDash=[2, 2], strokeWidth=0.8
    )
    limits = limits.encode(x=alt.X("at:Q"))
    title = alt.TitleParams(view.title, fontSize=11, fontWeight="normal", offset=4, limit=WIDTH + 40)
    return layered([limits, drawn], WIDTH, HEIGHT, title=title)


def _between(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def _share_scale(kind: Kind, most: int) -> alt.Scale:
    if kind == "cdf":
        return alt.Scale(domain=[0, 1], nice=False)
    # as deep as the samples reach, so that no empty part looks like a tail
    drawn = [_WHOLE - share for share in _SHARES if most * (_WHOLE - share) >= BEHIND * _WHOLE]
    least = min(drawn, default=_WHOLE // 2) / _WHOLE
    return alt.Scale(type="log", domain=[least, 1], nice=False)


def _share_axis(kind: Kind, *, first: bool) -> alt.Axis:
    if kind == "cdf":
        return alt.Axis(
            title="CDF" if first else None, values=[0, 0.25, 0.5, 0.75, 1], labels=first, format=".2~f"
        )
    values = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0001]
    label = "format(datum.value, '~g')"
    return alt.Axis(title="CCDF" if first else None, values=values, labels=first, labelExpr=label)
