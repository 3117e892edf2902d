# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of a sheet: each row with its verdicts, each claim with a link to the cell that has its trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from reports.page.sheet import sheet
from reports.published.standards import RowOutcome, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.published.standards import Conformance, Requirement, RowVerdict

_TONES: Mapping[RowOutcome, str] = {
    RowOutcome.PASS: "better",
    RowOutcome.FAIL: "worse",
    RowOutcome.UNDECIDED: "unclear",
}
_NO_TONE = "same"


@dataclass(frozen=True)
class _Claim:
    """A claim in a cell, in words, with the address of the cell in the page of trials."""

    outcome: str
    tone: str
    measured: str
    limits: str
    trials: int
    place: str
    href: str


@dataclass(frozen=True)
class _Verdict:
    """A candidate's verdict of a row, in words."""

    candidate: str
    word: str
    tone: str
    why: str
    must_fail: str
    claims: tuple[_Claim, ...]


def conformance_page(found: Conformance, trials: str, command: str) -> str:
    """Return the page of a sheet as text.

    Args:
        found: The verdicts.
        trials: Address of the page of the run's trials.
        command: What makes the same verdicts again.
    """
    rows = [(row, _verdicts(found, row, trials)) for row in found.sheet.rows]
    asked = {verdict.row.id for verdict in found.verdicts}
    return sheet(
        "conform.html.j2",
        found=found,
        rows=[(row, verdicts) for row, verdicts in rows if verdicts],
        not_applying=[row.id for row, verdicts in rows if row.id in asked and not verdicts],
        not_asked=[row.id for row, _ in rows if row.id not in asked and row.id not in found.left_out],
        summary=render.summary(found),
        notes=render.notes(found),
        trials=trials,
        command=command,
    )


def _verdicts(found: Conformance, row: Requirement, trials: str) -> list[_Verdict]:
    own = (one for one in found.verdicts if one.row.id == row.id)
    return [_verdict(one, trials) for one in own if one.outcome is not RowOutcome.NOT_APPLICABLE]


def _verdict(one: RowVerdict, trials: str) -> _Verdict:
    claims = tuple(
        _Claim(
            finding.outcome.value,
            _TONES.get(finding.outcome, _NO_TONE),
            render.measured(finding) if finding.value is not None else finding.reason,
            render.limits(finding.claim),
            finding.trials,
            finding.place.label,
            f"{trials}#cell/{quote(finding.place.cell)}",
        )
        for finding in one.findings
    )
    reason = one.case.control.because if one.case.control is not None else ""
    shown = RowOutcome.PASS if one.case.control is not None and one.trusted else one.outcome
    tone = _TONES.get(shown, _NO_TONE)
    return _Verdict(one.case.candidate, render.word(one), tone, render.why(one), reason, claims)
