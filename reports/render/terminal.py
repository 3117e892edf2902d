# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision table for the terminal, and as plain text: competitors side by side, or one row per entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from l4sbench.printable import printable
from l4sbench.text.wording import counted
from reports.render.answer import Head, answers, scope_text
from reports.render.words import (
    BIMODAL,
    GLYPHS,
    NO_TRIAL,
    REGRET_DEFINITION,
    RUN_AGAIN,
    STAR,
    UNSURE,
    brief,
    doubt_text,
    figures,
    is_doubted,
    is_unsure,
    notes,
    part_text,
    reason_text,
    worst_text,
)
from reports.result.judging import Word
from reports.result.regret import UNIFORM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import ConsoleOptions

    from reports.render.words import Note
    from reports.result.labels import Label
    from reports.result.regret import Regret
    from reports.result.verdicts import Decision, JudgedCell, Verdict

# plain blue and magenta are hardly legible on the black of most terminals
_STYLES: Final[Mapping[Word, str]] = {
    Word.OK: "green",
    Word.L4S_STARVED: "bright_blue",
    Word.CLASSIC_STARVED: "red",
    Word.BOTH: "bright_magenta",
    Word.UNDECIDED: "yellow",
    Word.INVALID: "dim",
}

_HEAD_STYLES: Final[Mapping[Head, str]] = {
    Head.YES: "green",
    Head.NOT_EVERYWHERE: "red",
    Head.NO: "red",
}
"""Colours of answers; one that is not sure is yellow."""

_NOT_RUN: Final = "not run"
_WIDTH: Final = 120


def terminal(
    decision: Decision,
    command: str = RUN_AGAIN,
    regrets: Sequence[Regret] = (),
    *,
    full: bool = False,
) -> RenderableType:
    """Return the answers and the decision table for a rich console, which leaves out colours it cannot print.

    `command` runs the matrix again, `regrets` are the costs of switching. With `full` come all that the table
    states about itself, and the costs; otherwise only costs by weights that someone chose.
    """
    parts: list[RenderableType] = []
    for question, found in answers(decision, regrets):
        style = "yellow" if found.but else _HEAD_STYLES.get(found.head, "yellow")
        parts.append(
            Text.assemble(
                _text(f"Is it okay to switch to {question}? ", "bold"),
                _text(found.head.value, f"bold {style}"),
                _text(found.rest),
            )
        )
        mine = (own for own in regrets if own.question == question)
        shown = (own.text for own in mine if full or own.prevalence != UNIFORM.prevalence)
        parts += [_text(f"{text[0].upper()}{text[1:]} ({REGRET_DEFINITION}).") for text in shown]
        parts += ["", _Fitting(decision, question)]
    if full:
        parts += [_text(scope_text(decision)), *_lines(notes(decision, command))]
    else:
        parts += [*_lines(brief(decision, command)), _text(_rest(decision, regrets))]
    return Group(*parts)


