# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The load of the machine, and ranges in words."""

import os

import pytest

from l4sbench.facts.estimate import LocalMachine, TimeRange
from l4sbench.text.wording import as_range

NOW = LocalMachine.now
"""The machine of the test, not the quiet one that tests have otherwise."""


def test_the_machine_is_as_it_is() -> None:
    found = NOW()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.load >= 0
    assert found.weight > 0


def test_a_load_that_has_ended_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    assert NOW().load < 1e5


def test_where_there_is_no_load_average_there_is_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", none)
    assert NOW().load == 0.0


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (0.0, 0.4, "0 to 1 s"),
        (5.0, 5.0, "5 s"),
        (7.2, 11.4, "7 to 12 s"),
        (43.2, 68.7, "40 to 70 s"),
        (61.0, 119.0, "60 to 120 s"),
        (90.0, 230.0, "90 s to 4 min"),
        (190.0, 350.0, "3 to 6 min"),
        (1900.0, 7100.0, "30 to 120 min"),
        (7300.0, 12000.0, "2 to 4 h"),
        (3000.0, 900000.0, "50 min to 250 h"),
    ],
)
def test_ranges_are_rounded_outwards(low_s: float, high_s: float, text: str) -> None:
    assert str(TimeRange(low_s, high_s)) == as_range(low_s, high_s) == text
