# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The decision table: is it okay to switch, by a named and versioned rule?

A question is about one congestion control of the rule's L4S group (with those of its parameters that
differ within the run), a row gathers families of queues, a column is a competitor with its ECN. All other
factors - buffers, rates, queue parameters - make the cells behind one entry, and every one of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from l4sbench.factors import ECN_MODES
from l4sbench.tables import SCHEMAS, conform
from reports.cells import NOT_FACTORS, cell_means, factors_of, varying

if TYPE_CHECKING:
    from reports.load import RunTables
    from reports.rules import Rule


class Word(StrEnum):
    """What an entry of the table says."""

    OK = "ok"
    L4S_STARVED = "l4s-starved"
    CLASSIC_STARVED = "classic-starved"
    BOTH = "both"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class CellMean:
    """One cell as a verdict sees it; the figures are means over its valid trials, None without one.

    `_low` and `_high` are the ends of the means' confidence intervals and `_sd` standard deviations, None
    with fewer than two valid trials; `bimodal` is None with fewer than four. `decided`: whether the interval
    lies wholly on one side of each of the rule's limits.
    """

    cell: str
    label: str
    queue: str
    valid: int
    left_out: int
    percent: float | None
    l4s_mbps: float | None
    classic_mbps: float | None
    delay_ms: float | None
    percent_low: float | None
    percent_high: float | None
    l4s_low_mbps: float | None
    l4s_high_mbps: float | None
    l4s_sd_mbps: float | None
    classic_low_mbps: float | None
    classic_high_mbps: float | None
    classic_sd_mbps: float | None
    bimodal: bool | None
    decided: bool


@dataclass(frozen=True)
class Verdict:
    """One entry of the decision table.

    Attributes:
        l4s: What the question is about.
        row: Family of queues.
        column: Competitor.
        word: The verdict.
        low_latency: `all`, `some` or `none` of the cells keep the L4S flow's delay below the rule's limit.
        low_latency_in: Labels of the queues all of whose cells do, when it is `some`.
        cells: The cells behind it.
        worst: The cell farthest outside of the limits, else nearest to one; None when no cell has a figure.
    """

    l4s: str
    row: str
    column: str
    word: Word
    low_latency: str
    low_latency_in: tuple[str, ...]
    cells: tuple[CellMean, ...]
    worst: CellMean | None

    @property
    def trials(self) -> int:
        """Valid trials behind it."""
        return sum(cell.valid for cell in self.cells)

    @property
    def left_out(self) -> int:
        """Invalid and failed trials."""
        return sum(cell.left_out for cell in self.cells)


@dataclass(frozen=True)
class LeftOut:
    """A trial that does not count, and why."""

    cell: str
    trial: int
    status: str
    reasons: str


@dataclass(frozen=True)
class Decision:
    """A decision table with everything it must state about itself.

    `fixed` are the factors that are the same in all its cells; `flagged` counts valid trials by flag;
    `solo` counts cells that lack one of the two flow groups and so have no place in the table.
    """

    rule: Rule
    verdicts: tuple[Verdict, ...]
    cells: pl.DataFrame
    kernels: tuple[str, ...]
    modules: tuple[str, ...]
    testbeds: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    flagged: Mapping[str, int]
    fixed: Mapping[str, object]
    solo: int

    @property
    def trials(self) -> int:
        """Valid trials behind all entries."""
        return sum(verdict.trials for verdict in self.verdicts)

    @property
    def questions(self) -> tuple[str, ...]:
        """What the table asks about, in order."""
        return tuple(dict.fromkeys(verdict.l4s for verdict in self.verdicts))

    def rows(self, question: str) -> tuple[str, ...]:
        """Its rows, as the rule orders them."""
        names = {verdict.row for verdict in self.verdicts if verdict.l4s == question}
        return tuple(sorted(names, key=self.rule.row_order))

    def columns(self, question: str) -> tuple[str, ...]:
        """Its columns, in order."""
        own = self.cells.filter(pl.col("question") == question).unique("column", maintain_order=True)
        ordered = sorted(own.to_dicts(), key=lambda cell: _competitor_order(self.rule, cell))
        return tuple(cell["column"] for cell in ordered)

    def entry(self, question: str, row: str, column: str) -> Verdict | None:
        """One entry; None where the run has no such cells."""
        place = (question, row, column)
        return next((v for v in self.verdicts if (v.l4s, v.row, v.column) == place), None)

    def frame(self) -> pl.DataFrame:
        """The table `verdicts`."""
        rows = [_as_row(self.rule, verdict) for verdict in self.verdicts]
        empty = SCHEMAS["verdicts"].create_empty()
        return conform("verdicts", pl.DataFrame(rows, schema=empty.schema))


