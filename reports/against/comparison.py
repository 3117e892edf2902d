# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run against published cell means: what differs, by how much, and which cells and verdicts change sides.

The metric is the published one: goodput over the whole flow, in percent of the link's rate. A cell changes
sides when the publication has it under, within or over the limits of the study's rule and the run has it
elsewhere; cells published within `NEAR_PERCENT` of a limit are listed apart, because the publication's own
trials straddle it there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from reports.against.agreement import EntryAgreement, agreement
from reports.published import FACTORS, published_cells
from reports.published.printed import PrintedTable, printed_table
from reports.render.data import figures
from reports.result.cells import cells as results
from reports.result.rules import load_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.load import RunTables
    from reports.result.rules import Limits

NEAR_PERCENT: Final = 5.0

_DEFAULTS: Final = {"l4s.fallback": "off"}
"""Values of published factors in runs whose congestion controls do not have them."""


@dataclass(frozen=True)
class Comparison:
    """Cells of a run beside the published ones.

    `cells` has one row per cell that both have: `FACTORS`, `cell`, `queue` and `competitor` (labels),
    `valid` (trials of the run), `l4s_mbps` and `published_l4s_mbps` and likewise `classic_` and `delay_ms`;
    `difference` (L4S goodput, run minus published, percent of the link's rate), `side` and `published_side`
    (`under`, `within`, `over`), `changes_side`, `near_limit`. `entries` are those of the study's
    printed decision table that the run has a cell of, or that nobody has cells of. `unmatched` counts cells
    of the run that nobody published, `unrun` published cells of the same pairings that the run lacks.
    `limits` are those of the study's rule, in percent of the link's rate; `labels` are what tables call
    queues and congestion controls.
    """

    cells: pl.DataFrame
    study: PrintedTable
    entries: tuple[EntryAgreement, ...]
    unmatched: int
    unrun: int
    trials: tuple[int, int]
    duration_s: tuple[float, ...]
    kernels: tuple[str, ...]
    limits: Limits
    labels: Mapping[str, str]

    def called(self, name: str) -> str:
        """What tables call a queue or a congestion control."""
        return self.labels.get(name, name)

    @property
    def pairings(self) -> Mapping[str, pl.DataFrame]:
        """The cells by who meets whom: `Prague against CUBIC, ECN off`."""
        names = ("l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn")
        parts = self.cells.partition_by(*names, as_dict=True, maintain_order=True)
        return {self._pairing(*map(str, key)): cells for key, cells in parts.items()}

    def _pairing(self, l4s: str, fallback: str, classic: str, ecn: str) -> str:
        switched = "" if fallback == "off" else f", fallback {fallback},"
        return f"{self.called(l4s)}{switched} against {self.called(classic)}, ECN {ecn}"

    @property
    def agreeing(self) -> tuple[int, int, int]:
        """Entries that say what is printed, that differ as an erratum says, and that the run has cells of."""
        known = [entry for entry in self.entries if entry.agrees is not None]
        corrected = sum(entry.agrees_corrected for entry in known)
        return sum(bool(entry.agrees) for entry in known), corrected, len(known)

    @property
    def mean_absolute_error(self) -> float:
        """Mean absolute difference of the L4S goodput, percent of the link's rate."""
        return _mean(self.cells["difference"].abs())

    @property
    def mean_difference(self) -> float:
        """Mean difference of the L4S goodput, run minus published, percent of the link's rate."""
        return _mean(self.cells["difference"])

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's rank correlation of the L4S goodputs over the cells; None with fewer than three."""
        if self.cells.height < 3:
            return None
        rho = self.cells.select(pl.corr("l4s_mbps", "published_l4s_mbps", method="spearman")).item()
        # no rank correlation of what does not vary
        return None if rho is None or math.isnan(rho) else float(rho)

    @property
    def changed(self) -> pl.DataFrame:
        """Cells that change sides, those published near a limit apart."""
        return self.cells.filter(pl.col("changes_side") & ~pl.col("near_limit"))

    @property
    def changed_near_limit(self) -> pl.DataFrame:
        """Cells that change sides and are published near a limit."""
        return self.cells.filter(pl.col("changes_side") & pl.col("near_limit"))

    def by(self, *columns: str) -> pl.DataFrame:
        """Cells, mean absolute error, mean and largest absolute difference by some of the factors."""
        difference = pl.col("difference")
        return self.cells.group_by(*columns, maintain_order=True).agg(
            pl.len().alias("cells"),
            difference.abs().mean().alias("mean_absolute_error"),
            difference.mean().alias("mean_difference"),
            difference.abs().max().alias("largest"),
        )


