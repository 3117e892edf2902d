# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The protocols of testbeds of real hosts, which have kernels to change and paths of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from l4sbench.engine.testbed import Testbed

if TYPE_CHECKING:
    import threading

    from l4sbench.facts.traits import Identity, Stage, Stages
    from l4sbench.text.units import Duration


@runtime_checkable
class Staged(Testbed, Protocol):
    """A testbed that may be able to change its kernels between trials."""

    def stages(self) -> Stages | None:
        """Return the states that its cells need; None for a testbed that never changes. Changes nothing."""
        ...

    def advice(self) -> tuple[str, ...]:
        """Return changes that would let it run cells that it cannot run now, in words."""
        ...

    def installs(self) -> tuple[str, ...]:
        """Return what a run would install for its cells, in words. Changes nothing."""
        ...

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Bring the testbed into a state and return its identity; called before the first trial of the state.

        Raises `TrialFailed` when the state cannot be reached, `TrialStopped` when `stop` ended it, which
        takes a few seconds at most, `PlaceLost` when it has to be called again for the remaining places,
        `TestbedError` when no further trial can run in any state.
        """
        ...

    def release(self) -> None:
        """Let other runs use the hosts that it locked; it is of no further use then."""
        ...


@runtime_checkable
class Measuring(Testbed, Protocol):
    """A testbed whose paths may have a delay of their own."""

    def require_path(self) -> None:
        """Raise `InputError` when it has no such path. Contacts nothing."""
        ...

    def measure_path(self) -> Duration:
        """Return the round-trip time of the path without queues; the testbed is of no further use then.

        Raises `InputError` when it has no such path, `TestbedError` when it cannot be measured.
        """
        ...
