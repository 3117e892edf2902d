# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells as points: every trial of every cell, and goodput against delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from reports.colours import OKABE_ITO
from reports.figures.ground import configured, layered, table
from reports.figures.sheets import ends, limited, undecided
from reports.figures.style import SHAPES, config, heading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reports.figures.sheets import Sheet, SheetPanel, View
    from reports.result.cells import GroupResult
    from reports.result.judging import JudgedSide, Role
    from reports.result.load import RunTables
    from reports.result.rules import Rule

ROW_HEIGHT: Final = 13
DOTS_WIDTH: Final = 260
SIDE: Final = 230
LEAST_MS: Final = 0.1
DELAY_TICKS: Final = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
"""Delays, ms, of which an axis has those that are on it."""

_USUAL_END_MS: Final = 300
_MARK: Final = 1.2
"""Width of half a mark on a logarithmic axis of delays, as a ratio."""


def trial_dots(tables: RunTables, sheet: Sheet, rule: Rule) -> alt.HConcatChart:
    """Draw every trial of every cell, with mean, interval and limits of the groups that the rule measures.

    Goodput is in percent of the link's rate; of what the group gets alone where the rule measures it by that.
    This shows first what a mean hides: two groups of trials, or one outlier.
    """
    values = _trial_mbps(tables, [cell.id for cell in sheet.cells], rule)
    sides = _sides(sheet)
    roles, whole = _roles(sides), _whole(sides)
    both = len(roles) > 1
    charts = [
        _dots(panel, sheet, values, roles, whole, first=number == 0)
        for number, panel in enumerate(sheet.grid.panels)
    ]
    subject, mark = dots_subject(sheet), "mark" if both else "ring"
    about = f"{subject[0].upper()}{subject[1:]}: a {mark} per trial, mean and 95 % interval of the cell"
    marks = f"rings and blue: {rule.l4s}; squares and orange, below: {rule.classic}" if both else ""
    fair = "dashed: fair share" if _fair(sheet, roles) else ""
    doubt = "?: in doubt" if any(side.doubtful for side in sides) else ""
    limits = "; ".join(filter(None, (_grey(sides), fair, doubt)))
    title = heading(f"Trials {sheet.title}", [*filter(None, (about, marks, limits)), *undecided(sheet)])
    return configured(alt.hconcat(*charts, spacing=14, title=title), config())


def dots_subject(sheet: Sheet) -> str:
    """Return what `trial_dots` draws of a sheet: `L4S goodput in percent of the link's rate`."""
    sides = _sides(sheet)
    what = "goodput of each group" if len(_roles(sides)) > 1 else "L4S goodput"
    return f"{what} in percent of {_whole(sides)}"


def _sides(sheet: Sheet) -> list[JudgedSide]:
    return [side for cell in sheet.cells for side in limited(cell)]


def _roles(sides: Sequence[JudgedSide]) -> tuple[Role, ...]:
    return tuple(dict.fromkeys(side.role for side in sides)) or ("l4s",)  # none without a valid trial


def _whole(sides: Sequence[JudgedSide]) -> str:
    return " or ".join(_WHOLES[own] for own in sorted({side.whole.alone for side in sides})) or _WHOLES[False]


_WHOLES: Final = {False: "the link's rate", True: "what the group gets alone"}


def _grey(sides: Sequence[JudgedSide]) -> str:
    """Return what is grey, and where it ends if that is the same everywhere."""
    limits = {side.limits for side in sides}
    if not limits:
        return ""
    if len(limits) > 1:
        return "grey: below the group's limit"
    own = [f"{limit:.3g}" for limit in next(iter(limits))]
    return f"grey: {'below' if len(own) == 1 else 'outside of'} {'-'.join(own)} %"


def _fair(sheet: Sheet, roles: Sequence[Role]) -> list[float]:
    """Return the fair share in percent, where it is one for all groups that are drawn."""
    fair = sheet.fair_percent
    return [fair] if len(roles) == 1 or sheet.flows[0] == sheet.flows[1] else []


def _trial_mbps(
    tables: RunTables, cells: Sequence[str], rule: Rule
) -> dict[tuple[str, Role], list[tuple[int, float]]]:
    valid = tables.valid.filter(pl.col("cell").is_in(cells))
    groups = tables.groups.join(valid.select("cell", "trial"), on=["cell", "trial"])
    found: dict[tuple[str, Role], list[tuple[int, float]]] = {}
    roles: tuple[tuple[Role, str], ...] = (("l4s", rule.l4s), ("classic", rule.classic))
    for role, name in roles:
        own = groups.filter(pl.col("group") == name).select("cell", "trial", rule.value).sort("cell", "trial")
        for cell, trial, mbps in own.drop_nulls().iter_rows():  # a flow may be over before the warm-up is
            found.setdefault((cell, role), []).append((trial, mbps))
    return found


