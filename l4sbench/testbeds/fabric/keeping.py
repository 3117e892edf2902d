# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The slices that a run holds: their state, their leases, and the token that renews them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed

if TYPE_CHECKING:
    from fablib_slices import Slice, Slices, SliceSpec
    from l4sbench.engine.testbed import Testbed

RETRY: Final = timedelta(minutes=10)
"""Pause before repeating a request that FABRIC refused."""

REFRESH: Final = timedelta(hours=6)
"""Longest time without a request: refresh tokens end after a day, and each use returns a new one."""

WATCH_S: Final = 60.0
"""Interval of queries of a slice's state during a trial or a change of kernels. Vanished machines are silent,
and ssh notices that only after minutes."""

_TICK_S: Final = 0.25

_ANEW: Final = "the same command makes a new one and resumes; finished trials are kept"


@dataclass(eq=False)
class Held:
    """A slice that is up, and its hosts.

    `span` is the length of a lease that FABRIC grants for the spec's hours, as far as known. `asked` is the
    time of the last request, `refused` the reason if it was refused. `doubted`: a trial failed on it since it
    was last known to be complete. `lost`: it runs no more trials.
    """

    spec: SliceSpec
    id: str
    lease_end: datetime
    hosts: Testbed
    span: timedelta
    asked: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))
    refused: str = ""
    doubted: bool = False
    lost: bool = False

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.spec.name


@dataclass
class _Watch:
    """A watch on work on a slice: `ends` is set to end the work, because of `stop` or of an error `found`."""

    stop: threading.Event
    ends: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    found: TestbedError | None = None


class LeaseKeeper:
    """Keeper of the slices of one run, for use by several threads.

    Args:
        account: The account that has them.
        on_state: Called with a line of text about changes of state.
    """

    def __init__(self, account: Slices, on_state: Callable[[str], None]) -> None:
        self._account = account
        self._on_state = on_state
        self._lock = threading.Lock()
        self._heard = datetime.now(UTC)

    @contextmanager
    def watched(self, held: Held, stop: threading.Event) -> Iterator[threading.Event]:
        """Provide the event that ends work on a slice: it is set by `stop`, or when the slice is gone.

        Raises TestbedError instead of the work's own error when the slice is gone or broken.
        """
        held.doubted = True
        watch = _Watch(stop)
        threading.Thread(target=self._watch, args=(held, watch), daemon=True).start()
        try:
            yield watch.ends
        except (TrialFailed, TestbedError, TrialStopped) as error:
            if stop.is_set():
                raise
            if watch.found is not None:
                raise watch.found from error
            self.raise_if_gone(held)
            raise
        finally:
            watch.over = True
        held.doubted = watch.found is not None

    def _watch(self, held: Held, watch: _Watch) -> None:
        """Query the slice in a thread that nothing waits for: FABRIC may answer slowly."""
        from fablib_slices.answers import GONE

        asked_s = time.monotonic()
        while not watch.over and not watch.ends.is_set():
            if watch.stop.wait(_TICK_S):
                watch.ends.set()
            elif time.monotonic() - asked_s >= WATCH_S:
                with suppress(TestbedError):
                    found = self._look(held)
                    # a slice that FABRIC does not know, or reports as broken, counts once the trial fails too
                    if found is not None and found.state in GONE:
                        watch.found = self._wrong_with(held, found)
                        watch.ends.set()
                asked_s = time.monotonic()

    def _look(self, held: Held) -> Slice | None:
        with self._lock:
            return self._account.look(held.id)

    def keep_lease(self, held: Held, needed_s: float) -> None:
        """Renew once half of the lease is over. Raises TestbedError when a trial would outlive the lease."""
        now = datetime.now(UTC)
        self._keep_token(now)
        if held.lease_end - now <= held.span / 2 and now - held.asked >= RETRY:
            self._renew(held, now)
        if held.lease_end - now < timedelta(seconds=needed_s):
            why = f" and is not renewed: {held.refused}" if held.refused else ""
            raise TestbedError(
                f"the lease of slice {held.name} ends at {held.lease_end:%Y-%m-%d %H:%M} UTC{why}",
                f"l4sbench slice renew {held.name}; the same command then resumes",
            )

    def _keep_token(self, now: datetime) -> None:
        """Use the token before its refresh token ends; half of a long lease is too late."""
        if now - self._heard < REFRESH:
            return
        self._heard = now  # other threads need not use it as well
        with self._lock:
            try:
                self._account.token_expires()
            except TestbedError as error:
                self._on_state(f"this token cannot renew leases: {error}")

    def _renew(self, held: Held, now: datetime) -> None:
        """Renew the lease, read it back, and report the result."""
        wanted = timedelta(hours=held.spec.hours)
        held.asked, held.refused = now, ""
        try:
            with self._lock:
                renewal = self._account.renew(held.name, held.spec.hours)
        except TestbedError as error:
            self.raise_if_gone(held)  # reads the lease, too: another process may have renewed it
            if held.lease_end - now <= held.span / 2:
                held.refused = error.message
                self._on_state(f"slice {held.name}: not renewed: {error}")
            return
        held.lease_end = renewal.lease_end
        held.span = min(wanted, renewal.lease_end - now)
        shorter = (
            ""
            if renewal.exact
            else f", not at {renewal.asked:%Y-%m-%d %H:%M} as requested: FABRIC shortened it"
        )
        self._on_state(f"slice {held.name}: lease ends {held.lease_end:%Y-%m-%d %H:%M} UTC{shorter}")

    def raise_if_gone(self, held: Held) -> None:
        """Raise TestbedError if the slice of a lost host is lost, but not if FABRIC does not answer."""
        try:
            found = self._look(held)
        except TestbedError as error:
            self._on_state(f"slice {held.name}: state unknown: {error}")
            return
        wrong = self._wrong_with(held, found)
        if wrong is not None:
            raise wrong

    def _wrong_with(self, held: Held, found: Slice | None) -> TestbedError | None:
        """Return why no trial can run on a slice, by FABRIC's data, and store the slice's lease."""
        from fablib_slices.answers import BROKEN, GONE

        if found is None:
            return TestbedError(f"slice {held.name} is gone: FABRIC no longer has it", _ANEW)
        held.lease_end = found.lease_end
        state = f"{found.state}{''.join(f'; {notice}' for notice in found.notices)}"
        if found.state in GONE:
            over = found.lease_end <= datetime.now(UTC)
            when = f"its lease ended at {found.lease_end:%Y-%m-%d %H:%M} UTC" if over else "FABRIC removed it"
            unasked = f" (not renewed: {held.refused})" if over and held.refused else ""
            return TestbedError(f"slice {held.name} is gone: {when}{unasked} ({state})", _ANEW)
        if found.state in BROKEN:
            return TestbedError(
                f"slice {held.name} is broken: {state}",
                f"l4sbench slice down {held.name}; the same command then makes a new one and resumes",
            )
        return None
