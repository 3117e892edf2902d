# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two runs cell by cell: what got better or worse, and is that more than noise?

Every metric is turned so that less is better, and for each cell two one-sided tests ask whether the new run's
mean is above the base's by more than the margin (worse), or below by more than it (better). They are Welch's
unequal-variances t-tests (Welch 1947), shifted by the margin, on the trials' values; trials of equal seeds
are not paired, because a change of anything decorrelates them. All tests of a comparison are corrected
together by Benjamini and Hochberg's procedure (1995): when nothing changed, the chance of any alarm is at
most the false discovery rate, however many cells there are.

What is neither worse nor better is the `same` when the interval of the difference lies within the margins
(two one-sided tests at 5 %, Schuirmann 1987), else `unclear`: more trials would tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.comparing.margins import Margins
    from reports.result.load import RunTables

EQUIVALENCE_P: Final = 0.05
"""Level of each of the two one-sided tests that show a difference to lie within the margins."""

HIGHER_IS_BETTER: Final = frozenset({"utilisation_percent"})


class Change(StrEnum):
    """What became of a metric of a cell."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    UNCLEAR = "unclear"


class Presence(StrEnum):
    """Which of the two runs has valid trials of a cell."""

    BOTH = "both"
    LOST = "lost"
    NEW = "new"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class MetricChange:
    """One metric of one cell in both runs.

    Attributes:
        metric: Name with its unit; `delay_ms` is one per flow group.
        group: The flow group, or empty where the metric is about all flows.
        base, new: Means over the trials.
        trials: Valid trials of base and new.
        margin: Difference that does not matter, in the metric's unit.
        p_worse, p_better: Of the two tests, before the correction; None with fewer than two trials.
        change: The outcome.
    """

    metric: str
    group: str
    base: float
    new: float
    trials: tuple[int, int]
    margin: float
    p_worse: float | None
    p_better: float | None
    change: Change

    @property
    def new_is_worse(self) -> bool:
        """Whether the new mean is on the worse side of the base's, by however little."""
        return (self.new < self.base) == (self.metric in HIGHER_IS_BETTER)

    @property
    def name(self) -> str:
        """`delay_ms of l4s`."""
        return f"{self.metric} of {self.group}" if self.group else self.metric


@dataclass(frozen=True)
class CellChange:
    """One cell: which runs have it, its trials, and its metrics where both have them.

    `trials` and `left_out` are valid, and invalid or failed trials, of base and new.
    """

    cell: str
    presence: Presence
    trials: tuple[int, int]
    left_out: tuple[int, int]
    metrics: tuple[MetricChange, ...] = ()

    @property
    def regressed(self) -> bool:
        """Whether anything is worse, or the cell has no valid trial any more though it was run again."""
        return self.presence is Presence.LOST or self.has(Change.WORSE)

    def has(self, change: Change) -> bool:
        """Whether any metric came out so."""
        return any(metric.change is change for metric in self.metrics)


def changes(base: RunTables, new: RunTables, margins: Margins) -> tuple[CellChange, ...]:
    """Every cell that either run has, in the order of the base's cells and then the new run's.

    Raises:
        InputError: the two runs have no cell in common.
    """
    ids = list(dict.fromkeys([*_cells(base), *_cells(new)]))
    if not set(_cells(base)) & set(_cells(new)):
        raise InputError(
            "the two runs have no cell in common", "compare runs of the same matrix, or of overlapping ones"
        )
    values = (_values(base), _values(new))
    counts = (_counts(base), _counts(new))
    found = [_cell_change(cell, values, counts, margins) for cell in ids]
    return _corrected(found, margins.false_discovery_percent / 100)


_Key = tuple[str, str]
"""Metric and group."""


def _cells(tables: RunTables) -> list[str]:
    return tables.trials["cell"].unique(maintain_order=True).to_list()


def _counts(tables: RunTables) -> Mapping[str, tuple[int, int]]:
    valid = (pl.col("status") == "ok").sum()
    counted = tables.trials.group_by("cell").agg(valid.alias("ok"), pl.len().alias("all"))
    return {cell: (int(ok), int(everything - ok)) for cell, ok, everything in counted.iter_rows()}


