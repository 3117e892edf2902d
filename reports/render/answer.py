# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The answer to a question in sentences: yes or no, how surely, who loses where, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from l4sbench.facts.factors import name_of
from l4sbench.text.wording import counted
from reports.result.judging import OPEN, Word
from reports.result.regret import expected, losing

if TYPE_CHECKING:
    from reports.result.cells import Factors
    from reports.result.labels import Label
    from reports.result.regret import Losing, Regret
    from reports.result.verdicts import Decision, JudgedCell, Verdict

SENTENCES: Final = 3
"""Sentences about who loses where; what they leave out is in the table."""

_STARVED: Final = {
    "l4s": frozenset({Word.L4S_STARVED, Word.BOTH}),
    "classic": frozenset({Word.CLASSIC_STARVED, Word.BOTH}),
}


class Head(StrEnum):
    """The answer to a question in a word or two."""

    YES = "Yes"
    PROBABLY = "Probably"
    NOT_EVERYWHERE = "Not everywhere"
    PROBABLY_NOT_EVERYWHERE = "Probably not everywhere"
    NO = "No"
    PROBABLY_NOT = "Probably not"
    UNDECIDED = "Undecided"


_OF_ALL: Final = (Head.YES, Head.PROBABLY, Head.NO, Head.PROBABLY_NOT)
"""Answers that cells which have not run may turn around."""


@dataclass(frozen=True)
class _Loss:
    """A side that is starved, behind which queues and against whom, and what it gets in % of the link."""

    side: str
    queues: tuple[str, ...]
    columns: tuple[Label, ...]
    percents: tuple[float, ...]


@dataclass(frozen=True)
class Answer:
    """The answer to a question of the table, in parts.

    Attributes:
        head: The answer in a word.
        but: A reservation about a yes, which follows it; empty for none.
        counts: How many entries are ok, and how many are open.
        losses: Sentences about who is starved, and where.
    """

    head: Head
    but: str
    counts: str
    losses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.head}{self.rest}"

    @property
    def rest(self) -> str:
        """The answer without its first word."""
        return " ".join((f"{self.but}: {self.counts}.", *self.losses))


def answer(decision: Decision, question: Label, cost: Regret | None = None) -> Answer:
    """Return the answer to a question of the table.

    `Not everywhere: ok in 4 of 6 entries. Behind FIFO and DualPI2 against BBRv1, Prague gets 8-20 % of the
    link.`

    `cost` is what switching costs; without it all queues and competitors count alike. A yes that costs a
    group much says so: `Yes by the rule (50 % of a fair share is enough), but CUBIC keeps only 69 %`.
    """
    entries = [verdict for verdict in decision.verdicts if verdict.question == question]
    losses = _losses(entries)
    head, counts = _head(entries), _counts(entries)
    but = _but(decision, question, cost) if head in (Head.YES, Head.PROBABLY) else ""
    if decision.not_run:
        but += ", so far" if head in _OF_ALL else ""
        counts += f"; {counted(decision.not_run, 'cell')} not run"
    sentences = [_sentence(question, loss) for loss in losses]
    if len(losses) > SENTENCES:
        rest = len(losses) - SENTENCES
        sentences[SENTENCES:] = [f"The table shows {counted(rest, 'more case')}."]
    return Answer(head, but, counts, tuple(sentences))


def _but(decision: Decision, question: Label, cost: Regret | None) -> str:
    """Return that the rule has a yes where a group loses much; empty where none does."""
    found = cost or expected(decision, question)
    much = losing(decision, found)
    if not much:
        return ""
    enough = min(own.required_percent for own in much)
    mean = "on average " if found.pairs > 1 else ""
    keeps = " and ".join(_keeps(decision, question, own) for own in much)
    return f" by the rule ({enough:.0f} % of a fair share is enough), but {mean}{keeps} of a fair share"


def _keeps(decision: Decision, question: Label, own: Losing) -> str:
    called = {cell.called(own.role) for cell in decision.cells if cell.question == question}
    name = called.pop() if len(called) == 1 else ""
    return f"{f'{name} keeps' if name else 'its competitors keep'} only {own.keeps_percent:.0f} %"