def compare(
    tables: RunTables, study: str = "pam25", *, l4s: str = "l4s", classic: str = "classic"
) -> Comparison:
    """The run's cells against the published ones.

    Args:
        tables: The run.
        study: Whose printed decision table to put beside the run's, and whose queues to compare.
        l4s: Its flow group that stands for the publication's L4S flow.
        classic: The same for the classic flow.

    Raises:
        InputError: the run has no cell that was published, or there is no such study.
    """
    table = printed_table(study)
    found = results(tables, l4s, classic, "goodput_whole_mbps")
    rows = [
        {"cell": cell.id} | {name: cell.value(name) for name in tables.factors} | figures(cell)
        for cell in found
    ]
    ours = pl.DataFrame(rows, infer_schema_length=None)
    ours = _renamed(_renamed(ours, l4s, "l4s"), classic, "classic")
    for name, value in _DEFAULTS.items():
        column = pl.col(name).fill_null(value) if name in ours.columns else pl.lit(value).alias(name)
        ours = ours.with_columns(column)
    single = [pl.col(f"{group}.count") == 1 for group in ("l4s", "classic")]
    queues = sorted({queue for entry in table.entries for queue in entry.match["aqm"]})
    published = published_cells().filter(pl.col("aqm").is_in(queues))
    total = ours.height
    labels = dict(tables.catalog.select("name", "label").iter_rows())
    ours = ours.filter(*single, pl.col("valid") > 0).with_columns(
        pl.col("aqm").replace(labels).alias("queue"), pl.col("classic.cc").replace(labels).alias("competitor")
    )
    both = ours.join(published, on=list(FACTORS), how="inner")
    if not both.height:
        raise InputError(
            "no cell of the run was published", "published are 100mbit, 10ms and buffer_bdp 0.5 to 8"
        )
    pairing = ["l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn"]
    asked = published.join(both.select(pairing).unique(), on=pairing, how="semi")
    limits = load_rule(table.rule).limits_percent
    cells = _judged(both, limits).sort(*FACTORS, "cell")
    counts = cells["valid"]
    asked_about = set(cells["l4s.cc"])
    return Comparison(
        cells=cells,
        study=table,
        entries=tuple(
            entry
            for entry in agreement(table, ours, published, limits)
            if entry.ok is not None or (entry.published_ok is None and entry.printed.l4s in asked_about)
        ),
        unmatched=total - cells.height,
        unrun=asked.height - cells.select(FACTORS).unique().height,
        trials=(int(str(counts.min())), int(str(counts.max()))),
        duration_s=tuple(sorted(cells["duration_s"].unique().to_list())),
        kernels=tuple(sorted(tables.trials["kernels"].drop_nulls().unique().to_list())),
        limits=limits,
        labels=labels,
    )


def _renamed(cells: pl.DataFrame, group: str, name: str) -> pl.DataFrame:
    """The cells with the factors of a flow group under another group's name."""
    own = {column: column for column in cells.columns if column.startswith(f"{group}.")}
    return cells.rename({column: f"{name}.{column.removeprefix(f'{group}.')}" for column in own})


def _judged(cells: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    published = pl.col("published_l4s_mbps") / pl.col("rate_mbps") * 100
    distances = ((published - limit).abs() for limit in (limits.low, limits.high))
    return cells.with_columns(
        (pl.col("percent") - published).alias("difference"),
        _side(pl.col("percent"), limits).alias("side"),
        _side(published, limits).alias("published_side"),
        (pl.min_horizontal(distances) <= NEAR_PERCENT).alias("near_limit"),
    ).with_columns((pl.col("side") != pl.col("published_side")).alias("changes_side"))


def _side(percent: pl.Expr, limits: Limits) -> pl.Expr:
    return (
        pl.when(percent < limits.low)
        .then(pl.lit("under"))
        .when(percent > limits.high)
        .then(pl.lit("over"))
        .otherwise(pl.lit("within"))
    )


def _mean(values: pl.Series) -> float:
    return float(values.sum()) / values.len() if values.len() else 0.0
