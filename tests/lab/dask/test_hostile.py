# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workers that answer anything: nothing of it is executed here, and they are left out with the reason."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.testbeds.dask.guests import DaskGuests
from l4sbench.testbeds.virtual.guest import Boot
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.dask.cluster import Cluster, Command, cluster
from tests.patience import PATIENCE_S

pytest.importorskip("distributed", reason="needs the extra `scale`")
pytestmark = pytest.mark.lab

MATRIX = """\
matrix: hostile
topology: line6
rate: 10mbit
rtt: 10ms
duration: 2s
trials: 3
rule: none
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
aqm: dualpi2
"""
DRAWN = 100
PICKLED = "its answer is a pickled object, not bytes"


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
def boot(lab: Lab, tmp_path: Path) -> Boot:
    """A guest to boot, which no hostile worker does."""
    trial = tmp_path / "trial" / "raw"
    (trial / "router").mkdir(parents=True)
    (trial / "script").write_text("run\n")
    return Boot(lab.kernel, lab.rootfs, trial, 1)


def run(guests: DaskGuests, boot: Boot) -> None:
    guests.run(boot, boot.trial / "console.log", PATIENCE_S, threading.Event())


def executed(dask: Cluster, process: int) -> bool:
    """Return True if a process executed what a worker sent. The worker and its scheduler may have."""
    return dask.marker.exists() and str(process) in dask.marker.read_text().split()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("object", PICKLED),
        pytest.param("list", PICKLED, marks=pytest.mark.long),
        pytest.param("number", PICKLED, marks=pytest.mark.long),
        pytest.param("text", PICKLED, marks=pytest.mark.long),
        ("error", "its task failed: builtins eval "),
        pytest.param("bytes", "its answer is not in the format of l4sbench", marks=pytest.mark.long),
        pytest.param("unusable", r"tired \x1b[2J", marks=pytest.mark.long),
        pytest.param("facts", "it was handed a trial and answers something else", marks=pytest.mark.long),
        pytest.param("missing", "it lacks the lab, which it got 3 times", marks=pytest.mark.long),
        ("outside", "'../x' is not a file that a guest leaves"),
        pytest.param("inputs", "'script' is not a file that a guest leaves", marks=pytest.mark.long),
        ("many", "the header of its answer is not valid: ran.files"),
    ],
)
def test_a_hostile_answer_leaves_out_its_worker(
    dask: Cluster, lab: Lab, boot: Boot, answer: str, reason: str
) -> None:
    dask.start_worker("bad", attack=f"run_work:{answer}")
    guests = DaskGuests(dask.address, lab)
    with pytest.raises(TestbedError, match=r"^no worker at ") as none:
        run(guests, boot)
    assert reason in str(none.value)
    assert not executed(dask, os.getpid())
    assert sorted(boot.trial.parent.rglob("*")) == [boot.trial, boot.trial / "router", boot.trial / "script"]


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("report_facts:object", PICKLED),
        ("report_facts:error", "it cannot be asked: no"),
        pytest.param("report_facts:number", PICKLED, marks=pytest.mark.long),
        pytest.param(
            "report_facts:bytes", "its answer is not in the format of l4sbench", marks=pytest.mark.long
        ),
        pytest.param("report_facts:missing", "it was asked for facts and answers ", marks=pytest.mark.long),
    ],
)
def test_a_hostile_answer_to_the_first_question_leaves_out_its_worker(
    dask: Cluster, lab: Lab, attack: str, reason: str
) -> None:
    dask.start_worker("bad", attack=attack)
    with pytest.raises(TestbedError, match=r"^no worker at ") as none:
        DaskGuests(dask.address, lab)
    assert reason in str(none.value)
    assert not executed(dask, os.getpid())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("object", PICKLED),
        pytest.param("error", "the lab cannot be unpacked: builtins eval ", marks=pytest.mark.long),
    ],
)
def test_a_hostile_answer_to_the_lab_leaves_out_its_worker(
    dask: Cluster, lab: Lab, boot: Boot, answer: str, reason: str
) -> None:
    dask.start_worker("bad", attack=f"install_lab:{answer}")
    with pytest.raises(TestbedError, match=r"^no worker at ") as none:
        run(DaskGuests(dask.address, lab), boot)
    assert reason in str(none.value)
    assert not executed(dask, os.getpid())


