# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`run --detach`: the command goes on by itself, and what is wrong is told at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[4]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "l4sbench", "run", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_goes_on_in_the_background(tmp_path: Path) -> None:
    told = run(tmp_path, "quickstart", "--detach", "aqm=fifo")
    assert told.returncode == 0, told.stderr
    log = tmp_path / told.stdout.strip()
    assert log.relative_to(tmp_path) == Path("runs/quickstart/detached.log")
    until = time.monotonic() + 50
    # without a lab the run ends at once, and the log says why
    while "lab build" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.1)
    assert "lab build" in log.read_text()


def test_bad_input_is_told_at_once(tmp_path: Path) -> None:
    told = run(tmp_path, "quickstart", "aqm=fifi", "--detach")
    assert told.returncode == 2
    assert not (tmp_path / "runs").exists()
