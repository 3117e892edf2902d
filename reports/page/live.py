# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The state of a run that goes on, as its page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from l4sbench.text.wording import as_duration


@dataclass(frozen=True)
class Live:
    """The state of a run that goes on, or that stopped before its end.

    Attributes:
        ended: Number of trials that have ended.
        trials: Number of all trials.
        invalid, failed: Number of those among the ended ones.
        left_s: Estimated seconds left.
        every_s: Seconds until the page is written again; 0 for a run that has stopped.
        at: When this was so.
        stopping: Why no further trial starts; empty while they do.
    """

    ended: int
    trials: int
    invalid: int
    failed: int
    left_s: float
    every_s: float
    at: datetime
    stopping: str = ""

    @property
    def left_text(self) -> str:
        """The time left, for people."""
        return as_duration(self.left_s)

    @property
    def at_ms(self) -> int:
        """The time of the state, in milliseconds since the epoch."""
        return round(self.at.timestamp() * 1000)
