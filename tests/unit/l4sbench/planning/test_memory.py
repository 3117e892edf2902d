# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Large matrices are planned in little memory, which does not depend on the machine's speed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.hostile import crossed
from tests.patience import PATIENCE_S

MOST_MB = 500

ENDING = f"""
import atexit, signal
from pathlib import Path
from l4sbench.cli import main
signal.alarm({int(PATIENCE_S) * 10})
atexit.register(lambda: Path("status").write_text(Path("/proc/self/status").read_text()))
main()
"""
"""A command that ends itself should it hang, and leaves its peak of memory.

What wait4(2) reports of a child is at least the size of its parent, which here has run other tests.
"""


def peak_bytes(folder: Path, text: str) -> int:
    """Return the peak memory of `l4sbench plan` in a process of its own (VmHWM, proc_pid_status(5))."""
    (folder / "m.yaml").write_text(text, encoding="utf-8")
    argv = [sys.executable, "-c", ENDING, "plan", "m.yaml"]
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(argv, cwd=folder, env=env, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    (peak,) = re.findall(r"^VmHWM:\s*(\d+) kB$", (folder / "status").read_text(), re.MULTILINE)
    return int(peak) * 1024


SIZES = {"aqm": 5, "buffer_bdp": 20, "rtt": 40}
OTHERS = {"l4s.start": 20, "path.jitter": 10, "duration": 20}


@pytest.mark.parametrize("axes", [pytest.param(SIZES, marks=pytest.mark.long), OTHERS])
def test_a_cell_needs_little_memory(tmp_path: Path, axes: dict[str, int]) -> None:
    few = peak_bytes(tmp_path, crossed(axes | {"rate": 1}))
    many = peak_bytes(tmp_path, crossed(axes | {"rate": 7}))
    cells = 6 * 4000
    assert (many - few) / cells < MOST_MB * 1e6 / 1_000_000


@pytest.mark.long
def test_a_million_cells_fit(tmp_path: Path) -> None:
    for axes in (SIZES, OTHERS):
        assert peak_bytes(tmp_path, crossed(axes | {"rate": 250})) < MOST_MB * 1e6
