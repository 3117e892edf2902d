# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The average cost or gain of switching, given how common each queue and competitor is.

In one cell, the flow that switched gets its fair share of the goodput that both groups carry, or less, or
more. `cost_percent` is how much of its fair share it lacks; what it has too much is what its competitors lack
of theirs, `harm_percent`. Both are zero or more, at most one of them is above zero, and their sum over a
world of cells is the expected regret of a sender that counts others' losses as its own.

Weights are of queues and of competitors, taken as independent; the cells behind one pair of them (buffers,
rates, and whatever else a matrix varies) count alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, PrivateAttr

from l4sbench.catalog import linux_name
from l4sbench.disk.document import Document, read, reported
from l4sbench.errors import InputError, Problem, suggest
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from reports.result.cells import CellResult
    from reports.result.judging import Role
    from reports.result.labels import Label
    from reports.result.verdicts import Decision

Weight = Annotated[float, Field(ge=0)]


class Prevalence(Strict):
    """Weights of queues and competitors by how common they are, in any unit.

    Attributes:
        prevalence: Its name.
        source: Where the weights come from.
        queues: Weight by the factor `aqm`; queues that are not named count nothing. Empty: all alike.
        competitors: Weight by the competitor's `cc`, or by `cc ecn` (`cubic classic`) for one of its ECN
            modes; those of one `cc` share its weight. Empty: all alike.
    """

    prevalence: str = "uniform"
    source: str = ""
    queues: Mapping[str, Weight] = {}
    competitors: Mapping[str, Weight] = {}
    _document: Document = PrivateAttr(Document("", {}))

    def where(self, *path: str) -> str:
        """Return the position of a key, or of the whole, in the file that has the weights; empty for none."""
        return self._document.where(path, key=True)


UNIFORM = Prevalence()

MEANING = (
    "A flow that gets less than its fair share of the goodput that both groups carry lacks the difference; "
    "what it gets beyond its fair share, its competitors lack. The expected regret is the mean of both over "
    "the pairs of queue and competitor, weighted by how common these are; the cells of a pair count alike. "
    "0 % is no loss to anybody, 100 % a group that gets nothing anywhere."
)
"""The definition of the expected regret, for readers of reports."""


def load_prevalence(path: Path) -> Prevalence:
    """Read the weights of a file.

    Raises:
        InputError: it cannot be read, or holds no weights; with the line and column of every problem.
    """
    document = read(path)
    found = document.validate(Prevalence)
    document.refuse(())
    found._document = document  # noqa: SLF001  (pydantic takes no private attribute as an argument)
    return found


@dataclass(frozen=True)
class Regret:
    """The expected cost of switching, by question.

    Attributes:
        question: What is switched to.
        prevalence: Name of the weights.
        cost_percent: Expected part of its fair share that the L4S group lacks.
        harm_percent: Expected part of their fair share that its competitors lack.
        delay_ms, classic_delay_ms: Expected delays (mean smoothed RTT minus base RTT) of the two groups, over
            the cells that have both.
        pairs: Pairs of queue and competitor that count.
        missing_percent: Weight of pairs that the run has no valid trial of; it is left out.
    """

    question: Label
    prevalence: str
    cost_percent: float
    harm_percent: float
    delay_ms: float | None
    classic_delay_ms: float | None
    pairs: int
    missing_percent: float

    @property
    def regret_percent(self) -> float:
        """Own and others' expected loss together."""
        return self.cost_percent + self.harm_percent

    @property
    def text(self) -> str:
        """The regret in plain words."""
        common = "all equally common" if self.prevalence == UNIFORM.prevalence else f"as in {self.prevalence}"
        pairs = f"{self.pairs} {'pair' if self.pairs == 1 else 'pairs'}"
        line = (
            f"expected regret of switching to {self.question}: {self.regret_percent:.0f} % of a fair share. "
            f"On average over {pairs} of queue and competitor, {common}, it lacks "
            f"{self.cost_percent:.0f} % of its fair share of the goodput and its competitors lack "
            f"{self.harm_percent:.0f} % of theirs"
        )
        if self.delay_ms is not None and self.classic_delay_ms is not None:
            line += f"; its delay is {self.delay_ms:.1f} ms, theirs {self.classic_delay_ms:.1f} ms"
        if self.missing_percent:
            line += f"; {self.missing_percent:.0f} % of the pairs, by weight, have no valid trial"
        return line


@dataclass(frozen=True)
class Losing:
    """A flow group that loses much although the rule finds that ok.

    Attributes:
        role: Which group it is.
        keeps_percent: Expected part of its fair share that it keeps.
        required_percent: Least part of its fair share that the rule requires in some cell.
    """

    role: Role
    keeps_percent: float
    required_percent: float


def losing(decision: Decision, cost: Regret) -> tuple[Losing, ...]:
    """Return the groups that lose much by switching.

    Much is more than half of what the rule lets a group lose. Half of a fair share is enough for `l4sbench1`:
    there a group that keeps less than 75 % of its fair share loses much.
    """
    required = [
        decision.rule.required_percent(cell.result.l4s.flows, cell.result.classic.flows)
        for cell in decision.cells
        if cell.question == cost.question and cell.result.share is not None
    ]
    groups = (
        Losing("l4s", 100 - cost.cost_percent, min(own for own, _ in required)),
        Losing("classic", 100 - cost.harm_percent, min(other for _, other in required)),
    )
    return tuple(own for own in groups if own.keeps_percent < (100 + own.required_percent) / 2)


@dataclass(frozen=True)
class _Pair:
    """A queue and a competitor, with means over the cells behind them; None where no cell has a figure."""

    weight: float
    own: float | None
    others: float | None
    delay_ms: float | None
    classic_delay_ms: float | None


