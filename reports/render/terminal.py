# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A decision table for the terminal, and as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from l4sbench.printable import printable
from reports.render.answer import answer_text, scope_text
from reports.render.words import (
    GLYPHS,
    REGRET_DEFINITION,
    RUN_AGAIN,
    STAR,
    doubt_text,
    notes,
    part_text,
    worst_text,
)
from reports.result.judging import Word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reports.result.labels import Label
    from reports.result.regret import Regret
    from reports.result.verdicts import Decision, Verdict

# plain blue and magenta are hardly legible on the black of most terminals
_STYLES: Final[Mapping[Word, str]] = {
    Word.OK: "green",
    Word.L4S_STARVED: "bright_blue",
    Word.CLASSIC_STARVED: "red",
    Word.BOTH: "bright_magenta",
    Word.UNDECIDED: "yellow",
    Word.INVALID: "dim",
}


def terminal(decision: Decision, command: str = RUN_AGAIN, regrets: Sequence[Regret] = ()) -> RenderableType:
    """Return the answers and the decision table for a rich console, which leaves out colours it cannot print.

    `command` runs the matrix again, `regrets` are the costs of switching.
    """
    parts: list[RenderableType] = []
    for question in decision.questions:
        parts.append(
            Text.assemble(
                _text(f"Is it okay to switch to {question}? ", "bold"), _text(answer_text(decision, question))
            )
        )
        mine = (own.text for own in regrets if own.question == question)
        parts += [_text(f"{text[0].upper()}{text[1:]} ({REGRET_DEFINITION}).") for text in mine]
        parts += ["", _question(decision, question), ""]
    parts.append(_text(scope_text(decision)))
    for note in notes(decision, command):
        parts += [_text(note.text), *(_text(f"  {line}") for line in note.details)]
    return Group(*parts)


def as_text(
    decision: Decision, width: int = 120, command: str = RUN_AGAIN, regrets: Sequence[Regret] = ()
) -> str:
    """Return the decision table as plain text without colours."""
    console = Console(width=width, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(terminal(decision, command, regrets))
    return captured.get()


def _question(decision: Decision, question: Label) -> Table:
    rule, grid = decision.rule, decision.table(question)
    table = Table(
        title=_text(f"Switching to {question}, by rule {rule.rule}, version {rule.version}"),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
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


def _text(text: object, style: str = "") -> Text:
    """Return a text as it is: nothing in it is markup for rich, and no control character is left."""
    return Text(printable(str(text)), style=style)


def _part(verdict: Verdict | None) -> RenderableType:
    """Return what is known of one queue of a row, in a line."""
    if verdict is None:
        return Text("not run", style="dim")
    return Text.assemble(_head(verdict, why=False), _text(f"  {part_text(verdict)}"))


def _head(verdict: Verdict, *, why: bool = True) -> Text:
    doubt = doubt_text(verdict, why=why)
    style = _STYLES[Word.UNDECIDED] if doubt else _STYLES[verdict.word]
    head = _text(f"{GLYPHS[verdict.word]} {verdict.word}{doubt}", style=f"bold {style}")
    if star := STAR[verdict.low_latency]:
        head.append(f" {star}", style="yellow")
    return head


def _entry(verdict: Verdict | None) -> RenderableType:
    if verdict is None:
        return Text("not run", style="dim")
    head = _head(verdict)
    return Group(head, Padding(_text(worst_text(verdict), style="default"), (0, 0, 0, 2)))
