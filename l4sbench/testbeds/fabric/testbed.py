# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices of FABRIC as one testbed: made or adopted, kept alive, each a set of hosts for one trial at a time.

A slice is only ever found by its name and adopted when it was made from the same spec, so a controller that
was stopped, or lost its connection, goes on where it was. Leases are renewed between trials once half of them
is over. A slice that is lost on the way leaves its trials to the others; the last one ends the run, and the
next run makes anew what is missing and goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.engine.testbed import Staged, TrialStopped
from l4sbench.errors import InputError, L4sbenchError, PlaceLost, Problem, TestbedError, TrialFailed
from l4sbench.testbeds.fabric.keeping import Held, LeaseKeeper
from l4sbench.testbeds.fabric.specs import specs_of
from l4sbench.testbeds.ssh import TRAITS as SSH_TRAITS
from l4sbench.testbeds.ssh import SshTestbed

if TYPE_CHECKING:
    from fablib_slices import Slices, SliceSpec
    from l4sbench.catalog import Catalog
    from l4sbench.engine.testbed import Outcome, Testbed
    from l4sbench.matrix import Matrix
    from l4sbench.program.trial import TrialSpec
    from l4sbench.traits import Identity, Needs, Stage, Stages, TestbedTraits

CHANGE_LIMIT_S: Final = 3600.0
"""What a lease must last for a change of kernels: they may have to be installed first."""

LEAVE_S: Final = 10.0
"""What hosts may take to leave off when nobody waits for them any more."""

BEYOND_S: Final = 180.0
"""What a trial may take beyond its flows' time on hosts that have to be reached anew."""


def traits(slices: int) -> TestbedTraits:
    """Facts about a testbed of that many slices: each runs a trial at a time."""
    return replace(SSH_TRAITS, parallel=slices > 1, slots=slices)


