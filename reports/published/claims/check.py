# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims against the trials of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from l4sbench.disk.document import Flaw
from l4sbench.errors import InputError
from l4sbench.text.wording import quoted
from reports.published.claims.measures import PACKETS, measures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from l4sbench.disk.document import KeyPath
    from reports.published.claims.model import Claim, Scalar, Shown, Study
    from reports.result.load import RunTables


class ClaimOutcome(StrEnum):
    """The outcome of a claim: seen in every trial, in none, in some, or impossible to check."""

    SEEN = "seen"
    NOT_SEEN = "not seen"
    MIXED = "mixed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class ClaimSetting:
    """A claim in one setting.

    Attributes:
        setting: Values of the study's `settings`.
        values: Scheme -> median of the measure over the trials.
        holds: Trials in which the claim holds.
        trials: Trials that have all schemes of the claim.
    """

    setting: Mapping[str, object]
    values: Mapping[str, float]
    holds: int
    trials: int

    @property
    def outcome(self) -> ClaimOutcome:
        """The outcome over the trials of the setting."""
        return _outcome(self.holds, self.trials)


@dataclass(frozen=True)
class Finding:
    """A claim with its result in every setting it is about."""

    claim: Claim
    settings: tuple[ClaimSetting, ...]

    @property
    def outcome(self) -> ClaimOutcome:
        """The outcome over all trials of all settings."""
        return _outcome(sum(s.holds for s in self.settings), sum(s.trials for s in self.settings))


@dataclass(frozen=True)
class ClaimsReport:
    """A study's claims and measures in a run.

    `shown`: for every measure to show one frame with the settings' columns and one column per scheme, medians
    over the trials. `trials`: least and greatest number of valid trials per cell.
    """

    study: Study
    findings: tuple[Finding, ...]
    shown: tuple[tuple[Shown, pl.DataFrame], ...]
    trials: tuple[int, int]


def check(tables: RunTables, study: Study) -> ClaimsReport:
    """Check a study's claims against a run.

    Trials of one number share a seed in all cells, so schemes are compared within trials.

    Raises:
        InputError: the run lacks factors that the study is about, or valid trials, or has several cells of a
            scheme in one setting.
    """
    asked = {claim.measure for claim in study.claims} | {shown.measure for shown in study.shown}
    found = measures(tables, study.group, asked, study.windows)
    if lacking := [study.problem(flaw) for flaw in _lacking(study, found.columns)]:
        raise InputError(lacking)
    if several := _differing(found, study, [*tables.factors]):
        names = ", ".join(several)
        message = f"cells of one setting and scheme differ in {names}, and only one of them can be judged"
        hint = f"add {names} to settings, or choose cells by a filter or by `where` of every claim"
        raise InputError([study.problem(Flaw(("settings",), message, hint))])
    if not found.height:
        raise InputError("the run has no valid trials", f"the claims of {study.study} are about these")
    if not tables.packet_flows.height and not asked.isdisjoint(PACKETS):
        raise InputError(
            "the run has no packets", "set capture: headers in its matrix, or run it with --capture --new"
        )
    counts = found.group_by("cell").len()["len"].to_list()
    others = {shown.group for shown in study.shown} - {"", study.group}
    groups = {name: measures(tables, name, asked, study.windows) for name in others}
    groups |= {"": found, study.group: found}
    return ClaimsReport(
        study,
        tuple(Finding(claim, tuple(_settings(found, study, claim))) for claim in study.claims),
        tuple((shown, _table(groups[shown.group], study, shown.measure)) for shown in study.shown),
        (min(counts), max(counts)),
    )


def _lacking(study: Study, columns: Sequence[str]) -> Iterator[Flaw]:
    """Yield the parts of a study that name factors which the run lacks."""
    named: list[tuple[KeyPath, str]] = [(("factor",), study.factor)]
    named += ((("settings", number), name) for number, name in enumerate(study.settings))
    for number, claim in enumerate(study.claims):
        named += ((("claims", number, "where", key), column) for key, column in claim.named())
    for path, name in named:
        if name not in columns:
            yield Flaw(path, f"the run has no {quoted(name)}", f"the claims of {study.study} are about it")