def _values(tables: RunTables) -> Mapping[str, Mapping[_Key, list[float]]]:
    """Cell -> metric -> one value per valid trial."""
    groups = tables.groups.join(
        tables.trials.filter(pl.col("status") == "ok").select("cell", "trial", "rate_mbps"),
        on=["cell", "trial"],
    )
    flows, goodput = pl.col("flows"), pl.col("goodput_mbps")
    per_trial = groups.group_by("cell", "trial", maintain_order=True).agg(
        # The total variation distance between the groups' shares of the goodput and of the flows; of two
        # groups, by how much one is over its fair share.
        ((goodput / goodput.sum() - flows / flows.sum()).abs().sum() / 2 * 100).alias("unfairness_percent"),
        (goodput.sum() / pl.col("rate_mbps").first() * 100).alias("utilisation_percent"),
        pl.len().alias("groups"),
    )
    found: dict[str, dict[_Key, list[float]]] = {}
    for row in per_trial.iter_rows(named=True):
        own = found.setdefault(row["cell"], {})
        own.setdefault(("utilisation_percent", ""), []).append(row["utilisation_percent"])
        if row["groups"] > 1 and not math.isnan(row["unfairness_percent"]):
            own.setdefault(("unfairness_percent", ""), []).append(row["unfairness_percent"])
    for row in groups.drop_nulls("srtt_minus_base_ms").iter_rows(named=True):
        key = ("delay_ms", row["group"])
        found.setdefault(row["cell"], {}).setdefault(key, []).append(row["srtt_minus_base_ms"])
    return found


def _cell_change(
    cell: str,
    values: tuple[Mapping[str, Mapping[_Key, list[float]]], ...],
    counts: tuple[Mapping[str, tuple[int, int]], ...],
    margins: Margins,
) -> CellChange:
    there = [count.get(cell) for count in counts]
    trials = (there[0][0] if there[0] else 0, there[1][0] if there[1] else 0)
    left_out = (there[0][1] if there[0] else 0, there[1][1] if there[1] else 0)
    if there[1] is None:
        presence = Presence.NOT_RUN
    elif not trials[0]:
        presence = Presence.NEW
    else:
        presence = Presence.BOTH if trials[1] else Presence.LOST
    metrics: list[MetricChange] = []
    if presence is Presence.BOTH:
        base, new = (run.get(cell, {}) for run in values)
        metrics = [
            _metric_change(key, base[key], new[key], margins)
            for key in base
            if key in new and key[0] in margins.metrics
        ]
    return CellChange(cell, presence, trials, left_out, tuple(metrics))


def _metric_change(key: _Key, base: Sequence[float], new: Sequence[float], margins: Margins) -> MetricChange:
    name, group = key
    means = (_mean(base), _mean(new))
    margin = next(own for metric, own in margins.metrics.items() if metric == name).at(means[0])
    sign = -1.0 if name in HIGHER_IS_BETTER else 1.0
    worse = _p_above(base, new, sign, margin)
    better = _p_above(base, new, -sign, margin)
    # Equal means are no difference at all, whatever the trials' number.
    inside = [_p_above(base, new, turn, -margin) for turn in (1.0, -1.0)]
    shown_inside = all(p is not None and p <= EQUIVALENCE_P for p in inside)
    same = list(base) == list(new) or shown_inside
    return MetricChange(
        metric=name,
        group=group,
        base=means[0],
        new=means[1],
        trials=(len(base), len(new)),
        margin=margin,
        p_worse=worse,
        p_better=better,
        change=Change.SAME if same else Change.UNCLEAR,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _p_above(base: Sequence[float], new: Sequence[float], sign: float, margin: float) -> float | None:
    """One-sided p of `sign * (mean of new - mean of base) > margin`; None with fewer than two trials."""
    from scipy.special import stdtr

    if min(len(base), len(new)) < 2:
        return None
    difference = sign * (_mean(new) - _mean(base)) - margin
    parts = [_variance(values) / len(values) for values in (base, new)]
    error = math.sqrt(sum(parts))
    # Trials that do not vary (to rounding) leave no room for chance.
    if error <= 1e-12 * max(abs(_mean(base)), abs(_mean(new)), 1.0):
        return 0.0 if difference > 0 else 1.0
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (base, new), strict=True)
    )
    return float(stdtr(freedom, -difference / error))


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _corrected(cells: Sequence[CellChange], rate: float) -> tuple[CellChange, ...]:
    """The cells with those metrics worse or better that stand after the correction for many tests."""
    every = [p for cell in cells for metric in cell.metrics for p in (metric.p_worse, metric.p_better)]
    limit = _largest_p([p for p in every if p is not None], rate)
    return tuple(
        replace(cell, metrics=tuple(_judged(metric, limit) for metric in cell.metrics)) for cell in cells
    )


def _largest_p(values: Sequence[float], rate: float) -> float:
    """The largest p value that Benjamini and Hochberg's procedure rejects; -1 when it rejects none."""
    ordered = sorted(values)
    passing = [p for rank, p in enumerate(ordered, 1) if p <= rate * rank / len(ordered)]
    return max(passing, default=-1.0)


def _judged(metric: MetricChange, limit: float) -> MetricChange:
    if metric.p_worse is not None and metric.p_worse <= limit:
        return replace(metric, change=Change.WORSE)
    if metric.p_better is not None and metric.p_better <= limit:
        return replace(metric, change=Change.BETTER)
    return metric
