# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The time that tests give to whatever they wait for, and commands that end within it."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 1800.0
"""Guard against what never ends; no verdict depends on it.

Commands of the suite need at most some 20 s of processor time: 150 s on two cores with a load of 15, and
this is ten times as long.
"""


def ran(
    argv: Sequence[str | Path],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    given: str = "",
    limit_s: float = PATIENCE_S,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with `given` on its standard input; what it prints is kept as text.

    With `check`, a command that fails ends the test, and its errors are shown.
    """
    ended = subprocess.run(
        argv, cwd=cwd, env=env, input=given, timeout=limit_s, check=False, capture_output=True, text=True
    )
    assert not check or ended.returncode == 0, ended.stderr
    return ended


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened, which a thread or a process brings about."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
