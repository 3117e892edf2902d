# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run against published cell means: differences, and the cells and verdicts that change sides.

The metric is the published one: goodput over the whole flow, in percent of the link's rate. A cell changes
sides when the publication has it under, within or over the limits of the study's rule and the run has it
elsewhere. Cells published within `NEAR_PERCENT` of a limit are listed apart, because the publication's own
trials straddle the limit there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, TypeVar

import polars as pl

from l4sbench.errors import InputError
from l4sbench.facts.factors import name_of
from reports.published.data import (
    Erratum,
    PrintedEntry,
    PrintedTable,
    PublishedCell,
    errata,
    printed_table,
)
from reports.result.cells import CellResult, cells
from reports.result.grid import USUALLY_ACROSS, Grid, grid
from reports.result.labels import BUFFER, Label, Setting
from reports.result.rules import Limits, load_rule

if TYPE_CHECKING:
    from reports.result.load import RunTables

K = TypeVar("K", bound=Hashable)

NEAR_PERCENT: Final = 5.0

_DEFAULTS: Final = {"l4s.fallback": "off", "l4s.fallback_scaling": "specified"}
"""Values of published factors in runs whose congestion controls do not have them."""

_PAIRING: Final = ("l4s.cc", "l4s.fallback", "classic.cc", "classic.ecn")

_SCALING: Final = "l4s.fallback_scaling"


@dataclass(frozen=True)
class Pair:
    """A cell of the run beside the published one with the same factors.

    Attributes:
        cell: The run's cell, with at least one valid trial.
        published: The published cell.
        queue, competitor: Their labels in tables.
        pairing: The two flows: `Prague against CUBIC, ECN off`.
        place: Row and column in a map: the queue with the settings that the study varies, and the one of
            them that is across.
        percent: The run's L4S goodput in percent of the link's rate.
        changes_side: True if the two are on different sides of the study's limits.
        near_limit: True if the published cell is near a limit.
    """

    cell: CellResult
    published: PublishedCell
    queue: str
    competitor: str
    pairing: str
    place: tuple[Label, Setting]
    percent: float
    changes_side: bool
    near_limit: bool

    @property
    def difference_percent(self) -> float:
        """L4S goodput, run minus published, percent of the link's rate."""
        return self.percent - self.published.percent

    @property
    def figures(self) -> Mapping[str, tuple[float | None, float | None]]:
        """Means of the run and of the publication by name: goodput and delay of the L4S and classic flow."""
        return {
            name: (mean.value if mean else None, getattr(self.published, name))
            for name, mean in self.cell.means.items()
            if hasattr(self.published, name)
        }


@dataclass(frozen=True)
class Errors:
    """Differences of some cells, percent of the link's rate: mean, of absolute values, largest absolute."""

    cells: int
    mean: float
    mean_absolute: float
    largest: float

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Errors:
        """Summarise the pairs, of which there is at least one."""
        differences = [pair.difference_percent for pair in pairs]
        absolute = [abs(difference) for difference in differences]
        return cls(len(pairs), fmean(differences), fmean(absolute), max(absolute))


@dataclass(frozen=True)
class EntryAgreement:
    """One printed entry beside the result of the run's cells by the study's rule.

    Attributes:
        printed: The entry as printed.
        published_ok: The result of the study's own cells; None where its cells are not available.
        ok: The result of the run's cells; None where the run has none of them.
        cells: Number of cells of the run behind the entry, and of the publication.
        worst: The run's cell farthest outside of the limits, else nearest to one: queue, buffer and percent;
            empty where it has none.
        errata: Known errors of the published cells behind the entry.
    """

    printed: PrintedEntry
    published_ok: bool | None
    ok: bool | None
    cells: tuple[int, int]
    worst: str
    errata: tuple[Erratum, ...]

    @property
    def agrees(self) -> bool | None:
        """True if the run gives what is printed; None where the run has no cell of the entry."""
        return None if self.ok is None else self.ok == self.printed.ok

    @property
    def corrected_ok(self) -> bool | None:
        """The entry once known errors are fixed; None where no erratum is known to change it."""
        return next((e.corrected == "ok" for e in self.errata if e.corrected), None)

    @property
    def agrees_corrected(self) -> bool:
        """True if the run differs from what is printed exactly as an erratum predicts."""
        return self.agrees is False and self.ok == self.corrected_ok

    @property
    def partial(self) -> bool:
        """True if the run has some of the published cells behind the entry but not all."""
        return 0 < self.cells[0] < self.cells[1]


