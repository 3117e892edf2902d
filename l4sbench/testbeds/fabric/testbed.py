# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices of FABRIC as one testbed: made or adopted, kept alive, each a set of hosts for one trial at a time.

A slice is found by its name and adopted when it was made from the same spec, so a controller that was
stopped, or lost its connection, resumes. Leases are renewed between trials once half of them is over. A lost
slice leaves its trials to the others; losing the last one ends the run, and the next run makes new ones.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import InputError, L4sbenchError, PlaceLost, Problem, TestbedError, TrialFailed
from l4sbench.testbeds.fabric.keeping import Held, LeaseKeeper
from l4sbench.testbeds.fabric.kernels import planned_installs
from l4sbench.testbeds.fabric.specs import addresses_of, specs_of
from l4sbench.testbeds.ssh import TRAITS as SSH_TRAITS
from l4sbench.testbeds.ssh import SshTestbed
from l4sbench.testbeds.staged import Measuring, Staged

if TYPE_CHECKING:
    from fablib_slices import Slices, SliceSpec
    from l4sbench.catalog import Catalog
    from l4sbench.engine.testbed import Outcome, Testbed
    from l4sbench.facts.traits import Identity, Needs, Stage, Stages, TestbedTraits
    from l4sbench.matrix import Matrix
    from l4sbench.program.trial import TrialSpec
    from l4sbench.text.units import Duration

CHANGE_LIMIT_S: Final = 3600.0
"""Remaining lease that a change of kernels needs, which may install them first."""

LEAVE_S: Final = 10.0
"""Limit for hosts to stop preparing once nothing waits for them."""

BEYOND_S: Final = 180.0
"""Limit of a trial beyond its flows' time on hosts that must be reconnected."""


def traits(slices: int) -> TestbedTraits:
    """Return the traits of a testbed of this many slices: each runs one trial at a time."""
    return replace(SSH_TRAITS, parallel=slices > 1, slots=slices)


