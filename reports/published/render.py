# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run beside published results as Markdown, and as JSON types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reports.published.comparison import NEAR_PERCENT, Errors, Pair, difference_maps
from reports.published.data import errata
from reports.render.templating import Markdown, markdown_templates
from reports.result.labels import BUFFER

if TYPE_CHECKING:
    from reports.published.comparison import EntryAgreement, StudyComparison

TEMPLATES: Final = Path(__file__).parent / "templates"

FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""


def markdown(found: StudyComparison, command: str, remark: str = "") -> str:
    """Write the tables of `docs/results/hosts.md`; `command` is what makes the run they are about.

    `remark` is a sentence about the run that comes first.
    """
    agreeing, corrected, known = found.agreeing
    _, across = found.pairs[0].place
    competitors = found.by(lambda pair: (pair.competitor, pair.published.factors["classic.ecn"]))
    return (
        markdown_templates(TEMPLATES)
        .get_template("against.md.j2")
        .render(
            found=found,
            command=command,
            remark=remark,
            agreeing=agreeing,
            corrected=corrected,
            known=known,
            entries=[_entry(found.called(entry.printed.l4s), entry) for entry in found.entries],
            queues=[(queue, *_errors(own)) for queue, own in found.by(lambda pair: pair.queue).items()],
            competitors=[(*both, *_errors(own)) for both, own in competitors.items()],
            changed=[_changed(pair) for pair in found.changed(near_limit=False)],
            near=[_changed(pair) for pair in found.changed(near_limit=True)],
            near_percent=f"{NEAR_PERCENT:g}",
            across=across.unit if across.column == BUFFER else f"{across.name}, {across.unit}",
            maps=difference_maps(found),
            difference=lambda place: f"{place.percent:+z.1f}",
            all={pairing: [_cell(pair) for pair in own] for pairing, own in found.pairings.items()},
            errata=[
                erratum
                for erratum in errata(found.study.cells)
                if any(erratum.touches(pair.published.factors) for pair in found.pairs)
            ],
        )
    )


def _errors(pairs: Sequence[Pair]) -> tuple[str, ...]:
    found = Errors.of(pairs)
    return (str(found.cells), f"{found.mean_absolute:.1f}", f"{found.mean:+z.1f}", f"{found.largest:.1f}")


def _entry(l4s: str, entry: EntryAgreement) -> tuple[str, ...]:
    printed = entry.printed
    if entry.agrees is None:
        ours = "not run"
    else:
        agrees = "agrees" if entry.agrees else "**differs**"
        ours = Markdown(f"{_word(entry.ok)} ({agrees}{_erratum(entry)})")
    return (
        l4s,
        printed.row,
        printed.column,
        Markdown(f"{_word(printed.ok)}{_STARS[printed.star]}"),
        _word(entry.published_ok) or "not available: as printed",
        ours,
        f"{entry.cells[0]} of {entry.cells[1]}",
        entry.worst,
        " ".join(filter(None, (printed.exception, *(f"erratum: {erratum}" for erratum in entry.errata)))),
    )


def _erratum(entry: EntryAgreement) -> str:
    return " as the erratum says" if entry.agrees_corrected else ""


_STARS: Final[Mapping[str, str]] = {"all": "*", "some": " (* in some queues)", "none": ""}


def _word(ok: bool | None) -> str:
    return "" if ok is None else "ok" if ok else "not ok"


def _changed(pair: Pair) -> tuple[object, ...]:
    ours, theirs = pair.figures["l4s_mbps"]
    place = (*_place(pair), pair.competitor, pair.published.factors["classic.ecn"])
    return (*place, _one(ours), _one(theirs))


def _cell(pair: Pair) -> tuple[str, ...]:
    figures = (f"{_one(ours)} / {_one(theirs)}" for ours, theirs in pair.figures.values())
    return (*_place(pair), *figures, f"{pair.difference_percent:+z.1f}")


def _place(pair: Pair) -> tuple[str, str]:
    row, column = pair.place
    return str(row), column.called


def _one(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def as_document(found: StudyComparison) -> dict[str, object]:
    """Return the comparison as JSON types for `--json`; field names carry units."""
    return {
        "format": FORMAT,
        "study": found.study.study,
        "rule": found.study.rule,
        "mean_absolute_error_percent": found.errors.mean_absolute,
        "mean_difference_percent": found.errors.mean,
        "rank_correlation": found.rank_correlation,
        "cells": [
            {
                **pair.published.factors,
                "cell": pair.cell.id,
                "trials": pair.cell.valid,
                **{
                    f"{prefix}{name}": value
                    for name, both in pair.figures.items()
                    for prefix, value in zip(("", "published_"), both, strict=True)
                },
                "difference_percent": pair.difference_percent,
                "changes_side": pair.changes_side,
                "near_limit": pair.near_limit,
            }
            for pair in found.pairs
        ],
        "entries": [
            {
                "l4s": entry.printed.l4s,
                "row": entry.printed.row,
                "column": entry.printed.column,
                "printed_ok": entry.printed.ok,
                "printed_star": entry.printed.star,
                "corrected_ok": entry.corrected_ok,
                "published_cells_ok": entry.published_ok,
                "ours_ok": entry.ok,
                "agrees": entry.agrees,
                "cells": entry.cells[0],
                "published_cells": entry.cells[1],
                "exception": entry.printed.exception or None,
                "errata": [str(erratum) for erratum in entry.errata],
            }
            for entry in found.entries
        ],
    }
