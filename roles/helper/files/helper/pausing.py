# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pauses of a node during a trial: commands of tc hold what it sends, and let it go.

One process of tc takes all commands, one per line, as starting one for each would take longer than a pause.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from system import duration_ns, write_whole

FILE = "pauses.json"
"""Raw file with when each pause of this node began, after the start instant, and how long it was."""


def batch() -> subprocess.Popen[str]:
    """Start a tc that takes commands line by line."""
    return subprocess.Popen(["tc", "-batch", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line(argv: Sequence[str]) -> str:
    """Return a command of tc as such a line."""
    return " ".join(argv[1:]) + "\n"


def do(tc: subprocess.Popen[str], lines: str) -> None:
    """Have tc do lines at once. Raises OSError when it has ended."""
    if tc.stdin is not None:
        tc.stdin.write(lines)
        tc.stdin.flush()


def ended(tc: subprocess.Popen[str]) -> str:
    """Wait until tc has done all lines, and return why it failed; empty when it did not."""
    said = tc.communicate()[1].strip()
    return f"tc: {said[-300:]}" if tc.returncode else ""


class Pausing(threading.Thread):
    """Thread that makes a node's pauses from the start instant on, until `end`."""

    def __init__(
        self,
        pauses: Mapping[str, Any],
        resolved: Callable[[Sequence[str]], Sequence[str]],
        output: Path,
        start_ns: int,
    ) -> None:
        super().__init__(name=FILE, daemon=True)
        self.failure = ""
        self._begin, self._end = (
            "".join(line(resolved(argv)) for argv in pauses[name]) for name in ("begin", "end")
        )
        self._length_ns = duration_ns(pauses["length"])
        self._most_ns = 2 * (duration_ns(pauses["every"]) - self._length_ns)
        self._random = random.Random(pauses["seed"])  # noqa: S311  (the same gaps in every trial)
        self._output = output
        self._start_ns = start_ns
        self._over = threading.Event()

    def end(self) -> None:
        """Let packets go, and write the file."""
        self._over.set()
        if self.is_alive():
            self.join(10)

    def run(self) -> None:
        """Pause until `end`."""
        made: list[tuple[float, float]] = []
        tc = batch()
        try:
            while not self._wait(self._start_ns + self._gap_ns(made)):
                made.append(self._pause(tc))
        except OSError:
            pass  # tc has ended, and says why
        self.failure = ended(tc)
        plain = {
            "start_ms": [round((began - self._start_ns) / 1e6, 3) for began, _ in made],
            "length_ms": [round((ended - began) / 1e6, 3) for began, ended in made],
        }
        write_whole(self._output, json.dumps(plain))

    def _gap_ns(self, made: Sequence[tuple[float, float]]) -> int:
        """Return when the next pause begins, after the start instant; gaps follow the end of the last one."""
        last_ns = made[-1][1] - self._start_ns if made else 0
        return int(last_ns + self._random.random() * self._most_ns)

    def _pause(self, tc: subprocess.Popen[str]) -> tuple[float, float]:
        began = time.monotonic_ns()
        do(tc, self._begin)
        self._wait(began + self._length_ns)
        do(tc, self._end)
        return began, time.monotonic_ns()

    def _wait(self, until_ns: float) -> bool:
        """Wait for an instant; True if the trial ended meanwhile."""
        return self._over.wait(max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
