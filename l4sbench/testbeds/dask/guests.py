# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Guests on the workers of a Dask cluster, as the virtual testbed boots them on this machine.

One guest is one task. Dask runs a task again elsewhere when its worker dies. What it does not do is here:
carrying the lab to workers that lack it, leaving out workers that cannot run it, ending guests that nobody
waits for, and going on after the connection to the scheduler was lost.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from l4sbench.assets import install_command
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.testbeds.dask import worker as remote
from l4sbench.testbeds.dask.address import check_address
from l4sbench.testbeds.dask.packing import pack, unpack

if TYPE_CHECKING:
    from distributed import Client, Future

    from l4sbench.testbeds.virtual.guest import Boot, Ended
    from l4sbench.testbeds.virtual.lab import Lab

LOST_S: Final = 60.0
"""The run ends when the scheduler cannot be reached for longer than this."""

_REACH_S: Final = 10.0
_POLL_S: Final = 1.0
_GONE_POLL_S: Final = 5.0
_RECONNECT_POLL_S: Final = 0.1
_CARRY_S: Final = 600.0
"""Limit for carrying a lab to one worker; the trial is then tried elsewhere."""

_FETCHED_AT_ONCE: Final = 4
"""Results in this process's memory at once; others wait at their workers."""

_RESUME: Final = "ended trials are kept; run the same command again once the cluster is up"


