# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Rows against trials. A claim passes in a cell if the whole interval of its measure is within the limits.

That is the test of equivalence by two one-sided tests (Schuirmann, J. Pharmacokinetics and Biopharmaceutics
15, 1987): the interval of confidence 1 - 2 a is within the limits. The sheet's chance of error is divided by
its number of rows (Bonferroni), whichever of them are asked for. A row passes if every claim passes in every
cell, for which no further correction is needed (Berger, Technometrics 24, 1982); it fails if one of them
fails, whose interval is therefore corrected for their number, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from l4sbench.text.wording import counted
from reports.published.claims.check import one_of
from reports.published.claims.measures import MEASURES, least_of, measures
from reports.published.claims.model import columns_of
from reports.published.standards.cases import Case, Place, RowOutcome
from reports.published.standards.model import Level
from reports.result.stats import interval

if TYPE_CHECKING:
    from reports.published.standards.model import Requirement, RequirementSheet, RowClaim
    from reports.result.load import RunTables

Limits: TypeAlias = tuple[float | None, float | None]
_Trials: TypeAlias = Mapping[int, float]
"""Number of a trial -> the measure in it."""

_NOTHING: Final = (RowOutcome.NOT_POSSIBLE, RowOutcome.UNDECIDED)
"""Outcomes of a claim in a cell that let no row pass, the one that counts first."""


@dataclass(frozen=True)
class RowFinding:
    """A claim in a cell.

    Attributes:
        claim: The claim.
        place: The cell.
        outcome: `pass`, `fail`, `undecided` or `not possible here`.
        trials: Number of trials that have the measure.
        value: Mean of the measure, or of its ratio; None without trials.
        ends: Ends of the interval that decided; None where there is none.
        reason: Why there is nothing to decide on.
    """

    claim: RowClaim
    place: Place
    outcome: RowOutcome
    trials: int = 0
    value: float | None = None
    ends: tuple[float, float] | None = None
    reason: str = ""

    @property
    def room(self) -> float:
        """Distance of the interval from the nearest limit, as a share of it; negative outside."""
        if self.ends is None:
            return 0.0
        inner, outer = self.ends if self.outcome is not RowOutcome.FAIL else self.ends[::-1]
        low, high = self.claim.ends
        rooms = [] if low is None else [(inner - low) / (abs(low) or 1)]
        rooms += [] if high is None else [(high - outer) / (abs(high) or 1)]
        return min(rooms)


@dataclass(frozen=True)
class RowVerdict:
    """The verdict of a row for a candidate.

    Attributes:
        case: The row with the candidate.
        outcome: The verdict.
        findings: Every claim in every cell.
        reason: Why there is no verdict by trials.
    """

    case: Case
    outcome: RowOutcome
    findings: tuple[RowFinding, ...] = ()
    reason: str = ""

    @property
    def row(self) -> Requirement:
        """The row."""
        return self.case.row

    @property
    def deciding(self) -> RowFinding | None:
        """The finding that decides: the one nearest to a limit, or farthest outside."""
        own = [one for one in self.findings if one.outcome is self.outcome]
        return min(own, key=lambda one: one.room, default=None)

    @property
    def trials(self) -> int:
        """Least number of trials of a claim in a cell."""
        return min((one.trials for one in self.findings), default=0)

    @property
    def broken(self) -> bool:
        """True if a MUST fails."""
        return self.outcome is RowOutcome.FAIL and self.row.level is Level.MUST

    @property
    def trusted(self) -> bool:
        """True unless this is a negative control that does not fail as it must."""
        if (control := self.case.control) is None:
            return True
        failed = {finding.claim.key for finding in self.findings if finding.outcome is RowOutcome.FAIL}
        return control.claim in failed if control.claim else bool(failed)


