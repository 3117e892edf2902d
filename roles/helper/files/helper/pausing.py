# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pauses of a node during a trial: commands of tc hold what it sends, and let it go."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from system import duration_ns
from tcbatch import TcBatch, line

FILE = "pauses.json"
"""Raw file with when each pause of this node began, after the start instant, and how long it was."""


class Pausing(TcBatch):
    """Thread that makes a node's pauses from the start instant on, until `end`, which lets packets go."""

    def __init__(
        self,
        pauses: Mapping[str, Any],
        resolved: Callable[[Sequence[str]], Sequence[str]],
        output: Path,
        start_ns: int,
    ) -> None:
        super().__init__(output, start_ns)
        self._begin, self._end = (
            "".join(line(resolved(argv)) for argv in pauses[name]) for name in ("begin", "end")
        )
        self._length_ns = duration_ns(pauses["length"])
        self._most_ns = 2 * (duration_ns(pauses["every"]) - self._length_ns)
        self._random = random.Random(pauses["seed"])  # noqa: S311  (the same gaps in every trial)
        self._made: list[tuple[float, float]] = []

    def act(self) -> None:
        """Pause again and again."""
        while not self.wait(self.start_ns + self._gap_ns()):
            self._made.append(self._pause())

    def done(self) -> object:
        """Return when each pause began and how long it was."""
        return {
            "start_ms": [round((began - self.start_ns) / 1e6, 3) for began, _ in self._made],
            "length_ms": [round((ended - began) / 1e6, 3) for began, ended in self._made],
        }

    def _gap_ns(self) -> int:
        """Return when the next pause begins, after the start instant; gaps follow the end of the last one."""
        last_ns = self._made[-1][1] - self.start_ns if self._made else 0
        return int(last_ns + self._random.random() * self._most_ns)

    def _pause(self) -> tuple[float, float]:
        began = time.monotonic_ns()
        self.do(self._begin)
        self.wait(began + self._length_ns)
        self.do(self._end)
        return began, time.monotonic_ns()
