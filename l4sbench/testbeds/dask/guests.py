# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Guests on the workers of a Dask cluster, as the virtual testbed boots them on this machine.

One guest is one task. Dask runs a task again elsewhere when its worker dies. What it does not do is here:
carrying the lab to workers that lack it, leaving out workers that cannot run it or answer with something else
than `answers` has, ending guests that nobody waits for, and going on after the connection to the scheduler
was lost.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from l4sbench.disk.assets import install_command
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.store.files import is_full
from l4sbench.testbeds.dask import answers
from l4sbench.testbeds.dask import worker as remote
from l4sbench.testbeds.dask.address import check_address, scheduler_of
from l4sbench.testbeds.dask.answers import BadAnswer, one_line
from l4sbench.testbeds.dask.packing import Packed, pack

if TYPE_CHECKING:
    from distributed import Future

    from l4sbench.testbeds.dask.connection import Connection
    from l4sbench.testbeds.virtual.guest import Boot, Ended
    from l4sbench.testbeds.virtual.lab import Lab

T = TypeVar("T")

CONTACT_S: Final = 30.0
"""Time in which a scheduler must answer when a run begins. The whole command then ends within a minute, on a
busy machine, too: the rest is for its start and for the end of the connection."""

LOST_S: Final = 60.0
"""The run ends when a scheduler that has answered cannot be reached for longer."""

_REACH_S: Final = 10.0
_POLL_S: Final = 1.0
_GONE_POLL_S: Final = 5.0
_RECONNECT_POLL_S: Final = 0.1
_WORKER_POLL_S: Final = 0.5
_CARRY_S: Final = 600.0
"""Limit for carrying a lab to one worker; the trial is then tried elsewhere."""

_FETCHED_AT_ONCE: Final = 4
"""Results in this process's memory at once; others wait at their workers."""
_ASKED_AT_ONCE: Final = 256

_MOST_PLACES: Final = 4096
_MOST_TRIES: Final = 1000
"""Tries of one trial; each has left out a worker, or found a connection or a worker lost."""
_MOST_FETCHES: Final = 5
_MOST_CARRIES: Final = 3

_RESUME: Final = "ended trials are kept; run the same command again once the cluster is up"
_REACHABLE: Final = "is it running, and can this machine reach it? (l4sbench docs scale)"
_NEEDS: Final = "`l4sbench docs scale` says what they need"
_KILLED: Final = "distributed.scheduler KilledWorker "
"""Beginning of the texts in Dask's error for a task whose workers died."""


@dataclass(frozen=True)
class _Answered:
    """An answer, and the worker that Dask says has it; empty where that does not matter."""

    answer: answers.Answer
    worker: str = ""


@dataclass(frozen=True)
class _Bad:
    """Something that is no answer, with the reason, and the worker that Dask says has it."""

    worker: str
    reason: str


@dataclass(frozen=True)
class _Erred:
    """A task that ended with an error. Dask does not report on which worker."""

    reason: str


