# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The panel of a cell that was clicked, embedded in the page as JSON: factors, trials, programs, hosts.

Most nodes run the same program in most trials, and read back the same, but for the seeds. So each
different text is kept once and named by its place, and long numbers are kept apart from it. The scripts
of the page know the same shapes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from l4sbench.catalog.describe import amount
from l4sbench.tables import columns
from reports.render.words import GLYPHS, limit_text, side_text, why_unsure
from reports.result.cells import GroupResult, factors_of, groups_of
from reports.result.labels import BUFFER, Label
from reports.result.load import COUNTED, goodput_of_all, joined, sum_of_known
from reports.result.measured import FRAME_DELAY, FRAME_MEDIAN, FREEZES, own_numbers
from reports.result.metrics import START_S
from reports.result.stats import Estimate
from reports.result.verdicts import Decision

if TYPE_CHECKING:
    from reports.page.model import Entry
    from reports.result.cells import Factors
    from reports.result.judging import JudgedSide
    from reports.result.labels import Setting
    from reports.result.load import RunTables
    from reports.result.measured import MeasuredCell, MeasuredGroup, Measurements
    from reports.result.rules import Rule
    from reports.result.verdicts import JudgedCell

LINE: Final = "\x1e"
"""Between the lines of a text that is kept once; no command holds it."""

FIELD: Final = "\x1f"
"""Between the fields of a line."""

NUMBER: Final = "\x1d"
"""Stands for a long number, which is kept with the trial."""

_ROWS_AT_ONCE: Final = 30_000

_LONG_NUMBER: Final = r"[0-9]{9,}"

TRIAL_COLUMNS: Final = tuple(name for name in columns("trials") if name not in ("cell", "faults"))

FURTHER: Final = (
    "flows",
    "jain",
    "utilisation",
    "ratio",
    *(f"{group}_{name}" for name in ("variation_100ms", "variation_1000ms") for group in ("l4s", "classic")),
    *(f"l4s_delay_{part}_{START_S}s_ms" for part in ("first", "after")),
    *(f"l4s_{name}_{q}_ms" for name in ("sojourn", "srtt") for q in ("p50", "p95", "p99", "p999")),
)
"""Figures of `reports.result.metrics` that a cell shows, where it has them."""


MOST_REPORTED: Final = 200
"""A cell shows so many numbers that its programs reported; files beside the page have all."""


def details(
    tables: RunTables,
    result: Decision | Measurements,
    cells: Iterable[tuple[Entry, JudgedCell]],
    metrics: pl.DataFrame,
) -> dict[str, object]:
    """Return all that is known about every cell of a run, as JSON types.

    Args:
        tables: The run.
        result: Its decision table, or what its cells got where there are no verdicts.
        cells: The cells of that table with their entries, as the page shows them. The other cells of the run,
            baselines above all, follow.
        metrics: Further figures of its cells.
    """
    programs: dict[str, int] = {}  # each text once, with its index
    hosts: dict[str, int] = {}
    ran: dict[tuple[str, int], list[list[object]]] = {}
    read_back: dict[tuple[str, int], list[list[object]]] = {}
    for part in tables.parts("programs", _ROWS_AT_ONCE):
        ran |= _texts(part.programs, ("phase", "command"), programs)
        read_back |= _texts(_readable(part.hosts), ("kind", "name", "value"), hosts)
    group_columns, groups = _groups(tables)
    trials: dict[str, list[object]] = {}
    for row in joined(tables.trials).select("cell", *TRIAL_COLUMNS).iter_rows():
        key = (row[0], row[1])
        own = [*map(_short, row[1:]), groups.get(key, []), ran.get(key, []), read_back.get(key, [])]
        trials.setdefault(row[0], []).append(own)
    factors, further = factors_of(tables), _further(metrics)
    first = next(iter(factors.values()))
    fixed = {name for name in first if all(own.get(name) == first[name] for own in factors.values())}
    reruns = tables.scan("programs").group_by("cell").agg(pl.col("rerun").first()).collect()
    rerun = dict(reruns.iter_rows())
    reported = _reported(tables)
    if isinstance(result, Decision):
        shown: tuple[str, ...] = result.pair
        placed = {cell.id: _placed(result, cell, entry) for entry, cell in cells}
        placed |= _others(tables, result, {cell: own for cell, own in factors.items() if cell not in placed})
    else:
        shown = result.groups
        placed = {cell.id: _measured(cell, factors[cell.id]) for cell in result.cells}
    held = {cell.id: amount(limit) for _, cell in cells if (limit := cell.result.limit) is not None}
    return {
        "groups": list(shown),
        "fixed": {name: _short(first[name].value) for name in first if name in fixed},
        "trial_columns": [*TRIAL_COLUMNS, "groups", "programs", "hosts"],
        "group_columns": group_columns,
        "programs": list(programs),
        "hosts": list(hosts),
        "cells": [
            {
                "id": cell,
                "factors": {
                    name: _short(own.value) for name, own in factors[cell].items() if name not in fixed
                },
                "rerun": rerun.get(cell),
                "trials": trials[cell],
                "further": further.get(cell, {}),
                "names": _names(factors[cell]),
                "path": _path(factors[cell], held.get(cell, "")),
                **({"reported": reported[cell]} if cell in reported else {}),
                **about,
            }
            for cell, about in placed.items()
        ],
    }