class FabricTestbed:
    """Slices of FABRIC as one testbed.

    Args:
        name: Name of the slice, with `-1` and so on appended for several; or a YAML file that describes it;
            empty for a slice named after the matrix.
        matrix: What is to run there.
        slices: How many slices share out the trials.
        contact: Reserve and query; otherwise use remembered facts.
        work_s: Wall seconds that the remaining trials take on one slice, for leases and tokens.
        connect: Returns the account's slices; by default from fablib's configuration.
        hosts: Returns the testbed for a slice's inventory; hosts by ssh by default.
        on_state: Called with a line of text about changes of state.
    """

    def __init__(
        self,
        name: str,
        matrix: Matrix,
        *,
        slices: int = 1,
        contact: bool = True,
        work_s: float = 0.0,
        connect: Callable[[], Slices] | None = None,
        hosts: Callable[[Path], Testbed] | None = None,
        on_state: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._specs = specs_of(name or f"l4s-{matrix.name}", matrix, slices)
        self._matrix = matrix
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
        """Return `fabric`."""
        return "fabric"

    @property
    def traits(self) -> TestbedTraits:
        """Return its traits: real time, as many trials at once as there are slices; and its switches."""
        return replace(traits(len(self._specs)), switches=addresses_of(self._specs[0]))

    # ---- before anything runs
    def identity(self) -> Identity:
        """Return what the slices' hosts run. The first call reserves and prepares missing slices.

        Raises:
            InputError: the slice cannot be made as described.
            TestbedError: FABRIC refuses, a host cannot be prepared, or the slices differ.
        """
        if not self._held:
            self._held = self._reserve() if self._contact else self._remember()
            for held in self._held:
                self._free.put(held)
        identities = _at_once(lambda held: held.hosts.identity(), self._held, self._leave)
        if not any(self._stages_of(held) for held in self._held):
            self._raise_if_different(self._held, identities)
        return replace(identities[0], testbed=self.name)

    def _raise_if_different(self, held: Sequence[Held], identities: Sequence[Identity]) -> None:
        for other, identity in zip(held[1:], identities[1:], strict=True):
            if identity != identities[0]:
                raise TestbedError(
                    f"slices {held[0].spec.name} and {other.spec.name} run different kernels or tools",
                    f"l4sbench slice down {other.spec.name}, then run again: a new one is made",
                )

    # ---- kernels
    def stages(self) -> Stages | None:
        """Return which kernels the machines boot for which cells; None when the present ones suffice."""
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
        """Return nothing: machines of a slice may boot whatever their cells need."""
        return ()

    def installs(self) -> tuple[str, ...]:
        """Return what a run would install on the machines of the first slice, in words.

        Before there are machines, what their images tell counts.
        """
        try:
            held = self._held or self._remember()
            held[0].hosts.identity()
        except TestbedError:  # there are no machines yet, or they were not asked
            return planned_installs(self._specs[0], self._matrix.cells, self._matrix.catalog)
        hosts = held[0].hosts
        return hosts.installs() if isinstance(hosts, Staged) else ()

    def measure_path(self) -> Duration:
        """Return the round-trip time that the slice's path has by itself.

        Raises:
            InputError: there are several slices, or the slice has no path of its own.
            TestbedError: FABRIC refuses, or a machine cannot be prepared or does not answer.
        """
        self.require_path()
        self.identity()
        hosts = self._held[0].hosts
        if not isinstance(hosts, Measuring):
            raise InputError("these hosts have no path of their own", "write the rtt as a duration")
        return hosts.measure_path()

    def require_path(self) -> None:
        """Raise InputError if there are several slices, each with a path of its own."""
        if len(self._specs) > 1:
            hint = "use one slice, or write the rtt as a duration"
            raise InputError("each slice has a path of its own", hint)

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Make the machines of all slices run the kernels that a stage names, see `SshTestbed.enter`.

        A slice that is lost meanwhile, or that alone does not get its kernels, is dropped for the run. When
        no slice got them, the kernels are at fault and the slices stay.

        Raises:
            TrialFailed: no slice got its kernels, or none can run the cells with them.
            TrialStopped: `stop` was set.
            PlaceLost: slices were dropped; to be called again for the remaining ones.
            TestbedError: no slice remains, or the remaining ones differ.
        """
        left = [held for held in self._held if not held.lost]
        with ThreadPoolExecutor(len(left)) as pool:
            came = list(pool.map(lambda held: self._enter_on(held, stage, stop), left))
        if stop.is_set():
            raise TrialStopped
        identities = [one for one in came if not isinstance(one, TrialFailed | TestbedError)]
        failed = {held: one for held, one in zip(left, came, strict=True) if isinstance(one, TrialFailed)}
        lost = {held: one for held, one in zip(left, came, strict=True) if isinstance(one, TestbedError)}
        if lost or (identities and failed):
            error = self._given_up({**lost, **(failed if identities else {})})
            if isinstance(error, PlaceLost):
                self._on_state(f"{error.message}; the run continues without it")
            raise error
        if failed:
            raise TrialFailed("; ".join(dict.fromkeys(self._about(*one) for one in failed.items())))
        self._raise_if_different(left, identities)
        return replace(identities[0], testbed=self.name)

    def release(self) -> None:
        """Let other runs use the machines; the slices stay."""
        for held in self._held:
            if isinstance(held.hosts, Staged):
                held.hosts.release()

    def _enter_on(
        self, held: Held, stage: Stage, stop: threading.Event
    ) -> Identity | TrialFailed | TestbedError:
        """Return what one slice's machines run afterwards, or why they do not."""
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
        """Drop these slices for the run, and return the error to raise."""
        with self._lock:
            for held in lost:
                held.lost = True
            left = sum(not held.lost for held in self._held)
        message = "; ".join(dict.fromkeys(self._about(*one) for one in lost.items()))
        hint = next((error.hint for error in lost.values() if error.hint), None)
        return PlaceLost(message, hint, left=left) if left else TestbedError(message, hint)

    def _about(self, held: Held, error: L4sbenchError) -> str:
        """Return an error's message, which names the slice if there are several."""
        known = len(self._held) == 1 or held.name in error.message
        return error.message if known else f"slice {held.name}: {error.message}"

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return every problem that prevents the slices from running the cells."""
        if not self._held:
            self.identity()
        found = [problem for held in self._held for problem in held.hosts.check(needs)]
        return list(dict.fromkeys(found))

    def _reserve(self) -> tuple[Held, ...]:
        """Make or adopt all slices, after checking all missing ones."""
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
            except BaseException:  # on Ctrl-C, too: nothing waits for the other slices any more
                stop.set()
                raise
        for one in held:  # a slice that was there may end while its machines are prepared
            self._keeper.keep_lease(one, 0.0)
        self._tell_of_token(held, run_s)
        return held

    def _hold(self, spec: SliceSpec, stop: threading.Event) -> Held:
        from fablib_slices.records import keep, keep_inventory

        found = self._account.up(
            spec, on_state=lambda state: self._on_state(f"slice {spec.name}: {state}"), stop=stop
        )
        if spec.pin:
            for name, done in self._account.actions.pin(found):
                self._on_state(f"slice {spec.name}: {name}: {done}")
        keep(spec, found)
        inventory = keep_inventory(found, self._account.access, spec)
        span = timedelta(hours=spec.hours)
        return Held(spec, found.id, found.lease_end, self._hosts(inventory), span)

    def _tell_of_token(self, held: tuple[Held, ...], run_s: float) -> None:
        """Warn when the token ends before the leases' last renewal."""
        over = datetime.now(UTC) + timedelta(seconds=run_s)
        if all(one.lease_end > over for one in held):
            return
        try:
            expires = self._account.token_expires()
        except TestbedError as error:
            self._on_state(f"cannot check whether leases can be renewed: {error}")
            return
        if expires is not None and expires < over:
            self._on_state(
                f"the token ends at {expires:%Y-%m-%d %H:%M} UTC, before the run does, and leases must be "
                "renewed after that: put a new one into fablib's token file by then, the run takes it up"
            )

    def _remember(self) -> tuple[Held, ...]:
        """Return the remembered slices, without querying FABRIC."""
        from fablib_slices.records import folder

        known = [(spec, folder(spec.name) / "inventory.yml") for spec in self._specs]
        unknown = [spec.name for spec, inventory in known if not inventory.is_file()]
        if unknown:
            raise TestbedError(f"slice {unknown[0]} is not reserved yet", "a run reserves it")
        never = datetime.max.replace(tzinfo=UTC)
        return tuple(Held(spec, "", never, self._hosts(path), timedelta()) for spec, path in known)

    def _by_ssh(self, inventory: Path) -> Testbed:
        if self._contact:
            name = inventory.parent.name
            self._on_state(f"slice {name}: preparing its machines; new ones may take minutes to answer")
        catalog: Catalog = self._matrix.catalog
        return SshTestbed(
            inventory,
            catalog,
            self._matrix.cells,
            contact=self._contact,
            own=True,
            leave=self._leave,
            restart=partial(self._restart, inventory.parent.name),
        )

    def _restart(self, slice_name: str, names: Collection[str]) -> None:
        """Restart machines of a slice that do not answer although the bastion does.

        Raises:
            TestbedError: the bastion is away, FABRIC refuses, or the slice is gone.
        """
        from fablib_slices.records import bastion_hosts

        self._account.access.check(bastion_hosts(slice_name))
        found = self._account.find(slice_name)
        if found is None:
            raise TestbedError(f"slice {slice_name} is gone")
        self._account.actions.restart(found, names)

    @property
    def _account(self) -> Slices:
        """The account's slices; available after `identity`."""
        if self._slices is None:
            raise ValueError("nothing is reserved yet")
        return self._slices

    @property
    def _keeper(self) -> LeaseKeeper:
        """The keeper of the slices; available after `identity`."""
        if self._keeps is None:
            raise ValueError("nothing is reserved yet")
        return self._keeps

    # ---- a trial
    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial on a free slice.

        Raises:
            TrialFailed: a host was lost, or a step on it failed.
            TrialStopped: `stop` was set.
            TestbedError: the slice is gone, its lease cannot be extended, or its hosts do not come back;
                PlaceLost while other slices remain.
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
        virtual_s = spec.cell.length.s
        self._keeper.keep_lease(held, min(spec.wall_limit_s, virtual_s + BEYOND_S))
        with self._keeper.watched(held, stop) as ends:
            return held.hosts.run(spec, raw, ends)


def _at_once(do: Callable[[Held], Identity], held: Sequence[Held], leave: threading.Event) -> list[Identity]:
    """Return the results for all slices. A failure or Ctrl-C sets `leave`, which ends the others."""
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