@pytest.mark.long
def test_drawn_answers_end_a_trial_in_one_of_three_ways(dask: Cluster, lab: Lab, boot: Boot) -> None:
    """It fails, it counts, or no worker is left: the errors are those that are for this."""
    for name in ("bad", "worse", "worst"):
        dask.start_worker(name, attack="run_work:drawn")
        dask.wait_for_worker(name)
    guests = DaskGuests(dask.address, lab)
    for number in range(DRAWN):
        trial = boot.trial.with_name(f"raw-{number}")
        shutil.copytree(boot.trial, trial)
        try:
            run(guests, replace(boot, trial=trial))
        except TrialFailed:
            continue
        except TestbedError as none:
            left = str(none)
            break
    else:
        pytest.fail("no drawn answer was refused")
    assert left.startswith("no worker at ")
    assert not executed(dask, os.getpid())


def test_a_worker_may_let_a_trial_fail(dask: Cluster, lab: Lab, boot: Boot) -> None:
    dask.start_worker("bad", attack="run_work:failed")
    with pytest.raises(TrialFailed, match=r"^as it likes$"):
        run(DaskGuests(dask.address, lab), boot)


def test_a_trial_that_kills_its_workers_fails(
    lab: Lab, boot: Boot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with cluster(tmp_path / "cluster") as dask:
        dask.start_worker("bad", attack="run_work:die")
        with pytest.raises(
            TrialFailed, match=r"^several workers died while they ran it; the last was tcp://"
        ):
            run(DaskGuests(dask.address, lab), boot)


@pytest.mark.long
@pytest.mark.parametrize("answer", ["object", "error"])
def test_a_run_goes_on_with_the_other_workers(dask: Cluster, lab: Lab, tmp_path: Path, answer: str) -> None:
    matrix = tmp_path / "hostile.yaml"
    matrix.write_text(MATRIX)
    for name in ("bad", "worse"):
        dask.start_worker(name, attack=f"run_work:{answer}")
        dask.wait_for_worker(name)
    dask.start_worker("good")
    dask.wait_for_worker("good")
    command = Command(matrix, tmp_path / "runs", "--on", f"dask:{dask.address}")
    assert command.end() == 0, command.text
    assert "Traceback" not in command.text
    assert not executed(dask, command.process.pid)
    assert len([*(tmp_path / "runs").glob("hostile/latest/cells/*/*/trial.json")]) == 3


def test_a_run_without_an_honest_worker_ends(dask: Cluster, lab: Lab, tmp_path: Path) -> None:
    matrix = tmp_path / "hostile.yaml"
    matrix.write_text(MATRIX)
    dask.start_worker("bad", attack="run_work:object")
    command = Command(matrix, tmp_path / "runs", "--on", f"dask:{dask.address}")
    assert command.end() == 3, command.text
    assert f"is left out: {PICKLED}" in command.text
    assert "error: no worker at " in command.text
    assert "Traceback" not in command.text
    assert not executed(dask, command.process.pid)
    assert not [*(tmp_path / "runs").rglob("trial.json")]


@pytest.mark.long
@pytest.mark.usefixtures("lab")
def test_a_run_gives_a_silent_scheduler_half_a_minute(tmp_path: Path) -> None:
    """The whole command then ends within a minute, also where its start and end take long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"dask:127.0.0.1:{silent.getsockname()[1]}"
        words = [sys.executable, "-m", "l4sbench", "run", "quickstart", "--dir", str(tmp_path), "--on", where]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "does not answer within 30 s" in ended.stderr
