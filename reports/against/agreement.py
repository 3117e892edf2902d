# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The entries of a printed decision table beside what a run's cells say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from reports.published import FACTORS, Erratum, errata

if TYPE_CHECKING:
    from reports.published.printed import PrintedEntry, PrintedTable
    from reports.result.rules import Limits


@dataclass(frozen=True)
class EntryAgreement:
    """One printed entry, and what the cells behind it give by the study's rule.

    Attributes:
        printed: The entry as printed.
        published_ok: What the study's own cells give; None where its cells are not at hand.
        ok: What the run's cells give; None where it has none of them.
        cells: Cells of the run behind it, and of the publication.
        worst: The run's cell farthest outside of the limits, else nearest to one: queue, buffer and percent;
            empty where it has none.
        errata: What is known to be wrong with the published cells behind it.
    """

    printed: PrintedEntry
    published_ok: bool | None
    ok: bool | None
    cells: tuple[int, int]
    worst: str
    errata: tuple[Erratum, ...]

    @property
    def agrees(self) -> bool | None:
        """Whether the run says what is printed; None where the run has no cell of it."""
        return None if self.ok is None else self.ok == self.printed.ok

    @property
    def corrected_ok(self) -> bool | None:
        """What the entry is once known errors are mended; None where none of them is said to change it."""
        return next((e.corrected_ok for e in self.errata if e.corrected_ok is not None), None)

    @property
    def agrees_corrected(self) -> bool:
        """Whether the run differs from what is printed just as an erratum says that it should."""
        return self.agrees is False and self.ok == self.corrected_ok

    @property
    def partial(self) -> bool:
        """Whether the run has some of the published cells behind it but not all."""
        return 0 < self.cells[0] < self.cells[1]


def agreement(
    table: PrintedTable, ours: pl.DataFrame, published: pl.DataFrame, limits: Limits
) -> tuple[EntryAgreement, ...]:
    """Every entry of a printed table.

    Args:
        table: The printed table.
        ours: Cells of a run with the columns `FACTORS`, `queue` (label) and `percent` (of the link's rate).
        published: Cells of the publication with `FACTORS` and `published_l4s_mbps`.
        limits: Percent of the link's rate; any cell outside of them makes an entry a cross.
    """
    percent = pl.col("published_l4s_mbps") / pl.col("rate_mbps") * 100
    theirs = published.with_columns(percent.alias("percent"))
    return tuple(_entry(entry, entry.of(ours), entry.of(theirs), limits) for entry in table.entries)


def _entry(printed: PrintedEntry, ours: pl.DataFrame, theirs: pl.DataFrame, limits: Limits) -> EntryAgreement:
    # The rates and round trips that were published are what the printed verdict is about.
    same = ours.join(theirs.select(FACTORS).unique(), on=list(FACTORS), how="semi") if theirs.height else ours
    return EntryAgreement(
        printed=printed,
        published_ok=_ok(theirs, limits),
        ok=_ok(same, limits),
        cells=(same.select(FACTORS).unique().height, theirs.height),
        worst=_worst(same, limits),
        errata=tuple(_touching(theirs.select(FACTORS).to_dicts())),
    )


def _ok(cells: pl.DataFrame, limits: Limits) -> bool | None:
    if not cells.height:
        return None
    return bool(cells["percent"].is_between(limits.low, limits.high).all())


def _worst(cells: pl.DataFrame, limits: Limits) -> str:
    if not cells.height:
        return ""
    outside = pl.max_horizontal(limits.low - pl.col("percent"), pl.col("percent") - limits.high)
    worst = cells.sort(outside, descending=True).row(0, named=True)
    return f"{worst['queue']}, {worst['buffer_bdp']:g} BDP: {worst['percent']:.1f} %"


def _touching(cells: Sequence[Mapping[str, object]]) -> list[Erratum]:
    return [e for e in errata() if any(touches(e, cell) for cell in cells)]


def touches(erratum: Erratum, cell: Mapping[str, object]) -> bool:
    """Whether an erratum is about a cell."""
    return all(str(cell[name]) == value for name, value in erratum.match.items())
