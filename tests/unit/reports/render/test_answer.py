# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The first sentence of a report: yes or no, how surely, and who loses where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reports.render.answer import answer as answer_of
from reports.render.answer import scope_text
from reports.render.terminal import as_text
from reports.result.regret import Prevalence, regret
from reports.result.rules import load_rule
from reports.result.verdicts import Decision, decide
from tests.unit.reports.conftest import Make


def cell(aqm: str, l4s: float, trials: int = 3, *, rest: float = 95.0, **more: Any) -> dict[str, Any]:
    """A cell of steady trials: what one group does not get, the other does."""
    own = [l4s + 0.01 * number for number in range(trials)]
    return {"aqm": aqm, "l4s": own, "classic": [rest - mbps for mbps in own], **more}


def decision_of(make: Make, *cells: Mapping[str, Any], rule: str = "pam25") -> Decision:
    return decide(make(cells), load_rule(rule))


def answer(decision: Decision) -> str:
    (question,) = decision.questions
    return str(answer_of(decision, question))


BBR: Mapping[str, Any] = {"classic.cc": "bbr1"}

HALF = "(50 % of a fair share is enough)"


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([cell("fifo", 45)], "Yes: ok in 1 of 1 entry."),
        ([cell("fifo", 45, 1)], "Probably: ok in 1 of 1 entry, which is unsure."),
        (
            [cell("fifo", 45), cell("codel", 40, 1), cell("dualpi2", 45)],
            "Probably: ok in 3 of 3 entries, 1 of them unsure.",
        ),
        (
            [cell("fifo", 8, **BBR), cell("dualpi2", 19.6, **BBR), cell("fifo", 45), cell("fq-codel", 46)],
            (
                "Not everywhere: ok in 2 of 4 entries. Behind FIFO and DualPI2 against BBRv1, Prague gets "
                "8-20 % of the link."
            ),
        ),
        (
            [cell("codel", 89, buffer_bdp=b) for b in (1.0, 4.0)],
            "No: ok in 0 of 1 entry. Behind CoDel (+ECN) against CUBIC, CUBIC is left with 6 % of the link.",
        ),
        (
            [cell("fifo-ecn", 0.2)],
            (
                "No: ok in 0 of 1 entry. Behind FIFO (+ECN) against CUBIC, Prague gets less than 1 % of "
                "the link."
            ),
        ),
        (
            [cell("fifo", 18, 1), cell("dualpi2", 45)],
            (
                "Probably not everywhere: ok in 1 of 2 entries. Behind FIFO against CUBIC, Prague gets 18 % "
                "of the link."
            ),
        ),
        (
            [cell("fifo", 45), {"aqm": "dualpi2", "status": ["invalid"]}],
            "Undecided: ok in 1 of 2 entries, 1 without a valid trial in some cell.",
        ),
    ],
)
def test_the_answer(make: Make, cells: list[dict[str, Any]], text: str) -> None:
    shown = answer(decision_of(make, *cells)).replace(" (ECN off)", "")
    assert shown == text


def test_undecided_is_not_a_yes(make: Make) -> None:
    found = decision_of(make, cell("fifo", 45, 1), cell("dualpi2", 45), rule="l4sbench1")
    assert answer(found) == "Undecided: ok in 1 of 2 entries, 1 undecided."


