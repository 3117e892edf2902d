# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts on applications: the faults that a group surely has, and what three trials leave open."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from reports.result.applications import GroupFault, application_rules, judge_application
from reports.result.measured import FRAME_DELAY, FREEZES
from reports.result.stats import estimate


def verdict(**measures: list[float] | None) -> list[tuple[str, str]]:
    known = {name: estimate(values) if values else None for name, values in measures.items()}
    return [(one.judges, str(one)) for one in judge_application(known)]


@pytest.mark.parametrize(
    ("delays", "freezes", "shares", "words"),
    [
        ([40, 41, 42], [0, 0, 0], [80, 82, 84], "smooth"),
        ([400, 410, 420], [0, 0, 0], [80, 82, 84], "late"),
        ([40, 41, 42], [2, 3, 2], [80, 82, 84], "frozen"),
        ([40, 41, 42], [0, 0, 0], [6, 8, 10], "starved"),
        ([400, 410, 420], [9, 9, 9], [6, 8, 10], "starved, frozen, late"),
        ([40, 41, 42], [0, 1, 0], [80, 82, 84], "undecided"),
        ([10, 150, 290], [0, 0, 0], [80, 82, 84], "undecided"),
        ([10, 150, 290], [0, 0, 0], [6, 8, 10], "starved"),
        ([40], [0], [80], "undecided"),
    ],
)
def test_frames(delays: list[float], freezes: list[float], shares: list[float], words: str) -> None:
    frames = {FRAME_DELAY: delays, FREEZES: freezes, "share_of_fair_percent": shares}
    assert verdict(**frames) == [("frames", words)]


@pytest.mark.parametrize(
    ("measures", "verdicts"),
    [
        ({"slowdown": [1.1, 1.2, 1.3]}, [("completion", "prompt")]),
        ({"slowdown": [4.0, 4.1, 4.2]}, [("completion", "slow")]),
        ({"slowdown": [1.0, 2.0, 3.0]}, [("completion", "undecided")]),
        ({"rpm_percent": [20, 21, 22]}, [("responsiveness", "unresponsive")]),
        (
            {"slowdown": [1.0, 1.0, 1.0], "rpm_percent": [90, 91, 92]},
            [("completion", "prompt"), ("responsiveness", "responsive")],
        ),
        ({"slowdown": None, "share_of_fair_percent": [50, 51]}, []),
    ],
)
def test_completion_and_responsiveness(
    measures: dict[str, list[float] | None], verdicts: list[tuple[str, str]]
) -> None:
    assert verdict(**measures) == verdicts


def test_every_rule_states_its_source_and_has_a_name_of_its_own() -> None:
    rules = application_rules()
    assert [rule.rule for rule in rules] == ["completion1", "frames1", "responsiveness1"]
    assert all(rule.source and rule.about for rule in rules)
    words = [word for rule in rules for word in (rule.good, *(fault.word for fault in rule.faults))]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("limits", [{}, {"above": 1, "below": 2}])
def test_a_fault_has_one_limit(limits: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="state either above or below"):
        GroupFault(word="slow", measure="slowdown", **limits)
