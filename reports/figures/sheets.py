# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From a decision's cells to sheets: one competitor each, panels side by side, queues down, a factor across.

A panel is a question (an L4S congestion control) against a competitor with its ECN. Flow counts and
everything else that differs and is no parameter of a queue make sheets of their own, so that a place in a
panel is one cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import polars as pl

from l4sbench.errors import InputError
from reports.published.look import ORDER
from reports.render.data import cell_rows
from reports.result.labels import Setting

if TYPE_CHECKING:
    from reports.result.verdicts import Decision

_COUNT: Final = re.compile(r"count \d+")
_NOT_SLUG: Final = re.compile(r"[^A-Za-z0-9.+]+")

Interval: TypeAlias = "tuple[float, float] | None"


@dataclass(frozen=True)
class Entry:
    """One cell at its place in a panel. Goodputs are sums over a group's flows, means over valid trials.

    Attributes:
        cell: Id of the cell.
        row: Index of its row, from 0.
        x: Index of its column, from 0.
        queue: Its queue and the parameters that differ, in words.
        at: Its value of the factor that goes across, in words.
        valid: Valid trials.
        rate_mbps: The link's rate.
        percent: L4S goodput in percent of the link's rate; None without a valid trial, like all below.
        low: Lower end of its confidence interval, None where there is none.
        high: Upper end.
        bimodal: Whether its trials fall into two groups.
        word: Its verdict by the decision's rule.
        straddles: Whether its interval leaves that in doubt.
        l4s_interval_mbps: Ends of the confidence interval of a mean, None where there is none; likewise the
            three others.
    """

    cell: str
    row: int
    x: int
    queue: str
    at: str
    valid: int
    rate_mbps: float
    percent: float | None
    low: float | None
    high: float | None
    bimodal: bool
    word: str
    straddles: bool
    l4s_mbps: float | None
    classic_mbps: float | None
    delay_ms: float | None
    classic_delay_ms: float | None
    l4s_interval_mbps: Interval = None
    classic_interval_mbps: Interval = None
    delay_interval_ms: Interval = None
    classic_delay_interval_ms: Interval = None


@dataclass(frozen=True)
class Panel:
    """One question against one competitor with its ECN."""

    question: str
    column: str
    published_title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Sheet:
    """The panels of one figure; they share rows, columns and fair share.

    Attributes:
        slug: Part of a file name.
        family: The slug without the numbers of flows.
        title: What it is about, in words.
        across: The factor that goes across, with its unit.
        queues: Values of `aqm`, one per row.
        rows: Labels of the rows.
        xs: Labels of the columns.
        fair_percent: An L4S group's fair share: its flows over all flows, in percent of the link's rate.
        flows: How many flows the L4S and the classic group have.
    """

    slug: str
    family: str
    title: str
    across: str
    queues: tuple[str, ...]
    rows: tuple[str, ...]
    xs: tuple[str, ...]
    panels: tuple[Panel, ...]
    fair_percent: float
    flows: tuple[int, int]

    def only(self, rows: Sequence[int], slug: str) -> Sheet:
        """The sheet with those of its rows, in that order."""
        panels = tuple(_only(panel, rows) for panel in self.panels)
        kept = tuple(panel for panel in panels if panel.entries)
        return replace(
            self,
            slug=f"{self.slug}_{slug}",
            queues=tuple(self.queues[row] for row in rows),
            rows=tuple(self.rows[row] for row in rows),
            panels=kept,
        )


def _only(panel: Panel, rows: Sequence[int]) -> Panel:
    places = {row: index for index, row in enumerate(rows)}
    kept = tuple(replace(e, row=places[e.row]) for e in panel.entries if e.row in places)
    return Panel(panel.question, panel.column, panel.published_title, kept)