_DIRECTIONS: Final = {
    (False, False): Word.OK,
    (True, False): Word.L4S_STARVED,
    (False, True): Word.CLASSIC_STARVED,
    (True, True): Word.BOTH,
}


def decide(tables: RunTables, rule: Rule) -> Decision:
    """The decision table of a run.

    Raises:
        InputError: no cell has both flow groups that the rule compares.
    """
    cells = _labelled(cell_means(tables, rule.l4s, rule.classic, rule.value), tables, rule)
    entries = cells.partition_by("question", "row", "column", as_dict=True, maintain_order=True)
    verdicts = [
        _verdict(rule, (str(question), str(row), str(column)), [_cell_mean(cell) for cell in own.to_dicts()])
        for (question, row, column), own in entries.items()
    ]
    trials = tables.trials.filter(pl.col("cell").is_in(cells["cell"].to_list()))
    factors = [name for name in trials.columns if name not in NOT_FACTORS]
    same = [name for name in factors if trials[name].n_unique() == 1 and trials[name].null_count() == 0]
    return Decision(
        rule=rule,
        verdicts=tuple(verdicts),
        cells=cells,
        kernels=_words(trials["kernels"]),
        modules=_words(trials["modules"]),
        testbeds=_words(trials["testbed"]),
        left_out=_left_out(trials),
        flagged=_flagged(trials),
        fixed={name: trials[name][0] for name in same},
        solo=tables.trials["cell"].n_unique() - cells.height,
    )


def _labelled(cells: pl.DataFrame, tables: RunTables, rule: Rule) -> pl.DataFrame:
    """The cells with the entry they belong to and names to print, in the order in which tables list them."""
    catalog = {(row["kind"], row["name"]): row for row in tables.catalog.iter_rows(named=True)}
    factors = factors_of(cells)
    ecn = f"{rule.classic}.ecn"
    asked = varying(cells, _below(factors, rule.l4s), within=f"{rule.l4s}.cc")
    against = varying(cells, _below(factors, rule.classic, but=(ecn,)), within=f"{rule.classic}.cc")
    named = {*asked, *against, ecn, f"{rule.l4s}.cc", f"{rule.classic}.cc", "aqm"}
    rest = varying(cells, [name for name in factors if name not in named], within="aqm")
    rows: list[dict[str, object]] = []
    for row in cells.iter_rows(named=True):
        queue = catalog.get(("queue", str(row["aqm"])), {})
        label = str(queue.get("label", row["aqm"]))
        row["question"] = _flow_label(row, rule.l4s, asked, catalog)
        row["row"] = rule.row_of(queue.get("family"))
        row["column"] = _flow_label(row, rule.classic, [ecn, *against], catalog)
        row["queue"] = label
        row["label"] = ", ".join([label, *_settings(row, rest)])
        row["decided"] = _decided(rule, row)
        rows.append(row)
    numbers = [name for name in sorted(rest) if cells[name].dtype.is_numeric()]

    def order(row: Mapping[str, Any]) -> tuple[object, ...]:
        """Questions, rows as the rule has them, competitors, queues, and then numbers as numbers."""
        settings = tuple((row[name] is not None, row[name] or 0) for name in numbers)
        place = (row["question"], rule.row_order(row["row"]), _competitor_order(rule, row))
        return (*place, row["queue"], *settings, row["cell"])

    return pl.DataFrame(sorted(rows, key=order), infer_schema_length=None)


def _competitor_order(rule: Rule, row: Mapping[str, Any]) -> tuple[str, int, str]:
    """By name, and then by ECN from off upwards."""
    ecn = row[f"{rule.classic}.ecn"]
    return (row[f"{rule.classic}.cc"], ECN_MODES.index(ecn) if ecn in ECN_MODES else -1, row["column"])


def _below(factors: list[str], group: str, but: tuple[str, ...] = ()) -> list[str]:
    skipped = (f"{group}.cc", *but)
    return [name for name in factors if name.startswith(f"{group}.") and name not in skipped]


def _flow_label(row: Mapping[str, Any], group: str, names: list[str], catalog: Mapping[Any, Any]) -> str:
    """`CUBIC, ECN off`: the congestion control's label, then what else tells this group's cells apart."""
    name = str(row[f"{group}.cc"])
    label = str(catalog.get(("cc", name), {}).get("label", name))
    said = [setting(column.removeprefix(f"{group}."), row[column]) for column in names]
    return ", ".join([label, *(text for text in said if text)])


def _settings(row: Mapping[str, Any], names: list[str]) -> list[str]:
    ordered = sorted(names, key=lambda name: (name != "buffer_bdp", name))
    return [text for name in ordered if (text := setting(name, row[name]))]


