# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two runs cell by cell: metrics that got better or worse by more than noise.

For each metric of a cell two one-sided tests check if the new run's mean is worse than the base's by more
than the margin, or better by more than the margin. They are Welch's t-tests, shifted by the margin, on the
trials' values. Trials of equal seeds are not paired, because any change decorrelates them. Benjamini and
Hochberg's procedure (1995) corrects all tests of a comparison together: when nothing changed, the chance of
any alarm is at most the false discovery rate, however many cells there are.

A metric that is neither worse nor better is the `same` when the interval of the difference is within the
margins (two one-sided tests at 5 %, Schuirmann 1987), else `unclear`: more trials would decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from l4sbench.errors import InputError
from reports.compare.welch import MeanDifference, difference, largest_p
from reports.result.load import BULK, COUNTED
from reports.result.measured import labels_of
from reports.result.stats import Estimate, estimate

if TYPE_CHECKING:
    from reports.compare.margins import Margins
    from reports.result.load import RunTables
    from reports.result.verdicts import Word

EQUIVALENCE_P: Final = 0.05
"""Level of each of the two one-sided tests that show a difference to be within the margins."""

_UNITS: Final = {"unfairness_percent": "%", "utilisation_percent": "%", "delay_ms": "ms"}

HIGHER_IS_BETTER: Final = frozenset({"utilisation_percent"})


class ChangeKind(StrEnum):
    """The outcome of a metric of a cell, what needs attention first."""

    WORSE = "worse"
    BETTER = "better"
    UNCLEAR = "unclear"
    SAME = "same"


class Presence(StrEnum):
    """The runs, of the two, that have valid trials of a cell."""

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
        base, new: Means over the valid trials, with intervals.
        difference: New minus base; None with fewer than two trials of either.
        margin: Difference that does not matter, in the metric's unit.
        p_worse, p_better: Of the two tests, before the correction; None with fewer than two trials.
        change: The outcome.
    """

    metric: str
    group: str
    base: Estimate
    new: Estimate
    difference: MeanDifference | None
    margin: float
    p_worse: float | None
    p_better: float | None
    change: ChangeKind

    @property
    def new_is_worse(self) -> bool:
        """True if the new mean is on the worse side of the base's, by however little."""
        return (self.new.value < self.base.value) == (self.metric in HIGHER_IS_BETTER)

    @property
    def in_margins(self) -> float:
        """The size of the difference, as a multiple of the margin; infinite where there is no margin."""
        size = abs(self.new.value - self.base.value)
        return size / self.margin if self.margin else math.inf if size else 0.0

    @property
    def name(self) -> str:
        """The metric with its group: `delay_ms of l4s`."""
        return f"{self.metric} of {self.group}" if self.group else self.metric


@dataclass(frozen=True)
class CellChange:
    """One cell in both runs.

    Attributes:
        cell: Its id.
        label: The cell in words.
        presence: Which runs have it.
        trials: Number of valid trials of base and new.
        left_out: Number of invalid and failed trials of base and new.
        metrics: Its metrics, where both runs have them.
        words: Its own verdicts in base and new; None where there is none.
    """

    cell: str
    label: str
    presence: Presence
    trials: tuple[int, int]
    left_out: tuple[int, int]
    metrics: tuple[MetricChange, ...] = ()
    words: tuple[Word | None, Word | None] = (None, None)

    @property
    def change(self) -> ChangeKind | None:
        """The outcome of all its metrics: the worst of them, `same` only if all are; None without any."""
        return next((one for one in ChangeKind if self.has(one)), None)

    @property
    def furthest(self) -> MetricChange | None:
        """The metric that decides `change`; of several the one with the largest difference, in margins."""
        own = [metric for metric in self.metrics if metric.change is self.change]
        return max(own, key=lambda metric: metric.in_margins, default=None)

    @property
    def regressed(self) -> bool:
        """True if a metric is worse, or the cell was run again and has no valid trial any more."""
        return self.presence is Presence.LOST or self.has(ChangeKind.WORSE)

    def has(self, change: ChangeKind) -> bool:
        """Return True if any metric has this outcome."""
        return any(metric.change is change for metric in self.metrics)


_Key: TypeAlias = tuple[str, str]
"""Metric and group."""
_Values: TypeAlias = Mapping[_Key, Sequence[float]]
"""One value per valid trial."""


