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
from typing import TYPE_CHECKING, Any

import polars as pl

from l4sbench.tables import SCHEMAS, conform
from reports.result.baselines import baseline_cells, with_harm
from reports.result.cells import NOT_FACTORS, cell_means
from reports.result.judging import NOTHING, Judged, Measured, Range, Word, judge, together
from reports.result.labels import competitor_order, labelled

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.rules import Rule

__all__ = ["CellMean", "Decision", "LeftOut", "Verdict", "Word", "decide"]


@dataclass(frozen=True)
class CellMean:
    """One cell as a verdict sees it; the figures are means over its valid trials, None without one.

    `_low` and `_high` are the ends of the means' confidence intervals and `_sd` standard deviations, None
    with fewer than two valid trials; `bimodal` is None with fewer than four. Harm is None where the run has
    no baseline (`reports.result.baselines`).

    Attributes:
        word: What the rule says of this cell.
        decided: Whether the intervals leave no doubt about that, even where the rule looks at means alone.
        outside_percent: By how much it is outside of the rule's limits; negative within.
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
    delay_low_ms: float | None
    delay_high_ms: float | None
    sojourn_p99_ms: float | None
    sojourn_p99_high_ms: float | None
    bimodal: bool | None
    l4s_harm_percent: float | None
    l4s_harm_low_percent: float | None
    l4s_harm_high_percent: float | None
    classic_harm_percent: float | None
    classic_harm_low_percent: float | None
    classic_harm_high_percent: float | None
    classic_same_harm_percent: float | None
    l4s_delay_harm_percent: float | None
    classic_delay_harm_percent: float | None
    word: Word
    decided: bool
    outside_percent: float | None


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
        worst: The cell that decides: a starved one, else one without a valid trial, else an undecided one; of
            several the farthest outside of the limits, or nearest to one.
    """

    l4s: str
    row: str
    column: str
    word: Word
    low_latency: str
    low_latency_in: tuple[str, ...]
    cells: tuple[CellMean, ...]
    worst: CellMean

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
    `baselines` counts cells that others are measured against, `solo` other cells that lack one of the two
    flow groups and so have no place in the table. `looks` is how often a cell may have been looked at while
    trials were added: the intervals of all looks hold together with 95 %.
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
    baselines: int = 0
    looks: int = 1

    @property
    def trials(self) -> int:
        """Valid trials behind all entries."""
        return sum(verdict.trials for verdict in self.verdicts)

    @property
    def trials_per_cell(self) -> Mapping[int, int]:
        """How many cells have how many valid trials, by number of trials."""
        counts = [cell.valid for verdict in self.verdicts for cell in verdict.cells]
        return {n: counts.count(n) for n in sorted(set(counts))}

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
        ordered = sorted(own.to_dicts(), key=lambda cell: competitor_order(self.rule, cell))
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


def decide(tables: RunTables, rule: Rule, looks: int = 1) -> Decision:
    """The decision table of a run.

    Args:
        tables: The run.
        rule: How verdicts are made.
        looks: How often a cell may have been looked at while trials were added to it; the intervals are so
            much wider that those of all looks hold together.

    Raises:
        InputError: no cell has both flow groups that the rule compares.
    """
    means = cell_means(tables, rule.l4s, rule.classic, rule.value, looks)
    rows = labelled(with_harm(means, tables, rule.l4s, rule.classic, rule.value, looks), tables, rule)
    for row in rows:
        judged = _judged(rule, row)
        row |= {"verdict": judged.word.value, "decided": judged.decided}
        row["outside_percent"] = None if judged is NOTHING else judged.outside
    cells = pl.DataFrame(rows, infer_schema_length=None)
    entries = cells.partition_by("question", "row", "column", as_dict=True, maintain_order=True)
    verdicts = [
        _verdict(rule, (str(question), str(row), str(column)), [_cell_mean(cell) for cell in own.to_dicts()])
        for (question, row, column), own in entries.items()
    ]
    trials = tables.trials.filter(pl.col("cell").is_in(cells["cell"].to_list()))
    factors = [name for name in trials.columns if name not in NOT_FACTORS]
    same = [name for name in factors if trials[name].n_unique() == 1 and trials[name].null_count() == 0]
    baselines = baseline_cells(means, tables, rule.l4s, rule.classic)
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
        solo=tables.trials["cell"].n_unique() - cells.height - baselines,
        baselines=baselines,
        looks=looks,
    )