def _further(metrics: pl.DataFrame) -> dict[str, dict[str, object]]:
    """Return fairness, steadiness and quantiles of delay of every cell with a valid trial."""
    return {
        row["cell"]: {name: _short(row[name]) for name in FURTHER if row.get(name) is not None}
        for row in metrics.iter_rows(named=True)
    }


def _reported(tables: RunTables) -> dict[str, list[list[object]]]:
    """Return what the programs of every cell reported: flow group, name of the number, estimate."""
    found: dict[str, list[list[object]]] = {}
    for (cell, group), numbers in own_numbers(tables).items():
        own = found.setdefault(cell, [])
        room = max(0, MOST_REPORTED - len(own))
        own += [[group, name, _estimate(number)] for name, number in [*numbers.items()][:room]]
    return found


def _measured(cell: MeasuredCell, factors: Factors) -> dict[str, object]:
    """Return what the page calls a cell without a verdict, and what its groups got."""
    return {
        "label": str(cell.label),
        "company": _company(factors),
        "valid": cell.valid,
        "left_out": cell.left_out,
        "measured": [
            {
                "group": group.name,
                "goodput": _estimate(group.goodput),
                "share": _estimate(group.share),
                "delay": _estimate(group.delay),
                "sojourn": _estimate(group.sojourn),
                "sojourn_p99": _estimate(group.sojourn_p99),
                **_application(group),
            }
            for group in cell.groups
        ],
    }


def _application(group: MeasuredGroup) -> dict[str, object]:
    """Return what only some kinds of traffic have, and the verdicts on it."""
    numbers = {
        "frame_p50": group.own.get(FRAME_MEDIAN),
        "frame_p95": group.own.get(FRAME_DELAY),
        "frame_rate": group.frame_rate,
        "freezes": group.own.get(FREEZES),
        "slowdown": group.slowdown,
        "rpm": group.rpm,
    }
    found: dict[str, object] = {name: _estimate(number) for name, number in numbers.items() if number}
    if group.verdicts:
        found["verdicts"] = [[str(one), one.judges, one.rule] for one in group.verdicts]
    return found


def _placed(decision: Decision, cell: JudgedCell, entry: Entry) -> dict[str, object]:
    """Return a cell's place in the decision table, its verdict and its result."""
    result = cell.result
    return {
        "label": str(cell.label),
        "entry": entry.key,
        "question": str(cell.question),
        "row": cell.row,
        "column": str(cell.column),
        "word": cell.word.value,
        "glyph": GLYPHS[cell.word],
        "sides": [_side(decision.rule, cell, side) for side in cell.judged.sides],
        "unsure": why_unsure(cell),
        "bimodal": bool(result.bimodal),
        "held": "" if result.limit is None else amount(result.limit),
        "dropped": result.only_dropped and result.only_dropped.packets,
        "valid": result.valid,
        "left_out": result.left_out,
        "share": _estimate(result.share),
        "l4s": _group(result.l4s),
        "classic": _group(result.classic),
    }


