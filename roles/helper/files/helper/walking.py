# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Random walks of a node's delays during a trial: commands of tc set one level after the other."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from system import duration_ns
from tcbatch import TcBatch, line

FILE = "walks.json"
"""Raw file with the steps of each walk, and for how many of them tc was set: a late one is passed over."""


class Walk:
    """A walk over levels, up or down by one at each step; it turns at its bounds."""

    def __init__(self, levels: int, seed: int) -> None:
        self._levels = levels
        self._random = random.Random(seed)  # noqa: S311  (the same steps in every trial)
        self.at = levels // 2
        self.steps = 0

    def go(self, steps: int) -> None:
        """Walk until this many steps are done."""
        while self.steps < steps:
            way = 1 if self._random.random() < 0.5 else -1
            self.at += way if 0 <= self.at + way < self._levels else -way
            self.steps += 1


class Walking(TcBatch):
    """Thread that has a node's delays walk from the start instant on; `end` sets them to the middle."""

    def __init__(
        self,
        walks: Sequence[Mapping[str, Any]],
        resolved: Callable[[Sequence[str]], Sequence[str]],
        output: Path,
        start_ns: int,
    ) -> None:
        super().__init__(output, start_ns)
        self._lines = [[line(resolved(argv)) for argv in walk["levels"]] for walk in walks]
        self._walks = [Walk(len(walk["levels"]), walk["seed"]) for walk in walks]
        # all walks of a cell step at the same instants
        self._every_ns = duration_ns(walks[0]["every"])
        self._made = 0

    def act(self) -> None:
        """Walk step by step."""
        while not self.wait(self.start_ns + (self._walks[0].steps + 1) * self._every_ns):
            steps = (time.monotonic_ns() - self.start_ns) // self._every_ns
            for walk in self._walks:
                walk.go(steps)
            self.do("".join(lines[walk.at] for lines, walk in zip(self._lines, self._walks)))
            self._made += 1
        self.do("".join(lines[len(lines) // 2] for lines in self._lines))

    def done(self) -> object:
        """Return the steps of each walk, and for how many of them tc was set."""
        return [{"steps": walk.steps, "set": self._made} for walk in self._walks]
