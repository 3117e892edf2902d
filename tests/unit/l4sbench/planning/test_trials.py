# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Which trials run is decided by the folders of those that have ended."""

from pathlib import Path

import pytest

from l4sbench.planning.trials import Reason, looks, reason_of
from l4sbench.store import TrialFolder
from tests.unit.l4sbench import small


def test_a_failed_try_with_other_inputs_is_changed_inputs() -> None:
    assert reason_of(small.folders("1-aa.failed-2"), 1, "bb") is Reason.INPUTS_CHANGED
    assert reason_of(small.folders("1-aa.failed-2", "1-aa"), 1, "aa") is Reason.ENDED
    assert reason_of(small.folders("11-aa"), 1, "aa") is Reason.NEW


def test_three_failed_tries_are_enough() -> None:
    tries = small.folders(*(f"1-aa.failed-{number}" for number in range(1, 5)))
    assert [reason_of(tries[:count], 1, "aa") for count in range(1, 5)] == [
        Reason.FAILED_BEFORE,
        Reason.FAILED_BEFORE,
        Reason.GIVEN_UP,
        Reason.GIVEN_UP,
    ]
    assert reason_of(tries, 1, "bb") is Reason.INPUTS_CHANGED
    assert reason_of([TrialFolder(1, "aa", "invalid")], 1, "aa") is Reason.INVALID_BEFORE
    assert [reason.runs for reason in Reason] == [True, False, True, False, True, True, True]


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(3, 10, (3, 5, 10)), (5, 10, (5, 10)), (6, 8, (6, 8)), (2, 4, (2, 4)), (3, 3, (3,)), (1, 5, (1, 5))],
)
def test_looks(tmp_path: Path, least: int, most: int, expected: tuple[int, ...]) -> None:
    wanted = small.matrix(tmp_path, trials=f"{{min: {least}, max: {most}, until: decided}}")
    assert looks(wanted.trials) == expected
