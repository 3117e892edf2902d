# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""No fault loses, rewrites or fakes a finished trial, and tables after a resumed run are byte-identical."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("faults", [8, pytest.param(1000, marks=pytest.mark.long)])
def test_faults_lose_nothing(tmp_path: Path, faults: int) -> None:
    argv = [sys.executable, "-m", "tests.attack.killer", "--faults", str(faults), "--folder", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=7200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{faults} faults" in done.stdout
