# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run against published cell means: what differs, by how much, and which cells change sides.

The metric is the published one: goodput over the whole flow, in percent of the link's rate. A cell changes
sides when the publication has it under, within or over the limits and the run has it elsewhere; cells
published within `NEAR_PERCENT` of a limit are listed apart, because the publication's own trials straddle
it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from reports.cells import cell_means
from reports.published import FACTORS, errata, published_cells

if TYPE_CHECKING:
    from reports.load import RunTables

LOW_PERCENT: Final = 20.0
HIGH_PERCENT: Final = 80.0
NEAR_PERCENT: Final = 5.0

_DEFAULTS: Final = {"l4s.fallback": "off"}
"""Values of published factors in runs whose congestion controls do not have them."""


@dataclass(frozen=True)
class Comparison:
    """Cells of a run beside the published ones.

    `cells` has one row per cell that both have: `FACTORS`, `cell`, `queue` (label), `valid` (trials of the
    run), `l4s_mbps` and `published_l4s_mbps` and likewise `classic_` and `delay_ms`; `difference` (L4S
    goodput, run minus published, percent of the link's rate), `side` and `published_side` (`under`,
    `within`, `over`), `changes_side`, `near_limit`. `unmatched` counts cells of the run that nobody
    published, `unrun` published cells of the same pairings that the run lacks.
    """

    cells: pl.DataFrame
    unmatched: int
    unrun: int
    trials: tuple[int, int]
    duration_s: tuple[float, ...]
    kernels: tuple[str, ...]

    @property
    def mean_absolute_error(self) -> float:
        """Mean absolute difference of the L4S goodput, percent of the link's rate."""
        return _mean(self.cells["difference"].abs())

    @property
    def mean_difference(self) -> float:
        """Mean difference of the L4S goodput, run minus published, percent of the link's rate."""
        return _mean(self.cells["difference"])

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


def compare(tables: RunTables, l4s: str = "l4s", classic: str = "classic") -> Comparison:
    """The run's cells against the published ones.

    Args:
        tables: The run.
        l4s: Its flow group that stands for the publication's L4S flow.
        classic: The same for the classic flow.

    Raises:
        InputError: the run has no cell that was published.
    """
    ours = cell_means(tables, l4s, classic, "goodput_whole_mbps")
    ours = _renamed(_renamed(ours, l4s, "l4s"), classic, "classic")
    for name, value in _DEFAULTS.items():
        column = pl.col(name).fill_null(value) if name in ours.columns else pl.lit(value).alias(name)
        ours = ours.with_columns(column)
    single = [pl.col(f"{group}.count") == 1 for group in ("l4s", "classic")]
    published = published_cells()
    both = (
        ours.filter(*single, pl.col("valid") > 0)
        .join(published, on=list(FACTORS), how="inner")
        .join(_labels(tables), on="aqm", how="left")
        .with_columns(pl.col("queue").fill_null(pl.col("aqm")))
    )
    if not both.height:
        raise InputError(
            "no cell of the run was published", "published are 100mbit, 10ms and buffer_bdp 0.5 to 8"
        )
    pairing = ["l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn"]
    asked = published.join(both.select(pairing).unique(), on=pairing, how="semi")
    cells = _judged(both).sort(*FACTORS, "cell")
    counts = cells["valid"]
    return Comparison(
        cells=cells,
        unmatched=ours.height - cells.height,
        unrun=asked.height - cells.select(FACTORS).unique().height,
        trials=(int(str(counts.min())), int(str(counts.max()))),
        duration_s=tuple(sorted(cells["duration_s"].unique().to_list())),
        kernels=tuple(sorted(tables.trials["kernels"].drop_nulls().unique().to_list())),
    )


def _renamed(cells: pl.DataFrame, group: str, name: str) -> pl.DataFrame:
    """The cells with the factors of a flow group under another group's name."""
    own = {column: column for column in cells.columns if column.startswith(f"{group}.")}
    return cells.rename({column: f"{name}.{column.removeprefix(f'{group}.')}" for column in own})


def _labels(tables: RunTables) -> pl.DataFrame:
    queues = tables.catalog.filter(pl.col("kind") == "queue")
    return queues.select(pl.col("name").alias("aqm"), pl.col("label").alias("queue"))


def _judged(cells: pl.DataFrame) -> pl.DataFrame:
    published = pl.col("published_l4s_mbps") / pl.col("rate_mbps") * 100
    near = (
        pl.min_horizontal((published - limit).abs() for limit in (LOW_PERCENT, HIGH_PERCENT)) <= NEAR_PERCENT
    )
    return cells.with_columns(
        (pl.col("percent") - published).alias("difference"),
        _side(pl.col("percent")).alias("side"),
        _side(published).alias("published_side"),
        near.alias("near_limit"),
    ).with_columns((pl.col("side") != pl.col("published_side")).alias("changes_side"))


def _side(percent: pl.Expr) -> pl.Expr:
    return (
        pl.when(percent < LOW_PERCENT)
        .then(pl.lit("under"))
        .when(percent > HIGH_PERCENT)
        .then(pl.lit("over"))
        .otherwise(pl.lit("within"))
    )


def _mean(values: pl.Series) -> float:
    return float(values.sum()) / values.len() if values.len() else 0.0


