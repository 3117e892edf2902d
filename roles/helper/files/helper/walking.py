# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Random walks of a node's delays during a trial: commands of tc set one level after the other."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from pausing import batch, do, ended, line
from system import duration_ns, write_whole

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


class Walking(threading.Thread):
    """Thread that has the delays of a node walk from the start instant on, until `end`."""

    def __init__(
        self,
        walks: Sequence[Mapping[str, Any]],
        resolved: Callable[[Sequence[str]], Sequence[str]],
        output: Path,
        start_ns: int,
    ) -> None:
        super().__init__(name=FILE, daemon=True)
        self.failure = ""
        self._lines = [[line(resolved(argv)) for argv in walk["levels"]] for walk in walks]
        self._walks = [Walk(len(walk["levels"]), walk["seed"]) for walk in walks]
        # all walks of a cell step at the same instants
        self._every_ns = duration_ns(walks[0]["every"])
        self._output = output
        self._start_ns = start_ns
        self._over = threading.Event()

    def end(self) -> None:
        """Set the delays to the middle, and write the file."""
        self._over.set()
        if self.is_alive():
            self.join(10)

    def run(self) -> None:
        """Walk until `end`."""
        tc, made = batch(), 0
        try:
            while not self._over.wait(max(0.0, (self._due_ns() - time.monotonic_ns()) / 1e9)):
                steps = (time.monotonic_ns() - self._start_ns) // self._every_ns
                for walk in self._walks:
                    walk.go(steps)
                do(tc, "".join(lines[walk.at] for lines, walk in zip(self._lines, self._walks)))
                made += 1
            do(tc, "".join(lines[len(lines) // 2] for lines in self._lines))
        except OSError:
            pass  # tc has ended, and says why
        self.failure = ended(tc)
        plain = [{"steps": walk.steps, "set": made} for walk in self._walks]
        write_whole(self._output, json.dumps(plain))

    def _due_ns(self) -> int:
        """Return the instant of the next step."""
        return self._start_ns + (self._walks[0].steps + 1) * self._every_ns
