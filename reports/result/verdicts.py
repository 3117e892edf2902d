# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The decision table: is it okay to switch, by a named and versioned rule?

A question is about one congestion control of the rule's L4S group (with those of its parameters that
differ within the run), a row gathers families of queues, a column is a competitor with its ECN. All other
factors - buffers, rates, queue parameters - make the cells behind one entry, and every one of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.facts.factors import FactorColumn
from l4sbench.facts.groups import ECN_MODES
from l4sbench.tables import SCHEMAS, conform
from reports.result.basis import Basis, LeftOut, trials_left_out
from reports.result.cells import (
    CellResult,
    GroupResult,
    cells_and_baselines,
    columns_of,
    factors_of,
    varying,
)
from reports.result.grid import Grid, grid
from reports.result.judging import NOTHING, OPEN, Judged, Measured, Role, Whole, Word, judge, together
from reports.result.labels import BUFFER, Label, Setting

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.rules import Rule
    from reports.result.stats import Estimate

__all__ = [
    "Decision",
    "JudgedCell",
    "Verdict",
    "Word",
    "decide",
    "heat_grid",
]


@dataclass(frozen=True)
class JudgedCell:
    """A cell in its place of the decision table, with its own verdict.

    Attributes:
        result: Its result.
        question: What the table asks about: the L4S congestion control and its settings.
        row: Family of queues.
        column: Competitor.
        label: Queue, and whatever else distinguishes the cells of one entry.
        judged: Its own verdict by the rule.
    """

    result: CellResult
    question: Label
    row: str
    column: Label
    label: Label
    judged: Judged

    @property
    def id(self) -> str:
        """The id of the cell."""
        return self.result.id

    @property
    def word(self) -> Word:
        """Its own verdict."""
        return self.judged.word

    @property
    def sure(self) -> bool:
        """True if the confidence intervals alone give its verdict; False for an open one."""
        return self.word not in OPEN and self.judged.by_intervals is self.word

    @property
    def straddles(self) -> bool:
        """True if its confidence interval has a limit in it, so that more trials may turn the verdict."""
        return self.result.share is not None and self.result.share.low is not None and not self.judged.decided

    def has_low_latency(self, rule: Rule) -> bool:
        """Return True if the L4S group's delay is below the rule's limit; a cell without a figure is not."""
        l4s = self.result.l4s
        delay = l4s.delay if rule.low_latency_of == "mean" else l4s.sojourn_p99
        delay_ms = delay and (delay.value if rule.intervals == "none" else delay.high)
        return delay_ms is not None and delay_ms < rule.low_latency_ms

    def called(self, role: Role) -> str:
        """Return the name of a flow group in tables: `CUBIC`; with its role where both have one name."""
        name, other = self.question.head, self.column.head
        own = name if role == "l4s" else other
        return f"{own} ({role})" if name == other else own


@dataclass(frozen=True)
class Verdict:
    """One entry of the decision table.

    Attributes:
        question: What the question is about.
        row: Family of queues.
        column: Competitor.
        word: The verdict.
        low_latency: `all`, `some` or `none` of the cells keep the L4S flow's delay below the rule's limit.
        low_latency_in: Labels of the queues all of whose cells do, when it is `some`.
        cells: The cells behind it.
        worst: The cell that decides: a starved one, else one without a valid trial, else an undecided one; of
            several the farthest outside of the limits, or nearest to one.
    """

    question: Label
    row: str
    column: Label
    word: Word
    low_latency: str
    low_latency_in: tuple[str, ...]
    cells: tuple[JudgedCell, ...]
    worst: JudgedCell

    @property
    def sure(self) -> bool:
        """True if the confidence intervals of its cells alone give the verdict; False for an open one."""
        return self.word not in OPEN and together(c.judged.by_intervals for c in self.cells) is self.word

    @property
    def unsure_cells(self) -> tuple[JudgedCell, ...]:
        """The cells with valid trials whose own verdicts are not sure."""
        return tuple(cell for cell in self.cells if not cell.sure and cell.result.valid)

    @property
    def trials(self) -> int:
        """Number of valid trials behind it."""
        return sum(cell.result.valid for cell in self.cells)

    @property
    def left_out(self) -> int:
        """Number of invalid and failed trials."""
        return sum(cell.result.left_out for cell in self.cells)