def _dots(
    panel: SheetPanel,
    sheet: Sheet,
    values: Mapping[tuple[str, Role], Sequence[tuple[int, float]]],
    roles: Sequence[Role],
    whole: str,
    *,
    first: bool,
) -> alt.LayerChart:
    places = [(row, x) for row in range(len(sheet.rows)) for x in range(len(sheet.xs))]
    names = {(row, x): f"{sheet.rows[row]}, {sheet.grid.columns[x].text}" for row, x in places}
    drawn = [
        ({"cell": cell.id, "where": names[place], "role": side.role}, side)
        for place in places
        if (cell := panel.places.get(place))
        for side in limited(cell)
    ]
    marks = [
        about | {"trial": trial, "percent": mbps / side.whole.mbps * 100}
        for about, side in drawn
        for trial, mbps in values.get((about["cell"], side.role), [])
    ]
    means: list[dict[str, Any]] = [
        about
        | {"percent": side.keeps.value, "doubt": "?" if side.doubtful else ""}
        | dict(zip(("low", "high"), ends(side.keeps), strict=True))
        for about, side in drawn
    ]
    most = max([100.0, *(row["percent"] for row in marks), *(row["high"] or 0.0 for row in means)])
    grey = [
        about | {"a": a, "b": b}
        for about, side in drawn
        for a, b in zip((0.0, *side.limits[1:]), (side.limits[0], 100.0), strict=False)
    ]
    scale = alt.Scale(domain=[0, most], nice=False)
    across = alt.X("percent:Q", scale=scale, title=_axis(roles, whole), axis=alt.Axis(tickCount=5))
    down = alt.Y(
        "where:N",
        sort=list(names.values()),
        title=None,
        scale=alt.Scale(type="band", domain=list(names.values()), padding=0),
        axis=alt.Axis(labels=first, ticks=False, grid=True, labelLimit=260, labelPadding=8),
    )
    part = alt.YOffset(
        "role:N", sort=list(roles), scale=alt.Scale(type="band", domain=list(roles), padding=0)
    )
    place: dict[str, Any] = {"y": down, "yOffset": part}
    colour = alt.Color("role:N", scale=alt.Scale(domain=list(_INKS), range=list(_INKS.values())), legend=None)
    base = alt.Chart(table(means))
    outside: alt.Chart = alt.Chart(table(grey)).mark_bar(color="#e6e6e6")
    fair: alt.Chart = alt.Chart(table([{"a": percent} for percent in _fair(sheet, roles)])).mark_rule(
        strokeDash=[4, 3], strokeWidth=0.8
    )
    bars: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2.2)
    ticks: alt.Chart = base.mark_tick(thickness=2.5, height=10, opacity=1)
    open_: alt.Chart = base.transform_filter("datum.doubt").mark_text(align="left", fontWeight="bold")
    points: alt.Chart = alt.Chart(table(marks)).mark_point(
        size=26, strokeWidth=1.1, color="#111111", opacity=0.9
    )
    shape = alt.Shape("role:N", scale=alt.Scale(domain=list(_INKS), range=["circle", "square"]), legend=None)
    layers = [
        *([outside.encode(x=alt.X("a:Q", scale=scale), x2="b:Q", **place)] if grey else []),
        fair.encode(x=alt.X("a:Q", scale=scale)),
        bars.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", color=colour, **place),
        ticks.encode(
            x=across, color=colour, tooltip=["cell:N", alt.Tooltip("percent:Q", format=".2f")], **place
        ),
        points.encode(
            x=across,
            shape=shape,
            tooltip=["cell:N", "trial:Q", alt.Tooltip("percent:Q", format=".2f")],
            **place,
        ),
        open_.encode(x=alt.value(DOTS_WIDTH + 4), text="doubt:N", **place),
    ]
    title = alt.TitleParams(str(panel.about), fontSize=11.5, fontWeight="normal", offset=5)
    return layered(layers, DOTS_WIDTH, ROW_HEIGHT * len(roles) * len(names), title=title)


def _axis(roles: Sequence[Role], whole: str) -> str:
    return f"goodput, % of {whole}" if len(roles) > 1 else f"L4S goodput, % of {whole}"


_INKS: Final[Mapping[Role, str]] = {"l4s": OKABE_ITO[0], "classic": OKABE_ITO[5]}


def goodput_against_delay(sheet: Sheet) -> alt.VConcatChart:
    """Draw both groups' mean goodput against their mean delay, a panel per view of the sheet.

    Better is up and to the right, as Winstein and Balakrishnan draw it (TCP ex Machina, SIGCOMM 2013). L4S
    groups are filled, classic ones hollow, a line joins the two of a cell; bars are 95 % intervals.
    """
    views = list(sheet.views())
    lines = [
        alt.hconcat(
            *(_scatter(view, sheet, first=at == 0, last=own is views[-1]) for at, view in enumerate(line)),
            spacing=14,
        )
        for own in views
        for line in lines_of(own, sheet)
    ]
    title = heading(
        f"Goodput and delay {sheet.title}",
        [
            "means over trials with 95 % intervals; filled: L4S flows, hollow: the classic flows of the cell",
            "delay: smoothed RTT minus base RTT; dashed: fair share of the L4S flows; better: up, right",
        ],
    )
    return configured(alt.vconcat(*lines, spacing=14, title=title), config())