class FabricTestbed:
    """Runs trials on slices.

    Args:
        name: Name of the slice, with `-1` and so on behind it when there are several; or a YAML file that
            describes it; empty for one that is named after the matrix.
        matrix: What is to run there.
        slices: How many slices share out the trials.
        capture: Keep packets at both ports of the router.
        contact: Reserve and ask; else what hosts told last time counts.
        work_s: Wall seconds that what is left to run takes on one slice, for leases and tokens.
        connect: Gives the account's slices; fablib's configuration by default.
        hosts: Gives the testbed that a slice's inventory is; hosts by ssh by default.
        on_state: Told what becomes of slices, for people.
    """

    def __init__(
        self,
        name: str,
        matrix: Matrix,
        *,
        slices: int = 1,
        capture: bool = False,
        contact: bool = True,
        work_s: float = 0.0,
        connect: Callable[[], Slices] | None = None,
        hosts: Callable[[Path], Testbed] | None = None,
        on_state: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._specs = specs_of(name or f"l4s-{matrix.name}", matrix, slices)
        self._matrix = matrix
        self._capture = capture
        self._contact = contact
        self._work_s = work_s
        self._connect = connect
        self._hosts = hosts or self._by_ssh
        self._on_state = on_state
        self._slices: Slices | None = None
        self._keeps: LeaseKeeper | None = None
        self._held: tuple[Held, ...] = ()
        self._free: queue.SimpleQueue[Held] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._leave = threading.Event()

    @property
    def name(self) -> str:
        """`fabric`."""
        return "fabric"

    @property
    def traits(self) -> TestbedTraits:
        """Real time; as many trials at once as there are slices."""
        return traits(len(self._specs))

    # ---- before anything runs
    def identity(self) -> Identity:
        """What the slices' hosts run. The first call reserves and prepares what is missing.

        Raises:
            InputError: the slice cannot be had as it is described.
            TestbedError: FABRIC refuses, or a host cannot be prepared, or slices came out different.
        """
        if not self._held:
            self._held = self._reserve() if self._contact else self._remember()
            for held in self._held:
                self._free.put(held)
        told = _at_once(lambda held: held.hosts.identity(), self._held, self._leave)
        if not any(self._stages_of(held) for held in self._held):
            self._raise_if_different(self._held, told)
        return replace(told[0], testbed=self.name)

    def _raise_if_different(self, held: Sequence[Held], told: Sequence[Identity]) -> None:
        for other, identity in zip(held[1:], told[1:], strict=True):
            if identity != told[0]:
                raise TestbedError(
                    f"slices {held[0].spec.name} and {other.spec.name} run different kernels or tools",
                    f"l4sbench slice down {other.spec.name}, then run again: it is made anew",
                )

    # ---- kernels
    def stages(self) -> Stages | None:
        """Which kernels the machines boot for which cells; None when all can run them as they are."""
        if not self._held:
            self.identity()
        found = next((stages for held in self._held if (stages := self._stages_of(held))), None)
        if found is None:
            return None
        own = tuple(
            replace(stage, identity=replace(stage.identity, testbed=self.name)) for stage in found.all
        )
        return replace(found, all=own)

    def _stages_of(self, held: Held) -> Stages | None:
        return held.hosts.stages() if isinstance(held.hosts, Staged) else None

    def advice(self) -> tuple[str, ...]:
        """None: machines of a slice may boot whatever their cells need."""
        return ()

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Have the machines of all slices run the kernels that a stage names, see `SshTestbed.enter`.

        A slice that is lost meanwhile, or whose machines do not get the kernels that others got, is given up
        for the run. Where none got them, the kernels are at fault and the slices stay.

        Raises:
            TrialFailed: on no slice machines got their kernels, or none can run the cells with them.
            TrialStopped: `stop` was set.
            PlaceLost: slices were given up; to be called again, for those that are left.
            TestbedError: none is left, or those that are left came out different.
        """
        left = [held for held in self._held if not held.lost]
        with ThreadPoolExecutor(len(left)) as pool:
            came = list(pool.map(lambda held: self._enter_on(held, stage, stop), left))
        if stop.is_set():
            raise TrialStopped
        told = [one for one in came if not isinstance(one, TrialFailed | TestbedError)]
        failed = {held: one for held, one in zip(left, came, strict=True) if isinstance(one, TrialFailed)}
        lost = {held: one for held, one in zip(left, came, strict=True) if isinstance(one, TestbedError)}
        if lost or (told and failed):
            error = self._given_up({**lost, **(failed if told else {})})
            if isinstance(error, PlaceLost):
                self._on_state(f"{error.message}; the run goes on without it")
            raise error
        if failed:
            raise TrialFailed("; ".join(dict.fromkeys(self._about(*one) for one in failed.items())))
        self._raise_if_different(left, told)
        return replace(told[0], testbed=self.name)

    def _enter_on(
        self, held: Held, stage: Stage, stop: threading.Event
    ) -> Identity | TrialFailed | TestbedError:
        """What one slice's machines run then, or why they do not."""
        try:
            if held.doubted:
                self._keeper.raise_if_gone(held)
            self._keeper.keep_lease(held, CHANGE_LIMIT_S)
            if not isinstance(held.hosts, Staged):
                return held.hosts.identity()
            with self._keeper.watched(held, stop) as ends:
                return held.hosts.enter(stage, ends)
        except (TrialFailed, TestbedError) as error:
            return error

    def _given_up(self, lost: Mapping[Held, L4sbenchError]) -> TestbedError:
        """Let no trial run on these slices any more; what to raise for it."""
        with self._lock:
            for held in lost:
                held.lost = True
            left = sum(not held.lost for held in self._held)
        message = "; ".join(dict.fromkeys(self._about(*one) for one in lost.items()))
        hint = next((error.hint for error in lost.values() if error.hint), None)
        return PlaceLost(message, hint, left=left) if left else TestbedError(message, hint)

    def _about(self, held: Held, error: L4sbenchError) -> str:
        """An error's message, which names the slice where there are several."""
        known = len(self._held) == 1 or held.name in error.message
        return error.message if known else f"slice {held.name}: {error.message}"

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Everything that keeps the slices from running a plan."""
        if not self._held:
            self.identity()
        found = [problem for held in self._held for problem in held.hosts.check(needs)]
        return list(dict.fromkeys(found))

    def _reserve(self) -> tuple[Held, ...]:
        """Make or adopt all slices; those that are missing are checked before any is made."""
        from fablib_slices import Slices, preflight
        from fablib_slices.checks import warnings
        from fablib_slices.records import bastion_hosts, keep

        self._slices = self._connect() if self._connect else Slices.connect()
        self._keeps = LeaseKeeper(self._slices, self._on_state)
        if self._hosts == self._by_ssh:
            self._slices.access.check(bastion_hosts(self._specs[0].name))
        run_s = self._work_s / len(self._specs)
        found = {spec.name: self._slices.find(spec.name) for spec in self._specs}
        missing = [spec for spec in self._specs if found[spec.name] is None]
        if missing:
            facts = self._slices.facts()
            problems = [problem for spec in missing for problem in preflight(spec, facts, run_s)]
            if problems:
                raise InputError(list(dict.fromkeys(problems)))
            for text in dict.fromkeys(text for spec in missing for text in warnings(spec, facts, run_s)):
                self._on_state(text)
            for spec in missing:
                keep(spec)
        stop = threading.Event()
        with ThreadPoolExecutor(len(self._specs)) as pool:
            try:
                held = tuple(pool.map(lambda spec: self._hold(spec, stop), self._specs))
            except BaseException:  # Ctrl-C, too: nobody goes on waiting for the other slices
                stop.set()
                raise
        self._tell_of_token(held, run_s)
        return held

    def _hold(self, spec: SliceSpec, stop: threading.Event) -> Held:
        from fablib_slices.records import keep, keep_inventory

        found = self._account.up(
            spec, on_state=lambda state: self._on_state(f"slice {spec.name}: {state}"), stop=stop
        )
        keep(spec, found)
        inventory = keep_inventory(found, self._account.access)
        span = timedelta(hours=spec.hours)
        return Held(spec, found.id, found.lease_end, self._hosts(inventory), span)

    def _tell_of_token(self, held: tuple[Held, ...], run_s: float) -> None:
        """Say so when the token ends before the leases need their last renewal."""
        over = datetime.now(UTC) + timedelta(seconds=run_s)
        if all(one.lease_end > over for one in held):
            return
        try:
            expires = self._account.token_expires()
        except TestbedError as error:
            self._on_state(f"whether leases can be renewed is not known: {error}")
            return
        if expires is not None and expires < over:
            self._on_state(
                f"the token ends at {expires:%Y-%m-%d %H:%M} UTC, before the run does, and leases must be "
                "renewed after that: put a new one into fablib's token file by then, the run takes it up"
            )

    def _remember(self) -> tuple[Held, ...]:
        """What is known of the slices without asking FABRIC."""
        from fablib_slices.records import folder

        known = [(spec, folder(spec.name) / "inventory.yml") for spec in self._specs]
        unknown = [spec.name for spec, inventory in known if not inventory.is_file()]
        if unknown:
            raise TestbedError(f"slice {unknown[0]} was not reserved yet", "a run reserves it")
        never = datetime.max.replace(tzinfo=UTC)
        return tuple(Held(spec, "", never, self._hosts(path), timedelta()) for spec, path in known)

    def _by_ssh(self, inventory: Path) -> Testbed:
        if self._contact:
            name = inventory.parent.name
            self._on_state(f"slice {name}: its machines are prepared; new ones may take minutes to answer")
        catalog: Catalog = self._matrix.catalog
        return SshTestbed(
            inventory,
            catalog,
            self._matrix.cells,
            capture=self._capture,
            contact=self._contact,
            own=True,
            leave=self._leave,
        )

    @property
    def _account(self) -> Slices:
        """The account's slices; there once anything was reserved."""
        if self._slices is None:
            raise ValueError("nothing was reserved yet")
        return self._slices

    @property
    def _keeper(self) -> LeaseKeeper:
        """Who looks after the slices that are held."""
        if self._keeps is None:
            raise ValueError("nothing was reserved yet")
        return self._keeps

    # ---- a trial
    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial on a slice that is free.

        Raises:
            TrialFailed: a host was lost, or a step on it failed.
            TrialStopped: `stop` was set.
            TestbedError: the slice is gone, its lease cannot be extended, or its hosts do not come back;
                PlaceLost as long as there are others.
        """
        while (held := self._free.get()).lost:
            pass
        try:
            outcome = self._run_on(held, spec, raw, stop)
        except TestbedError as error:
            raise self._given_up({held: error}) from error
        except BaseException:
            self._free.put(held)
            raise
        self._free.put(held)
        return outcome

    def _run_on(self, held: Held, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        if held.doubted:
            self._keeper.raise_if_gone(held)
        virtual_s = (spec.cell.warmup.ns + spec.cell.duration.ns) / 1e9
        self._keeper.keep_lease(held, min(spec.wall_limit_s, virtual_s + BEYOND_S))
        with self._keeper.watched(held, stop) as ends:
            return held.hosts.run(spec, raw, ends)


def _at_once(do: Callable[[Held], Identity], held: Sequence[Held], leave: threading.Event) -> list[Identity]:
    """What this gives for each slice. `leave` is set when one fails, or by Ctrl-C: all are to end then."""
    answers: queue.SimpleQueue[tuple[int, Identity | BaseException]] = queue.SimpleQueue()

    def ask(place: int) -> None:
        try:
            answers.put((place, do(held[place])))
        except BaseException as error:  # noqa: BLE001  (raised again where it is waited for)
            answers.put((place, error))

    threads = [threading.Thread(target=ask, args=(place,), daemon=True) for place in range(len(held))]
    for thread in threads:
        thread.start()
    came: dict[int, Identity] = {}
    try:
        while len(came) < len(held):
            place, answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            came[place] = answer
    except BaseException:
        leave.set()
        for thread in threads:
            thread.join(LEAVE_S)
        raise
    return [came[place] for place in range(len(held))]