@dataclass(frozen=True)
class StudyComparison:
    """Cells of a run beside the published ones.

    Attributes:
        pairs: The cells that both have, at least one, in the order of `FACTORS`.
        study: The study and its printed decision table.
        entries: Entries of the printed table that the run has a cell of, or that no cells are published of.
        unmatched: Number of cells of the run that were not published.
        invalid: Number of cells of the run that were published, and have no valid trial.
        unrun: Number of published cells of the same pairings that the run lacks.
        duration_s: Measured times of the cells.
        kernels: Kernels of the run.
        limits: Limits of the study's rule, in percent of the link's rate.
        labels: Labels of queues and congestion controls in tables, by name.
    """

    pairs: tuple[Pair, ...]
    study: PrintedTable
    entries: tuple[EntryAgreement, ...]
    unmatched: int
    invalid: int
    unrun: int
    duration_s: tuple[float, ...]
    kernels: tuple[str, ...]
    limits: Limits
    labels: Mapping[str, str]

    def called(self, name: str) -> str:
        """Return the label of a queue or a congestion control in tables."""
        return self.labels.get(name, name)

    @property
    def durations(self) -> tuple[str, ...]:
        """The different measured times of the cells, in words."""
        return tuple(f"{seconds:g} s" for seconds in self.duration_s)

    @property
    def trials(self) -> tuple[int, int]:
        """Least and greatest number of valid trials of a cell."""
        counts = [pair.cell.valid for pair in self.pairs]
        return min(counts), max(counts)

    @property
    def pairings(self) -> Mapping[str, tuple[Pair, ...]]:
        """The cells by the two flows: `Prague against CUBIC, ECN off`."""
        return self.by(lambda pair: pair.pairing)

    @property
    def agreeing(self) -> tuple[int, int, int]:
        """Numbers of entries that agree, that differ as an erratum predicts, and with cells in the run."""
        known = [entry for entry in self.entries if entry.agrees is not None]
        corrected = sum(entry.agrees_corrected for entry in known)
        return sum(bool(entry.agrees) for entry in known), corrected, len(known)

    @property
    def errors(self) -> Errors:
        """Differences of the L4S goodput over all cells."""
        return Errors.of(self.pairs)

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's rank correlation of the L4S goodputs over the cells; None with fewer than three."""
        if len(self.pairs) < 3:
            return None
        both = pl.DataFrame(
            [pair.figures["l4s_mbps"] for pair in self.pairs], ("ours", "theirs"), orient="row"
        )
        rho = both.select(pl.corr("ours", "theirs", method="spearman")).item()
        # There is no rank correlation of values that do not vary.
        return None if rho is None or math.isnan(rho) else float(rho)

    def changed(self, *, near_limit: bool) -> tuple[Pair, ...]:
        """Return the cells that change sides and are published near a limit, or are not."""
        return tuple(pair for pair in self.pairs if pair.changes_side and pair.near_limit is near_limit)

    def by(self, key: Callable[[Pair], K]) -> Mapping[K, tuple[Pair, ...]]:
        """Return the cells by a key, in the order in which keys come."""
        found: dict[K, list[Pair]] = {}
        for pair in self.pairs:
            found.setdefault(key(pair), []).append(pair)
        return {own: tuple(pairs) for own, pairs in found.items()}


