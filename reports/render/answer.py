# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The answer to a question in sentences: yes or no, how surely, who loses where, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.facts.factors import name_of
from l4sbench.text.wording import counted
from reports.result.judging import OPEN, Word

if TYPE_CHECKING:
    from reports.result.cells import Factors
    from reports.result.labels import Label
    from reports.result.verdicts import Decision, JudgedCell, Verdict

SENTENCES: Final = 3
"""Sentences about who loses where; what they leave out is in the table."""

_STARVED: Final = {
    "l4s": frozenset({Word.L4S_STARVED, Word.BOTH}),
    "classic": frozenset({Word.CLASSIC_STARVED, Word.BOTH}),
}
_OF_ALL: Final = ("Yes", "Probably", "No", "Probably not")
"""Answers that cells which have not run may turn around."""


@dataclass(frozen=True)
class _Loss:
    """A side that is starved, behind which queues and against whom, and what it gets in % of the link."""

    side: str
    queues: tuple[str, ...]
    columns: tuple[Label, ...]
    percents: tuple[float, ...]


def answer_text(decision: Decision, question: Label) -> str:
    """Return the answer to a question of the table.

    `Not everywhere: ok in 4 of 6 entries. Behind FIFO and DualPI2 against BBRv1, Prague gets 8-20 % of the
    link.`
    """
    entries = [verdict for verdict in decision.verdicts if verdict.question == question]
    losses = _losses(entries)
    head, counts = _head(entries), _counts(entries)
    if decision.not_run:
        head += ", so far" if head in _OF_ALL else ""
        counts += f"; {counted(decision.not_run, 'cell')} not run"
    sentences = [f"{head}: {counts}.", *(_sentence(question, loss) for loss in losses)]
    if len(losses) > SENTENCES:
        rest = len(losses) - SENTENCES
        sentences[1 + SENTENCES :] = [f"The table shows {counted(rest, 'more case')}."]
    return " ".join(sentences)


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


def _head(entries: Sequence[Verdict]) -> str:
    starved = [verdict for verdict in entries if verdict.word not in OPEN | {Word.OK}]
    if starved:
        everywhere = len(starved) == len(entries)
        sure = any(verdict.sure for verdict in starved)
        return {
            (True, True): "No",
            (True, False): "Probably not",
            (False, True): "Not everywhere",
            (False, False): "Probably not everywhere",
        }[everywhere, sure]
    if any(verdict.word in OPEN for verdict in entries):
        return "Not known yet"
    return "Yes" if all(verdict.sure for verdict in entries) else "Probably"


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


def answers(decision: Decision) -> Iterator[tuple[Label, str]]:
    """Yield every question with its answer."""
    for question in decision.questions:
        yield question, answer_text(decision, question)
