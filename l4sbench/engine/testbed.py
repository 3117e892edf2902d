# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The Testbed protocol that the engine uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from pathlib import Path

    from l4sbench.errors import Problem
    from l4sbench.facts.traits import Identity, Needs, TestbedTraits
    from l4sbench.program.trial import TrialSpec


class TrialStopped(Exception):  # noqa: N818  (not an error)
    """Raised by `Testbed.run` when it ended a trial because `stop` was set. The trial is discarded."""


@dataclass(frozen=True)
class Outcome:
    """The cost of a trial that ended by itself, in wall-clock values, none of which goes into a table.

    `fixed_s` is the part of `wall_s` that does not grow with the trial's length, if the testbed knows it.
    `skew_ms` is the time between the first and the last node's start, 0 in virtual time.
    """

    wall_s: float
    cpu_s: float
    virtual_s: float
    skew_ms: float = 0.0
    fixed_s: float | None = None


class Testbed(Protocol):
    """A place where trials run."""

    @property
    def name(self) -> str:
        """`virtual`, `ssh` or `fabric`."""
        ...

    @property
    def traits(self) -> TestbedTraits:
        """Facts that hold for every trial."""
        ...

    def identity(self) -> Identity:
        """Return the identity of the current software. Raises `TestbedError` when there is none yet."""
        ...

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return everything that prevents this testbed from running a plan; empty when it can."""
        ...

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial, leaving its raw files in `raw` (which exists and holds `programs.json`).

        Called from several threads at once when `traits.parallel`. It ends within `spec.wall_limit_s`, and
        within a few seconds of `stop`. Processes that it starts are in a session of their own (a terminal's
        Ctrl-C is for the engine) and end when this process ends, however it ends.

        Raises `TrialFailed` when this trial went wrong, `TrialStopped` when `stop` ended it, `PlaceLost` when
        it has to run again elsewhere on this testbed, `TestbedError` when no further trial can run.
        """
        ...
