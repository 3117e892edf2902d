# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Work of a node that goes on during a trial, beside its flows."""

from __future__ import annotations

import threading
import time
from pathlib import Path


class During(threading.Thread):
    """Thread that works from the start instant on, until `end`.

    Args:
        output: File with what it found or did.
        start_ns: The start instant on the monotonic clock.
    """

    def __init__(self, output: Path, start_ns: int) -> None:
        super().__init__(name=output.name, daemon=True)
        self.output = output
        self.start_ns = start_ns
        self._over = threading.Event()

    def end(self) -> None:
        """Have the work end, and wait for it."""
        self._over.set()
        if self.is_alive():
            self.join(10)

    def wait(self, until_ns: float) -> bool:
        """Wait for an instant; True if the work has to end."""
        return self._over.wait(max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