@pytest.mark.parametrize(
    ("cells", "rule", "text"),
    [
        # half of a fair share is enough, and three quarters of it are not much of a loss
        ([cell("fifo", 59)], "l4sbench1", "Yes: ok in 1 of 1 entry."),
        (
            [cell("fifo", 62.4)],
            "l4sbench1",
            f"Yes by the rule {HALF}, but CUBIC keeps only 69 % of a fair share: ok in 1 of 1 entry.",
        ),
        (
            [cell("fifo", 30), cell("dualpi2", 32)],
            "l4sbench1",
            (
                f"Yes by the rule {HALF}, but on average Prague keeps only 65 % of a fair share: "
                "ok in 2 of 2 entries."
            ),
        ),
        (
            [cell("fifo", 67), cell("fifo", 66, **BBR)],
            "l4sbench1",
            (
                f"Yes by the rule {HALF}, but on average its competitors keep only 60 % of a fair share: "
                "ok in 2 of 2 entries."
            ),
        ),
        (
            [cell("fifo", 69, 1)],
            "pam25",
            (
                "Probably by the rule (40 % of a fair share is enough), but CUBIC keeps only 55 % of a fair "
                "share: ok in 1 of 1 entry, which is unsure."
            ),
        ),
        (
            [cell("fifo", 5), {**cell("dualpi2", 45, 1), "classic.ecn": "classic"}],
            "l4sbench1",
            (
                "No: ok in 0 of 2 entries, 1 undecided. Behind FIFO against CUBIC, Prague gets 5 % of the "
                "link."
            ),
        ),
    ],
)
def test_a_yes_that_costs_much_says_so(make: Make, cells: list[dict[str, Any]], rule: str, text: str) -> None:
    assert answer(decision_of(make, *cells, rule=rule)).replace(" (ECN off)", "") == text


def test_weights_that_someone_chose_count_in_the_answer(make: Make) -> None:
    found = decision_of(make, cell("fifo", 46), cell("dualpi2", 62.4), rule="l4sbench1")
    assert answer(found) == "Yes: ok in 2 of 2 entries."
    (cost,) = regret(found, Prevalence(prevalence="mine", queues={"dualpi2": 1.0}))
    assert "CUBIC keeps only 69 % of a fair share" in str(answer_of(found, found.questions[0], cost))


def test_competitors_with_the_same_queues_share_a_sentence(make: Make) -> None:
    cells = [{**cell("codel", 89), "classic.ecn": ecn} for ecn in ("off", "classic")]
    assert answer(decision_of(make, *cells)).endswith(
        "Behind CoDel (+ECN) against CUBIC (ECN off or ECN classic), CUBIC is left with 6 % of the link."
    )


def test_of_many_cases_the_table_shows_the_rest(make: Make) -> None:
    ccs = ("cubic", "bbr1", "reno", "bbr3")
    queues = ("fifo", "codel", "dualpi2", "fq")
    cells = [{**cell(aqm, 5), "classic.cc": cc} for cc, aqm in zip(ccs, queues, strict=True)]
    text = answer(decision_of(make, *cells))
    assert text.count("Behind") == 3
    assert text.endswith("The table shows 1 more case.")


def test_the_terminal_begins_with_the_answer(make: Make) -> None:
    found = decision_of(make, cell("fifo", 45), cell("dualpi2", 45))
    lines = as_text(found, 1000, regrets=regret(found), full=True).splitlines()
    assert lines[0].rstrip() == "Is it okay to switch to Prague? Yes: ok in 2 of 2 entries."
    assert lines[1].startswith("Expected regret of switching to Prague: 5 % of a fair share. On average")
    assert lines[1].rstrip().endswith("(l4sbench docs reading expected-regret).")


def test_what_a_verdict_does_not_say(make: Make) -> None:
    assert scope_text(decision_of(make, cell("fifo", 45))) == (
        "This says nothing about short or application-limited flows (all flows here are bulk transfers), "
        "about paths with more bottlenecks in a row than these, about other paths than 100 Mbit/s and "
        "10 ms, or about other kernels than 7.3.4."
    )
    for other in ({"web.send": "short"}, {"classic.lifetime_s": 2.0}):
        text = scope_text(decision_of(make, {**cell("fifo", 45), "l4s.send": "bulk", **other}))
        assert "bulk" not in text
        assert text.startswith(
            "This says nothing about other traffic than the flow groups of these cells send, about"
        )
    two = decision_of(make, cell("fifo", 45), cell("dualpi2", 4.5, rest=9.5, rate_mbps=10.0))
    assert "about other paths" not in scope_text(two)
