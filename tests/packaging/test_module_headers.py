# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Prague's module on the kernels that Debian ships."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "module_headers.py"
CANNOT = 77


@pytest.mark.long
@pytest.mark.parametrize("suite", ["trixie-backports", "sid"])
def test_prague_compiles_and_installs_on_debian(suite: str) -> None:
    argv = [sys.executable, str(TOOL), suite]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "amd64: ok" in done.stdout
