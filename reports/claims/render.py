# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims and measures as Markdown, and as what `--json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.claims.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reports.claims.check import Finding, Report
    from reports.claims.model import Claim


def markdown(report: Report, command: str) -> str:
    """The whole report; `command` is what makes the run it is about."""
    study = report.study
    least, most = report.trials
    many = f"{most} trials" if least == most else f"{least} to {most} trials"
    trials = "one trial" if most == 1 else many
    lines = [f"Made by `{command}`; {trials} per cell, medians over trials. {study.about}", ""]
    if report.findings:
        lines += ["| claim | in | trials | outcome |", "|---|---|---|---|"]
        for finding in report.findings:
            holds = sum(setting.holds for setting in finding.settings)
            asked = sum(setting.trials for setting in finding.settings)
            told = f"{finding.claim.says} ({_words(finding.claim)})"
            where = "; ".join(f"{name} {_listed(value)}" for name, value in finding.claim.where.items())
            lines.append(f"| {told} | {where or 'all'} | {holds} of {asked} | **{finding.outcome}** |")
        for finding in report.findings:
            lines += ["", f"### {finding.claim.name}", "", *_settings(finding, study.schemes)]
    if report.shown:
        lines += ["", "### Measures"]
    for shown, frame in report.shown:
        of_group = "" if shown.group == "l4s" else f", group {shown.group}"
        lines += [
            "",
            f"**{_capital(MEASURES[shown.measure])}**{of_group}",
            "",
            *_table(frame.to_dicts(), frame.columns),
        ]
    return "\n".join(lines).rstrip() + "\n"


def as_document(report: Report) -> dict[str, object]:
    """Claims with every setting, and measures, as plain lists and maps."""
    return {
        "study": report.study.study,
        "claims": [
            {
                "name": finding.claim.name,
                "says": finding.claim.says,
                "outcome": finding.outcome.value,
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


def _words(claim: Claim) -> str:
    """What is asked, exactly."""
    who = ", ".join(claim.of)
    if claim.extreme is not None:
        return f"{who}: {claim.extreme} {MEASURES[claim.measure]}"
    bound, limit = ("at most", claim.at_most) if claim.at_most is not None else ("at least", claim.at_least)
    of_what = f" times that of {claim.than}" if claim.than else ""
    return f"{who}: {MEASURES[claim.measure]} {bound} {limit:g}{of_what}"


def _settings(finding: Finding, schemes: Sequence[str]) -> Iterator[str]:
    rows = [
        {
            **setting.setting,
            **{scheme: setting.values.get(scheme) for scheme in schemes},
            "trials": f"{setting.holds} of {setting.trials}",
        }
        for setting in finding.settings
    ]
    yield f"{_capital(MEASURES[finding.claim.measure])}; trials in which it is as claimed."
    yield ""
    yield from _table(rows, list(rows[0]) if rows else []) if rows else ["The run has no such cells."]


def _table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_number(row[name]) for name in columns)} |"


def _number(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 0.995 else f"{value:.4g}"


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