def _differing(found: pl.DataFrame, study: Study, factors: Sequence[str]) -> list[str]:
    """Return the factors by which cells differ that a claim, or a measure to show, has in one place."""
    key = [*study.settings, study.factor, "trial"]
    names = [name for name in factors if name not in key]
    asked = [_about(found, claim) for claim in study.claims] + ([found] if study.shown else [])
    differing = set()
    for cells in asked:
        own = cells.filter(pl.col(study.factor).cast(pl.String).is_in(study.schemes))
        counts = own.group_by(key).agg(pl.col(names).n_unique())
        differing |= {name for name in names if (counts[name] > 1).any()}
    return [name for name in names if name in differing]


def _about(found: pl.DataFrame, claim: Claim) -> pl.DataFrame:
    """Return the trials that a claim is about."""
    for name, values in claim.columns().items():
        found = found.filter(one_of(found, name, values))
    return found


def one_of(cells: pl.DataFrame, name: str, values: Sequence[Scalar]) -> pl.Expr:
    """Return whether a column has one of these values; 1 is 1.0, though a file of claims writes the one."""
    column = pl.col(name)
    if cells.schema[name].is_numeric() and all(isinstance(value, int | float) for value in values):
        return column.cast(pl.Float64).is_in([float(value) for value in values])
    return column.is_in(values)


def _settings(found: pl.DataFrame, study: Study, claim: Claim) -> list[ClaimSetting]:
    settings = []
    for key, own in _about(found, claim).sort(study.settings).group_by(study.settings, maintain_order=True):
        trials = own.pivot(study.factor, index="trial", values=claim.measure, aggregate_function="first")
        schemes = [scheme for scheme in study.schemes if scheme in trials.columns]
        known = [scheme for scheme in schemes if trials[scheme].count()]
        asked = [answer for row in trials.to_dicts() if (answer := _holds(claim, row, known)) is not None]
        medians = {scheme: trials[scheme].median() for scheme in schemes}
        settings.append(
            ClaimSetting(
                dict(zip(study.settings, key, strict=True)),
                {scheme: value for scheme, value in medians.items() if isinstance(value, float)},
                sum(asked),
                len(asked),
            )
        )
    return settings


def _holds(claim: Claim, row: Mapping[str, object], schemes: list[str]) -> bool | None:
    """Return True if a trial is as claimed; None when it lacks a scheme, or there is nothing to compare.

    `schemes` are those whose measure some trial of the setting has.
    """
    values = {scheme: value for scheme in schemes if isinstance(value := row[scheme], int | float)}
    if any(scheme not in values for scheme in (*claim.of, *([claim.than] if claim.than else []))):
        return None
    own = [values[scheme] for scheme in claim.of]
    if claim.extreme is not None:
        best = (min if claim.extreme == "least" else max)(values.values())
        if any(value != best for value in own):
            return False
        return True if len(schemes) > 1 and len(values) == len(schemes) else None
    if claim.value is not None and claim.within is not None:
        return all(abs(value - claim.value) <= claim.within for value in own)
    unit = 1.0 if claim.than is None else values[claim.than]
    if claim.than is not None and unit == 0 and not any(own):
        return None
    if claim.at_most is not None:
        return all(value <= claim.at_most * unit for value in own)
    assert claim.at_least is not None  # noqa: S101  (a claim has one of the four)
    return all(value >= claim.at_least * unit for value in own)


def _outcome(holds: int, trials: int) -> ClaimOutcome:
    if not trials:
        return ClaimOutcome.NOT_ASKED
    if holds == trials:
        return ClaimOutcome.SEEN
    return ClaimOutcome.MIXED if holds else ClaimOutcome.NOT_SEEN


def _table(found: pl.DataFrame, study: Study, measure: str) -> pl.DataFrame:
    """Tabulate settings x schemes: medians over the trials."""
    index = list(study.settings)
    wide = found.pivot(study.factor, index=index, values=measure, aggregate_function="median").sort(index)
    return wide.select(*index, *[scheme for scheme in study.schemes if scheme in wide.columns])