def changes(base: RunTables, new: RunTables, margins: Margins) -> tuple[CellChange, ...]:
    """Return every cell that either run has, in the order of the base's cells and then the new run's.

    Raises:
        InputError: the two runs have no cell in common, or have no table `catalog`.
    """
    counts = (base.counts(), new.counts())
    if not set(counts[0]) & set(counts[1]):
        raise InputError(
            "the two runs have no cell in common", "compare runs of the same matrix, or of overlapping ones"
        )
    values = (_values(base), _values(new))
    labels = labels_of(new) | labels_of(base)
    found: list[CellChange] = []
    for cell in dict.fromkeys((*counts[0], *counts[1])):
        (was, was_out), (now, now_out) = (count.get(cell, (0, 0)) for count in counts)
        if cell not in counts[1]:
            presence = Presence.NOT_RUN
        elif not was:
            presence = Presence.NEW
        else:
            presence = Presence.BOTH if now else Presence.LOST
        metrics = (
            _metrics(values[0].get(cell, {}), values[1].get(cell, {}), margins)
            if presence is Presence.BOTH
            else ()
        )
        found.append(CellChange(cell, str(labels[cell]), presence, (was, now), (was_out, now_out), metrics))
    return _corrected(found, margins.false_discovery_percent / 100)


def _values(tables: RunTables) -> dict[str, _Values]:
    """Return every cell's metrics, those of the flow groups last."""
    valid = tables.valid.select("cell", "trial", "rate_mbps")
    groups = tables.groups.join(valid, on=["cell", "trial"])
    flows, goodput = pl.col("flows"), pl.col("goodput_mbps")
    of_bulk = tables.flows.filter(BULK & COUNTED).group_by("cell", "trial")
    unknown = of_bulk.agg((goodput.null_count() > 0).alias("unknown"))
    groups = groups.join(unknown, on=["cell", "trial"], how="left", maintain_order="left")
    used = goodput.sum() / pl.col("rate_mbps").first() * 100
    # The total variation distance between the groups' shares of the goodput and of the flows; of two
    # groups, by how much one is over its fair share.
    off = (goodput / goodput.sum() - flows / flows.sum()).abs().sum() / 2 * 100
    per_trial = groups.group_by("cell", "trial", maintain_order=True).agg(
        pl.when(~pl.col("unknown").first().fill_null(value=False)).then(used).alias("utilisation_percent"),
        pl.when(pl.len() > 1, goodput.null_count() == 0).then(off).fill_nan(None).alias("unfairness_percent"),
    )
    columns = (
        *((per_trial, name, pl.lit(""), name) for name in ("utilisation_percent", "unfairness_percent")),
        (groups, "delay_ms", pl.col("group"), "srtt_minus_base_ms"),
    )
    found: dict[str, dict[_Key, Sequence[float]]] = {}
    for frame, metric, group, column in columns:
        rows = frame.drop_nulls(column).group_by("cell", group.alias("of"), maintain_order=True).agg(column)
        for cell, of, values in rows.iter_rows():
            found.setdefault(cell, {})[metric, of] = values
    return dict(found)


def _metrics(base: _Values, new: _Values, margins: Margins) -> tuple[MetricChange, ...]:
    """Test every metric that both runs have and that has a margin, each on its own."""
    found: list[MetricChange] = []
    for (name, group), was in base.items():
        margin, now = margins.of(name), new.get((name, group))
        if margin is None or now is None:
            continue
        of = estimate(was, _UNITS[name]), estimate(now, _UNITS[name])
        at, apart = margin.at(of[0].value), difference(*of)
        above = below = inside = None
        if apart is not None:
            above, below = apart.p_above(at), apart.p_below(-at)
            inside = max(apart.p_below(at), apart.p_above(-at)) <= EQUIVALENCE_P
        worse, better = (below, above) if name in HIGHER_IS_BETTER else (above, below)
        # Equal values are no difference at all, even those of a single trial.
        same = inside or list(was) == list(now)
        outcome = ChangeKind.SAME if same else ChangeKind.UNCLEAR
        found.append(MetricChange(name, group, *of, apart, at, worse, better, outcome))
    return tuple(found)


def _corrected(cells: Sequence[CellChange], rate: float) -> tuple[CellChange, ...]:
    """Mark those metrics worse or better that remain so after the correction for many tests."""
    every = [p for cell in cells for metric in cell.metrics for p in (metric.p_worse, metric.p_better)]
    limit = largest_p([p for p in every if p is not None], rate)

    def judged(metric: MetricChange) -> MetricChange:
        for p, change in ((metric.p_worse, ChangeKind.WORSE), (metric.p_better, ChangeKind.BETTER)):
            if p is not None and p <= limit:
                return replace(metric, change=change)
        return metric

    return tuple(replace(cell, metrics=tuple(map(judged, cell.metrics))) for cell in cells)
