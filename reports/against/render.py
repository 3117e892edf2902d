# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run beside published results as Markdown, and as what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from reports.against.agreement import touches
from reports.against.comparison import NEAR_PERCENT
from reports.against.maps import difference_maps
from reports.published import FACTORS, errata

if TYPE_CHECKING:
    from reports.against.agreement import EntryAgreement
    from reports.against.comparison import Comparison


FORMAT: Final = 1
"""Version of the JSON document; grows when a field changes its meaning or goes away."""


def markdown(comparison: Comparison, command: str) -> str:
    """`docs/fidelity.md`'s tables; `command` is what makes the run they are about."""
    lines = [*_summary(comparison, command), "", *_printed(comparison), "## By queue", ""]
    lines += _table(
        comparison.by("queue"),
        ("queue", "cells", "mean_absolute_error", "mean_difference", "largest"),
        ("queue", "cells", "mean abs. error, %", "mean difference, %", "largest, %"),
    )
    lines += ["", "## By competitor", ""]
    lines += _table(
        comparison.by("competitor", "classic.ecn"),
        ("competitor", "classic.ecn", "cells", "mean_absolute_error", "mean_difference", "largest"),
        ("competitor", "ECN", "cells", "mean abs. error, %", "mean difference, %", "largest, %"),
    )
    lines += ["", "## Cells that change sides", ""]
    lines += _changed(comparison)
    lines += ["", *_maps(comparison)]
    lines += [
        "",
        "## All cells",
        "",
        "Mbit/s and ms, l4sbench / published; difference in percent of the rate.",
        "",
    ]
    for pairing, cells in comparison.pairings.items():
        lines += [f"### {pairing}", "", *_all_cells(cells), ""]
    return "\n".join(lines + _errata(comparison)).rstrip() + "\n"


def _summary(comparison: Comparison, command: str) -> list[str]:
    least, most = comparison.trials
    trials = f"{least}" if least == most else f"{least} to {most}"
    lengths = ", ".join(f"{seconds:g} s" for seconds in comparison.duration_s)
    kernels = ", ".join(comparison.kernels)
    limits = f"{comparison.limits.low:g} or {comparison.limits.high:g} %"
    changed, near = comparison.changed.height, comparison.changed_near_limit.height
    error = f"**{comparison.mean_absolute_error:.1f} %** of the link's rate"
    bias = f"mean difference {comparison.mean_difference:+.1f} %"
    missing = f"{comparison.unmatched} cells of the run that were not published"
    return [
        f"# Beside published results: {comparison.study.study}",
        "",
        f"Made by `{command}`.",
        "",
        f"- {comparison.cells.height} cells, {trials} trials each, {lengths}, kernel {kernels}",
        f"- mean absolute error of the L4S flow's goodput: {error} ({bias})",
        *_correlation(comparison),
        f"- cells that change sides of {limits}: **{changed}**; published near a limit: {near} more",
        f"- not compared: {missing}, {comparison.unrun} published cells that were not run",
    ]


def _correlation(comparison: Comparison) -> list[str]:
    rho = comparison.rank_correlation
    return [] if rho is None else [f"- rank correlation of the L4S flow's goodputs (Spearman): {rho:.3f}"]


def _printed(comparison: Comparison) -> list[str]:
    """The study's decision table beside ours."""
    table, entries = comparison.study, comparison.entries
    if not entries:
        return []
    agreeing, corrected, known = comparison.agreeing
    differing = f"; {corrected} more differ as an erratum says" if corrected else ""
    agree = f"ours agree in **{agreeing} of {known}** entries{differing}"
    lines = [
        "## Printed verdicts",
        "",
        f"{table.source}, by rule `{table.rule}`: {agree}.",
        "`ok` means that every cell behind an entry is within the limits. A star stands where it is printed.",
        "",
        "| L4S | queue | against | printed | its cells | ours | cells run | our worst cell | remarks |",
        f"|{'---|' * 9}",
    ]
    for entry in entries:
        printed = entry.printed
        figures = (
            comparison.called(printed.l4s),
            printed.row,
            printed.column,
            f"{_word(printed.ok)}{_STARS[printed.star]}",
            _word(entry.published_ok) or "not at hand: as printed",
            _ours(entry),
            f"{entry.cells[0]} of {entry.cells[1]}",
            entry.worst,
            _remarks(entry),
        )
        lines.append(f"| {' | '.join(figures)} |")
    return [*lines, ""]


_STARS: Final[Mapping[str, str]] = {"all": "*", "some": " (* in some queues)", "none": ""}


def _word(ok: bool | None) -> str:
    return "" if ok is None else "ok" if ok else "not ok"


