# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices that a run holds: whether they are still there, their leases, and the token that renews them."""

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
"""How long to wait before FABRIC is asked again for what it refused."""

REFRESH: Final = timedelta(hours=6)
"""How long FABRIC may hear nothing of a run: refresh tokens end after a day, and each use gives a new one."""

WATCH_S: Final = 60.0
"""How long a trial, or a change of kernels, goes on before FABRIC is asked whether the slice is still there,
and how often from then on. Machines that vanished are silent, and ssh takes minutes to be sure of that."""

_TICK_S: Final = 0.25

_ANEW: Final = "the same command makes it anew and goes on; finished trials stay"


@dataclass(eq=False)
class Held:
    """A slice that is up, and its hosts.

    `span` is how long a lease FABRIC gives when asked for the spec's hours, as far as known. `asked` is when
    it was asked last, `refused` why it did not renew then. `doubted`: a trial failed there since it was last
    known to be whole. `lost`: no trial runs there any more.
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
        """The slice's."""
        return self.spec.name


@dataclass
class _Watch:
    """On what is done on a slice: `ends` tells it to end, because of `stop` or of what was `found`."""

    stop: threading.Event
    ends: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    found: TestbedError | None = None


class LeaseKeeper:
    """Looks after the slices of one run. To be used by several threads.

    Args:
        account: Where they are.
        on_state: Told what becomes of them, for people.
    """

    def __init__(self, account: Slices, on_state: Callable[[str], None]) -> None:
        self._account = account
        self._on_state = on_state
        self._lock = threading.Lock()
        self._heard = datetime.now(UTC)

    @contextmanager
    def watched(self, held: Held, stop: threading.Event) -> Iterator[threading.Event]:
        """Gives the event that ends what is done on a slice: `stop` is set, or the slice is gone.

        Raises TestbedError in place of what came of it when the slice is gone or broken.
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
        """In a thread of its own, which nobody waits for: FABRIC may take its time to answer."""
        from fablib_slices.answers import GONE

        asked_s = time.monotonic()
        while not watch.over and not watch.ends.is_set():
            if watch.stop.wait(_TICK_S):
                watch.ends.set()
            elif time.monotonic() - asked_s >= WATCH_S:
                with suppress(TestbedError):
                    found = self._look(held)
                    # one that FABRIC does not know, or calls broken, is believed when the trial fails, too
                    if found is not None and found.state in GONE:
                        watch.found = self._wrong_with(held, found)
                        watch.ends.set()
                asked_s = time.monotonic()

    def _look(self, held: Held) -> Slice | None:
        with self._lock:
            return self._account.look(held.id)

    def keep_lease(self, held: Held, needed_s: float) -> None:
        """Renew once half of the lease is over; raises TestbedError when a trial would outlive it."""
        now = datetime.now(UTC)
        self._keep_token(now)
        if held.lease_end - now <= held.span / 2 and now - held.asked >= RETRY:
            self._renew(held, now)
        if held.lease_end - now < timedelta(seconds=needed_s):
            why = f" and is not renewed: {held.refused}" if held.refused else ""
            raise TestbedError(
                f"the lease of slice {held.name} ends at {held.lease_end:%Y-%m-%d %H:%M} UTC{why}",
                f"l4sbench slice renew {held.name}; the same command then goes on",
            )

    def _keep_token(self, now: datetime) -> None:
        """Use the token before its refresh token ends, which half of a long lease would not."""
        if now - self._heard < REFRESH:
            return
        self._heard = now  # whoever comes meanwhile has no need to ask as well
        with self._lock:
            try:
                self._account.token_expires()
            except TestbedError as error:
                self._on_state(f"leases cannot be renewed with this token: {error}")

    def _renew(self, held: Held, now: datetime) -> None:
        """Renew to the hour, and read back and tell what came of it."""
        wanted = timedelta(hours=held.spec.hours)
        held.asked, held.refused = now, ""
        try:
            with self._lock:
                renewal = self._account.renew(held.name, held.spec.hours)
        except TestbedError as error:
            self.raise_if_gone(held)  # reads the lease, too: somebody else may have renewed it
            if held.lease_end - now <= held.span / 2:
                held.refused = error.message
                self._on_state(f"slice {held.name}: not renewed: {error}")
            return
        held.lease_end = renewal.lease_end
        held.span = min(wanted, renewal.lease_end - now)
        shorter = (
            "" if renewal.exact else f", not at {renewal.asked:%Y-%m-%d %H:%M} as asked: FABRIC shortens it"
        )
        self._on_state(f"slice {held.name}: lease ends {held.lease_end:%Y-%m-%d %H:%M} UTC{shorter}")

    def raise_if_gone(self, held: Held) -> None:
        """A lost host may mean a lost slice; only FABRIC knows. Without its answer nothing is raised."""
        try:
            found = self._look(held)
        except TestbedError as error:
            self._on_state(f"slice {held.name}: whether it is still there is not known: {error}")
            return
        wrong = self._wrong_with(held, found)
        if wrong is not None:
            raise wrong

    def _wrong_with(self, held: Held, found: Slice | None) -> TestbedError | None:
        """Why no trial can run on a slice, going by what FABRIC says of it; its lease is taken over."""
        from fablib_slices.answers import BROKEN, GONE

        if found is None:
            return TestbedError(f"slice {held.name} is gone: FABRIC does not know it any more", _ANEW)
        held.lease_end = found.lease_end
        told = f"{found.state}{''.join(f'; {notice}' for notice in found.notices)}"
        if found.state in GONE:
            over = found.lease_end <= datetime.now(UTC)
            when = f"its lease ended at {found.lease_end:%Y-%m-%d %H:%M} UTC" if over else "FABRIC removed it"
            unasked = f" (not renewed: {held.refused})" if over and held.refused else ""
            return TestbedError(f"slice {held.name} is gone: {when}{unasked} ({told})", _ANEW)
        if found.state in BROKEN:
            return TestbedError(
                f"slice {held.name} is broken: {told}",
                f"l4sbench slice down {held.name}; the same command then makes it anew and goes on",
            )
        return None
