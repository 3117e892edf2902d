# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims and measures as Markdown, and as JSON types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.published.claims.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reports.published.claims.check import Finding, Report
    from reports.published.claims.model import Claim


def markdown(report: Report, command: str) -> str:
    """Write the whole report; `command` is what makes the run it is about."""
    study = report.study
    least, most = report.trials
    many = f"{most} trials" if least == most else f"{least} to {most} trials"
    trials = "one trial" if most == 1 else many
    lines = [f"Made by `{command}`; {trials} per cell, medians over trials. {study.about}", ""]
    if report.findings:
        lines += _table(("claim", "in", "trials", "outcome"), [_finding(one) for one in report.findings])
    for finding in report.findings:
        lines += ["", f"### {finding.claim.name}", "", *_settings(finding, study.schemes)]
    if report.shown:
        lines += ["", "### Measures"]
    for shown, frame in report.shown:
        of_group = "" if shown.group == "l4s" else f", group {shown.group}"
        lines += ["", f"**{_capital(MEASURES[shown.measure])}**{of_group}", ""]
        lines += _table(frame.columns, frame.iter_rows())
    return "\n".join(lines).rstrip() + "\n"


def as_document(report: Report) -> dict[str, object]:
    """Return the claims with every setting, and the measures, as JSON types."""
    return {
        "study": report.study.study,
        "claims": [
            {
                "name": finding.claim.name,
                "says": finding.claim.says,
                "outcome": finding.outcome,
                "settings": [
                    {
                        **setting.setting,
                        "values": dict(setting.values),
                        "holds": setting.holds,
                        "trials": setting.trials,
                    }
                    for setting in finding.settings
                ],
            }
            for finding in report.findings
        ],
        "measures": [
            {"measure": shown.measure, "group": shown.group, "rows": frame.to_dicts()}
            for shown, frame in report.shown
        ],
    }


def _finding(finding: Finding) -> tuple[str, ...]:
    claim, settings = finding.claim, finding.settings
    where = (
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in claim.where.items()
    )
    counts = f"{sum(s.holds for s in settings)} of {sum(s.trials for s in settings)}"
    return f"{claim.says} ({_words(claim)})", "; ".join(where) or "all", counts, f"**{finding.outcome}**"


def _words(claim: Claim) -> str:
    """Write the claim exactly."""
    who = ", ".join(claim.of)
    if claim.extreme is not None:
        return f"{who}: {claim.extreme} {MEASURES[claim.measure]}"
    bound, limit = ("at most", claim.at_most) if claim.at_most is not None else ("at least", claim.at_least)
    of_what = f" times that of {claim.than}" if claim.than else ""
    return f"{who}: {MEASURES[claim.measure]} {bound} {limit:g}{of_what}"


def _settings(finding: Finding, schemes: Sequence[str]) -> list[str]:
    head = f"{_capital(MEASURES[finding.claim.measure])}; trials in which the claim holds."
    if not finding.settings:
        return [head, "", "The run has no such cells."]
    rows = [
        (*s.setting.values(), *(s.values.get(scheme) for scheme in schemes), f"{s.holds} of {s.trials}")
        for s in finding.settings
    ]
    return [head, "", *_table((*finding.settings[0].setting, *schemes, "trials"), rows)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(map(_number, row))} |" for row in rows),
    ]


def _number(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 0.995 else f"{value:.4g}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