def _ours(entry: EntryAgreement) -> str:
    if entry.agrees is None:
        return "not run"
    if entry.agrees_corrected:
        return f"{_word(entry.ok)} (**differs** as the erratum says)"
    return f"{_word(entry.ok)} ({'agrees' if entry.agrees else '**differs**'})"


def _remarks(entry: EntryAgreement) -> str:
    known = [entry.printed.exception, *(f"erratum: {e.text} ({e.source})" for e in entry.errata)]
    return " ".join(text for text in known if text)


def _maps(comparison: Comparison) -> list[str]:
    lines = ["## Ours minus published", "", "L4S flow's goodput, percent of the link's rate.", ""]
    for own in difference_maps(comparison):
        lines += [f"### {own.pairing}", ""]
        lines += [
            f"| queue | {' | '.join(f'{buffer:g} BDP' for buffer in own.buffers)} |",
            f"|{'---|' * (len(own.buffers) + 1)}",
        ]
        for queue, places in own.rows:
            figures = (f"{place.percent:+z.1f}" if place else "" for place in places)
            lines.append(f"| {queue} | {' | '.join(figures)} |")
        lines.append("")
    return lines[:-1]


_SIDES: Final = ("queue", "buffer_bdp", "competitor", "classic.ecn", "l4s_mbps", "published_l4s_mbps")
_SIDE_HEADS: Final = ("queue", "BDP", "competitor", "ECN", "l4sbench, Mbit/s", "published, Mbit/s")


def _changed(comparison: Comparison) -> list[str]:
    lines = _table(comparison.changed, _SIDES, _SIDE_HEADS) if comparison.changed.height else ["None."]
    if comparison.changed_near_limit.height:
        lines += ["", f"Published within {NEAR_PERCENT:g} % of a limit:", ""]
        lines += _table(comparison.changed_near_limit, _SIDES, _SIDE_HEADS)
    return lines


def _all_cells(cells: pl.DataFrame) -> list[str]:
    pairs = {
        "l4s_mbps": "L4S",
        "classic_mbps": "classic",
        "delay_ms": "L4S delay",
        "classic_delay_ms": "classic delay",
    }
    shown = cells.select(
        "queue",
        "buffer_bdp",
        *[_pair(name).alias(label) for name, label in pairs.items()],
        "difference",
    )
    heads = ("queue", "BDP", *pairs.values(), "difference")
    return _table(shown, tuple(shown.columns), heads)


def _pair(name: str) -> pl.Expr:
    """`47.5 / 42.0`."""
    return pl.format("{} / {}", _one_decimal(pl.col(name)), _one_decimal(pl.col(f"published_{name}")))


def _one_decimal(value: pl.Expr) -> pl.Expr:
    return value.map_elements(lambda number: f"{number:.1f}", return_dtype=pl.String)


def _errata(comparison: Comparison) -> list[str]:
    """Known errata of the publication that touch a cell of this comparison."""
    cells = comparison.cells.select(FACTORS).unique().to_dicts()
    touching = [e for e in errata() if any(touches(e, cell) for cell in cells)]
    if not touching:
        return []
    return ["## Known errata of the published cells", "", *(f"- {e.text} ({e.source})" for e in touching)]


def _table(frame: pl.DataFrame, columns: tuple[str, ...], heads: tuple[str, ...]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in frame.select(columns).iter_rows():
        cells = [_shown(name, value) for name, value in zip(columns, row, strict=True)]
        lines += [f"| {' | '.join(cells)} |"]
    return lines


def _shown(name: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if name == "buffer_bdp":
        return f"{value:g}"
    return f"{value:+z.1f}" if name in {"difference", "mean_difference"} else f"{value:.1f}"


def as_document(comparison: Comparison) -> dict[str, object]:
    """The comparison as what `--json` prints; field names carry units."""
    cells = comparison.cells.select(
        *FACTORS,
        "cell",
        pl.col("valid").alias("trials"),
        *("l4s_mbps", "published_l4s_mbps", "classic_mbps", "published_classic_mbps"),
        *("delay_ms", "published_delay_ms", "classic_delay_ms", "published_classic_delay_ms"),
        pl.col("difference").alias("difference_percent"),
        *("changes_side", "near_limit"),
    )
    return {
        "format": FORMAT,
        "study": comparison.study.study,
        "rule": comparison.study.rule,
        "mean_absolute_error_percent": comparison.mean_absolute_error,
        "mean_difference_percent": comparison.mean_difference,
        "rank_correlation": comparison.rank_correlation,
        "cells": cells.to_dicts(),
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
                "errata": [f"{e.text} ({e.source})" for e in entry.errata],
            }
            for entry in comparison.entries
        ],
    }