def _side(rule: Rule, cell: JudgedCell, side: JudgedSide) -> dict[str, object]:
    """Return a flow group beside its limits, in percent of `whole`, and the same in words."""
    return {
        "group": rule.l4s if side.role == "l4s" else rule.classic,
        "text": side_text(cell, side),
        "whole": _short(side.whole.mbps),
        "keeps": _estimate(side.keeps),
        "limits": [(_short(limit), limit_text(side.told(limit))) for limit in side.limits],
        "top": limit_text(side.told(100.0)),
        "unit": "Mbit/s" if side.in_mbps else "%",
    }


def _group(group: GroupResult) -> dict[str, object]:
    """Return all estimates of a flow group that are known, by the names of `GroupResult`."""
    known = ((name.name, getattr(group, name.name)) for name in fields(group))
    return {name: _estimate(found) for name, found in known if isinstance(found, Estimate)}


def _estimate(found: Estimate | None) -> object:
    return None if found is None else [_short(found.value), _short(found.low), _short(found.high)]


def _others(
    tables: RunTables, decision: Decision, cells: Mapping[str, Mapping[str, Setting]]
) -> dict[str, dict[str, object]]:
    """Return what the page calls cells that are not in the decision table, and what their groups got.

    By cell: `label` (queue and buffer), `company` (who runs, beside whom), `valid` and `left_out` (numbers of
    trials), and by the names of cells in the table the means of the groups that it has.
    """
    counts = tables.counts()
    found: dict[str, dict[str, object]] = {}
    for cell, own in cells.items():
        queue = own["aqm"].called if "aqm" in own else ""
        label = ", ".join(filter(None, (queue, str(own.get(BUFFER, ""))))) or cell
        valid, left_out = counts[cell]
        found[cell] = {"label": label, "company": _company(own), "valid": valid, "left_out": left_out}
    for name, group in (("l4s", decision.rule.l4s), ("classic", decision.rule.classic)):
        of_group = tables.totals(group, decision.rule.value).filter(pl.col("cell").is_in(list(cells)))
        means = of_group.group_by("cell", maintain_order=True).agg(
            pl.col("mbps").mean(), pl.col("delay_ms").mean(), pl.len()
        )
        for cell, mbps, delay_ms, valid in means.iter_rows():
            goodput = Estimate(mbps, "Mbit/s", valid)
            delay = None if delay_ms is None else Estimate(delay_ms, "ms", valid)
            found[cell] |= {name: _group(GroupResult(0, goodput, delay, None))}
    return found


def _names(factors: Factors) -> dict[str, str]:
    """Return the names of flow groups in texts: `CUBIC`, or `CUBIC (classic)` where several have one."""
    groups = groups_of(factors)
    found = {group: (factors.get(f"{group}.cc") or factors[f"{group}.send"]).called for group in groups}
    many = Counter(found.values())
    return {group: f"{name} ({group})" if many[name] > 1 else name for group, name in found.items()}


_DISTURBANCES: Final = ("path.loss_percent", "path.wifi_loss_percent", "path.jitter_ms", "path.pause_ms")


def _path(factors: Factors, held: str) -> dict[str, object]:
    """Return the path of a cell's flows in words: what sends, what delays, and the queue at what rate."""
    names = _names(factors)

    def text(name: str) -> str:
        return f"{factors[name].called} {factors[name].unit}" if name in factors else ""

    def flows(group: str) -> str:
        count, ecn = factors.get(f"{group}.count"), factors.get(f"{group}.ecn")
        number = f"{count.called} flows" if count and count.value != 1 else "1 flow"
        return f"{number}, ECN {ecn.called}" if ecn else number

    disturbed = [str(factors[name]) for name in _DISTURBANCES if name in factors and factors[name].value]
    buffer = str(factors[BUFFER]) if BUFFER in factors else ""
    return {
        "flows": [[group, names[group], flows(group)] for group in names],
        "rtt": text("rtt_ms"),
        "disturbed": ", ".join(disturbed),
        "rate": text("rate_mbps"),
        "queue": factors["aqm"].called if "aqm" in factors else "",
        "held": ", ".join(filter(None, (buffer, held and f"limit {held}"))),
    }


