# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`run --detach`: the command goes on by itself, and what is wrong is told at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.patience import PATIENCE_S, ran

ROOT = Path(__file__).parents[4]


def run(folder: Path, *arguments: str, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return ran(
        [sys.executable, "-m", "l4sbench", "run", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{path}:{ROOT}", "XDG_CACHE_HOME": str(folder / "cache")},
    )


def test_it_goes_on_in_the_background(tmp_path: Path) -> None:
    told = run(tmp_path, "quickstart", "--detach", "aqm=fifo")
    assert told.returncode == 0, told.stderr
    log = tmp_path / told.stdout.strip()
    assert log.relative_to(tmp_path) == Path("runs/quickstart/detached.log")
    until = time.monotonic() + PATIENCE_S
    # without a lab the run ends at once, and the log says why
    while "lab build" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.1)
    assert "lab build" in log.read_text()


def test_a_second_one_is_refused_as_long_as_the_first_goes_on(tmp_path: Path) -> None:
    go, inventory, slow = tmp_path / "go", tmp_path / "hosts.yml", tmp_path / "slow" / "ansible"
    inventory.write_text("all:\n")
    slow.mkdir(parents=True)
    (slow / "__init__.py").touch()
    # in place of Ansible, which reads the inventory: as slow as it is told to be
    (slow / "__main__.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.1)\nprint('{{}}')\n"
    )
    wanted = ("quickstart", "aqm=fifo", "--detach", "--on", f"ssh:{inventory}")
    first = run(tmp_path, *wanted, path=slow.parent)
    assert first.returncode == 0, first.stderr
    log = tmp_path / first.stdout.strip()
    try:
        second = run(tmp_path, *wanted, path=slow.parent)
        assert second.returncode == 2
        assert "quickstart is already running in the background" in second.stderr
    finally:
        go.touch()
    until = time.monotonic() + PATIENCE_S
    while "error:" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.1)
    text = log.read_text()
    assert text.count("process ") == 1
    assert "l4sbench run quickstart aqm=fifo --on ssh:" in text
    assert "kill -INT" in text


def test_bad_input_is_told_at_once(tmp_path: Path) -> None:
    told = run(tmp_path, "quickstart", "aqm=fifi", "--detach")
    assert told.returncode == 2
    assert not (tmp_path / "runs").exists()