def sheets(decision: Decision, across: str | None = None) -> tuple[Sheet, ...]:
    """The sheets of a decision, in the order of its columns.

    Args:
        decision: The decision; filters have been applied to it.
        across: Column of `Decision.cells` (a numeric factor) that goes across; None: `buffer_bdp` where it
            differs, else the rate or the RTT.

    Raises:
        InputError: there is no such factor, or two cells fall on one place.
    """
    cells = pl.DataFrame(cell_rows(decision), infer_schema_length=None)
    across = across or _differing(cells)
    if across not in cells.columns or not cells[across].dtype.is_numeric():
        raise InputError(f"{across} is no numeric factor of these cells", "such as buffer_bdp or rtt_ms")
    l4s, classic = decision.rule.l4s, decision.rule.classic
    factors = list(decision.columns)
    counts = [f"{l4s}.count", f"{classic}.count"]
    own = [f for f in factors if f.split(".")[0] in {l4s, classic} and f not in counts]
    of_queue = [f for f in factors if f.startswith("aqm.")]
    in_rows = _varying(cells, of_queue, within="aqm")
    free = [f for f in factors if f not in {*own, *of_queue, "aqm", across}]
    apart = [f for f in _varying(cells.with_columns(_all=1), free, within="_all") if f not in counts]
    found: list[Sheet] = []
    keys = [f"{classic}.cc", *counts, *apart]
    for key, some in cells.partition_by(keys, as_dict=True, maintain_order=True).items():
        words = [text for name, value in zip(keys, key, strict=True) if (text := _word(name, value, counts))]
        found.append(_sheet(decision, some, (str(key[0]), *words), in_rows, across, _flows(some, counts)))
    return tuple(sorted(found, key=lambda sheet: (sheet.flows, sheet.slug)))


def _differing(cells: pl.DataFrame) -> str:
    """What goes across when nobody says."""
    usual = ("buffer_bdp", "rate_mbps", "rtt_ms")
    return next((name for name in usual if cells[name].n_unique() > 1), usual[0])


def setting(name: str, value: Any) -> str:
    """`2 BDP`, `rtt 10 ms`, `ECN off`: a factor in words; empty for one that the cell does not have."""
    return "" if value is None else Setting(name, value).text


def _varying(cells: pl.DataFrame, names: list[str], within: str) -> list[str]:
    counts = cells.group_by(within).agg(pl.col(name).n_unique() for name in names)
    return [name for name in names if counts.select((pl.col(name) > 1).any()).item()]


def _word(name: str, value: object, counts: Sequence[str]) -> str:
    return "" if name in counts or name.endswith(".cc") else setting(name, value)


def _flows(cells: pl.DataFrame, counts: Sequence[str]) -> tuple[int, int]:
    l4s, classic = (int(cells[name][0]) for name in counts)
    return l4s, classic


def _sheet(
    decision: Decision,
    cells: pl.DataFrame,
    key: tuple[str, ...],
    in_rows: Sequence[str],
    across: str,
    flows: tuple[int, int],
) -> Sheet:
    competitor, *settings = key
    rows = cells.to_dicts()
    labels = {id(row): _row_label(row, in_rows) for row in rows}
    order = sorted({(_queue_order(decision, row), labels[id(row)], str(row["aqm"])) for row in rows})
    names = tuple(label for _, label, _ in order)
    values = sorted({float(row[across]) for row in rows if row[across] is not None})
    shown = tuple(f"{value:g}" for value in values)
    panels: list[Panel] = []
    for (question, column), some in cells.partition_by(
        "question", "column", as_dict=True, maintain_order=True
    ).items():
        entries = [
            _entry(row, names.index(_row_label(row, in_rows)), values.index(float(row[across])), shown)
            for row in some.to_dicts()
        ]
        _check_places(entries, names)
        entries = [_named(entry, names) for entry in entries]
        title = published_title(decision, some.to_dicts()[0])
        panels.append(Panel(_countless(question), _countless(column), title, tuple(entries)))
    several = flows != (1, 1)
    counted = [f"{flows[0]} against {flows[1]} flows"] if several else []
    opponent = panels[0].column.split(", ")[0]
    return Sheet(
        slug=slugged(competitor, *([f"{flows[0]}v{flows[1]}"] if several else []), *settings),
        family=slugged(competitor, *settings),
        title=", ".join([f"against {opponent}", *counted, *settings]),
        across=_across(across),
        queues=tuple(queue for _, _, queue in order),
        rows=names,
        xs=shown,
        panels=tuple(panels),
        fair_percent=100 * flows[0] / sum(flows),
        flows=flows,
    )


