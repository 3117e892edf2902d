# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Decision tables, measurements and the tables of a run in HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import polars as pl

from l4sbench import tables as stored
from l4sbench.printable import html_table, html_text
from reports.render import measured
from reports.render.answer import answer, scope_text
from reports.render.words import GLYPHS, STAR, doubt_text, make_sure, notes, part_text, worst_text

if TYPE_CHECKING:
    from reports.result.labels import Label
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.verdicts import Decision, Verdict


def decision_html(decision: Decision) -> str:
    """Return a decision table with what it states about itself."""
    parts = []
    for question in decision.questions:
        rule = f"rule {decision.rule.rule}, version {decision.rule.version}"
        parts.append(html_text(f"Is it okay to switch to {question}? {answer(decision, question)}"))
        parts.append(html_text(f"Switching to {question}, by {rule}"))
        parts.append(html_table(list(_rows(decision, question))))
    parts.append(html_text(scope_text(decision)))
    # commands and options are calls and arguments here
    remedy = make_sure(decision)
    call = "to make it sure: l4sbench.run(matrix, sure=True) adds trials to the cells in doubt"
    for note in notes(decision):
        text = call if note.text == remedy else note.text.replace("; --all counts", "; every=True counts")
        parts.append(html_text(text, *note.details))
    return "".join(parts)


def measured_html(found: Measurements) -> str:
    """Return what the flow groups of every cell got, with what the numbers state about themselves."""
    return html_table(measured.rows(found)) + html_text(*measured.notes(found))


def _rows(decision: Decision, question: Label) -> Iterator[Mapping[str, object]]:
    grid = decision.table(question)
    for row, entries in grid.lines():
        shown = (_entry(verdict) for verdict in entries)
        columns = [f"against {column}" for column in grid.columns]
        yield {"queue": row} | dict(zip(columns, shown, strict=True))
        for queue, parts in decision.by_queue(entries).items():
            yield {"queue": queue} | dict(zip(columns, map(_part, parts), strict=True))


def _entry(verdict: Verdict | None) -> str:
    return "not run" if verdict is None else f"{_head(verdict)}\n{worst_text(verdict)}"


def _part(verdict: Verdict | None) -> str:
    return "not run" if verdict is None else f"{_head(verdict, why=False)}\n{part_text(verdict)}"


def _head(verdict: Verdict, *, why: bool = True) -> str:
    word = f"{verdict.word}{doubt_text(verdict, why=why)}"
    return " ".join(filter(None, (GLYPHS[verdict.word], word, STAR[verdict.low_latency])))


def tables_html(tables: RunTables) -> str:
    """Return the numbers of trials by status, and the tables with their meanings and numbers of rows."""
    statuses = tables.trials["status"].value_counts(sort=True).iter_rows()
    trials = ", ".join(f"{number} {status}" for status, number in statuses)
    cells = tables.trials["cell"].n_unique()
    rows = []
    for name in stored.SCHEMAS:
        if (tables.folder / f"{name}.parquet").is_file():
            count = tables.scan(name).select(pl.len()).collect().item()
            about = (stored.SCHEMAS[name].__doc__ or "").partition("\n")[0]
            rows.append({"table": name, "rows": count, "content": about})
    head = f"{tables.folder}: {cells} cells, {trials or 'no trials'}"
    return html_text(head) + html_table(rows)
