# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A comparison of two runs as text, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Final

from l4sbench.printable import printable
from l4sbench.text.wording import counted
from reports.compare.changes import CellChange, ChangeKind, MetricChange, Presence
from reports.result.judging import Word

if TYPE_CHECKING:
    from reports.compare.beside import NumberBeside
    from reports.compare.comparison import Comparison, Side
    from reports.compare.welch import MeanDifference
    from reports.result.stats import Estimate

GLYPHS: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.WORSE: "✗",
    ChangeKind.BETTER: "✓",
    ChangeKind.SAME: "=",
    ChangeKind.UNCLEAR: "?",
}


def as_html(comparison: Comparison) -> str:
    """Return the text of a comparison for a notebook."""
    return f"<pre>{escape(as_text(comparison))}</pre>"


def as_text(comparison: Comparison) -> str:
    """Write the comparison for people: what got worse first, then what got better, then all other cells."""
    lines = [*_sides(comparison), "", summary(comparison)]
    for change, head in ((ChangeKind.WORSE, "Worse by more than noise"), (ChangeKind.BETTER, "Better")):
        lines += _section(head, [line for cell in comparison.cells for line in _metrics(cell, change)])
    lost = (f"{cell.cell}: {_trials(cell)}" for cell in comparison.present(Presence.LOST))
    lines += _section("No valid trial any more", lost)
    lines += _section("Verdicts that changed", _verdicts(comparison))
    lines += _others(comparison)
    if comparison.rule is None:
        lines += _section("Side by side, base and new, with 95 % intervals", _beside(comparison))
    lines += ["", how(comparison)]
    return "\n".join(lines)


_SHOWN: Final = 12
"""Number of cells without a change that the text lists; all are in the JSON and on the page."""


def _sides(comparison: Comparison) -> list[str]:
    return [
        *_side("base", comparison.base, comparison.apart),
        *_side("new", comparison.new, comparison.apart),
        f"      {apart_text(comparison)}",
    ]


def _side(role: str, side: Side, apart: Sequence[str]) -> list[str]:
    """Return a run's name, and below it what may tell it from the other; modules only where they differ."""
    left_out = {"run", "modules"} - {*apart}
    found = {fact: values for fact, values in side.facts().items() if values and fact not in left_out}
    facts = (f"{fact} {', '.join(values)}" for fact, values in found.items())
    return [f"{role:5} {side.name}", f"      {'; '.join(facts)}"]


def apart_text(comparison: Comparison) -> str:
    """Return which facts about what ran differ between the runs, in words."""
    if comparison.apart:
        return f"they differ in: {', '.join(comparison.apart)}"
    if comparison.base.name == comparison.new.name:
        return "both are the same run; `l4sbench run MATRIX --new` begins another one to compare with"
    return "both ran on the same testbed, kernel and modules, as far as their tables show"


def summary(comparison: Comparison) -> str:
    """Return the number of cells by outcome: `28 cells compared: 1 worse, 20 the same, 7 unclear`."""
    both = comparison.present(Presence.BOTH)
    by_change = [cell.change for cell in both]
    counts = {
        "worse": by_change.count(ChangeKind.WORSE),
        "better": by_change.count(ChangeKind.BETTER),
        "the same": by_change.count(ChangeKind.SAME),
        "unclear": by_change.count(ChangeKind.UNCLEAR) + by_change.count(None),
        "lost": len(comparison.present(Presence.LOST)),
        "new": len(comparison.present(Presence.NEW)),
        "not run": len(comparison.present(Presence.NOT_RUN)),
    }
    said = [f"{number} {word}" for word, number in counts.items() if number or word in ("worse", "unclear")]
    return f"{counted(len(both), 'cell')} compared: {', '.join(said)}"


def _section(head: str, lines: Iterable[str]) -> list[str]:
    listed = list(lines)
    return ["", f"{head}:", *(f"  {line}" for line in listed)] if listed else []


