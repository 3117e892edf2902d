# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices of FABRIC as one testbed: made or adopted, kept alive, each a set of hosts for one trial at a time.

A slice is only ever found by its name and adopted when it was made from the same spec, so a controller that
was stopped, or lost its connection, goes on where it was. Leases are renewed between trials once half of them
is over; a slice that FABRIC has removed ends the run, and the next run makes it anew and goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, Problem, TestbedError, TrialFailed
from l4sbench.testbeds.ssh import TRAITS as SSH_TRAITS
from l4sbench.testbeds.ssh import SshTestbed
from l4sbench.topology import topology

if TYPE_CHECKING:
    from fablib_slices import Slices, SliceSpec
    from l4sbench.catalog import Catalog
    from l4sbench.matrix import Matrix
    from l4sbench.testbed import Identity, Needs, Outcome, TestbedTraits
    from l4sbench.trial import TrialSpec

RETRY: Final = timedelta(minutes=10)
"""How long to wait before FABRIC is asked again for what it refused."""


def traits(slices: int) -> TestbedTraits:
    """Facts about a testbed of that many slices: each runs a trial at a time."""
    return replace(SSH_TRAITS, parallel=slices > 1, slots=slices)


@dataclass
class _Held:
    """A slice that is up: its spec, when its lease ends, and its hosts."""

    spec: SliceSpec
    lease_end: datetime
    hosts: SshTestbed
    asked: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))
    refused: str = ""