@dataclass(frozen=True)
class Decision(Basis):
    """A decision table with everything it must state about itself.

    Attributes:
        rule: How verdicts were made.
        verdicts: Its entries.
        cells: All cells behind them, in the order of tables.
        columns: All factors of the run, as columns of table `trials`.
        solo: Number of cells that lack one of the two flow groups and are no baselines; they have no place in
            the table.
        baselines: Number of cells that others are measured against.
        looks: How often a cell may have been looked at while trials were added: the intervals of all looks
            hold together with 95 %.
    """

    rule: Rule
    verdicts: tuple[Verdict, ...]
    cells: tuple[JudgedCell, ...]
    columns: tuple[str, ...]
    solo: int
    baselines: int = 0
    looks: int = 1

    def __repr__(self) -> str:
        entries = (f"{entry.row} against {entry.column}: {entry.word}" for entry in self.verdicts)
        return f"<Decision by rule {self.rule.rule}: {'; '.join(entries) or 'no verdict'}>"

    @property
    def pair(self) -> tuple[str, str]:
        """The L4S and the classic flow group."""
        return self.rule.l4s, self.rule.classic

    @property
    def trials(self) -> int:
        """Number of valid trials behind all entries."""
        return sum(verdict.trials for verdict in self.verdicts)

    @property
    def trials_per_cell(self) -> Mapping[int, int]:
        """Numbers of cells by their number of valid trials."""
        return dict(sorted(Counter(cell.result.valid for cell in self.cells).items()))

    @property
    def in_doubt(self) -> tuple[JudgedCell, ...]:
        """The cells that more trials may help: those in doubt behind entries that are not sure."""
        return tuple(cell for verdict in self.verdicts if not verdict.sure for cell in verdict.unsure_cells)

    @property
    def questions(self) -> tuple[Label, ...]:
        """The questions of the table, in order."""
        return tuple(dict.fromkeys(verdict.question for verdict in self.verdicts))

    def table(self, question: Label) -> Grid[Label, str, Label, Verdict]:
        """Return the decision table of one question: rows as the rule orders them, competitors across."""
        first = {cell.column: cell.result for cell in reversed(self.cells) if cell.question == question}
        return grid(
            (verdict for verdict in self.verdicts if verdict.question == question),
            panel=lambda verdict: verdict.question,
            row=lambda verdict: verdict.row,
            column=lambda verdict: verdict.column,
            row_order=self.rule.row_order,
            column_order=lambda column: _competitor_order(self.rule, first[column], column),
        )

    def by_queue(self, entries: Iterable[Verdict | None]) -> Mapping[str, tuple[Verdict | None, ...]]:
        """Return the parts of a row's entries that are each of one queue; nothing unless it has several."""
        parts = [
            {} if entry is None else {q: _verdict(self.rule, own) for q, own in _of_queues(entry).items()}
            for entry in entries
        ]
        queues = dict.fromkeys(queue for own in parts for queue in own)
        return {} if len(queues) < 2 else {queue: tuple(own.get(queue) for own in parts) for queue in queues}

    def frame(self) -> pl.DataFrame:
        """Return the table `verdicts`."""
        rows = [_as_row(self.rule, verdict) for verdict in self.verdicts]
        return conform("verdicts", pl.DataFrame(rows, schema=SCHEMAS["verdicts"].create_empty().schema))


def _of_queues(entry: Verdict) -> dict[str, list[JudgedCell]]:
    found: dict[str, list[JudgedCell]] = {}
    for cell in entry.cells:
        found.setdefault(cell.label.head, []).append(cell)
    return found


_APART: Final = FactorColumn("cell", "cell")


def heat_grid(cells: Sequence[JudgedCell], across: str) -> Grid[None, Label, Setting | None, JudgedCell]:
    """Place cells with queues and their settings down and the values of one factor across.

    A cell that has no such factor is in the last column, None. Of two cells in one place, the second has a
    row of its own, named by the hash in its id.
    """

    def apart(_: JudgedCell, cell: JudgedCell, row: Label) -> Label:
        return Label(row.head, (*row.settings, Setting(_APART, cell.id.rpartition("-")[2])))

    return grid(
        cells,
        row=lambda cell: cell.label.without(across),
        column=lambda cell: cell.result.factors.get(across),
        panel=lambda _: None,
        column_order=lambda at: (at is None, 0.0 if at is None else at.amount),
        clash=apart,
    )