def regret(decision: Decision, prevalence: Prevalence = UNIFORM) -> tuple[Regret, ...]:
    """Return the expected cost of switching for every question of a decision table that has a valid trial.

    Raises:
        InputError: the weights name a queue or a competitor that the run does not have, or leave nothing.
    """
    keys = [_key(decision, cell.result) for cell in decision.cells]
    queues, competitors = {aqm for aqm, _, _ in keys}, {name for _, *names in keys for name in names}
    problems = [
        *_unknown(prevalence, "queues", prevalence.queues, queues, linux_name),
        *_unknown(prevalence, "competitors", prevalence.competitors, competitors),
    ]
    if problems:
        raise InputError(reported(problems))
    measured = {cell.question for cell in decision.cells if cell.result.valid}
    asked = [question for question in decision.questions if question in measured] or decision.questions
    return tuple(expected(decision, question, prevalence) for question in asked)


def _key(decision: Decision, cell: CellResult) -> tuple[str, str, str]:
    """Return the queue, the competitor's congestion control, and the latter with its ECN."""
    classic = decision.rule.classic
    cc, ecn = cell.value(f"{classic}.cc"), cell.value(f"{classic}.ecn")
    return str(cell.queue.value), str(cc), f"{cc} {ecn}"


def _unknown(
    prevalence: Prevalence,
    key: str,
    weights: Mapping[str, float],
    known: set[str],
    called: Callable[[str], str] = str,
) -> Iterator[Problem]:
    """Yield the names that have a weight, and that the run does not have as they are `called` here."""
    for name in weights:
        if called(name) not in known:
            message = f"the run has no {key.removesuffix('s')} {quoted(name)} to weigh"
            yield Problem(prevalence.where(key, name), key, message, suggest(name, sorted(known)))


def expected(decision: Decision, question: Label, prevalence: Prevalence = UNIFORM) -> Regret:
    """Return the expected cost of one switch, by weights that name what the run has; see `regret`."""
    cells: dict[tuple[str, str, str], list[CellResult]] = {}
    for cell in decision.cells:
        if cell.question == question:
            cells.setdefault(_key(decision, cell.result), []).append(cell.result)
    # a mode counts once, however many queues it is measured with
    modes = Counter(cc for cc, _ in {(cc, mode) for _, cc, mode in cells})
    weights = [_weight(prevalence, key, modes[key[1]]) for key in cells]
    total = sum(weights) or 1
    pairs = [_pair(own, float(weight / total)) for own, weight in zip(cells.values(), weights, strict=True)]
    weighed = [pair for pair in pairs if pair.weight > 0]
    there = [pair for pair in weighed if pair.own is not None]
    everything, valid = sum(pair.weight for pair in weighed), sum(pair.weight for pair in there)
    if not valid:
        message = (
            f"prevalence {quoted(prevalence.prevalence)} weighs no queue and competitor with a valid trial"
        )
        hint = "give what the run has a weight above 0"
        raise InputError([Problem(prevalence.where(), "", message, hint)])
    delays = [pair for pair in there if pair.delay_ms is not None and pair.classic_delay_ms is not None]
    return Regret(
        question=question,
        prevalence=prevalence.prevalence,
        cost_percent=_expected(there, lambda pair: pair.own),
        harm_percent=_expected(there, lambda pair: pair.others),
        delay_ms=_expected(delays, lambda pair: pair.delay_ms) if delays else None,
        classic_delay_ms=_expected(delays, lambda pair: pair.classic_delay_ms) if delays else None,
        pairs=len(there),
        missing_percent=(everything - valid) / everything * 100,
    )


def _pair(cells: Sequence[CellResult], weight: float) -> _Pair:
    losses = [_losses(cell) for cell in cells]
    return _Pair(
        weight,
        _mean(own for own, _ in losses),
        _mean(other for _, other in losses),
        _mean(cell.l4s.delay and cell.l4s.delay.value for cell in cells),
        _mean(cell.classic.delay and cell.classic.delay.value for cell in cells),
    )


def _losses(cell: CellResult) -> tuple[float, float] | tuple[None, None]:
    """Return how much each group lacks of its fair share of what both groups carry, in percent."""
    if cell.l4s.goodput is None or cell.classic.goodput is None:
        return None, None
    got = cell.l4s.goodput.value, cell.classic.goodput.value
    total, flows = sum(got), cell.l4s.flows + cell.classic.flows
    if total <= 0:
        return None, None
    own, other = (
        max(0.0, (1 - mbps / (total * group.flows / flows)) * 100)
        for mbps, group in zip(got, (cell.l4s, cell.classic), strict=True)
    )
    return own, other


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _weight(prevalence: Prevalence, key: tuple[str, str, str], modes: int) -> Fraction:
    """Return the weight of a queue and an ECN mode of a competitor: its own, or its part of the latter's.

    It is exact, as weights are in any unit and products of floats may be too large for one.
    """
    aqm, cc, cc_ecn = key
    queues = {linux_name(name): weight for name, weight in prevalence.queues.items()}
    queue = Fraction(queues.get(aqm, 0.0) if queues else 1.0)
    weights = prevalence.competitors
    if not weights:
        return queue
    if cc_ecn in weights:
        return queue * Fraction(weights[cc_ecn])
    return queue * Fraction(weights.get(cc, 0.0)) / modes


def _expected(pairs: Sequence[_Pair], figure: Callable[[_Pair], float | None]) -> float:
    return sum((figure(pair) or 0.0) * pair.weight for pair in pairs) / sum(pair.weight for pair in pairs)
