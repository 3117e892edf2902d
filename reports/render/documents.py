# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision as files: Markdown to read, LaTeX for papers, CSV and JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reports.render.answer import answers, scope_text
from reports.render.data import cells_csv, document, entries_csv
from reports.render.templating import (
    Latex,
    Markdown,
    latex_templates,
    markdown_templates,
    md,
    table,
    tex,
)
from reports.render.words import (
    BIMODAL,
    COUNT_FORMER,
    GLYPHS,
    NO_TRIAL,
    STAR,
    doubt_text,
    notes,
    number,
    part_text,
    share_text,
    worst_text,
)
from reports.result.judging import Word
from reports.result.labels import BUFFER, Label
from reports.result.metrics import START_S
from reports.result.regret import MEANING, UNIFORM
from reports.result.verdicts import heat_grid

if TYPE_CHECKING:
    import polars as pl

    from reports.result.grid import Grid
    from reports.result.labels import Setting
    from reports.result.regret import Regret
    from reports.result.verdicts import Decision, JudgedCell, Verdict

TEMPLATES: Final = Path(__file__).parent / "templates"

BEGINNINGS: Final[Mapping[str, bytes]] = {
    "decision.md": b"# Decision table\n",
    "decision.csv": b"rule,l4s,row,column,verdict,",
    "cells.csv": b"question,row,column,queue,",
    "decision.json": b'{\n  "format": 1,\n  "rule": {',
    "decision.tex": b"% written by l4sbench;",
}
"""Documents that only a decision has, by name, with the beginning by which it is known."""


def documents(
    decision: Decision, regrets: Sequence[Regret] = (), metrics: pl.DataFrame | None = None
) -> Mapping[str, str]:
    """Return every document of a decision by its file name.

    `metrics` are further figures of all cells, as `reports.result.metrics.cell_metrics` returns them. The
    LaTeX has only those of `regrets` whose weights someone chose.
    """
    return {
        "decision.md": markdown(decision, regrets, metrics),
        "decision.csv": entries_csv(decision),
        "cells.csv": cells_csv(decision, metrics),
        "decision.json": dumps(document(decision, regrets, metrics), indent=2, ensure_ascii=False) + "\n",
        "decision.tex": latex(decision, [own for own in regrets if own.prevalence != UNIFORM.prevalence]),
        **({} if metrics is None else {"metrics.csv": metrics.write_csv()}),
    }


def markdown(decision: Decision, regrets: Sequence[Regret] = (), metrics: pl.DataFrame | None = None) -> str:
    """Return the decision table as Markdown, with the means of all its cells and their further figures."""

    def by_buffer(question: Label, column: Label) -> Grid[None, Label, Setting | None, JudgedCell]:
        places = (question, column)
        return heat_grid([c for c in decision.cells if (c.question, c.column) == places], BUFFER)

    template = markdown_templates(TEMPLATES).get_template("decision.md.j2")
    return template.render(
        decision=decision,
        answers={question: str(found) for question, found in answers(decision, regrets)},
        scope=scope_text(decision),
        definition=Markdown("[definition](#expected-regret)"),
        meaning=MEANING,
        decision_table=partial(decision_table, decision),
        notes=notes(decision),
        regrets=regrets,
        by_buffer=by_buffer,
        goodputs=_goodputs,
        further=_further(decision, metrics),
    )


def decision_table(decision: Decision, question: Label) -> Markdown:
    """Return a decision table in Markdown: rows of families, and below one with several queues these."""
    grid = decision.table(question)
    rows: list[list[Markdown | str]] = []
    for row, entries in grid.lines():
        rows.append([Markdown(f"**{md(row)}**"), *map(_entry, entries)])
        rows += [[queue, *map(_part, parts)] for queue, parts in decision.by_queue(entries).items()]
    return table(["queue", *(Markdown(f"against {md(column)}") for column in grid.columns)], rows)


_NOT_RUN: Final = Markdown("not run")


def _entry(verdict: Verdict | None) -> Markdown:
    if verdict is None:
        return _NOT_RUN
    word = f"**{verdict.word}**{md(doubt_text(verdict))}"
    return Markdown(f"{_signed(verdict, word)}<br>{md(worst_text(verdict))}")


def _part(verdict: Verdict | None) -> Markdown:
    if verdict is None:
        return _NOT_RUN
    word = f"{verdict.word}{md(doubt_text(verdict, why=False))}"
    return Markdown(f"{_signed(verdict, word)}<br>{md(part_text(verdict))}")


def _signed(verdict: Verdict, word: str) -> str:
    return " ".join(filter(None, (GLYPHS[verdict.word], word, STAR[verdict.low_latency])))


def _goodputs(cell: JudgedCell) -> str:
    if cell.result.share is None:
        return NO_TRIAL
    groups = f"{number(cell.result.l4s.goodput)} ({number(cell.result.classic.goodput)})"
    return f"{groups}, {BIMODAL}" if cell.result.bimodal else groups