def compare(
    tables: RunTables, study: str = "pam25", *, l4s: str = "l4s", classic: str = "classic"
) -> StudyComparison:
    """Compare the run's cells with the published ones.

    Args:
        tables: The run.
        study: The study whose printed decision table and queues are compared.
        l4s: The run's flow group that corresponds to the publication's L4S flow.
        classic: The same for the classic flow.

    Raises:
        InputError: the run has no cell that was published, or the study is unknown.
    """
    table = printed_table(study)
    limits = load_rule(table.rule).limits_percent
    published = table.published
    names = tuple(published[0].factors)
    by_key: dict[tuple[object, ...], PublishedCell] = {cell.key: cell for cell in published}
    every = cells(tables, l4s, classic, table.value)
    alike = {
        cell.id: _factors(cell, names, {"l4s": l4s, "classic": classic})
        for cell in every
        if (cell.l4s.flows, cell.classic.flows) == (1, 1)
    }
    ours = {cell.id: alike[cell.id] for cell in every if cell.id in alike and cell.share is not None}
    labels = dict(tables.catalog.select("name", "label").iter_rows())
    varied = _varied(published)
    pairs = [
        _pair(cell, by_key[key], varied, limits, labels)
        for cell in every
        if cell.id in ours and (key := tuple(ours[cell.id].values())) in by_key
    ]
    lacking = (tuple(own.values()) for cell, own in alike.items() if cell not in ours)
    invalid = [key for key in lacking if key in by_key]
    if not pairs and invalid:
        raise InputError(f"no cell of the run that was published in {study} has a valid trial")
    if not pairs:
        raise InputError(f"no cell of the run was published in {study}", _range(published))
    pairs.sort(key=lambda pair: (pair.published.key, pair.cell.id))
    run = {pair.published.key for pair in pairs} | set(invalid)
    pairings = {_of(pair.published.factors, _PAIRING) for pair in pairs}
    asked = [cell for cell in published if _of(cell.factors, _PAIRING) in pairings]
    about = {pair.published.factors["l4s.cc"] for pair in pairs}
    had = [cell for cell in every if cell.id in ours]
    entries = [_entry(entry, [(c, ours[c.id]) for c in had], published, limits) for entry in table.entries]
    kept = [e for e in entries if e.ok is not None or (e.published_ok is None and e.printed.l4s in about)]
    return StudyComparison(
        pairs=tuple(pairs),
        study=table,
        entries=tuple(kept),
        unmatched=len(every) - len(pairs) - len(invalid),
        invalid=len(invalid),
        unrun=len({cell.key for cell in asked} - run),
        duration_s=tuple(sorted({pair.cell.factors["duration_s"].amount for pair in pairs})),
        kernels=tuple(tables.listed("kernels", tables.trials)),
        limits=limits,
        labels=labels,
    )


def _varied(published: Sequence[PublishedCell]) -> tuple[str, ...]:
    """Return the factors of the path that a study varies; the first one is across in maps."""
    varied = [name for name in USUALLY_ACROSS if len({cell.factors[name] for cell in published}) > 1]
    return tuple(varied) or (BUFFER,)


def _range(published: Sequence[PublishedCell]) -> str:
    """Return in words which paths a study published."""
    values = {name: sorted({cell.factors[name] for cell in published}) for name in USUALLY_ACROSS}
    return "published are " + "; ".join(
        f"{name} {', '.join(f'{value:g}' for value in own)}" for name, own in values.items()
    )


def _factors(cell: CellResult, names: Iterable[str], groups: Mapping[str, str]) -> Mapping[str, object]:
    """Return the values of a study's factors, given the run's names of the groups `l4s` and `classic`."""
    found: dict[str, object] = {}
    for name in names:
        own = name_of(name)
        value = cell.value(f"{groups[own.group]}.{own.key}" if own.group else name)
        found[name] = _DEFAULTS.get(name) if value is None else value
    return found


def _of(factors: Mapping[str, object], names: Iterable[str]) -> tuple[object, ...]:
    return tuple(factors[name] for name in names)