def markdown(comparison: Comparison, command: str) -> str:
    """`docs/fidelity.md`'s tables; `command` is what makes the run they are about."""
    lines = [*_summary(comparison, command), "", "## By queue", ""]
    lines += _table(
        comparison.by("queue"),
        ("queue", "cells", "mean_absolute_error", "mean_difference", "largest"),
        ("queue", "cells", "mean abs. error, %", "mean difference, %", "largest, %"),
    )
    lines += ["", "## By competitor", ""]
    lines += _table(
        comparison.by("classic.cc", "classic.ecn"),
        ("classic.cc", "classic.ecn", "cells", "mean_absolute_error", "mean_difference", "largest"),
        ("competitor", "ECN", "cells", "mean abs. error, %", "mean difference, %", "largest, %"),
    )
    lines += ["", "## Cells that change sides", ""]
    lines += _changed(comparison)
    lines += [
        "",
        "## All cells",
        "",
        "Mbit/s and ms, l4sbench / published; difference in percent of the rate.",
        "",
    ]
    for key, cells in comparison.cells.partition_by(
        "l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn", as_dict=True, maintain_order=True
    ).items():
        l4s, fallback, classic, ecn = key
        lines += [f"### {l4s} (fallback {fallback}) against {classic}, ECN {ecn}", "", *_all_cells(cells), ""]
    return "\n".join(lines + _errata(comparison)).rstrip() + "\n"


def _summary(comparison: Comparison, command: str) -> list[str]:
    least, most = comparison.trials
    trials = f"{least}" if least == most else f"{least} to {most}"
    lengths = ", ".join(f"{seconds:g} s" for seconds in comparison.duration_s)
    kernels = ", ".join(comparison.kernels)
    limits = f"{LOW_PERCENT:g} or {HIGH_PERCENT:g} %"
    changed, near = comparison.changed.height, comparison.changed_near_limit.height
    error = f"**{comparison.mean_absolute_error:.1f} %** of the link's rate"
    bias = f"mean difference {comparison.mean_difference:+.1f} %"
    missing = f"{comparison.unmatched} cells of the run that were not published"
    return [
        f"Made by `{command}`.",
        "",
        f"- {comparison.cells.height} cells, {trials} trials each, {lengths}, kernel {kernels}",
        f"- mean absolute error of the L4S flow's goodput: {error} ({bias})",
        f"- cells that change sides of {limits}: **{changed}**; published near a limit: {near} more",
        f"- not compared: {missing}, {comparison.unrun} published cells that were not run",
    ]


_SIDES: Final = ("queue", "buffer_bdp", "classic.cc", "classic.ecn", "l4s_mbps", "published_l4s_mbps")
_SIDE_HEADS: Final = ("queue", "BDP", "competitor", "ECN", "l4sbench, Mbit/s", "published, Mbit/s")


def _changed(comparison: Comparison) -> list[str]:
    lines = _table(comparison.changed, _SIDES, _SIDE_HEADS) if comparison.changed.height else ["None."]
    if comparison.changed_near_limit.height:
        lines += ["", f"Published within {NEAR_PERCENT:g} % of a limit:", ""]
        lines += _table(comparison.changed_near_limit, _SIDES, _SIDE_HEADS)
    return lines


def _all_cells(cells: pl.DataFrame) -> list[str]:
    pairs = {
        "l4s_mbps": "L4S",
        "classic_mbps": "classic",
        "delay_ms": "L4S delay",
        "classic_delay_ms": "classic delay",
    }
    shown = cells.select(
        "queue",
        "buffer_bdp",
        *[_pair(name).alias(label) for name, label in pairs.items()],
        "difference",
    )
    heads = ("queue", "BDP", *pairs.values(), "difference")
    return _table(shown, tuple(shown.columns), heads)


def _pair(name: str) -> pl.Expr:
    """`47.5 / 42.0`."""
    return pl.format("{} / {}", _one_decimal(pl.col(name)), _one_decimal(pl.col(f"published_{name}")))


def _one_decimal(value: pl.Expr) -> pl.Expr:
    return value.map_elements(lambda number: f"{number:.1f}", return_dtype=pl.String)


def _errata(comparison: Comparison) -> list[str]:
    """Known errata of the publication that touch a cell of this comparison."""
    cells = comparison.cells.select(FACTORS).unique().to_dicts()
    touching = [e for e in errata() if any(_matches(e.match, cell) for cell in cells)]
    if not touching:
        return []
    return ["## Known errata of the published cells", "", *(f"- {e.text} ({e.source})" for e in touching)]


def _matches(match: Mapping[str, str], cell: Mapping[str, object]) -> bool:
    return all(str(cell[name]) == value for name, value in match.items())


def _table(frame: pl.DataFrame, columns: tuple[str, ...], heads: tuple[str, ...]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in frame.select(columns).iter_rows():
        cells = [_shown(name, value) for name, value in zip(columns, row, strict=True)]
        lines += [f"| {' | '.join(cells)} |"]
    return lines


def _shown(name: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if name == "buffer_bdp":
        return f"{value:g}"
    return f"{value:+.1f}" if name in {"difference", "mean_difference"} else f"{value:.1f}"