def decide(tables: RunTables, rule: Rule, looks: int = 1) -> Decision:
    """Make the decision table of a run.

    Args:
        tables: The run.
        rule: How verdicts are made.
        looks: How often a cell may have been looked at while trials were added to it; the intervals are so
            much wider that those of all looks hold together.

    Raises:
        InputError: no cell has both flow groups that the rule compares.
    """
    results, found = cells_and_baselines(tables, rule.l4s, rule.classic, rule.value, looks)
    judged = _placed(results, tables, rule)
    entries: dict[tuple[Label, str, Label], list[JudgedCell]] = {}
    for cell in judged:
        entries.setdefault((cell.question, cell.row, cell.column), []).append(cell)
    judged_cells = pl.col("cell").is_in([cell.id for cell in results])
    trials, valid = tables.trials.filter(judged_cells), tables.valid.filter(judged_cells)
    every = factors_of(tables)
    baselines = len(found.cells(cell.factors for cell in results))
    first = results[0].factors
    return Decision(
        rule=rule,
        verdicts=tuple(_verdict(rule, own) for own in entries.values()),
        cells=tuple(judged),
        columns=tuple(tables.factors),
        kernels=tuple(tables.listed("kernels", trials)),
        modules=tuple(tables.listed("modules", trials)),
        testbeds=tuple(tables.listed("testbed", trials)),
        # those of baselines, too: without them a group is measured by the link's rate
        left_out=(*trials_left_out(tables.trials), *_not_measured(tables, rule, valid)),
        flagged=tables.listed("flags", valid),
        fixed={name: first[name] for name in first if not varying(results, [name])},
        solo=len(every) - len(results) - baselines,
        baselines=baselines,
        looks=looks,
    )


def _not_measured(tables: RunTables, rule: Rule, valid: pl.DataFrame) -> Iterator[LeftOut]:
    """Yield those of `valid` trials that do not count because a group's goodput is not known."""
    rest = valid.select("cell", "trial")
    for group in (rule.l4s, rule.classic):
        known = tables.totals(group, rule.value)
        missing = rest.join(known, on=["cell", "trial"], how="anti", maintain_order="left")
        rest = rest.join(missing, on=["cell", "trial"], how="anti", maintain_order="left")
        why = f"the goodput of {group} is not known: a flow of it was over before the warm-up"
        yield from (LeftOut(cell, trial, "ok", why) for cell, trial in missing.iter_rows())


def _placed(results: Sequence[CellResult], tables: RunTables, rule: Rule) -> list[JudgedCell]:
    """Return the cells with their verdicts and the entries they belong to, in the order of tables."""
    families = dict(tables.catalog.filter(pl.col("kind") == "queue").select("name", "family").iter_rows())
    columns = columns_of(results)
    l4s, classic, ecn = f"{rule.l4s}.", f"{rule.classic}.", f"{rule.classic}.ecn"
    own = [name for name in columns if name.startswith(l4s) and name != f"{l4s}cc"]
    others = [name for name in columns if name.startswith(classic) and name not in (f"{classic}cc", ecn)]
    asked = varying(results, own, within=f"{l4s}cc")
    against = varying(results, others, within=f"{classic}cc")
    # what all cells with one congestion control share says nothing beside its name
    named = {*own, *others, ecn, f"{l4s}cc", f"{classic}cc", "aqm"}
    rest = varying(results, [name for name in columns if name not in named], within="aqm")
    rest.sort(key=lambda name: (name != BUFFER, name))
    together = rule.columns.together

    def settings(cell: CellResult, names: Sequence[str], under: str = "") -> tuple[Setting, ...]:
        return tuple(cell.factors[name].below(under) for name in names if name in cell.factors)

    found: list[JudgedCell] = []
    for cell in results:
        shown, further = settings(cell, [ecn], classic), settings(cell, rest)
        if cell.value(ecn) in together:
            further += shown
            shown = (replace(shown[0], value=" or ".join(together)),)
        found.append(
            JudgedCell(
                result=cell,
                question=Label(cell.factors[f"{l4s}cc"].called, settings(cell, asked, l4s)),
                row=rule.row_of(str(cell.queue.value), families.get(cell.queue.value)),
                column=Label(
                    cell.factors[f"{classic}cc"].called, (*shown, *settings(cell, against, classic))
                ),
                label=Label(cell.queue.called, further),
                judged=_judged(rule, cell),
            )
        )

    words = {name for cell in results for name in rest if isinstance(cell.value(name), str | bool)}
    numbers = sorted(set(rest) - words)

    def order(cell: JudgedCell) -> tuple[object, ...]:
        """Sort by question, row in the order of the rule, competitor, queue, and numbers as numbers."""
        own = cell.result
        amounts = [(name in own.factors, own.value(name) or 0.0) for name in numbers]
        competitor = _competitor_order(rule, own, cell.column)
        return (cell.question.order, rule.row_order(cell.row), competitor, cell.label.head, amounts, cell.id)

    return sorted(found, key=order)