def scope_text(decision: Decision) -> str:
    """Return what the verdicts do not say: they are about some flows, some paths and some kernels."""
    fixed = decision.fixed
    path = ""
    if "rate_mbps" in fixed and "rtt_ms" in fixed:
        rate, rtt = (f"{fixed[name].called} {fixed[name].unit}" for name in ("rate_mbps", "rtt_ms"))
        path = f", about other paths than {rate} and {rtt}"
    kernels = f" than {_and(decision.kernels)}" if decision.kernels else ""
    flows = "short or application-limited flows (all flows here are bulk transfers)"
    if any(_other_than_bulk(cell.result.factors) for cell in decision.cells):
        flows = "other traffic than the flow groups of these cells send"
    return (
        f"This says nothing about {flows}, about paths with more bottlenecks in a row than these{path}, "
        f"or about other kernels{kernels}."
    )


def _other_than_bulk(factors: Factors) -> bool:
    """Return True if some flow group sends other than bulk transfers, or only so long or so much."""
    settings = ((name_of(setting.of.factor).key, setting.value) for setting in factors.values())
    return any(key in {"bytes", "lifetime"} or (key == "send" and value != "bulk") for key, value in settings)


def _head(entries: Sequence[Verdict]) -> Head:
    starved = [verdict for verdict in entries if verdict.word not in OPEN | {Word.OK}]
    if starved:
        nowhere = not any(verdict.word is Word.OK for verdict in entries)
        sure = any(verdict.sure for verdict in starved)
        return {
            (True, True): Head.NO,
            (True, False): Head.PROBABLY_NOT,
            (False, True): Head.NOT_EVERYWHERE,
            (False, False): Head.PROBABLY_NOT_EVERYWHERE,
        }[nowhere, sure]
    if any(verdict.word in OPEN for verdict in entries):
        return Head.UNDECIDED
    return Head.YES if all(verdict.sure for verdict in entries) else Head.PROBABLY


def _counts(entries: Sequence[Verdict]) -> str:
    ok = [verdict for verdict in entries if verdict.word is Word.OK]
    unsure = sum(not verdict.sure for verdict in ok)
    parts = [f"ok in {len(ok)} of {len(entries)} {'entry' if len(entries) == 1 else 'entries'}"]
    if unsure:
        parts.append(f"{unsure} of them unsure" if len(ok) > 1 else "which is unsure")
    for word, text in ((Word.UNDECIDED, "undecided"), (Word.INVALID, "without a valid trial in some cell")):
        if count := sum(verdict.word is word for verdict in entries):
            parts.append(f"{count} {text}")
    return ", ".join(parts)


def _losses(entries: Iterable[Verdict]) -> list[_Loss]:
    """Return who is starved where, the most cells first; competitors with the same queues go together."""
    found: dict[tuple[str, Label], list[JudgedCell]] = {}
    for verdict in entries:
        for cell in verdict.cells:
            for side, words in _STARVED.items():
                if cell.word in words:
                    found.setdefault((side, verdict.column), []).append(cell)
    alike: dict[tuple[str, tuple[str, ...], str], list[tuple[Label, list[JudgedCell]]]] = {}
    for (side, column), cells in found.items():
        queues = tuple(dict.fromkeys(cell.label.head for cell in cells))
        alike.setdefault((side, queues, column.head), []).append((column, cells))
    losses = [
        _Loss(
            side,
            queues,
            tuple(column for column, _ in own),
            tuple(_percent(side, cell) for _, cells in own for cell in cells),
        )
        for (side, queues, _), own in alike.items()
    ]
    return sorted(losses, key=lambda loss: -len(loss.percents))


def _percent(side: str, cell: JudgedCell) -> float:
    group = cell.result.l4s if side == "l4s" else cell.result.classic
    assert group.goodput is not None  # noqa: S101  (a starved cell has valid trials)
    return group.goodput.percent_of(cell.result.rate_mbps).value


def _sentence(question: Label, loss: _Loss) -> str:
    head = loss.columns[0].head
    settings = [", ".join(setting.text for setting in column.settings) for column in loss.columns]
    against = f"{head} ({' or '.join(filter(None, settings))})" if any(settings) else head
    who = f"{question.head} gets" if loss.side == "l4s" else f"{head} is left with"
    return f"Behind {_and(loss.queues)} against {against}, {who} {_range(loss.percents)} of the link."


def _range(percents: Sequence[float]) -> str:
    low, high = round(min(percents)), round(max(percents))
    if high < 1:
        return "less than 1 %"
    return f"{high} %" if low == high else f"{low}-{high} %"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def answers(decision: Decision, costs: Iterable[Regret] = ()) -> Iterator[tuple[Label, Answer]]:
    """Yield every question with its answer, given what switching costs."""
    of_question = {cost.question: cost for cost in costs}
    for question in decision.questions:
        yield question, answer(decision, question, of_question.get(question))