@dataclass
class _Carried:
    """A lab on its way to one worker, or there since `at_s` by the monotonic clock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at_s: float = -1.0


class DaskGuests:
    """Guests on a Dask cluster, see `l4sbench.testbeds.virtual.guest.Guests`.

    Connects at once, and waits until the cluster has a worker.

    Args:
        address: Of the scheduler, or the name of its file.
        lab: The lab to carry.
        on_state: Called with a line of text about changes of state.
        task: The function that workers run, `worker.run_work`; a tool measures with another.

    Raises:
        InputError: the address is not valid.
        TestbedError: Dask is not installed, the scheduler does not answer, or no worker can run the lab.
    """

    def __init__(
        self,
        address: str,
        lab: Lab,
        on_state: Callable[[str], None] = lambda _: None,
        task: Callable[[remote.Work], remote.Answer] = remote.run_work,
    ) -> None:
        check_address(address)
        self._address = address
        self._lab = lab
        self._on_state = on_state
        self._task = task
        self._client = connect(address)
        self._loop: asyncio.AbstractEventLoop = self._client.loop.asyncio_loop
        self._checksum = remote.lab_checksum(lab.kernel, lab.rootfs)
        self._packed: asyncio.Task[bytes] | None = None
        self._carried: dict[str, _Carried] = {}
        self._carrying = asyncio.Semaphore(1)
        self._fetching = asyncio.Semaphore(_FETCHED_AT_ONCE)
        self._unusable: dict[str, str] = {}
        self._lost = False
        self._places = self._look()

    @property
    def places(self) -> int:
        """Number of guests that the workers ran at once when the run began: their threads."""
        return self._places

    @property
    def queues(self) -> bool:
        """True: the scheduler has a queue of its own."""
        return True

    def _look(self) -> int:
        """Wait for workers, compare each with this machine, and return how many threads they have."""
        while not (threads := self._client.nthreads()):
            self._on_state(f"the Dask cluster at {self._address} has no worker yet; waiting for one")
            self._client.wait_for_workers(1)
        ours = remote.facts()
        found: Mapping[str, object] = self._client.run(remote.facts, on_error="return")
        for address in sorted(threads):
            theirs = found.get(address)
            if isinstance(theirs, remote.Facts):
                reason = remote.unfit(theirs, ours)
            elif isinstance(theirs, ImportError):
                reason = f"it cannot import this l4sbench: {theirs}"
            else:
                reason = f"it cannot be asked: {theirs!r}"
            if reason:
                self._leave_out(address, reason)
        usable: int = sum(number for address, number in threads.items() if address not in self._unusable)
        if not usable:
            raise self._none_left()
        return usable

    # ---- one guest
    def run(self, boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:
        """Boot a guest on a worker and fetch its files, see `l4sbench.testbeds.virtual.guest.run_guest`.

        Raises:
            TrialFailed: the guest did not end in time, or the workers that ran it died.
            TrialStopped: `stop` was set.
            TestbedError: the scheduler is lost, or no worker can run guests.
        """
        work = remote.Work(
            self._checksum, boot.seed, boot.memory_mb, limit_s, pack(boot.trial), remote.facts()
        )
        running = asyncio.run_coroutine_threadsafe(self._run(work), self._loop)
        done = threading.Event()
        running.add_done_callback(lambda _: done.set())
        while not done.wait(_POLL_S):
            if stop.is_set():
                running.cancel()
                raise TrialStopped
        answer = running.result()
        if isinstance(answer, remote.Failed):
            raise TrialFailed(answer.reason)
        unpack(answer.files, boot.trial)
        console.touch()
        return answer.ended

    async def _run(self, work: remote.Work) -> remote.Ran | remote.Failed:
        while True:
            began_s = time.monotonic()
            match await self._result(self._task, work, workers=await self._usable()):
                case remote.Ran() | remote.Failed() as answer:
                    return answer
                case remote.LabMissing(worker):
                    await self._carry_lab(worker, began_s)
                case remote.Unusable(worker, reason):
                    self._leave_out(worker, reason)
                case None:
                    await self._reconnected()

    async def _result(self, function: Callable[..., Any], *args: Any, workers: list[str] | None) -> Any:
        """Return what a function returns on a worker.

        None when the connection to the scheduler was lost, or all of `workers` are gone.
        """
        import distributed
        from distributed.client import FutureCancelledError, FuturesCancelledError

        try:
            future = self._client.submit(
                function, *args, key=f"l4sbench-{uuid.uuid4().hex}", workers=workers, pure=False
            )
        except RuntimeError:  # the client is closed
            return None
        try:
            if not await self._wait(future, workers):
                return None
            async with self._fetching:
                return await future
        except distributed.KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers"
            return remote.Failed(f"{died} died while they ran it; the last was {error.last_worker.address}")
        except (FutureCancelledError, FuturesCancelledError):
            return None
        except Exception as error:
            if isinstance(error, OSError) and future.status != "error":  # the client's own connection
                return None
            raise TestbedError(
                f"the workers cannot run trials: {error!r}", "`l4sbench docs scale` says what they need"
            ) from error
        finally:
            future.release()

    async def _wait(self, future: Future, workers: list[str] | None) -> bool:
        """Wait until a future has a result; False when only `workers` may make it and all of them are gone.

        Dask would wait for ever for workers that were named.
        """
        import distributed

        while True:
            try:
                with self._client.as_current():
                    await distributed.wait([future], timeout=None if workers is None else _GONE_POLL_S)
            except TimeoutError:
                if not frozenset(workers or ()) & (await self._client.nthreads()).keys():
                    return False
            else:
                return True

    # ---- workers
    async def _usable(self) -> list[str] | None:
        """Return the workers that may run guests; None for all."""
        if not self._unusable:
            return None
        try:
            workers: Mapping[str, int] = await self._client.nthreads()
        except OSError:
            return None  # the connection is lost, as the next step finds out
        usable = [address for address in workers if address not in self._unusable]
        if workers and not usable:
            raise self._none_left()
        return usable or None

    def _leave_out(self, worker: str, reason: str) -> None:
        if worker not in self._unusable:
            self._unusable[worker] = reason
            self._on_state(f"worker {worker} is left out: {reason}")

    def _none_left(self) -> TestbedError:
        reasons = "".join(f"\n  {worker}: {reason}" for worker, reason in sorted(self._unusable.items()))
        return TestbedError(
            f"no worker at {self._address} can run trials:{reasons}",
            "`l4sbench docs scale` says what they need",
        )

    async def _carry_lab(self, worker: str, asked_s: float) -> None:
        """Bring the lab to a worker, unless that was done since `asked_s`."""
        carried = self._carried.setdefault(worker, _Carried())
        async with carried.lock:
            if carried.at_s >= asked_s:
                return
            async with self._carrying:
                try:
                    failure = await asyncio.wait_for(self._install(worker), _CARRY_S)
                except (OSError, TimeoutError, ValueError, KeyError):
                    return  # the worker or the scheduler is gone, as the next try finds out
            if isinstance(failure, remote.Unusable):
                self._leave_out(worker, failure.reason)
            carried.at_s = time.monotonic()

    async def _install(self, worker: str) -> remote.Unusable | None:
        if self._packed is None:
            pack_lab = asyncio.to_thread(remote.pack_lab, self._lab.kernel, self._lab.rootfs)
            self._packed = asyncio.ensure_future(pack_lab)
        packed = await asyncio.shield(self._packed)
        self._on_state(f"worker {worker} gets the lab, {len(packed) / 1e6:.0f} MB")
        data = await self._client.scatter(packed, workers=[worker], hash=False)
        try:
            failure: remote.Unusable | None = await self._result(
                remote.install_lab, self._checksum, data, workers=[worker]
            )
        finally:
            data.release()
        return failure

    # ---- the scheduler
    async def _reconnected(self) -> None:
        """Wait for the scheduler, which may be a new one at the same address.

        Raises:
            TestbedError: it does not come back.
        """
        if not self._lost and self._client.status != "running":
            self._lost = True
            self._on_state(f"the connection to {self._address} was lost; its running trials start again")
        deadline_s = time.monotonic() + LOST_S
        await asyncio.sleep(_RECONNECT_POLL_S)
        while self._client.status != "running":
            if self._client.status == "closed" or time.monotonic() > deadline_s:
                message = f"the Dask scheduler at {self._address} is lost"
                raise TestbedError(message, _RESUME)
            await asyncio.sleep(_RECONNECT_POLL_S)
        self._lost = False


def connect(address: str) -> Client:
    """Connect to a scheduler.

    Raises:
        TestbedError: Dask is not installed, or the scheduler does not answer.
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        missing = f"--on dask needs Dask, which is not installed: {error}"
        raise TestbedError(missing, install_command("scale")) from error
    hint = "is it running, and can this machine reach it? (l4sbench docs scale)"
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is reported as errors
    # a connection that stalls is not broken yet
    dask.config.set({"distributed.comm.timeouts.tcp": f"{LOST_S:g}s"})
    try:
        if address.endswith(".json"):
            return distributed.Client(scheduler_file=address, timeout=LOST_S, set_as_default=False)
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        # Dask tries for as long as a lost connection may last; a wrong address should show at once
        socket.create_connection((str(parts.hostname), parts.port or 0), timeout=_REACH_S).close()
        return distributed.Client(address, timeout=LOST_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TestbedError(f"the Dask scheduler at {address} does not answer: {error}", hint) from error