def _countless(words: object) -> str:
    """`Prague, count 5` without its count, which the sheet says."""
    return ", ".join(word for word in str(words).split(", ") if not _COUNT.fullmatch(word))


def _queue_order(decision: Decision, row: Mapping[str, Any]) -> tuple[int, ...]:
    queue = str(row["aqm"])
    place = ORDER.index(queue) if queue in ORDER else len(ORDER)
    return (decision.rule.row_order(str(row["row"]))[0] if queue not in ORDER else -1, place)


def _row_label(row: Mapping[str, Any], names: Sequence[str]) -> str:
    said = [setting(name.removeprefix("aqm."), row[name]) for name in names]
    return ", ".join([str(row["queue"]), *(text for text in said if text)])


def _entry(row: Mapping[str, Any], place: int, x: int, shown: Sequence[str]) -> Entry:
    return Entry(
        cell=row["cell"],
        row=place,
        x=x,
        queue="",
        at=shown[x],
        valid=row["valid"],
        rate_mbps=row["rate_mbps"],
        percent=row["percent"],
        low=row.get("percent_low"),
        high=row.get("percent_high"),
        bimodal=bool(row.get("bimodal")),
        word=row["verdict"],
        straddles=row.get("percent_low") is not None and not row["decided"],
        l4s_mbps=row["l4s_mbps"],
        classic_mbps=row["classic_mbps"],
        delay_ms=row["delay_ms"],
        classic_delay_ms=row["classic_delay_ms"],
        l4s_interval_mbps=_interval(row, "l4s", "mbps"),
        classic_interval_mbps=_interval(row, "classic", "mbps"),
        delay_interval_ms=_interval(row, "delay", "ms"),
        classic_delay_interval_ms=_interval(row, "classic_delay", "ms"),
    )


def _interval(row: Mapping[str, Any], stem: str, unit: str) -> Interval:
    low, high = row.get(f"{stem}_low_{unit}"), row.get(f"{stem}_high_{unit}")
    return None if low is None or high is None else (low, high)


def _named(entry: Entry, names: Sequence[str]) -> Entry:
    return replace(entry, queue=names[entry.row])


def _check_places(entries: Sequence[Entry], names: Sequence[str]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for entry in entries:
        other = taken.setdefault((entry.row, entry.x), entry.cell)
        if other != entry.cell:
            raise InputError(
                f"{names[entry.row]} at {entry.at} is two cells: {other} and {entry.cell}",
                "filter so that one is left: l4sbench report RUN --figures FACTOR=VALUE",
            )


def published_title(decision: Decision, row: Mapping[str, Any]) -> str:
    """A panel's title in the published figures: `Prague ECN Fallback vs CUBIC - No ECN`."""
    l4s, classic = decision.rule.l4s, decision.rule.classic
    asked, *parameters = _countless(row["question"]).split(", ")
    if row.get(f"{l4s}.fallback") == "on":
        asked += " ECN Fallback"
    asked += "".join(f" ({text})" for text in parameters if not text.startswith("fallback "))
    opponent, _, *more = _countless(row["column"]).split(", ")
    ecn = {"off": "No ECN", "classic": "ECN"}.get(str(row[f"{classic}.ecn"]), f"{row[f'{classic}.ecn']} ECN")
    return f"{asked} vs {opponent} - {', '.join([ecn, *more])}"


def _across(name: str) -> str:
    if name == "buffer_bdp":
        return "Buffer size (BDP)"
    for suffix, unit in (("_ms", "ms"), ("_mbps", "Mbit/s"), ("_s", "s"), ("_bytes", "bytes")):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)} ({unit})"
    return name


def at_words(sheet: Sheet, x: int) -> str:
    """A column of a sheet in words: `2 BDP`."""
    if sheet.across.startswith("Buffer"):
        return f"{sheet.xs[x]} BDP"
    return f"{sheet.across} {sheet.xs[x]}"


def slugged(*words: str) -> str:
    """Words as part of a file name: `cubic_2v1_rtt-10-ms`."""
    return "_".join(_NOT_SLUG.sub("-", word).strip("-") for word in words if word)
