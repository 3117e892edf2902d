# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The state of a run's hosts, and the patience with those that cannot be reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.testbeds.ssh.ansible import HostOutcome, Played, listed
from l4sbench.testbeds.ssh.facts import HostFacts, read_facts

if TYPE_CHECKING:
    import threading

PREPARE_LIMIT_S: Final = 3600.0
"""Limit for preparing hosts, which may install and boot a kernel."""
RETURN_LIMIT_S: Final = 600.0
"""Limit for a lost host to come back before the run ends."""
RETRY_S: Final = 10.0


class HostsState(Enum):
    """The state of all hosts of a run together."""

    UNASKED = "not asked"
    READY = "ready"
    """They are prepared, and their facts are known."""
    LINKED = "linked"
    """They are ready, and their interfaces for experiments are up."""
    CHANGING = "changing"
    """They may be restarting with other kernels. A change that was stopped leaves them so."""
    LOST = "lost"
    """One was not there, or not ready. They stay so until all are prepared again."""


_NEXT: Final = {
    HostsState.UNASKED: {HostsState.READY},
    HostsState.READY: {HostsState.LINKED, HostsState.CHANGING, HostsState.LOST},
    HostsState.LINKED: {HostsState.READY, HostsState.CHANGING, HostsState.LOST},
    HostsState.CHANGING: {HostsState.CHANGING, HostsState.READY, HostsState.LOST},
    HostsState.LOST: {HostsState.READY, HostsState.LOST},
}


Prepare = Callable[[float, Callable[[], bool]], Played]
"""Prepares all hosts, within a limit in seconds, unless it is told to stop."""


class Readiness:
    """The state of a run's hosts."""

    def __init__(self) -> None:
        self._state = HostsState.UNASKED
        self._since_s = time.monotonic()

    @property
    def state(self) -> HostsState:
        """The present state, which `transition` alone changes."""
        return self._state

    def transition(self, to: HostsState) -> None:
        """Change the state. Raises ValueError where hosts cannot get from theirs to this one."""
        if to not in _NEXT[self._state]:
            raise ValueError(f"hosts that are {self._state.value} cannot be {to.value} next")
        self._state = to
        self._since_s = time.monotonic()

    def prepared(self, prepare: Prepare, stop: threading.Event, *, patient: bool) -> Played:
        """Prepare hosts; with patience, wait for those that cannot be reached.

        Raises:
            TrialStopped: `stop` was set.
            TestbedError: hosts that were lost earlier do not come back.
        """
        play = partial(prepare, PREPARE_LIMIT_S, stop.is_set)
        played = patiently(play, lambda played: bool(played.away), stop, patient=patient)
        if stop.is_set():
            raise TrialStopped
        if played.away and self.state is HostsState.LOST:
            raise TestbedError(_did_not_come_back(played.away))
        return played

    def changed(self, prepare: Prepare, stop: threading.Event, *, patient: bool) -> Played:
        """Prepare hosts for other kernels; they are ready or lost then. Raises what `prepared` raises.

        Without patience only hosts that were lost earlier are waited for.
        """
        lost = self.state is HostsState.LOST
        if not lost:
            self.transition(HostsState.CHANGING)
        played = self.prepared(prepare, stop, patient=patient or lost)
        self.transition(HostsState.LOST if played.wrong else HostsState.READY)
        return played

    def returned(
        self, prepare: Prepare, stop: threading.Event, trial_ends_s: float, before: Mapping[str, HostFacts]
    ) -> None:
        """Wait for lost hosts and prepare all again: a restart resets settings.

        The trial waits until its limit at `trial_ends_s`, then the next trial.

        Raises:
            TrialFailed: they have not come back within this trial.
            TrialStopped: `stop` was set.
            TestbedError: they do not come back, or came back with another kernel than `before`.
        """
        while True:
            limit_s = max(RETRY_S, min(RETURN_LIMIT_S, trial_ends_s - time.monotonic()))
            played = prepare(limit_s, stop.is_set)
            if not played.wrong and not stop.is_set():
                break
            if time.monotonic() > self._since_s + RETURN_LIMIT_S:
                hint = "once they are reachable, the same command resumes the run"
                raise TestbedError(_did_not_come_back(played.wrong), hint)
            if stop.wait(RETRY_S):
                raise TrialStopped
            if time.monotonic() + RETRY_S > trial_ends_s:
                raise TrialFailed(f"hosts have not come back: {listed(played.wrong)}")
        for name, outcome in played.hosts.items():
            now, was = read_facts(dict(outcome.answer), name), before[name]
            if (now.kernel_release, now.kernel_version) != (was.kernel_release, was.kernel_version):
                message = f"{name} came back with Linux {now.kernel_release}, not {was.kernel_release}"
                raise TestbedError(message, "boot the kernel that the run began with, or start a --new run")
        self.transition(HostsState.READY)


def patiently(
    play: Callable[[], Played], away: Callable[[Played], bool], stop: threading.Event, *, patient: bool
) -> Played:
    """Return the last of several plays: with patience, one follows while hosts are `away`, until `stop`."""
    deadline = time.monotonic() + (RETURN_LIMIT_S if patient else 0.0)
    while True:
        played = play()
        if not away(played) or time.monotonic() > deadline or stop.wait(RETRY_S):
            return played


def facts_of(played: Played) -> dict[str, HostFacts]:
    """Return what hosts reported when they were prepared. Raises TestbedError if it is malformed."""
    return {host: read_facts(dict(outcome.answer), host) for host, outcome in played.hosts.items()}


def _did_not_come_back(wrong: Mapping[str, HostOutcome]) -> str:
    return f"hosts did not come back within {RETURN_LIMIT_S:g} s: {listed(wrong)}"
