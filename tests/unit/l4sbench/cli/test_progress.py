# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The lines that a run prints as it goes on where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.cli.progress import run_progress
from l4sbench.facts import events
from l4sbench.facts.estimate import LocalMachine, TimeRange
from l4sbench.facts.events import Status

BUSY_MACHINE = LocalMachine(2, 12.0)
BUSY = "the machine is busy (load 12 on 2 cores)"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.RunPlanned(0.0, 24, 8, 2, 100.0, TimeRange(40.0, 70.0)),
            "24 trials of 8 cells to run, 2 at once, 40 to 70 s\n",
        ),
        (
            events.RunPlanned(0.0, 24, 8, 2, 9.0, TimeRange(40.0, 70.0, BUSY_MACHINE, measured=False)),
            f"24 trials of 8 cells to run, 2 at once, 40 to 70 s; {BUSY}; no trial was measured here yet\n",
        ),
        (
            events.RunPlanned(0.0, 1, 1, 1, 5.0, TimeRange(5.0, 5.0)),
            "1 trial of 1 cell to run, one after another, 5 s\n",
        ),
        (events.RunPlanned(0.0, 0, 0, 2, 0.0), "nothing to run\n"),
        (events.TrialsAdded(0.0, "fifo-1", (4,), 1.0), "fifo-1 is undecided: 1 more trial\n"),
        (events.TrialsAdded(0.0, "fifo-1", (4, 5), 1.0), "fifo-1 is undecided: 2 more trials\n"),
    ],
)
def test_numbers_are_in_english(event: events.Event, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress() as on_event:
        on_event(event)
    assert capsys.readouterr().err == line


def test_tables_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of many trials would be silent for minutes after its last trial: a line every 10 s."""
    with run_progress() as on_event:
        on_event(events.RunPlanned(0.0, 1, 1, 1, 5.0, TimeRange(5.0, 5.0)))
        on_event(events.TrialStarted(0.0, "fifo-1", 1, 5.0))
        on_event(events.TrialEnded(5.0, "fifo-1", 1, Status.OK, (), 5.0, 5.0, Path("1-a")))
        on_event(events.RunEnded(5.0))
        for parsed in range(1, 251):
            on_event(events.TrialParsed(5.0 + 0.1 * parsed, parsed))
    assert capsys.readouterr().err.splitlines()[2:] == [
        "writing tables",
        "writing tables, 100 trials read",
        "writing tables, 200 trials read",
    ]


def test_without_a_trial_no_tables_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress() as on_event:
        on_event(events.RunEnded(5.0))
    assert capsys.readouterr().err == ""