_UNITS: Final = {"_mbps": "Mbit/s", "_ms": "ms", "_s": "s", "_bytes": "bytes", "_packets": "packets"}


def setting(name: str, value: object) -> str:
    """`2 BDP`, `rtt 10 ms`, `ECN off`: a factor in words; empty for one that the cell does not have."""
    match value:
        case None:
            return ""
        case bool():
            shown = "on" if value else "off"
        case float():
            shown = f"{value:g}"
        case _:
            shown = str(value)
    if name == "buffer_bdp":
        return f"{shown} BDP"
    if name == "ecn":
        return f"ECN {shown}"
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)} {shown} {unit}"
    return f"{name} {shown}"


def _decided(rule: Rule, row: Mapping[str, Any]) -> bool:
    low, high = row["percent_low"], row["percent_high"]
    if low is None or high is None:
        return False
    limits = rule.limits_percent
    return not (low < limits.low <= high or low <= limits.high < high)


def _cell_mean(row: Mapping[str, Any]) -> CellMean:
    return CellMean(**{name: row[name] for name in CellMean.__dataclass_fields__})


def _verdict(rule: Rule, key: tuple[str, ...], cells: list[CellMean]) -> Verdict:
    question, row, column = key
    limits = rule.limits_percent
    measured = [cell for cell in cells if cell.percent is not None]
    below = any(cell.percent < limits.low for cell in measured if cell.percent is not None)
    above = any(cell.percent > limits.high for cell in measured if cell.percent is not None)
    word = _DIRECTIONS[below, above]
    # A group is ok only if every cell is: one without a valid trial leaves that open.
    if word is Word.OK and len(measured) < len(cells):
        word = Word.INVALID
    low_latency, where = _low_latency(rule, measured)
    return Verdict(
        l4s=question,
        row=row,
        column=column,
        word=word,
        low_latency=low_latency,
        low_latency_in=where,
        cells=tuple(cells),
        worst=max(measured, key=lambda cell: _outside(rule, cell), default=None),
    )


def _outside(rule: Rule, cell: CellMean) -> float:
    """By how many percent of the link's rate a cell is outside of the limits; negative inside."""
    percent = cell.percent if cell.percent is not None else 50.0
    return max(rule.limits_percent.low - percent, percent - rule.limits_percent.high)


def _low_latency(rule: Rule, cells: list[CellMean]) -> tuple[str, tuple[str, ...]]:
    low: dict[str, bool] = {}
    for cell in cells:
        is_low = cell.delay_ms is not None and cell.delay_ms < rule.low_latency_ms
        low[cell.queue] = low.get(cell.queue, True) and is_low
    if low and all(low.values()):
        return "all", ()
    where = tuple(queue for queue, is_low in low.items() if is_low)
    return ("some", where) if where else ("none", ())


def _as_row(rule: Rule, verdict: Verdict) -> dict[str, object]:
    worst = verdict.worst
    delays = [cell.delay_ms for cell in verdict.cells if cell.delay_ms is not None]
    return {
        "rule": rule.rule,
        "version": rule.version,
        "l4s": verdict.l4s,
        "row": verdict.row,
        "column": verdict.column,
        "verdict": verdict.word.value,
        "low_latency": verdict.low_latency,
        "low_latency_in": ", ".join(verdict.low_latency_in) or None,
        "cells": len(verdict.cells),
        "trials": verdict.trials,
        "left_out": verdict.left_out,
        "worst_cell": worst.cell if worst else None,
        "worst_label": worst.label if worst else None,
        "worst_percent": worst.percent if worst else None,
        "worst_l4s_mbps": worst.l4s_mbps if worst else None,
        "worst_classic_mbps": worst.classic_mbps if worst else None,
        "delay_ms": max(delays, default=None),
    }


def _words(column: pl.Series) -> tuple[str, ...]:
    """The different values of a column of lists that are joined by `, `."""
    return tuple(sorted({word for text in column.drop_nulls() for word in str(text).split(", ")}))


def _left_out(trials: pl.DataFrame) -> tuple[LeftOut, ...]:
    rows = trials.filter(pl.col("status") != "ok").select("cell", "trial", "status", "reasons")
    return tuple(
        LeftOut(cell, trial, status, reasons or "") for cell, trial, status, reasons in rows.iter_rows()
    )


def _flagged(trials: pl.DataFrame) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in trials.filter(pl.col("status") == "ok")["flags"].drop_nulls():
        for flag in str(text).split("; "):
            found[flag] = found.get(flag, 0) + 1
    return dict(sorted(found.items()))
