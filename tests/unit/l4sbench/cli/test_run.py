# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench run`, on a small testbed in place of the lab."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from l4sbench.app.prepare import Prepared
from l4sbench.cli import main, progress
from l4sbench.facts import events
from tests.unit.l4sbench import small


@pytest.mark.parametrize(
    ("testbed", "interrupting"),
    [
        (small.SmallTestbed(sleep_s=10.0), events.TrialStarted),
        # the first interrupt waits for a trial that does not stop, the second does not
        (small.SmallTestbed(sleep_s=10.0, stubborn=True), events.TrialStarted | events.RunStopping),
    ],
    ids=["first", "second"],
)
def test_an_interrupt_prints_what_is_kept_and_how_to_resume(
    testbed: small.SmallTestbed,
    interrupting: type[events.Event],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextmanager
    def interrupts(_: object) -> Iterator[Callable[[events.Event], None]]:
        def on_event(event: events.Event) -> None:
            if isinstance(event, interrupting):
                signal.raise_signal(signal.SIGINT)

        yield on_event

    monkeypatch.setattr(progress, "run_progress", interrupts)
    monkeypatch.setattr(Prepared, "open_testbed", lambda *_, **__: testbed)
    small.matrix(tmp_path)
    assert main(["run", "small.yaml", "--jobs", "1"]) == 130
    made = Path("runs/small/latest").resolve()
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "trials: 12 not run",
        f"run:    runs/small/{made.name}",
        "interrupted; the same command resumes it",
    ]


def test_a_run_that_stops_leaves_a_page_that_does_not_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def interrupts(_: object) -> Iterator[Callable[[events.Event], None]]:
        yield (
            lambda event: (
                signal.raise_signal(signal.SIGINT) if isinstance(event, events.TrialStarted) else None
            )
        )

    monkeypatch.setattr(progress, "run_progress", interrupts)
    monkeypatch.setattr(Prepared, "open_testbed", lambda *_, **__: small.SmallTestbed(sleep_s=10.0))
    small.matrix(tmp_path)
    assert main(["run", "small.yaml", "--jobs", "1", "--live"]) == 130
    place = "runs/small/latest/report/index.html"
    assert f"page: {place}, which grows as trials end" in capsys.readouterr().err
    page = Path(place).read_text(encoding="utf-8")
    assert "<b>0 of 12</b> trials have ended; the run has stopped" in page
    assert 'http-equiv="refresh"' not in page
