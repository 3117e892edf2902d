# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims and measures as Markdown, and as JSON types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reports.published.claims.measures import MEASURES
from reports.published.render import TEMPLATES
from reports.render.templating import Markdown, markdown_templates, md

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.published.claims.check import ClaimsReport, Finding
    from reports.published.claims.model import Claim


def markdown(report: ClaimsReport, command: str, remark: str = "") -> str:
    """Write the whole report; `command` makes the run it is about, `remark` is a sentence about the run."""
    study = report.study
    least, most = report.trials
    many = f"{most} trials" if least == most else f"{least} to {most} trials"
    return (
        markdown_templates(TEMPLATES)
        .get_template("claims.md.j2")
        .render(
            command=command,
            remark=remark,
            study=study,
            trials="one trial" if most == 1 else many,
            outcomes=[_outcome(one) for one in report.findings],
            findings=[
                (one, (*study.settings, *study.schemes, "trials"), _settings(one, study.schemes))
                for one in report.findings
            ],
            shown=[
                (shown, frame.columns, [map(_number, row) for row in frame.iter_rows()])
                for shown, frame in report.shown
            ],
            measures={name: f"{words[0].upper()}{words[1:]}" for name, words in MEASURES.items()},
        )
    )


def as_document(report: ClaimsReport) -> dict[str, object]:
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


def _outcome(finding: Finding) -> tuple[str, ...]:
    claim, settings = finding.claim, finding.settings
    where = (
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in claim.where.items()
    )
    counts = f"{sum(s.holds for s in settings)} of {sum(s.trials for s in settings)}"
    return (
        f"{claim.says} ({_words(claim)})",
        "; ".join(where) or "all",
        counts,
        Markdown(f"**{md(finding.outcome)}**"),
    )


def _words(claim: Claim) -> str:
    """Write the claim exactly."""
    who = ", ".join(claim.of)
    if claim.extreme is not None:
        return f"{who}: {claim.extreme} {MEASURES[claim.measure]}"
    if claim.value is not None:
        return f"{who}: {MEASURES[claim.measure]} {claim.value:g}, give or take {claim.within:g}"
    bound, limit = ("at most", claim.at_most) if claim.at_most is not None else ("at least", claim.at_least)
    of_what = f" times that of {claim.than}" if claim.than else ""
    return f"{who}: {MEASURES[claim.measure]} {bound} {limit:g}{of_what}"


def _settings(finding: Finding, schemes: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        (
            *map(_number, (*own.setting.values(), *(own.values.get(scheme) for scheme in schemes))),
            f"{own.holds} of {own.trials}",
        )
        for own in finding.settings
    ]


def _number(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 0.995 else f"{value:.4g}"