def _competitor_order(rule: Rule, cell: CellResult, column: Label) -> tuple[str, int, tuple[object, ...]]:
    """Sort competitors by name, and then by ECN from off upwards."""
    ecn = cell.value(f"{rule.classic}.ecn")
    place = ECN_MODES.index(ecn) if isinstance(ecn, str) and ecn in ECN_MODES else -1
    return (str(cell.value(f"{rule.classic}.cc")), place, column.order)


def _judged(rule: Rule, cell: CellResult) -> Judged:
    if cell.share is None:
        return NOTHING

    def kept(group: GroupResult) -> tuple[Estimate, Whole]:
        """Return the group's goodput in percent of that alone; without a baseline, of the link's rate."""
        assert group.goodput is not None  # noqa: S101  (the cell has a valid trial)
        if rule.metric == "l4s-goodput" or group.harm is None or group.alone is None:
            return group.goodput.percent_of(cell.rate_mbps), Whole(cell.rate_mbps)
        return group.harm.rest, Whole(group.alone.value, group.alone.trials)

    (l4s, l4s_whole), (classic, classic_whole) = kept(cell.l4s), kept(cell.classic)
    same = cell.classic.same_harm
    return judge(
        rule,
        Measured(
            l4s=cell.share,
            l4s_kept=l4s,
            classic_kept=classic,
            own_kind_keeps=None if same is None else same.rest,
            l4s_flows=cell.l4s.flows,
            classic_flows=cell.classic.flows,
            l4s_whole=l4s_whole,
            classic_whole=classic_whole,
        ),
    )


def _verdict(rule: Rule, cells: Sequence[JudgedCell]) -> Verdict:
    low_latency, where = _low_latency(rule, cells)
    return Verdict(
        question=cells[0].question,
        row=cells[0].row,
        column=cells[0].column,
        word=together(cell.word for cell in cells),
        low_latency=low_latency,
        low_latency_in=where,
        cells=tuple(cells),
        worst=max(cells, key=_badness),
    )


def _badness(cell: JudgedCell) -> tuple[int, float]:
    """Sort key of the cell that decides: the precedence of `judging.together`, then the farthest outside."""
    rank = {Word.OK: 0, Word.UNDECIDED: 1, Word.INVALID: 2}.get(cell.word, 3)
    return rank, cell.judged.outside_percent or 0.0


def _low_latency(rule: Rule, cells: Sequence[JudgedCell]) -> tuple[str, tuple[str, ...]]:
    """Find the queues with low latency in all their cells."""
    low: dict[str, bool] = {}
    for cell in cells:
        queue = cell.label.head
        low[queue] = low.get(queue, True) and cell.has_low_latency(rule)
    if low and all(low.values()):
        return "all", ()
    where = tuple(queue for queue, is_low in low.items() if is_low)
    return ("some", where) if where else ("none", ())


def _as_row(rule: Rule, verdict: Verdict) -> dict[str, object]:
    worst = verdict.worst.result
    share, l4s, classic = worst.share, worst.l4s, worst.classic
    delays = [cell.result.l4s.delay.value for cell in verdict.cells if cell.result.l4s.delay is not None]
    return {
        "rule": rule.rule,
        "version": rule.version,
        "sure": verdict.sure,
        "l4s": str(verdict.question),
        "row": verdict.row,
        "column": str(verdict.column),
        "verdict": verdict.word.value,
        "low_latency": verdict.low_latency,
        "low_latency_in": ", ".join(verdict.low_latency_in) or None,
        "cells": len(verdict.cells),
        "trials": verdict.trials,
        "left_out": verdict.left_out,
        "worst_cell": worst.id,
        "worst_label": str(verdict.worst.label),
        "worst_trials": worst.valid,
        "worst_percent": share and share.value,
        "worst_low_percent": share and share.low,
        "worst_high_percent": share and share.high,
        "worst_l4s_mbps": l4s.goodput and l4s.goodput.value,
        "worst_classic_mbps": classic.goodput and classic.goodput.value,
        "worst_l4s_harm_percent": l4s.harm and l4s.harm.value,
        "worst_classic_harm_percent": classic.harm and classic.harm.value,
        "undecided_cells": sum(cell.straddles for cell in verdict.cells),
        "bimodal_cells": sum(bool(cell.result.bimodal) for cell in verdict.cells),
        "delay_ms": max(delays, default=None),
    }
