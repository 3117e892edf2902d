# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts on frames: what is surely wrong, and what three trials leave open."""

from __future__ import annotations

import pytest

from reports.result.frames import DELAY, FREEZES, frame_rule, judge_frames
from reports.result.stats import estimate


def verdict(delays: list[float], freezes: list[float], shares: list[float]) -> str:
    own = {DELAY: estimate(delays), FREEZES: estimate(freezes)}
    return str(judge_frames(own, estimate(shares, "%"), fair_percent=50))


@pytest.mark.parametrize(
    ("delays", "freezes", "shares", "words"),
    [
        ([40, 41, 42], [0, 0, 0], [40, 41, 42], "smooth"),
        ([400, 410, 420], [0, 0, 0], [40, 41, 42], "late"),
        ([40, 41, 42], [2, 3, 2], [40, 41, 42], "frozen"),
        ([40, 41, 42], [0, 0, 0], [3, 4, 5], "starved"),
        ([400, 410, 420], [9, 9, 9], [3, 4, 5], "starved, frozen, late"),
        ([40, 41, 42], [0, 1, 0], [40, 41, 42], "undecided"),
        ([10, 150, 290], [0, 0, 0], [40, 41, 42], "undecided"),
        ([10, 150, 290], [0, 0, 0], [3, 4, 5], "starved"),
        ([40], [0], [40], "undecided"),
    ],
)
def test_words(delays: list[float], freezes: list[float], shares: list[float], words: str) -> None:
    assert verdict(delays, freezes, shares) == words


def test_a_group_that_reports_no_frames_has_no_verdict() -> None:
    assert judge_frames({}, estimate([50.0, 51.0]), fair_percent=50) is None


def test_the_rule_states_its_source() -> None:
    rule = frame_rule()
    assert (rule.rule, rule.delay_p95_ms, rule.freezes, rule.fair_share_percent) == ("frames1", 150, 0, 50)
    assert "G.114" in rule.source
