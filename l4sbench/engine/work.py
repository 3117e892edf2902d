# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the engine hands to its threads, and what they tell it; see `l4sbench.engine.loop`."""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from l4sbench.engine.worker import Task

if TYPE_CHECKING:
    from l4sbench.engine.worker import Worker
    from l4sbench.errors import TestbedError
    from l4sbench.planning import plan
    from l4sbench.planning.plan import CellPlan
    from l4sbench.traits import Identity, TestbedTraits


@dataclass(eq=False)
class Look:
    """One adaptive cell to decide on, all its trials up to the number `at` having ended."""

    planned: CellPlan
    at: int


@dataclass(eq=False)
class Waiting:
    """What is left of a part of the plan. `worker` is None until the testbed is in the state it needs."""

    plan: plan.Part
    worker: Worker | None
    queue: deque[Task | Look] = field(default_factory=deque)

    @property
    def tasks(self) -> list[Task]:
        """Trials that wait."""
        return [work for work in self.queue if isinstance(work, Task)]


@dataclass(eq=False)
class Entering:
    """The testbed being brought into the state that a part needs. `told`: when it was told to stop."""

    part: Waiting
    stop: threading.Event = field(default_factory=threading.Event)
    told: float | None = None


@dataclass(frozen=True)
class Entered:
    """How that ended: with what runs now, or with why no trial of the part can run."""

    entering: Entering
    identity: Identity | None
    reason: str = ""
    error: TestbedError | None = None


@dataclass(frozen=True)
class Looked:
    """What was decided on a cell."""

    look: Look
    more: bool


@dataclass(frozen=True)
class Broken:
    """A bug outside of any trial that could be kept."""

    work: Task | Look | Entering
    bug: BaseException


@dataclass(frozen=True)
class Interrupted:
    """SIGINT or SIGTERM."""


def workers(traits: TestbedTraits, jobs: int | None = None) -> int:
    """How many trials run at once when `jobs` are asked for.

    None: as many as the testbed has places for, or one per core that this process may use.
    """
    if not traits.parallel:
        return 1
    if traits.slots is not None:
        return max(1, min(jobs or traits.slots, traits.slots))
    return max(1, len(os.sched_getaffinity(0)) if jobs is None else jobs)