@dataclass(frozen=True)
class Conformance:
    """A sheet for some candidates.

    Attributes:
        sheet: The sheet, with the limits that hold.
        verdicts: One per row and candidate.
        left_out: Rows that were not measured because only a part was asked for.
    """

    sheet: RequirementSheet
    verdicts: tuple[RowVerdict, ...]
    left_out: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The candidates in order."""
        return tuple(dict.fromkeys(verdict.case.candidate for verdict in self.verdicts))


def judge(
    tables: RunTables | None, sheet: RequirementSheet, cases: Sequence[Case], left_out: Sequence[str] = ()
) -> Conformance:
    """Return the verdicts of cases of a sheet, from the tables of a run with their cells; None: no run."""
    looks = len(sheet.measured)
    confidence = 1 - 2 * sheet.error_percent / 100
    verdicts = tuple(_verdict(tables, case, looks, confidence) for case in cases)
    return Conformance(sheet, verdicts, tuple(left_out))


def _verdict(tables: RunTables | None, case: Case, looks: int, confidence: float) -> RowVerdict:
    if case.hindrance is not None:
        return RowVerdict(case, case.hindrance[0], reason=case.hindrance[1])
    if tables is None:
        return RowVerdict(case, RowOutcome.UNDECIDED, reason="no cell has run")
    wanted = case.cells if tables.cells is None else case.cells & tables.cells
    own = replace(tables, cells=wanted)
    begun = set(own.trials["cell"])
    if missing := len(case.cells - begun):
        reason = f"{missing} of {counted(len(case.cells), 'cell')} have not run"
        return RowVerdict(case, RowOutcome.UNDECIDED, reason=reason)
    judged = _Judge(own, case, looks, confidence)
    findings = tuple(judged.findings())
    outcomes = {finding.outcome for finding in findings}
    if not findings:
        return RowVerdict(case, RowOutcome.NOT_POSSIBLE, reason="no claim of the row is about a cell of it")
    if RowOutcome.FAIL in outcomes:
        return RowVerdict(case, RowOutcome.FAIL, findings)
    found = next((outcome for outcome in _NOTHING if outcome in outcomes), RowOutcome.PASS)
    reason = next((one.reason for one in findings if one.outcome is found), "")
    return RowVerdict(case, found, findings, reason)


class _Judge:
    """Judges the claims of one case."""

    def __init__(self, tables: RunTables, case: Case, looks: int, confidence: float) -> None:
        self._tables = tables
        self._case = case
        self._looks = looks
        self._confidence = confidence
        row = case.row
        asked = {claim.measure for claim in row.claims}
        groups = {claim.group or row.groups[0] for claim in row.claims}
        self._frames = {group: measures(tables, group, asked, row.windows) for group in groups}

    def findings(self) -> Iterator[RowFinding]:
        """Yield every claim in every cell that it is about."""
        asked = [(claim, place) for claim in self._case.row.claims for place in self._places(claim)]
        for claim, place in asked:
            yield self._finding(claim, place, len(asked))

    def _places(self, claim: RowClaim) -> list[Place]:
        """Return the cells that a claim is about, without those that it compares others with."""
        trials = self._tables.trials
        for name, values in columns_of(claim.where).items():
            if name not in trials.columns:
                return []
            trials = trials.filter(one_of(trials, name, values))
        about = set(trials["cell"])
        places = [place for place in self._case.places if place.cell in about]
        if isinstance(claim.than, dict):
            changed = {name: values[0] for name, values in columns_of(claim.than).items()}
            places = [place for place in places if any(place.values.get(n) != v for n, v in changed.items())]
        return places

    def _finding(self, claim: RowClaim, place: Place, count: int) -> RowFinding:
        own = self._values(claim, place.cell)
        if not own:
            return RowFinding(claim, place, RowOutcome.NOT_POSSIBLE, reason=self._lacking(claim, place.cell))
        if claim.each_trial:
            return _each(claim, place, own)
        if claim.than is None:
            mean, spread = _mean(list(own.values()))
            return self._decided(claim, place, count, (mean, spread, len(own)))
        other = self._other(claim, place)
        if other is None:
            return RowFinding(
                claim, place, RowOutcome.NOT_POSSIBLE, reason="the row has no cell to compare with"
            )
        theirs = self._values(claim, other.cell)
        both = sorted(own.keys() & theirs.keys())
        if not both:
            return RowFinding(claim, place, RowOutcome.NOT_POSSIBLE, reason=self._lacking(claim, other.cell))
        ratio = _ratio([own[trial] for trial in both], [theirs[trial] for trial in both])
        if math.isnan(ratio[0]):
            reason = "it is infinite in both cells"
            return RowFinding(claim, place, RowOutcome.UNDECIDED, len(both), reason=reason)
        return self._decided(claim, place, count, (*ratio, len(both)))

    def _decided(
        self, claim: RowClaim, place: Place, count: int, found: tuple[float, float | None, int]
    ) -> RowFinding:
        mean, sd, trials = found
        least = least_of(claim.measure)
        passing, failing = (
            interval(mean, sd, trials, least=least, looks=looks, confidence=self._confidence)
            for looks in (self._looks, self._looks * count)
        )
        if passing is None or failing is None:
            reason = "one trial has no interval"
            return RowFinding(claim, place, RowOutcome.UNDECIDED, trials, mean, reason=reason)
        low, high = claim.ends
        if (low is None or passing[0] >= low) and (high is None or passing[1] <= high):
            return RowFinding(claim, place, RowOutcome.PASS, trials, mean, passing)
        if (low is not None and failing[1] < low) or (high is not None and failing[0] > high):
            return RowFinding(claim, place, RowOutcome.FAIL, trials, mean, failing)
        return RowFinding(claim, place, RowOutcome.UNDECIDED, trials, mean, passing)

    def _values(self, claim: RowClaim, cell: str) -> _Trials:
        frame = self._frames[claim.group or self._case.row.groups[0]]
        own = frame.filter(pl.col("cell") == cell).select("trial", claim.measure).drop_nulls()
        return {int(trial): float(value) for trial, value in own.iter_rows() if not math.isnan(value)}

    def _other(self, claim: RowClaim, place: Place) -> Place | None:
        """Return the cell that a cell is compared with."""
        if isinstance(claim.than, str):
            wanted = dict(place.values)
            among: Sequence[Place] = self._case.others.get(claim.than, ())
        else:
            changed = columns_of(claim.than or {})
            wanted = dict(place.values) | {name: values[0] for name, values in changed.items()}
            among = self._case.places
        return next((other for other in among if other.values == wanted), None)

    def _lacking(self, claim: RowClaim, cell: str) -> str:
        """Return why a cell has no value of a claim's measure."""
        own = self._tables.trials.filter(pl.col("cell") == cell)
        bad = own.filter(pl.col("status") != "ok")
        if bad.height == own.height:
            return f"{bad.height} of {counted(own.height, 'trial')} {bad['status'][0]}: {bad['reasons'][0]}"
        return f"its trials do not have this measure: {MEASURES[claim.measure]}"