class FabricTestbed:
    """Runs trials on slices.

    Args:
        name: Name of the slice, with `-1` and so on behind it when there are several; or a YAML file that
            describes it; empty for one that is named after the matrix.
        matrix: What is to run there.
        slices: How many slices share out the trials.
        capture: Keep packets at both ports of the router.
        contact: Reserve and ask; else what hosts told last time counts.
        connect: Gives the account's slices; fablib's configuration by default.
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
        connect: Callable[[], Slices] | None = None,
        on_state: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._specs = specs_of(name or f"l4s-{matrix.name}", matrix, slices)
        self._matrix = matrix
        self._capture = capture
        self._contact = contact
        self._connect = connect
        self._on_state = on_state
        self._slices: Slices | None = None
        self._held: tuple[_Held, ...] = ()
        self._free: queue.SimpleQueue[_Held] = queue.SimpleQueue()
        self._lock = threading.Lock()

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
        with ThreadPoolExecutor(len(self._held)) as pool:
            told: list[Identity] = list(pool.map(lambda held: held.hosts.identity(), self._held))
        for held, identity in zip(self._held[1:], told[1:], strict=True):
            if identity != told[0]:
                raise TestbedError(
                    f"slices {self._held[0].spec.name} and {held.spec.name} run different kernels or tools",
                    f"l4sbench slice down {held.spec.name}, then run again: it is made anew",
                )
        return replace(told[0], testbed=self.name)

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Everything that keeps the slices from running a plan."""
        if not self._held:
            self.identity()
        found = [problem for held in self._held for problem in held.hosts.check(needs)]
        return list(dict.fromkeys(found))

    def _reserve(self) -> tuple[_Held, ...]:
        """Make or adopt all slices; those that are missing are checked before any is made."""
        from fablib_slices import Slices, preflight

        self._slices = self._connect() if self._connect else Slices.connect()
        missing = [spec for spec in self._specs if self._slices.find(spec.name) is None]
        if missing:
            facts = self._slices.facts()
            run_s = estimated_s(self._matrix) / len(self._specs)
            problems = [problem for spec in missing for problem in preflight(spec, facts, run_s)]
            if problems:
                raise InputError(list(dict.fromkeys(problems)))
        with ThreadPoolExecutor(len(self._specs)) as pool:
            return tuple(pool.map(self._hold, self._specs))

    def _hold(self, spec: SliceSpec) -> _Held:
        from fablib_slices.records import keep, keep_inventory

        assert self._slices is not None  # noqa: S101  (set by _reserve, for the type checker)
        found = self._slices.up(spec, on_state=lambda state: self._on_state(f"slice {spec.name}: {state}"))
        keep(spec, found)
        inventory = keep_inventory(found, self._slices.access)
        return _Held(spec, found.lease_end, self._hosts(inventory))

    def _remember(self) -> tuple[_Held, ...]:
        """What is known of the slices without asking FABRIC."""
        from fablib_slices.records import folder

        known = [(spec, folder(spec.name) / "inventory.yml") for spec in self._specs]
        unknown = [spec.name for spec, inventory in known if not inventory.is_file()]
        if unknown:
            raise TestbedError(f"slice {unknown[0]} was not reserved yet", "a run reserves it")
        never = datetime.max.replace(tzinfo=UTC)
        return tuple(_Held(spec, never, self._hosts(inventory)) for spec, inventory in known)

    def _hosts(self, inventory: Path) -> SshTestbed:
        catalog: Catalog = self._matrix.catalog
        return SshTestbed(
            inventory, catalog, self._matrix.cells, capture=self._capture, contact=self._contact
        )

    # ---- a trial
    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial on a slice that is free.

        Raises:
            TrialFailed: a host was lost, or a step on it failed.
            TrialStopped: `stop` was set.
            TestbedError: the slice is gone, its lease cannot be extended, or its hosts do not come back.
        """
        held = self._free.get()
        try:
            self._keep_lease(held, spec.wall_limit_s)
            return held.hosts.run(spec, raw, stop)
        except (TrialFailed, TestbedError) as error:
            if not stop.is_set():
                self._raise_if_gone(held, error)
            raise
        finally:
            self._free.put(held)

    def _keep_lease(self, held: _Held, needed_s: float) -> None:
        """Renew once half of the lease is over, exactly, and read back what came of it."""
        now = datetime.now(UTC)
        left = held.lease_end - now
        if left > timedelta(hours=held.spec.hours) / 2 or now - held.asked < RETRY:
            self._need_lease(held, left, needed_s)
            return
        held.asked, held.refused = now, ""
        assert self._slices is not None  # noqa: S101  (a run reserves first, for the type checker)
        try:
            with self._lock:
                renewal = self._slices.renew(held.spec.name, held.spec.hours)
            held.lease_end = renewal.lease_end
            self._on_state(f"slice {held.spec.name}: lease ends {held.lease_end:%Y-%m-%d %H:%M} UTC")
        except TestbedError as error:
            held.refused = str(error)
            self._on_state(f"slice {held.spec.name}: not renewed: {error}")
        self._need_lease(held, held.lease_end - now, needed_s)

    def _need_lease(self, held: _Held, left: timedelta, needed_s: float) -> None:
        if left < timedelta(seconds=needed_s):
            why = f" and is not renewed: {held.refused}" if held.refused else ""
            raise TestbedError(
                f"the lease of slice {held.spec.name} ends at {held.lease_end:%Y-%m-%d %H:%M} UTC{why}",
                f"l4sbench slice renew {held.spec.name}; the same run then goes on",
            )

    def _raise_if_gone(self, held: _Held, error: Exception) -> None:
        """A lost host may mean a lost slice; only FABRIC knows."""
        assert self._slices is not None  # noqa: S101  (a run reserves first, for the type checker)
        try:
            with self._lock:
                found = self._slices.find(held.spec.name)
        except TestbedError:
            return
        if found is None:
            raise TestbedError(
                f"slice {held.spec.name} is gone: FABRIC removed it ({error})",
                "run again: it is made anew, and finished trials stay",
            ) from error


def specs_of(name: str, matrix: Matrix, slices: int) -> tuple[SliceSpec, ...]:
    """The slices that a run needs: as a file describes them, as they were made before, or by default.

    Raises:
        InputError: the file is wrong, or the matrix's cells need several topologies.
    """
    from fablib_slices import load_slice_file, slice_file, spec_of
    from fablib_slices.records import kept_spec

    shapes = sorted({cell.topology for cell in matrix.cells})
    if len(shapes) > 1:
        raise InputError(
            f"a slice is made for one topology, and this matrix has {', '.join(shapes)}",
            f"run them one after another: topology={shapes[0]}",
        )
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        wishes = load_slice_file(path)
        one = spec_of(topology(wishes.topology), wishes)
    else:
        wishes = slice_file(name, topology=shapes[0])
        one = kept_spec(name) or spec_of(topology(wishes.topology), wishes)
    if one.topology != shapes[0]:
        raise InputError(f"slice {one.name} is made for {one.topology}, and this matrix has {shapes[0]}")
    if slices == 1:
        return (one,)
    return tuple(replace(one, name=f"{one.name}-{number}") for number in range(1, slices + 1))


def estimated_s(matrix: Matrix) -> float:
    """Wall seconds of all trials of a matrix one after another, before any was measured."""
    cost = SSH_TRAITS.cost
    return sum(
        matrix.trials.max * cost.wall_s((cell.duration.ns + cell.warmup.ns) / 1e9, cell.rate.mbps)
        for cell in matrix.cells
    )