def _judged(rule: Rule, row: Mapping[str, Any]) -> Judged:
    if row["percent"] is None:
        return NOTHING
    measured = Measured(
        l4s=Range(row["percent"], row["percent_low"], row["percent_high"]),
        l4s_kept=_kept(row, "l4s"),
        classic_kept=_kept(row, "classic"),
        own_kind_keeps=_range(row, "classic_same_harm"),
        l4s_flows=row[f"{rule.l4s}.count"],
        classic_flows=row[f"{rule.classic}.count"],
    )
    return judge(rule, measured)


def _kept(row: Mapping[str, Any], group: str) -> Range:
    """What a group keeps of what it gets alone, in percent; without a baseline, of the link's rate."""
    found = _range(row, f"{group}_harm")
    if found is not None:
        return found
    ends = (row[f"{group}{end}_mbps"] for end in ("", "_low", "_high"))
    mean, low, high = (None if mbps is None else mbps / row["rate_mbps"] * 100 for mbps in ends)
    return Range(mean or 0.0, low, high)


def _range(row: Mapping[str, Any], harm: str) -> Range | None:
    """What a harm leaves, in percent; None where the run has no baseline for it."""
    mean, low, high = (row[f"{harm}{end}_percent"] for end in ("", "_low", "_high"))
    if mean is None:
        return None
    return Range(100 - mean, None if high is None else 100 - high, None if low is None else 100 - low)


def _cell_mean(row: Mapping[str, Any]) -> CellMean:
    named = {**row, "word": Word(row["verdict"])}
    return CellMean(**{name: named[name] for name in CellMean.__dataclass_fields__})


def _verdict(rule: Rule, key: tuple[str, ...], cells: list[CellMean]) -> Verdict:
    question, row, column = key
    low_latency, where = _low_latency(rule, cells)
    return Verdict(
        l4s=question,
        row=row,
        column=column,
        word=together(cell.word for cell in cells),
        low_latency=low_latency,
        low_latency_in=where,
        cells=tuple(cells),
        worst=max(cells, key=_badness),
    )


def _badness(cell: CellMean) -> tuple[int, float]:
    """What decides an entry, by the same precedence as `judging.together`, and then the farthest outside."""
    return {Word.OK: 0, Word.UNDECIDED: 1, Word.INVALID: 2}.get(cell.word, 3), cell.outside_percent or 0.0


def _low_latency(rule: Rule, cells: list[CellMean]) -> tuple[str, tuple[str, ...]]:
    """Whose delay is low; a cell without a figure does not show that its is."""
    low: dict[str, bool] = {}
    for cell in cells:
        means = {"mean": cell.delay_ms, "p99": cell.sojourn_p99_ms}
        highs = {"mean": cell.delay_high_ms, "p99": cell.sojourn_p99_high_ms}
        delay_ms = (means if rule.intervals == "none" else highs)[rule.low_latency_of]
        is_low = delay_ms is not None and delay_ms < rule.low_latency_ms
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
        "worst_cell": worst.cell,
        "worst_label": worst.label,
        "worst_trials": worst.valid,
        "worst_percent": worst.percent,
        "worst_low_percent": worst.percent_low,
        "worst_high_percent": worst.percent_high,
        "worst_l4s_mbps": worst.l4s_mbps,
        "worst_classic_mbps": worst.classic_mbps,
        "worst_l4s_harm_percent": worst.l4s_harm_percent,
        "worst_classic_harm_percent": worst.classic_harm_percent,
        "undecided_cells": sum(not cell.decided for cell in verdict.cells),
        "bimodal_cells": sum(bool(cell.bimodal) for cell in verdict.cells),
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
