# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The Testbed protocol: what the engine calls, and `Staged` for testbeds that can change kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from pathlib import Path

    from l4sbench.errors import Problem
    from l4sbench.program.trial import TrialSpec
    from l4sbench.traits import Identity, Needs, Stage, Stages, TestbedTraits


class TrialStopped(Exception):  # noqa: N818  (not an error)
    """Raised by `Testbed.run` when it ended a trial because `stop` was set. The trial is discarded."""


@dataclass(frozen=True)
class Outcome:
    """What a trial that ended by itself cost. All wall-clock values; none of them goes into a table.

    `fixed_s` is the part of `wall_s` that does not grow with the trial's length, where the testbed can tell.
    `skew_ms` is how far apart the nodes started.
    """

    wall_s: float
    cpu_s: float
    virtual_s: float
    skew_ms: float = 0.0
    fixed_s: float | None = None


class Testbed(Protocol):
    """Where trials run."""

    @property
    def name(self) -> str:
        """`virtual`, `ssh` or `fabric`."""
        ...

    @property
    def traits(self) -> TestbedTraits:
        """Facts that hold for every trial."""
        ...

    def identity(self) -> Identity:
        """What would run now. Raises `TestbedError` when there is nothing to run on yet."""
        ...

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Everything that stands between this testbed and a plan; empty when it can run."""
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


@runtime_checkable
class Staged(Testbed, Protocol):
    """A testbed that may be able to change what it runs between trials."""

    def stages(self) -> Stages | None:
        """The states that its cells need; None when it always stays as it is. Changes nothing."""
        ...

    def advice(self) -> tuple[str, ...]:
        """What would let it run cells that it cannot run as it is, for people."""
        ...

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Bring the testbed into a state and say what runs there; called between trials, also for the first.

        Raises `TrialFailed` when it cannot be had, `TrialStopped` when `stop` ended it, which takes a few
        seconds at most, `PlaceLost` when it has to be called again for the places that are left,
        `TestbedError` when no further trial can run in any state.
        """
        ...