def delay_end_ms(groups: Iterable[GroupResult]) -> float:
    """Return the end of an axis that has room for the mean delays of all these groups and their intervals."""
    found = [group.delay for group in groups if group.delay is not None]
    most = max((end for delay in found for end in (delay.value, ends(delay)[1] or 0.0)), default=0.0)
    return max(_USUAL_END_MS, most * _MARK)


_BESIDE: Final = 3
"""Views with a factor's values that are beside each other; there is one per queue."""


def lines_of(views: Sequence[View], sheet: Sheet) -> Iterator[Sequence[View]]:
    """Yield the views of a panel line by line, as a figure arranges them."""
    step = _BESIDE if sheet.by else max(len(views), 1)
    return (views[start : start + step] for start in range(0, len(views), step))


def _scatter(view: View, sheet: Sheet, *, first: bool, last: bool) -> alt.LayerChart:
    rows, joins = _points(view)
    places = sheet.looks
    names = list(sheet.names)
    legend = alt.Legend(title=None, orient="right", symbolSize=80, symbolOpacity=1) if first else None
    colour = alt.Color(
        "queue:N",
        sort=names,
        scale=alt.Scale(domain=names, range=[OKABE_ITO[p] for p in places]),
        legend=legend,
    )
    shape = alt.Shape(
        "queue:N", sort=names, scale=alt.Scale(domain=names, range=[SHAPES[p] for p in places]), legend=legend
    )
    end_ms = delay_end_ms(group for cell in sheet.cells for group in (cell.result.l4s, cell.result.classic))
    # reversed: to the right is better
    delay = alt.Scale(type="log", domain=[end_ms, LEAST_MS], nice=False)
    ticks = alt.Axis(
        title="delay, ms" if last else None,
        values=DELAY_TICKS,
        labelExpr="format(datum.value, '~g')",
    )
    across = alt.X("delay_ms:Q", scale=delay, axis=ticks)
    up = alt.Y(
        "mbps:Q",
        scale=alt.Scale(
            domain=[0, max(cell.result.rate_mbps for cell in view.panel.places.values())], nice=True
        ),
        axis=alt.Axis(title="goodput, Mbit/s" if first else None),
    )
    base = alt.Chart(table(rows))
    thin: alt.Chart = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.2)
    wide: alt.Chart = base.transform_filter("isValid(datum.delay_low)").mark_rule(strokeWidth=1.2)
    join: alt.Chart = alt.Chart(table(joins)).mark_rule(strokeWidth=0.7, opacity=0.6)
    filled: alt.Chart = base.transform_filter("datum.group == 'L4S'").mark_point(
        filled=True, size=60, opacity=1
    )
    hollow: alt.Chart = base.transform_filter("datum.group != 'L4S'").mark_point(
        filled=False, size=50, opacity=1, strokeWidth=1.4
    )
    tooltip = [
        alt.Tooltip("queue:N"),
        alt.Tooltip("group:N"),
        alt.Tooltip("mbps:Q", format=".2f"),
        alt.Tooltip("delay_ms:Q", format=".2f"),
    ]
    rates = {cell.result.rate_mbps for _, cell in view.series}
    fairs = sorted(rate_mbps * sheet.fair_percent / 100 for rate_mbps in rates)
    fair: alt.Chart = alt.Chart(table([{"mbps": fair} for fair in fairs]))
    layers = [
        fair.mark_rule(strokeDash=[4, 3], strokeWidth=0.8).encode(y=up),
        join.encode(x=across, x2="delay_ms2:Q", y=up, y2="mbps2:Q", color=colour),
        thin.encode(x=across, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        wide.encode(x=alt.X("delay_low:Q", scale=delay), x2="delay_high:Q", y=up, color=colour),
        filled.encode(x=across, y=up, color=colour, shape=shape, tooltip=tooltip),
        hollow.encode(x=across, y=up, color=colour, shape=shape, tooltip=tooltip),
    ]
    title = alt.TitleParams(view.title, fontSize=11, fontWeight="normal", offset=4, limit=SIDE + 40)
    return layered(layers, SIDE, SIDE * 0.75, title=title)


def _points(view: View) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    joins: list[dict[str, Any]] = []
    for queue, cell in view.series:
        mine, other = _point("L4S", cell.result.l4s), _point("classic", cell.result.classic)
        if mine and other:
            about = {"cell": cell.id, "queue": queue}
            rows += [about | mine, about | other]
            joins.append(
                about
                | {name: mine[name] for name in ("delay_ms", "mbps")}
                | {f"{name}2": other[name] for name in ("delay_ms", "mbps")}
            )
    return rows, joins


def _point(name: str, group: GroupResult) -> dict[str, Any]:
    """Return a group's point as a row; empty without a mean."""
    if group.goodput is None or group.delay is None:
        return {}
    low, high = ends(group.goodput)
    least, most = ends(group.delay)
    return {
        "group": name,
        "mbps": group.goodput.value,
        "delay_ms": max(group.delay.value, LEAST_MS),
        "low": low,
        "high": high,
        "delay_low": None if least is None else max(least, LEAST_MS),
        "delay_high": None if most is None else max(most, LEAST_MS),
    }
