# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts of a sheet for a terminal, as Markdown, JSON types and JUnit XML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mode
from typing import TYPE_CHECKING, Final

from l4sbench.printable import printable
from l4sbench.text.wording import counted
from reports.published.claims.measures import MEASURES
from reports.published.render import TEMPLATES
from reports.published.standards.cases import RowOutcome
from reports.render.templating import Markdown, markdown_templates, md

if TYPE_CHECKING:
    from reports.published.standards.judging import Conformance, RowFinding, RowVerdict
    from reports.published.standards.model import Requirement, RowClaim

FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""

SUITES: Final = "l4sbench conform"
"""Name of the test suites in JUnit XML."""

HEADS: Final = ("row", "level", "candidate", "verdict", "by")

_WITHOUT: Final = (RowOutcome.NOT_APPLICABLE, RowOutcome.NOT_POSSIBLE)
"""Verdicts of rows that an overview leaves out if no candidate has another."""


def rows(found: Conformance) -> list[dict[str, str]]:
    """Return a row of a table per verdict, by row and candidate, without those that do not apply."""
    order = {row.id: number for number, row in enumerate(found.sheet.rows)}
    applying = (one for one in found.verdicts if one.outcome is not RowOutcome.NOT_APPLICABLE)
    verdicts = sorted(applying, key=lambda verdict: order[verdict.row.id])
    return [
        dict(
            zip(
                HEADS,
                (one.row.id, one.row.level.value, one.case.candidate, word(one), why(one)),
                strict=True,
            )
        )
        for one in verdicts
    ]


def why(verdict: RowVerdict) -> str:
    """Write what decides a verdict: the measure with its interval, the limits, trials and cell."""
    if (finding := verdict.deciding) is None or finding.value is None:
        cell = f" ({finding.place.label})" if finding is not None else ""
        return f"{verdict.reason}{cell}"
    trials = counted(finding.trials, "trial")
    return f"{measured(finding)}, {limits(finding.claim)}; {trials}, {finding.place.label}"


def measured(finding: RowFinding) -> str:
    """Write a measure with its interval."""
    return f"{measure(finding.claim)} {_interval(finding)}"


def _interval(finding: RowFinding) -> str:
    """Write a value with the ends of its interval, each on its side of the limits."""
    at = [limit for limit in finding.claim.ends if limit is not None]
    value = _number(finding.value, at)
    if finding.ends is None:
        return value
    return f"{value} [{_number(finding.ends[0], at)}, {_number(finding.ends[1], at)}]"


def measure(claim: RowClaim) -> str:
    """Write what a claim measures, by the measure's name."""
    group = f" of {claim.group}" if claim.group else ""
    other = claim.than
    if isinstance(other, dict):
        other = " ".join(f"{name}={value}" for name, value in other.items())
    return f"{claim.measure}{group}" + (f" over that with {other}:" if other else "")


def filters(claim: RowClaim) -> list[str]:
    """Write the cells that a claim is about, as filters."""
    return [
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in claim.where.items()
    ]


def limits(claim: RowClaim) -> str:
    """Write the limits of a claim, and where they are from."""
    low, high = claim.ends
    own = "proposed " if claim.threshold == "proposed" else ""
    if low is not None and high is not None:
        return f"{own}limits {_number(low)} to {_number(high)}"
    return f"{own}limit at least {_number(low)}" if low is not None else f"{own}limit at most {_number(high)}"


def notes(found: Conformance) -> list[str]:
    """Return what the verdicts of a sheet depend on, in sentences."""
    sheet = found.sheet
    level = (1 - 2 * sheet.error_percent / 100 / len(sheet.measured)) * 100
    over = f"{sheet.error_percent:g} % error over {counted(len(sheet.measured), 'row')} (Bonferroni)"
    lines = [f"A row passes if whole intervals of {level:.5g} % lie within the limits: {over}, over seeds."]
    if found.left_out:
        lines.append(f"--quick leaves out {', '.join(found.left_out)}, and cells of other rows.")
    for one in found.verdicts:
        if one.case.control is not None and not one.trusted:
            why_so = f"{one.case.candidate} must fail, as {one.case.control.because}"
            lines.append(f"{one.row.id} is not to be trusted: {why_so}.")
    return lines