def _metrics(cell: CellChange, change: ChangeKind) -> list[str]:
    changed = [metric for metric in cell.metrics if metric.change is change]
    return [f"{GLYPHS[change]} {cell.cell}: {_metric(metric)}" for metric in changed]


def _metric(metric: MetricChange) -> str:
    p = metric.p_worse if metric.new_is_worse else metric.p_better
    figures = (f"{metric.base.value:.2f} -> {metric.new.value:.2f}", difference_text(metric.difference))
    trials = f"margin {metric.margin:.2f}, {metric.base.trials} and {metric.new.trials} trials"
    known = "" if p is None else f", p {p:.2g}"
    return f"{metric.name} {', '.join(filter(None, figures))} ({trials}{known})"


def difference_text(found: MeanDifference | None) -> str:
    """Return a difference with its interval: `+18.25 (9.10 to 27.40)`; empty where there is none."""
    if found is None:
        return ""
    low, high = found.interval
    return f"{found.value:+.2f} ({low:.2f} to {high:.2f})"


def _trials(cell: CellChange) -> str:
    return f"{cell.trials[0]} valid before; now {cell.left_out[1]} invalid or failed"


def _others(comparison: Comparison) -> list[str]:
    """Return a line per cell that is neither worse nor better: its largest difference, in margins."""
    found = [
        (cell, metric)
        for cell in comparison.cells
        if cell.change in (ChangeKind.UNCLEAR, ChangeKind.SAME) and (metric := cell.furthest)
    ]
    found.sort(key=lambda pair: (pair[0].change is ChangeKind.SAME, -pair[1].in_margins))
    head = ("", "cell", "largest difference in", "base", "new", "new - base (95 % interval)")
    rows = [
        (
            GLYPHS[metric.change],
            cell.label,
            metric.name,
            f"{metric.base.value:.2f}",
            f"{metric.new.value:.2f}",
            difference_text(metric.difference) or "one trial",
        )
        for cell, metric in found[:_SHOWN]
    ]
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if place in (3, 4) else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]
    more = len(found) - len(rows)
    rest = [f"and {counted(more, 'more cell')}; --json has all"] if more else []
    title = "Neither worse nor better (=: the same within the margin, ?: more trials would decide)"
    return _section(title, [*lines, *rest])


def _verdicts(comparison: Comparison) -> list[str]:
    lines = []
    for entry in comparison.entries:
        none_worse = not entry.regressed and entry.base is Word.OK
        why = ", though no cell behind it is worse by more than noise" if none_worse else ""
        place = f"{entry.l4s}, {entry.row}, against {entry.column}"
        lines.append(f"{place}: {entry.base.value} -> {entry.new.value}{why}")
    if comparison.undecidable:
        lines.append(f"no decision table to compare: {comparison.undecidable}")
    return lines


def _beside(comparison: Comparison) -> list[str]:
    """Return a line per number below a line per cell, and how many are equal; `*` marks what differs."""
    numbers = [number for number in comparison.numbers if number.base != number.new]
    rows = [
        ("*" if n.differs else "", n.group, n.number, _estimate(n.base), "->", _estimate(n.new))
        for n in numbers
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for place, (number, row) in enumerate(zip(numbers, rows, strict=True)):
        if not place or numbers[place - 1].cell != number.cell:
            lines.append(f"{number.label} ({number.cell})")
        texts = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(texts).rstrip()}")
    equal = len(comparison.numbers) - len(numbers)
    return [*lines, f"equal in both runs: {counted(equal, 'number')}"] if equal else lines


def _estimate(found: Estimate) -> str:
    ends = found.interval
    return f"{_figure(found.value)}{f' ({_figure(ends[0])} to {_figure(ends[1])})' if ends else ''}"