def _each(claim: RowClaim, place: Place, own: _Trials) -> RowFinding:
    low, high = claim.ends
    values = list(own.values())
    ends = min(values), max(values)
    inside = (low is None or ends[0] >= low) and (high is None or ends[1] <= high)
    outcome = RowOutcome.PASS if inside else RowOutcome.FAIL
    return RowFinding(claim, place, outcome, len(own), fmean(values), ends)


def _mean(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the standard deviation of values; a ratio to nothing in one trial is one in all."""
    if math.inf in values:
        return math.inf, 0.0
    return fmean(values), stdev(values) if len(values) > 1 else None


def _ratio(own: Sequence[float], theirs: Sequence[float]) -> tuple[float, float | None]:
    """Return the ratio R of the means of x and y, paired by trial, and its standard deviation per trial.

    By linearisation that is the deviation of x - R y over the mean of y (Cochran, Sampling Techniques, 1977,
    section 2.11). Nothing over nothing is 1, something over nothing infinite, and infinite over infinite NaN.
    """
    above, below = fmean(own), fmean(theirs)
    if below == 0:
        return (1.0 if above == 0 else math.inf), 0.0
    ratio = above / below
    if math.inf in (above, below):
        return ratio, 0.0
    rests = [x - ratio * y for x, y in zip(own, theirs, strict=True)]
    return ratio, stdev(rests) / abs(below) if len(rests) > 1 else None