@dataclass
class _Carried:
    """A lab on its way to one worker, or there since `at_s` by the monotonic clock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at_s: float = -1.0
    times: int = 0


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
        task: Callable[[remote.Work], bytes] = remote.run_work,
    ) -> None:
        self._address = address
        self._lab = lab
        self._on_state = on_state
        self._task = task
        self._connection = connect(address)
        self._client = self._connection.client
        self._loop = self._connection.loop
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
        try:
            waited = False
            while not (threads := self._ask(self._threads())):
                if not waited:
                    self._on_state(f"the Dask cluster at {self._address} has no worker yet; waiting for one")
                waited = True
                time.sleep(_WORKER_POLL_S)
            reasons = self._ask(self._compare(sorted(threads)))
        except BaseException:
            self._connection.close()
            raise
        for address, reason in reasons.items():
            if reason:
                self._leave_out(address, reason)
        usable = sum(number for address, number in threads.items() if address not in self._unusable)
        if not usable:
            self._connection.close()
            raise self._none_left()
        return min(usable, _MOST_PLACES)

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Return what the scheduler answers, at the beginning, where nothing is lost yet."""
        try:
            return self._connection.call(question, CONTACT_S)
        except OSError as error:  # TimeoutError, too
            late = isinstance(error, TimeoutError)
            how = f"within {CONTACT_S:g} s" if late else f"any more: {one_line(str(error))}"
            message = f"the Dask scheduler at {self._address} does not answer {how}"
            raise TestbedError(message, _REACHABLE) from error

    async def _compare(self, workers: list[str]) -> dict[str, str]:
        """Return why each worker cannot run this lab; an empty text if it can."""
        at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def compare(worker: str) -> str:
            async with at_once:
                return await self._unfit(worker)

        return dict(zip(workers, await asyncio.gather(*map(compare, workers)), strict=True))

    async def _unfit(self, worker: str) -> str:
        """Ask a worker for its facts; return why it cannot run this lab."""
        from distributed.protocol.pickle import dumps

        question = {"op": "run", "function": dumps(remote.report_facts), "wait": True}
        try:
            asked = self._client.scheduler.broadcast(msg=question, workers=[worker])
            said = (await asyncio.wait_for(asked, CONTACT_S / 2))[worker]
            if said["status"] != "OK":
                raise TestbedError(str(said["exception"]))
            theirs = answers.decode(_content(said["result"]))
        except BadAnswer as error:
            return str(error)
        except TimeoutError:
            return f"it does not answer within {CONTACT_S / 2:g} s"
        except Exception as error:  # noqa: BLE001  (Dask has no common type; a worker may answer anything)
            text = one_line(str(error)) or type(error).__name__
            missing = text.startswith(("ImportError(", "ModuleNotFoundError("))
            return f"it cannot import this l4sbench: {text}" if missing else f"it cannot be asked: {text}"
        if not isinstance(theirs, answers.Facts):
            return f"it was asked for facts and answers {theirs!r}"
        return remote.unfit(theirs, remote.facts())

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
        if isinstance(answer, answers.FailedTrial):
            raise TrialFailed(answer.reason)
        try:
            answers.write(answer.files, boot.trial)
        except (OSError, UnicodeEncodeError) as error:
            if isinstance(error, OSError) and is_full(error):
                raise
            raise TrialFailed(f"the files of its worker cannot be written: {error}") from error
        console.touch()
        return answer.ended

    async def _run(self, work: remote.Work) -> answers.Ran | answers.FailedTrial:
        alone = ""  # after an error, one worker tries it at a time: so the error's worker is known
        for _ in range(_MOST_TRIES):
            began_s = time.monotonic()
            if alone in self._unusable:
                alone = await self._next_alone()
            workers = [alone] if alone else await self._usable()
            found = await self._result(self._task, work, workers=workers, sent=work.files)
            match found:
                case _Answered(answers.Ran() | answers.FailedTrial() as answer):
                    return answer
                case _Answered(answers.LabMissing(), worker):
                    await self._carry_lab(worker, began_s)
                case _Answered(answers.Unusable(reason=reason), worker):
                    self._leave_out(worker, reason)
                case _Answered(_, worker):
                    self._leave_out(worker, "it was handed a trial and answers something else")
                case _Bad(worker, reason):
                    self._leave_out(worker, reason)
                case _Erred(reason) if reason.startswith(_KILLED):
                    return answers.FailedTrial(reason=_killed(reason))
                case _Erred(reason):
                    if alone:
                        self._leave_out(alone, f"its task failed: {reason}")
                    else:
                        alone = await self._next_alone()
                case None:
                    alone = ""
                    await self._reconnected()
        message = f"the cluster at {self._address} has no answer for a trial after {_MOST_TRIES} tries"
        raise TestbedError(message, _RESUME)

    async def _next_alone(self) -> str:
        usable = await self._usable()
        return random.choice(usable or sorted(await self._threads()) or [""])  # noqa: S311  (no secret)

    async def _result(
        self,
        function: Callable[..., bytes],
        *args: Any,
        workers: list[str] | None,
        sent: Packed | None = None,
    ) -> _Answered | _Bad | _Erred | None:
        """Return what a function answers on a worker.

        None when the connection to the scheduler was lost, or all of `workers` are gone.
        """
        try:
            future = self._client.submit(
                function, *args, key=f"l4sbench-{uuid.uuid4().hex}", workers=workers, pure=False
            )
        except RuntimeError:  # the client is closed
            return None
        try:
            return await self._fetched(future, workers, sent)
        except OSError:
            return None
        finally:
            future.release()

    async def _fetched(
        self, future: Future, workers: list[str] | None, sent: Packed | None
    ) -> _Answered | _Bad | _Erred | None:
        for _ in range(_MOST_FETCHES):
            if not await self._wait(future, workers):
                return None
            if future.status == "error":
                return _Erred(one_line(str(await future.exception())))
            async with self._fetching:
                response = await self._of_scheduler(lambda it: it.gather(keys=[future.key]))
                found = response.get("data") if isinstance(response, dict) else None
                if isinstance(found, dict) and future.key in found:
                    return await self._decoded(future, found[future.key], sent)
            # its worker died, as Dask will notice, or does not hand it over
            await asyncio.sleep(_POLL_S)
        worker = await self._holder(future)
        return _Bad(worker, "it does not hand over its answer") if worker else None

    async def _decoded(self, future: Future, found: object, sent: Packed | None) -> _Answered | _Bad | None:
        try:
            answer = await asyncio.to_thread(answers.decode, _content(found), sent)
        except BadAnswer as error:
            worker = await self._holder(future)
            return _Bad(worker, str(error)) if worker else None
        if isinstance(answer, answers.Ran | answers.FailedTrial):
            return _Answered(answer)
        worker = await self._holder(future)
        return _Answered(answer, worker) if worker else None

    async def _holder(self, future: Future) -> str:
        """Return the worker that has a task's result, which is the one that ran it; empty if none has it."""
        found = await self._of_scheduler(lambda it: it.who_has(keys=[future.key]))
        match found.get(future.key) if isinstance(found, dict) else None:
            case (str(worker), *_):
                return one_line(worker)
        return ""

    async def _wait(self, future: Future, workers: list[str] | None) -> bool:
        """Wait until a task has ended; False when it was cancelled, or all of `workers`, if any, are gone.

        Dask would wait for ever for workers that were named.
        """
        import distributed
        from distributed.client import FutureCancelledError, FuturesCancelledError

        while True:
            try:
                with self._client.as_current():
                    await distributed.wait([future], timeout=None if workers is None else _GONE_POLL_S)
            except TimeoutError:
                if not frozenset(workers or ()) & (await self._threads()).keys():
                    return False
            except (FutureCancelledError, FuturesCancelledError):
                return False
            else:
                return bool(future.status in {"finished", "error"})

    # ---- workers
    async def _of_scheduler(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what the scheduler answers; `ask` gets Dask's proxy of it.

        Raises:
            OSError: the connection is lost.
            TestbedError: it answers with an error.
        """
        scheduler = self._client.scheduler
        if scheduler is None:
            raise OSError("the connection is closed")
        try:
            return await ask(scheduler)
        except (OSError, TestbedError):
            raise
        except RuntimeError as error:  # Dask's pool of connections is closed
            raise OSError(str(error)) from error
        except Exception as error:
            raise self._strange(one_line(str(error))) from error

    def _strange(self, what: str) -> TestbedError:
        return TestbedError(f"the Dask scheduler at {self._address} does not work: {what}", _RESUME)

    async def _threads(self) -> dict[str, int]:
        """Return how many threads each worker has."""
        found = await self._of_scheduler(lambda it: it.ncores())
        if not isinstance(found, dict) or not all(
            isinstance(worker, str) and isinstance(number, int) and number >= 0
            for worker, number in found.items()
        ):
            raise self._strange("what it answers are not workers")
        return {one_line(worker): number for worker, number in found.items()}

    async def _usable(self) -> list[str] | None:
        """Return the workers that may run guests; None for all."""
        if not self._unusable:
            return None
        try:
            workers = await self._threads()
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
            _NEEDS,
        )

    async def _carry_lab(self, worker: str, asked_s: float) -> None:
        """Bring the lab to a worker, unless that was done since `asked_s`."""
        carried = self._carried.setdefault(worker, _Carried())
        async with carried.lock:
            if carried.at_s >= asked_s:
                return
            if carried.times >= _MOST_CARRIES:
                self._leave_out(worker, f"it lacks the lab, which it got {carried.times} times")
                return
            async with self._carrying:
                try:
                    found = await asyncio.wait_for(self._install(worker), _CARRY_S)
                except (OSError, TimeoutError, ValueError, KeyError):
                    return  # the worker or the scheduler is gone, as the next try finds out
            match found:
                case None:
                    return
                case _Answered(answers.LabInstalled()):
                    pass
                case _Answered(answers.Unusable(reason=reason)) | _Bad(_, reason):
                    self._leave_out(worker, reason)
                case _Erred(reason):
                    self._leave_out(worker, f"the lab cannot be unpacked: {reason}")
                case _Answered():
                    self._leave_out(worker, "it was handed the lab and answers something else")
            carried.times += 1
            carried.at_s = time.monotonic()

    async def _install(self, worker: str) -> _Answered | _Bad | _Erred | None:
        if self._packed is None:
            pack_lab = asyncio.to_thread(remote.pack_lab, self._lab.kernel, self._lab.rootfs)
            self._packed = asyncio.ensure_future(pack_lab)
        try:
            packed = await asyncio.shield(self._packed)
        except OSError as error:  # it would look like one of the connection
            raise TestbedError(f"the lab cannot be packed for workers: {error}") from error
        self._on_state(f"worker {worker} gets the lab, {len(packed) / 1e6:.0f} MB")
        data = await self._of_scheduler(lambda _: self._client.scatter(packed, workers=[worker], hash=False))
        try:
            return await self._result(remote.install_lab, self._checksum, data, workers=[worker])
        finally:
            data.release()

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


def connect(address: str, limit_s: float = CONTACT_S) -> Connection:
    """Connect to a scheduler: its address, or the name of its file.

    Raises:
        InputError: the address is not valid.
        TestbedError: Dask is not installed, the scheduler does not answer within `limit_s`, or its file is
            not that of a scheduler.
    """
    check_address(address)
    try:
        import distributed  # noqa: F401  (the next import may have been done before)

        from l4sbench.testbeds.dask.connection import Connection
    except ImportError as error:
        missing = f"--on dask needs Dask, which is not installed: {error}"
        raise TestbedError(missing, install_command("scale")) from error
    place = scheduler_of(address)
    parts = urlsplit(place)
    failed = f"the Dask scheduler at {address} does not answer"
    try:
        # Dask tries for as long as a lost connection may last; a wrong address should show at once
        reach_s = min(_REACH_S, limit_s)
        socket.create_connection((str(parts.hostname), parts.port or 0), timeout=reach_s).close()
        return Connection(place, limit_s - reach_s if limit_s > 2 * reach_s else limit_s, LOST_S)
    except TimeoutError as error:
        raise TestbedError(f"{failed} within {limit_s:g} s", _REACHABLE) from error
    except Exception as error:
        # Dask has no common type of errors, and whoever listens there may answer anything
        reason = one_line(str(error)) or type(error).__name__
        raise TestbedError(f"{failed}: {reason}", _REACHABLE) from error


def _content(found: object) -> memoryview:
    """Return the bytes that a worker answered. Raises BadAnswer if it answered something else."""
    from l4sbench.testbeds.dask.connection import Sealed

    if isinstance(found, Sealed) and found.kind == "bytes":
        return found.content
    kind = found.kind if isinstance(found, Sealed) else "a value"
    raise BadAnswer(f"its answer is {kind}, not bytes")


def _killed(reason: str) -> str:
    last = re.search(r"\b(?:tcp|tls)://\S+", reason)
    return f"several workers died while they ran it{f'; the last was {last[0]}' if last else ''}"