def _figure(value: float) -> str:
    """Return a number of any size with four digits, and whole ones where it has more."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def how(comparison: Comparison) -> str:
    """Return how differences were tested, and by which rule verdicts were made."""
    margins = comparison.margins
    if comparison.rule is None:
        rule = (
            "no rule, and so no verdicts.\n*: differs by more than noise (two-sided Welch's t-test, "
            "corrected likewise). It is no regression: of a program's number nobody knows if more is better"
        )
    else:
        rule = f"rule {comparison.rule}"
    return (
        f"Welch's t-tests beyond the margins ({margins.margins}, version {margins.version}), corrected by "
        f"Benjamini-Hochberg at {margins.false_discovery_percent:g} %; {rule}."
    )


FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""


def as_document(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as JSON types for `--json`; field names carry units."""
    return {
        "format": FORMAT,
        "regressed": comparison.regressed,
        "rule": comparison.rule,
        "margins": comparison.margins.margins,
        "margins_version": comparison.margins.version,
        "base": _side_document(comparison.base),
        "new": _side_document(comparison.new),
        "cells": [_cell_document(cell) for cell in comparison.cells],
        "verdicts": [asdict(entry) for entry in comparison.entries],
        "numbers": [_number_document(number) for number in comparison.numbers],
    }


def _side_document(side: Side) -> dict[str, object]:
    stated = asdict(side) | {"begun": side.begun and side.begun.isoformat()}
    return {name: stated[name] for name in stated if name not in ("folder", "renamed")}


def _number_document(number: NumberBeside) -> dict[str, object]:
    found: dict[str, object] = {"cell": number.cell, "group": number.group, "number": number.number}
    for name, own in (("base", number.base), ("new", number.new)):
        found[name] = {"mean": own.value, "low": own.low, "high": own.high, "trials": own.trials}
    return found | {**_difference_document(number.difference), "p": number.p, "differs": number.differs}


def _cell_document(cell: CellChange) -> dict[str, object]:
    return {
        "cell": cell.cell,
        "label": cell.label,
        "presence": cell.presence,
        "regressed": cell.regressed,
        "trials": cell.trials,
        "left_out": cell.left_out,
        "verdicts": cell.words,
        "metrics": [_metric_document(metric) for metric in cell.metrics],
    }


def _metric_document(metric: MetricChange) -> dict[str, object]:
    return {
        "metric": metric.metric,
        "group": metric.group or None,
        "base": metric.base.value,
        "new": metric.new.value,
        **_difference_document(metric.difference),
        "margin": metric.margin,
        "p_worse": metric.p_worse,
        "p_better": metric.p_better,
        "change": metric.change,
    }


def _difference_document(found: MeanDifference | None) -> dict[str, object]:
    low, high = found.interval if found else (None, None)
    return {"difference": found and found.value, "difference_low": low, "difference_high": high}


SUITES: Final = "l4sbench compare"
"""Name of the test suites in JUnit XML."""


def as_junit(comparison: Comparison, suite: str) -> str:
    """Write the comparison as JUnit XML: a test per cell, which fails when the cell got worse or was lost."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    suite = printable(suite)  # XML takes no control character
    tests = TestSuite(suite)
    for cell in comparison.cells:
        test = TestCase(printable(cell.cell), classname=suite)
        if cell.presence is Presence.NOT_RUN:
            test.result = [Skipped("the new run does not have this cell")]
        elif cell.presence is Presence.LOST:
            test.result = [Failure(f"no valid trial any more: {_trials(cell)}", "lost")]
        elif cell.regressed:
            worse = _metrics(cell, ChangeKind.WORSE)
            test.result = [Failure(printable("; ".join(worse)), "worse")]
        said = [f"{metric.change.value}: {_metric(metric)}" for metric in cell.metrics]
        if cell.presence is Presence.NEW:
            said.append("new: the base has no valid trial of this cell")
        test.system_out = printable("\n".join(said))
        tests.add_testcase(test)
    document = JUnitXml(SUITES)
    document.add_testsuite(tests)
    text: bytes = document.tostring()  # type: ignore[no-untyped-call]
    return text.decode("utf-8")