def _pair(
    cell: CellResult,
    published: PublishedCell,
    varied: tuple[str, ...],
    limits: Limits,
    labels: Mapping[str, str],
) -> Pair:
    l4s, fallback, classic, ecn = map(str, _of(published.factors, _PAIRING))
    assert cell.share is not None  # noqa: S101  (cells without a valid trial have no pair)
    competitor = labels.get(classic, classic)
    switched = "" if fallback == "off" else f", fallback {fallback},"
    if switched and _SCALING in published.factors:
        switched = f", fallback {fallback} as {published.factors[_SCALING]},"
    across, *down = varied
    return Pair(
        cell=cell,
        published=published,
        queue=cell.queue.called,
        competitor=competitor,
        pairing=f"{labels.get(l4s, l4s)}{switched} against {competitor}, ECN {ecn}",
        place=(
            Label(cell.queue.called, tuple(cell.factors[name] for name in down)),
            cell.factors[across],
        ),
        percent=cell.share.value,
        changes_side=_side(cell.share.value, limits) != _side(published.percent, limits),
        near_limit=min(abs(published.percent - at) for at in (limits.low, limits.high)) <= NEAR_PERCENT,
    )


def _side(percent: float, limits: Limits) -> int:
    """Return -1 under the limits, 0 within and 1 over them."""
    return -1 if percent < limits.low else int(percent > limits.high)


def _entry(
    printed: PrintedEntry,
    ours: Sequence[tuple[CellResult, Mapping[str, object]]],
    published: Sequence[PublishedCell],
    limits: Limits,
) -> EntryAgreement:
    """Compare an entry with the cells of a run, given with their `FACTORS`, and with the published ones."""
    theirs = [cell for cell in published if printed.covers(cell.factors)]
    keys = {cell.key for cell in theirs}
    # The printed verdict is about the published rates and round trips.
    same = [
        (cell, cell.share.value, tuple(factors.values()))
        for cell, factors in ours
        if cell.share and printed.covers(factors) and (not theirs or tuple(factors.values()) in keys)
    ]
    worst = ""
    if same:
        cell, percent, _ = max(same, key=lambda one: max(limits.low - one[1], one[1] - limits.high))
        worst = f"{cell.queue.called}, {cell.factors[BUFFER].text}: {percent:.1f} %"
    return EntryAgreement(
        printed=printed,
        published_ok=_ok([cell.percent for cell in theirs], limits),
        ok=_ok([percent for _, percent, _ in same], limits),
        cells=(len({key for *_, key in same}), len(theirs)),
        worst=worst,
        errata=tuple(e for e in errata() if any(e.touches(cell.factors) for cell in theirs)),
    )


def _ok(percents: Sequence[float], limits: Limits) -> bool | None:
    return all(_side(percent, limits) == 0 for percent in percents) if percents else None


@dataclass(frozen=True)
class Difference:
    """One place of a map: means over the run's cells there, which differ in factors that nobody published.

    Attributes:
        row, column: The place.
        cell: The run's cell, the first of several.
        percent: L4S goodput, run minus published, percent of the link's rate.
        published_l4s_mbps: The published goodput.
        changes_side: True if some cell is on another side of the study's limits than published.
    """

    row: Label
    column: Setting
    cell: str
    percent: float
    published_l4s_mbps: float
    changes_side: bool


def difference_maps(comparison: StudyComparison) -> tuple[Grid[str, Label, Setting, Difference], ...]:
    """Return a map of differences per pairing, in the comparison's order, by the `place` of its cells."""
    return tuple(_map(pairing, pairs) for pairing, pairs in comparison.pairings.items())


def _map(pairing: str, pairs: Sequence[Pair]) -> Grid[str, Label, Setting, Difference]:
    places: dict[tuple[Label, Setting], list[Pair]] = {}
    for pair in pairs:
        places.setdefault(pair.place, []).append(pair)
    differences = [
        Difference(
            *place,
            cell=own[0].cell.id,
            percent=fmean(pair.difference_percent for pair in own),
            published_l4s_mbps=own[0].published.l4s_mbps,
            changes_side=any(pair.changes_side for pair in own),
        )
        for place, own in places.items()
    ]
    return grid(
        differences,
        panel=lambda _: pairing,
        row=lambda place: place.row,
        column=lambda place: place.column,
        column_order=lambda column: column.amount,
    )