def _company(factors: Mapping[str, Setting]) -> str:
    """Return `CUBIC, ECN off, alone` or `CUBIC, ECN off beside CUBIC, ECN off`."""
    groups = groups_of(factors)
    named = [_flows(factors, group) for group in groups]
    return f"{named[0]}, alone" if len(named) == 1 else " beside ".join(named)


def _flows(factors: Mapping[str, Setting], group: str) -> str:
    count, ecn = factors.get(f"{group}.count"), factors.get(f"{group}.ecn")
    name = (factors.get(f"{group}.cc") or factors[f"{group}.send"]).called
    many = f"{count.called} {name}" if count and count.value != 1 else name
    return str(Label(many, (ecn.below(f"{group}."),) if ecn else ()))


def _texts(
    frame: pl.DataFrame, fields: tuple[str, ...], pool: dict[str, int]
) -> dict[tuple[str, int], list[list[object]]]:
    """Return the nodes of every trial, each with the index of its text and the long numbers in it.

    A text has one line per row, its fields joined.
    """
    shown = pl.concat_str([pl.col(name).fill_null("") for name in fields], separator=FIELD)
    whole = frame.group_by("cell", "trial", "node", maintain_order=True).agg(
        shown.str.join(LINE).alias("text")
    )
    parts = whole.select(
        "cell",
        "trial",
        "node",
        pl.col("text").str.replace_all(_LONG_NUMBER, NUMBER),
        pl.col("text").str.extract_all(_LONG_NUMBER).alias("numbers"),
    )
    found: dict[tuple[str, int], list[list[object]]] = {}
    for cell, trial, node, text, numbers in parts.iter_rows():
        found.setdefault((cell, trial), []).append([node, pool.setdefault(text, len(pool)), *numbers])
    return found


def _readable(hosts: pl.DataFrame) -> pl.DataFrame:
    """Return the hosts with their queues, read back as JSON, in the manner of tc: kind, then options."""
    queues = hosts.filter(pl.col("kind") == "qdisc")["value"].drop_nulls().unique().to_list()
    return hosts.with_columns(pl.col("value").replace({value: _options(value) for value in queues}))


def _options(queue: str) -> str:
    try:
        said = json.loads(queue)
    except ValueError:
        return queue
    if not isinstance(said, dict):
        return queue
    words = {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}
    return " ".join([words.pop("kind", "?"), *(f"{name} {value}" for name, value in words.items())])


def _groups(tables: RunTables) -> tuple[list[str], dict[tuple[str, int], list[list[object]]]]:
    """Return the flow groups of every valid trial: sums of goodput, means of delay, worst quantiles.

    The names of their values come first.
    """
    per_group = tables.flows.group_by("cell", "trial", "group", maintain_order=True).agg(
        pl.col("cc").first(),
        pl.len().alias("flows"),
        goodput_of_all("goodput_mbps"),
        pl.col("srtt_minus_base_ms").filter(COUNTED).mean(),
        *[pl.col(f"srtt_{quantile}_ms").max() for quantile in ("p50", "p95", "p99")],
        (pl.col("delivered_ce_packets").sum() / pl.col("delivered_packets").sum() * 100).alias("ce_percent"),
        sum_of_known("retransmits_packets"),
        pl.col("ecn").unique(maintain_order=True).drop_nulls().str.join(", "),
    )
    found: dict[tuple[str, int], list[list[object]]] = {}
    for cell, trial, *rest in per_group.iter_rows():
        found.setdefault((cell, trial), []).append([_short(value) for value in rest])
    return per_group.columns[2:], found


def _short(value: Any) -> Any:
    """Return a number with five digits, which is more than any table shows; JSON has no NaN."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