def summary(found: Conformance) -> list[str]:
    """Return a line per candidate: how many rows have which verdict."""
    lines = []
    for candidate in found.candidates:
        own = Counter(one.outcome for one in found.verdicts if one.case.candidate == candidate)
        counts = ", ".join(f"{own[outcome]} {outcome}" for outcome in RowOutcome if own[outcome])
        broken = [one.row.id for one in found.verdicts if one.case.candidate == candidate and one.broken]
        lines.append(f"{candidate}: {counts}" + (f"; fails MUST {', '.join(broken)}" if broken else ""))
    return lines


def markdown(found: Conformance, command: str) -> str:
    """Write the whole sheet; `command` makes the run it is about."""
    return (
        markdown_templates(TEMPLATES)
        .get_template("conform.md.j2")
        .render(
            command=command,
            sheet=found.sheet,
            summary=summary(found),
            notes=notes(found),
            overview=overview(found) if _comparable(found) else None,
            measures={name: MEASURES[name] for name in _named(found)},
            heads=("row", "section", "level", "candidate", "verdict", "by"),
            rows=[
                (
                    one.row.id,
                    one.row.section,
                    one.row.level.value,
                    one.case.candidate,
                    Markdown(f"**{md(word(one))}**"),
                    why(one),
                )
                for one in found.verdicts
            ],
            details=[(row, _of_row(found, row)) for row in found.sheet.rows],
        )
    )


def _comparable(found: Conformance) -> bool:
    """Return whether there are several candidates; negative controls have a row each."""
    return len(found.candidates) > 1 and not any(one.case.control for one in found.verdicts)


def overview(found: Conformance) -> tuple[Sequence[object], list[Sequence[object]]]:
    """Return the heads and lines of a table: rows that apply to a candidate, with a column per candidate."""
    names = found.candidates
    usual = mode([one.trials for one in found.verdicts if one.findings] or [0])
    by_row = [
        (row, {one.case.candidate: one for one in found.verdicts if one.row.id == row.id})
        for row in found.sheet.rows
    ]
    lines: list[Sequence[object]] = [
        (
            f"{row.id}, {row.level.value}",
            row.requires,
            "; ".join(_asked(row, own.values())),
            *(_overview_cell(own[name], usual) if name in own else "" for name in names),
        )
        for row, own in by_row
        if any(one.outcome not in _WITHOUT for one in own.values())
    ]
    return ("row", "requires", f"limits ({counted(usual, 'trial')})", *names), lines


def _asked(row: Requirement, verdicts: Iterable[RowVerdict]) -> list[str]:
    """Write the claims of a row that some cell was asked about, with their limits."""
    judged = {finding.claim.key for verdict in verdicts for finding in verdict.findings}
    claims = [claim for claim in row.claims if claim.key in judged]
    named = len(claims) > 1
    return [
        (f"{claim.name}: " if named and claim.name else "") + f"{measure(claim)} {limits(claim)}"
        for claim in claims
    ]


def _overview_cell(verdict: RowVerdict, usual: int) -> Markdown:
    """Write a verdict with what decides it; the number of trials is stated where it is not the usual one."""
    if verdict.outcome is RowOutcome.NOT_APPLICABLE:
        return Markdown("n/a")
    text = f"**{md(word(verdict))}**" if verdict.outcome is RowOutcome.FAIL else md(word(verdict))
    if (finding := verdict.deciding) is None or finding.value is None:
        return Markdown(text)
    several = len({one.claim.key for one in verdict.findings}) > 1
    name = f"{finding.claim.key} " if several else ""
    trials = "" if finding.trials == usual else f", {counted(finding.trials, 'trial')}"
    return Markdown(text + md(f", {name}{_interval(finding)}{trials}"))