_FURTHER: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "Jain's index (flows)": lambda row: _figure(row["jain"], 3, f" ({row['flows']})"),
    "one L4S flow over one classic": lambda row: _figure(row["ratio"], 2),
    "link used, %": lambda row: _figure(row["utilisation"] and row["utilisation"] * 100, 1),
    f"delay of L4S in its first {START_S} s, ms": lambda row: _figure(row["l4s_delay_first_5s_ms"], 1),
    "and after, ms": lambda row: _figure(row["l4s_delay_after_5s_ms"], 1),
    "variation in 1 s bins, L4S": lambda row: _figure(row["l4s_variation_1000ms"], 2),
    "variation in 1 s bins, classic": lambda row: _figure(row["classic_variation_1000ms"], 2),
    "smoothed RTT of L4S, p95, ms": lambda row: _figure(row["l4s_srtt_p95_ms"], 1),
    "p99, ms": lambda row: _figure(row["l4s_srtt_p99_ms"], 1),
    "queuing delay of L4S, p99, ms": lambda row: _figure(row["l4s_sojourn_p99_ms"], 2),
    "p99.9, ms": lambda row: _figure(row["l4s_sojourn_p999_ms"], 2),
}


def _further(decision: Decision, metrics: pl.DataFrame | None) -> Markdown:
    """Return fairness, steadiness and tails of the cells as a table; what no cell has is no column."""
    if metrics is None:
        return Markdown()
    of_cell: dict[str, dict[str, Any]] = {row["cell"]: row for row in metrics.iter_rows(named=True)}
    rows = [
        [f"{cell.label}, against {cell.column}", *(show(of_cell[cell.id]) for show in _FURTHER.values())]
        for cell in decision.cells
        if cell.id in of_cell
    ]
    heads = ["cell", *_FURTHER]
    shown = [0, *(place for place in range(1, len(heads)) if any(row[place] for row in rows))]
    return table([heads[place] for place in shown], ([row[place] for place in shown] for row in rows))


def _figure(value: float | None, digits: int, after: str = "") -> str:
    return "" if value is None else f"{value:.{digits}f}{after}"


_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    Word.OK: ("LsbOk", r"\ensuremath{\checkmark}"),
    Word.L4S_STARVED: ("LsbStarved", r"\ensuremath{\blacktriangledown}"),
    Word.CLASSIC_STARVED: ("LsbStarves", r"\ensuremath{\blacktriangle}"),
    Word.BOTH: ("LsbBoth", r"\ensuremath{\blacklozenge}"),
    Word.UNDECIDED: ("LsbUndecided", r"\textbf{?}"),
    Word.INVALID: ("LsbInvalid", r"\ensuremath{\times}"),
    "all": ("LsbStar", r"\ensuremath{\bigstar}"),
    "some": ("LsbSomeStar", r"\ensuremath{\star}"),
}
"""LaTeX commands of verdicts and stars, and their meaning unless a paper defines them otherwise."""


def latex(decision: Decision, regrets: Sequence[Regret] = ()) -> str:
    r"""Return a LaTeX `table` per question; `\input` it in a document that uses booktabs and amssymb.

    It has no commands: they are for whoever has the run, and a paper's readers do not.
    """

    def command(known: tuple[str, str]) -> Latex:
        return Latex(f"\\{known[0]}{{}}")

    def small(text: object) -> Latex:
        return Latex(f"{{\\footnotesize {tex(text, glyphs)}}}" if text else "")

    # question mark and x are printed as they are
    glyphs = {
        sign: command(_COMMANDS[word]) for word, sign in (*GLYPHS.items(), *STAR.items()) if sign not in "?x"
    }
    templates = latex_templates(TEMPLATES, glyphs)
    templates.filters |= {"command": command, "short": _short}
    lines = [note.text.replace(COUNT_FORMER, "") for note in notes(decision) if not note.has_code]
    lines.append(scope_text(decision))
    return templates.get_template("decision.tex.j2").render(
        decision=decision,
        commands=_COMMANDS,
        definitions=[Latex(rf"\providecommand{{\{name}}}{{{sign}}}") for name, sign in _COMMANDS.values()],
        small=small,
        doubt=partial(doubt_text, why=False),
        texts=lambda question: [*lines, *(own.text for own in regrets if own.question == question)],
    )


def _short(cell: JudgedCell) -> str:
    """Return the figures of a cell, shorter than elsewhere: percent of the rate, Mbit/s of both."""
    share, l4s, classic = cell.result.share, cell.result.l4s, cell.result.classic
    if share is None:
        return NO_TRIAL
    return f"{share_text(cell, share, 0)} % ({number(l4s.goodput)} v {number(classic.goodput)})"