def as_text(
    decision: Decision,
    width: int = _WIDTH,
    command: str = RUN_AGAIN,
    regrets: Sequence[Regret] = (),
    *,
    full: bool = False,
) -> str:
    """Return the decision table as plain text without colours."""
    console = Console(width=width, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(terminal(decision, command, regrets, full=full))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _lines(found: Iterable[Note]) -> Iterator[Text]:
    for note in found:
        yield _text(note.text)
        yield from (_text(f"  {line}") for line in note.details)


def _rest(decision: Decision, regrets: Sequence[Regret]) -> str:
    """Return the line that ends a short table: what it is made of, and how to see the rest."""
    parts = [counted(decision.trials, "valid trial")]
    if len(decision.questions) == 1:
        parts += [f"expected regret {own.regret_percent:.0f} % of a fair share" for own in regrets]
    return f"{', '.join(parts)}; --notes prints limits, meanings, regret, kernels and more"


@dataclass(frozen=True)
class _Fitting:
    """The decision table of a question: competitors side by side, or without the room below each other."""

    decision: Decision
    question: Label

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        title = f"Switching to {self.question}, by rule {self.decision.rule.rule}"
        yield _text(f"{title}, version {self.decision.rule.version}", "bold")
        beside = _beside(self.decision, self.question)
        if _fits(beside, console, options):
            yield beside
        else:
            yield _narrowed(_below(self.decision, self.question), console, options)
            if remarks := list(_remarks(self.decision, self.question)):
                yield ""
                yield from remarks
            yield ""


_UNLIMITED: Final = 10_000
_NAME_CHARS: Final = 14
"""Width that names keep when figures need room."""
_WORDS: Final = 2
"""Columns that are always shown: names and verdicts."""


def _fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    unlimited = options.update(max_width=_UNLIMITED)
    return Measurement.get(console, unlimited, table).maximum <= options.max_width


def _narrowed(table: Table, console: Console, options: ConsoleOptions) -> Table:
    """Return a table of words and figures without the last figures for which names would have no room."""
    name = table.columns[0]
    name.width = _NAME_CHARS
    while len(table.columns) > _WORDS and not _fits(table, console, options):
        table.columns.pop()
    name.width = None
    return table


def _beside(decision: Decision, question: Label) -> Table:
    """Return a table with a column for each competitor."""
    grid = decision.table(question)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("queue", style="bold", min_width=14)
    for column in grid.columns:
        table.add_column(_text(f"against {column}"))
    for row, entries in grid.lines():
        parts = decision.by_queue(entries)
        table.add_row(_text(row), *(_entry(verdict) for verdict in entries), end_section=not parts)
        for number, (queue, own) in enumerate(parts.items(), 1):
            name = Padding(_text(queue, "not bold"), (0, 0, 0, 2))
            table.add_row(name, *(_part(verdict) for verdict in own), end_section=number == len(parts))
    return table


def _below(decision: Decision, question: Label) -> Table:
    """Return a table with a row for each entry, competitor by competitor."""
    grid = decision.table(question)
    cells = [cell for cell in decision.cells if cell.question == question]
    has_harm = any((found := figures(cell)) and found.harm_percent for cell in cells)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(_text(f"{question.head} v competitor"))
    table.add_column("verdict", no_wrap=True)
    for name in ("%", "Mbit/s", "delay ms", *(("harm %",) if has_harm else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for place, column in enumerate(grid.columns):
        table.add_row()
        table.add_row(_text(f"against {column}", "bold"))
        for row, entries in grid.lines():
            if (entry := entries[place]) is None:
                table.add_row(_text(f"  {row}"), Text(_NOT_RUN, style="dim"))
                continue
            parts = decision.by_queue([entry])
            named = row if parts else f"{row}: {entry.worst.label}"
            shown = [] if parts else _figures(entry.worst, has_harm=has_harm)
            table.add_row(_indented(named, 2), _word(entry), *shown)
            for queue in parts.values():
                if (own := queue[0]) is not None:
                    label = _indented(str(own.worst.label), 4)
                    table.add_row(label, _word(own), *_figures(own.worst, has_harm=has_harm))
    return table


def _indented(text: str, by: int) -> Padding:
    return Padding(_text(text), (0, 0, 0, by))


def _word(verdict: Verdict) -> Text:
    """Return a verdict without the side in doubt."""
    doubt = f", {UNSURE}" if is_unsure(verdict) else ""
    return _styled(verdict, f"{GLYPHS[verdict.word]} {verdict.word}{doubt}")


def _figures(cell: JudgedCell, *, has_harm: bool) -> list[Text]:
    found = figures(cell)
    if found is None:
        return [Text(), _text(NO_TRIAL)]
    shown = [found.share_percent, found.goodput_mbps, found.delay_ms]
    return [_text(text) for text in ([*shown, found.harm_percent] if has_harm else shown)]


def _remarks(decision: Decision, question: Label) -> Iterator[Text]:
    """Yield what rows of figures leave out about entries: the side in doubt, its trials, and two modes."""
    for verdict in decision.verdicts:
        parts = (reason_text(verdict), BIMODAL if verdict.worst.result.bimodal else "")
        if verdict.question == question and (text := ", ".join(filter(None, parts))):
            yield _text(f"{GLYPHS[Word.UNDECIDED]} {verdict.row} against {verdict.column}: {text}")


def _text(text: object, style: str = "") -> Text:
    """Return a text as it is: nothing in it is markup for rich, and no control character is left."""
    return Text(printable(str(text)), style=style)


def _part(verdict: Verdict | None) -> RenderableType:
    """Return what is known of one queue of a row, in a line."""
    if verdict is None:
        return Text(_NOT_RUN, style="dim")
    return Text.assemble(_head(verdict, why=False), _text(f"  {part_text(verdict)}"))


def _head(verdict: Verdict, *, why: bool = True) -> Text:
    return _styled(verdict, f"{GLYPHS[verdict.word]} {verdict.word}{doubt_text(verdict, why=why)}")


def _styled(verdict: Verdict, text: str) -> Text:
    """Return a text about a verdict in its colour, with its star."""
    style = _STYLES[Word.UNDECIDED if is_doubted(verdict) else verdict.word]
    head = _text(text, style=f"bold {style}")
    if star := STAR[verdict.low_latency]:
        head.append(f" {star}", style="yellow")
    return head


def _entry(verdict: Verdict | None) -> RenderableType:
    if verdict is None:
        return Text(_NOT_RUN, style="dim")
    head = _head(verdict)
    return Group(head, Padding(_text(worst_text(verdict), style="default"), (0, 0, 0, 2)))
