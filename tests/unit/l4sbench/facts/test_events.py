# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Progress is a pure fold over events; rate and time left are computed there and nowhere else."""

from functools import reduce
from pathlib import Path

import pytest

from l4sbench.facts.estimate import TimeRange
from l4sbench.facts.events import (
    Event,
    Progress,
    RunEnded,
    RunPlanned,
    RunStopping,
    Status,
    TrialDiscarded,
    TrialEnded,
    TrialsAdded,
    TrialStarted,
)


def fold(*happened: Event) -> Progress:
    return reduce(Progress.after, happened, Progress())


def started(at_s: float, trial: int, work_s: float = 10.0) -> TrialStarted:
    return TrialStarted(at_s, "cell", trial, work_s)


def ended(at_s: float, trial: int, status: Status = Status.OK, work_s: float = 10.0) -> TrialEnded:
    return TrialEnded(at_s, "cell", trial, status, (), 5.0, work_s, Path("x"))


PLANNED = RunPlanned(0.0, trials=8, cells=4, jobs=2, work_s=80.0, estimate=TimeRange(20.0, 80.0))


def test_before_anything_has_ended_the_estimate_is_all_there_is() -> None:
    progress = fold(PLANNED, started(0.0, 1), started(0.0, 2))
    assert progress.left_s() == 40.0
    assert progress.left_s(now_s=15.0) == 25.0
    assert progress.left_s(now_s=99.0) == 0.0
    assert progress.rate_per_min() is None
    assert (progress.fraction, progress.running) == (0.0, 2)


def test_time_left_follows_how_ended_trials_compared_with_their_estimate() -> None:
    # Two workers have done a quarter of the work in 5 s instead of 10 s: the rest takes 15 s.
    progress = fold(PLANNED, started(0.0, 1), started(0.0, 2), ended(5.0, 1), ended(5.0, 2))
    assert progress.left_s() == pytest.approx(15.0)
    assert progress.left_s(now_s=9.0) == pytest.approx(11.0)
    assert progress.rate_per_min() == pytest.approx(24.0)
    assert progress.rate_per_min(now_s=10.0) == pytest.approx(12.0)
    assert progress.fraction == 0.25


def test_the_range_of_the_time_left_narrows_as_trials_end() -> None:
    progress = fold(PLANNED, started(0.0, 1), started(0.0, 2))
    assert progress.left().ends_s == (20.0, 80.0)
    ratios = []
    for number in range(1, 5):
        progress = progress.after(ended(10.0 * number, number))
        low_s, high_s = progress.left().ends_s
        assert low_s < progress.left_s() < high_s
        ratios.append(high_s / low_s)
    assert ratios == sorted(ratios, reverse=True)
    assert fold(RunPlanned(0.0, 8, 4, 2, 80.0)).left().ends_s == (40.0, 40.0)  # an estimate without a range


def test_long_and_short_trials_count_by_their_work() -> None:
    plan = RunPlanned(0.0, trials=2, cells=2, jobs=1, work_s=100.0)
    progress = fold(plan, started(0.0, 1, 10.0), ended(20.0, 1, work_s=10.0))
    assert progress.left_s() == pytest.approx(180.0)
    assert progress.fraction == pytest.approx(0.1)


def test_every_status_is_counted_and_added_trials_lengthen_the_run() -> None:
    progress = fold(
        PLANNED,
        *(started(0.0, number) for number in range(1, 5)),
        ended(1.0, 1),
        ended(2.0, 2, Status.INVALID),
        ended(3.0, 3, Status.FAILED),
        TrialsAdded(3.5, "cell", (4, 5), 20.0),
        RunStopping(4.0, "interrupted", 1),
        TrialDiscarded(4.5, "cell", 4, 10.0, "stopped"),
        RunEnded(5.0),
    )
    assert (progress.ok, progress.invalid, progress.failed, progress.discarded) == (1, 1, 1, 1)
    assert (progress.ended, progress.running, progress.trials, progress.work_s) == (3, 0, 10, 100.0)
    assert (progress.stopping, progress.at_s, progress.over) == ("interrupted", 5.0, True)


def test_a_run_with_nothing_to_do_is_done() -> None:
    assert fold(RunPlanned(0.0, 0, 0, 2, 0.0)).fraction == 1.0
