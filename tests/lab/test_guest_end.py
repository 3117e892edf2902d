# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Guests whose owner is killed, at whatever instant: no process and no memory of them stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from l4sbench.disk.files import is_temporary
from l4sbench.testbeds.virtual.keeper import sweep
from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

ROOT: Final = Path(__file__).parents[2]
MEMORY: Final = Path("/dev/shm")
KILLS: Final = 12

OWNER: Final = """\
import sys, threading
from pathlib import Path
from l4sbench.testbeds.virtual.guest import Boot, run_guest
from l4sbench.testbeds.virtual.lab import Lab

lab = Lab.locate()
def guests(number):
    folder = Path(sys.argv[1], f"trial-{number}")
    folder.mkdir(exist_ok=True)
    (folder / "script").write_text("run\\t-\\t3600000\\t-\\t-\\tsleep\\t3600\\n")
    while True:  # the last one does not end, the others do at once
        boot = Boot(lab.kernel, lab.rootfs, folder, 1, virtual_time=number < 3)
        run_guest(boot, folder / "console", 600.0, threading.Event())
for number in (1, 2, 3):
    threading.Thread(target=guests, args=(number,)).start()
"""


def folders(trials: Path) -> set[Path]:
    """Return the guests' folders that are there, of trials in this folder."""
    found = set()
    for path in MEMORY.iterdir():
        if is_temporary(path.name) and path.is_dir():
            try:
                if (path / "trial").readlink().is_relative_to(trials):
                    found.add(path)
            except OSError:
                continue
    return found


def processes(guests: set[Path]) -> list[int]:
    """Return the processes that work in one of the folders, removed ones included."""
    names = {str(guest) for guest in guests}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                where = str((entry / "cwd").readlink())
            except OSError:
                continue
            if where.removesuffix(" (deleted)") in names:
                found.append(int(entry.name))
    return found


def wait_for(event: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not event():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def start(trials: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", OWNER, str(trials)], cwd=ROOT, process_group=0)


@pytest.fixture
def in_memory(lab: Lab) -> None:
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("no folder in memory here")


@pytest.mark.usefixtures("in_memory")
def test_nothing_of_a_guest_outlives_its_owner(tmp_path: Path) -> None:
    draw = random.Random(11)
    for number in range(KILLS):
        trials = tmp_path / str(number)
        trials.mkdir()
        owner = start(trials)
        seen: set[Path] = set()
        try:
            wait_for(lambda: folders(trials), "a guest is begun")  # noqa: B023
            until = time.monotonic() + draw.uniform(0.0, 0.3)
            while time.monotonic() < until:
                seen |= folders(trials)
        finally:
            os.killpg(owner.pid, signal.SIGKILL)
            owner.wait()
        seen |= folders(trials)
        deadline = time.monotonic() + PATIENCE_S
        while left := {*folders(trials), *processes(seen)}:
            assert time.monotonic() < deadline, (number, left, Path("/proc/locks").read_text())
            time.sleep(0.01)


@pytest.mark.usefixtures("in_memory")
def test_the_next_run_removes_what_a_killed_keeper_did_not(tmp_path: Path) -> None:
    owner = start(tmp_path)
    try:
        wait_for((tmp_path / "trial-3" / "status.jsonl").exists, "a guest runs")
        here = {path for path in folders(tmp_path) if (path / "trial").readlink().name == "trial-3"}
        sweep(MEMORY)
        assert here <= folders(tmp_path), "the guest of a living owner stays"
        assert processes(here)
        seen = folders(tmp_path)
        (keeper,) = [pid for pid in children(owner.pid) if b"keeper.py" in command_line(pid)]
        os.kill(keeper, signal.SIGKILL)
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.wait()
    deadline = time.monotonic() + PATIENCE_S
    sweep(MEMORY)
    while left := {*folders(tmp_path), *processes(seen)}:  # another run may be removing them right now
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