def _named(found: Conformance) -> list[str]:
    """Return the measures that verdicts are about."""
    return sorted({finding.claim.measure for one in found.verdicts for finding in one.findings})


def _of_row(found: Conformance, row: Requirement) -> list[tuple[str, ...]]:
    return [
        (
            one.case.candidate,
            finding.place.label,
            measured(finding) if finding.value is not None else finding.reason,
            limits(finding.claim),
            str(finding.trials),
            finding.outcome.value,
        )
        for one in found.verdicts
        if one.row.id == row.id
        for finding in one.findings
    ]


def as_document(found: Conformance) -> dict[str, object]:
    """Return the verdicts with every claim in every cell, as JSON types."""
    return {
        "format": FORMAT,
        "sheet": found.sheet.sheet,
        "document": found.sheet.document,
        "left_out": list(found.left_out),
        "verdicts": [
            {
                "row": one.row.id,
                "section": one.row.section,
                "level": one.row.level.value,
                "requires": one.row.requires,
                "candidate": one.case.candidate,
                "verdict": one.outcome.value,
                "reason": one.reason or None,
                "must_fail_because": one.case.control and one.case.control.because,
                "deciding_cell": one.deciding.place.cell if one.deciding else None,
                "findings": [_finding_document(finding) for finding in one.findings],
            }
            for one in found.verdicts
        ],
    }


def _finding_document(finding: RowFinding) -> dict[str, object]:
    low, high = finding.ends or (None, None)
    least, most = finding.claim.ends
    return {
        "claim": finding.claim.key,
        "measure": finding.claim.measure,
        "group": finding.claim.group or None,
        "than": finding.claim.than,
        "cell": finding.place.cell,
        "where": finding.place.label,
        "outcome": finding.outcome.value,
        "trials": finding.trials,
        "value": _finite(finding.value),
        "low": _finite(low),
        "high": _finite(high),
        "at_least": least,
        "at_most": most,
        "threshold": finding.claim.threshold,
        "reason": finding.reason or None,
    }


def as_junit(found: Conformance) -> str:
    """Write the verdicts as JUnit XML: a test per row and candidate, which fails where a MUST does.

    Of negative controls a test fails where the control does not.
    """
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    document = JUnitXml(SUITES)
    for candidate in found.candidates:
        suite = TestSuite(printable(f"{found.sheet.sheet} {candidate}"))
        for one in found.verdicts:
            if one.case.candidate != candidate:
                continue
            test = TestCase(printable(f"{one.row.id} {one.row.section}"), classname=suite.name)
            text = printable(f"{word(one)}: {why(one)}")
            if one.case.control is not None:
                test.result = [] if one.trusted else [Failure(text, "not to be trusted")]
            elif one.broken:
                test.result = [Failure(text, one.outcome.value)]
            elif one.outcome not in (RowOutcome.PASS, RowOutcome.FAIL):
                test.result = [Skipped(text)]
            test.system_out = text
            suite.add_testcase(test)
        document.add_testsuite(suite)
    written: bytes = document.tostring()  # type: ignore[no-untyped-call]
    return written.decode("utf-8")


def word(verdict: RowVerdict) -> str:
    """Write a verdict; of a negative control whether it fails as it must."""
    if verdict.case.control is None:
        return verdict.outcome.value
    return "fails, as it must" if verdict.trusted else f"{verdict.outcome.value}, but must fail"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None, limits: Sequence[float] = ()) -> str:
    """Write a number with three digits, or as many as keep it on its side of limits."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    texts = [f"{value:.0f}"] if abs(value) >= 1000 else []
    texts += [f"{value:.{digits}g}" for digits in range(_LEAST_DIGITS, _MOST_DIGITS + 1)]
    sides = _sides(value, limits)
    return next((text for text in texts if _sides(float(text), limits) == sides), texts[-1])


_LEAST_DIGITS: Final = 3
_MOST_DIGITS: Final = 7


def _sides(value: float, limits: Sequence[float]) -> list[tuple[bool, bool]]:
    return [(value < limit, value > limit) for limit in limits]
