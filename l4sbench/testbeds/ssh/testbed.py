# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed: the hosts of an Ansible inventory, prepared once, then one task per host and trial."""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import Problem, TestbedError, TrialFailed
from l4sbench.facts.traits import CostModel, Identity, Needs, Stage, Stages, TestbedTraits
from l4sbench.program.timing import tools
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.brought import brought
from l4sbench.testbeds.ssh.declared import Declared, declared
from l4sbench.testbeds.ssh.kernels import running
from l4sbench.testbeds.ssh.lean import compiled
from l4sbench.testbeds.ssh.memory import Memory
from l4sbench.testbeds.ssh.path import measure, require_path
from l4sbench.testbeds.ssh.readiness import PREPARE_LIMIT_S, HostsState, Readiness, facts_of, patiently
from l4sbench.testbeds.ssh.results import HostReport, skew_ms, unpack, write_start
from l4sbench.testbeds.ssh.switching import require_clock
from l4sbench.testbeds.ssh.trialvars import keeper_of, trial_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.program.trial import TrialSpec
    from l4sbench.text.units import Duration

TRAITS: Final = TestbedTraits(
    default_traffic="iperf3",
    wires=False,
    parallel=False,
    cost=CostModel(fixed_s=12.0, per_virtual_s=1.0),
)

MEET_S: Final = 60.0
"""Limit of a trial on a host beyond its flows' time."""
REACH_S: Final = 120.0
"""Limit of a look at hosts that may hang."""
_STOP_LIMIT_S: Final = 15.0
_STARTS: Final = 3
"""Limit for the starts of one trial, when a node misses them."""
_LOST: Final = frozenset({"lost", "unknown"})
"""States of a trial that a host neither runs nor ended."""


class _StartMissedError(TrialFailed):
    """A node received the start instant after it had passed."""


class SshTestbed:
    """Hosts by ssh, which run one trial at a time.

    Args:
        inventory: Ansible inventory; docs/ssh.md describes the variables that its hosts must have.
        catalog: The queues and congestion controls that cells may name.
        cells: What is to run there.
        contact: Query the hosts; otherwise what they reported last time counts.
        own: The hosts were made for the run: they may boot what cells need unless the inventory names a
            kernel, and take some minutes until they can be reached.
        cache: Folder for what hosts reported; by default in the user's cache.
        leave: Set by a caller that no longer waits for `identity`, to stop preparing.
        restart: Restarts hosts from outside; without it, those that hang in a new kernel are left alone.
    """

    def __init__(
        self,
        inventory: Path,
        catalog: Catalog,
        cells: Sequence[Cell],
        *,
        contact: bool = True,
        own: bool = False,
        cache: Path | None = None,
        leave: threading.Event | None = None,
        restart: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        self._declare = partial(declared, inventory, catalog, cells, own=own)
        self._own = own
        self._restart = restart
        self._contact = contact
        self._leave = leave or threading.Event()
        self._memory = Memory(inventory, cache)
        self._hosts = Readiness()
        self._stage: Stage | None = None

    @property
    def name(self) -> str:
        """Return `ssh`."""
        return "ssh"

    @property
    def traits(self) -> TestbedTraits:
        """Return its traits: real time, one trial at a time, noise of its own; its switches and slowdown.

        Raises:
            InputError: the inventory is invalid.
        """
        said = self._declared
        return replace(TRAITS, switches=said.switching.addresses, slowdown=said.slowdown)

    @cached_property
    def _declared(self) -> Declared:
        """The inventory as it was read; replaced once the hosts' facts add to it."""
        return self._declare()

    def _learn(self) -> None:
        self._declared = self._declared.knowing(self._memory.known.facts)

    # ---- before anything runs
    def identity(self) -> Identity:
        """Return what the hosts run. The first call installs missing tools and modules.

        Raises:
            InputError: the inventory is invalid.
            TestbedError: hosts cannot be reached or prepared; the message names all of them.
        """
        said = self._declared
        if self._hosts.state is HostsState.UNASKED:
            if self._contact:
                self._ask(said)
            else:
                self._memory.load(said.names, said.switching.names)
            self._learn()
            self._hosts.transition(HostsState.READY)
        return self._declared.identity(self._memory.known)

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return every problem that prevents the hosts from running the cells.

        For hosts that may boot other kernels, only problems that no kernel solves; `enter` checks the rest.
        """
        if self._hosts.state is HostsState.UNASKED:
            self.identity()
        return self._declared.problems(needs, self._memory.known)

    # ---- kernels
    def stages(self) -> Stages | None:
        """Return which kernels the hosts boot for which cells; None when no host may boot another one.

        Queries no host, but uses remembered facts.

        Raises:
            InputError: the inventory or a file of kernels/images is invalid.
            TestbedError: Ansible is not installed.
        """
        self._memory.recall()
        self._learn()
        return self._declared.stages(self._memory.known)

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Make every host run the kernel that a stage names, with our modules for it.

        Hosts that do not run it yet install it if it is missing, restart, and must come back with it.

        Raises:
            TrialFailed: a host did not get its kernel, or cannot run the cells with it.
            TrialStopped: `stop` was set. Hosts finish a restart, and the next run waits for them.
            TestbedError: hosts that were lost earlier do not come back.
        """
        began = time.monotonic()
        restarts = {**stage.state} != running(self._declared.may, self._memory.known.facts)
        self._stage = stage
        self._memory.save(replace(self._memory.known, changing=True))
        played = self._hosts.changed(self._prepare, stop, patient=self._own)
        if played.wrong:
            names = ", ".join(sorted({stage.state[name] for name in played.wrong if name in stage.state}))
            with_kernels = f" with {names}" if names else ""
            helped = "" if stop.is_set() else self._restart_silent(played.wrong)
            raise TrialFailed(f"hosts are not ready{with_kernels}: {ansible.listed(played.wrong)}{helped}")
        known = self._memory.known.with_stage(stage.state, facts_of(played))
        took_s = round(time.monotonic() - began, 1) if restarts else known.change_s
        self._memory.save(replace(known, changing=False, change_s=took_s))
        if problems := self._declared.problems_of(stage, known.facts):
            raise TrialFailed("; ".join(map(str, problems)))
        return self._declared.identity(self._memory.known)

    def _restart_silent(self, names: Collection[str]) -> str:
        """Have the hosts that do not answer restarted from outside, and return what was done, in words.

        The kernel that was to be booted once is not booted again, so they come back as they were before.
        """
        if self._restart is None:
            return ""
        inventory, asked = self._declared.inventory, sorted(names)
        silent = sorted(ansible.play("reach.yml", inventory, asked, {}, limit_s=REACH_S).wrong)
        if not silent:
            return ""
        try:
            self._restart(silent)
        except TestbedError as error:
            return f"; {', '.join(silent)} cannot be restarted: {error.message}"
        return f"; restarted {', '.join(silent)} from outside"

    def advice(self) -> tuple[str, ...]:
        """Return hints about rates and kernels.

        Which cells are faster than the hosts carry in time. For hosts that need another kernel and may boot
        none: which would suffice; for others: which of those that they may boot they cannot install.
        """
        self._memory.recall()
        return self._declared.advice(self._memory.known.facts)

    def installs(self) -> tuple[str, ...]:
        """Return what preparing the hosts installs, in words; uses remembered facts.

        Raises:
            InputError: the inventory is invalid.
        """
        self._memory.recall()
        self._learn()
        return self._declared.installs(self._memory.known.facts)

    # ---- the path
    def require_path(self) -> None:
        """Raise InputError if the hosts have no path whose round-trip time can be measured; contacts none."""
        require_path(self._declared)

    def measure_path(self) -> Duration:
        """Return the round-trip time that the path has by itself, and release the hosts for another run.

        Raises:
            InputError: the inventory is invalid, or its hosts have no path of their own.
            TestbedError: a host cannot be reached or prepared, or a receiver does not answer.
        """
        self.require_path()
        try:
            self.identity()
            return measure(self._declared, self._memory.owner())
        finally:
            self.release()

    def release(self) -> None:
        """Let other runs use the hosts."""
        self._memory.unlock()

    # ---- asking
    def _ask(self, said: Declared) -> None:
        self._memory.lock()
        self._memory.recall()
        # an interrupted run may have left restarting hosts; new machines may not listen yet
        patient = self._memory.known.changing or self._own
        played = self._hosts.prepared(self._prepare, self._leave, patient=patient)
        if played.wrong:
            raise TestbedError(ansible.listed(played.wrong, "\n"), _look_closer(played, said.inventory))
        self._memory.save(replace(self._memory.known, facts=facts_of(played), changing=False))
        if said.switching:
            self._load_switches(said)

    def _load_switches(self, said: Declared) -> None:
        """Build and load the program of switches, with the settings of the first cell.

        Raises:
            TestbedError: a switch cannot be reached, or a step on it failed.
        """
        load = partial(said.switching.load, said.cells[0], limit_s=PREPARE_LIMIT_S, stop=self._leave.is_set)
        # one that fails is not waited for, even if others are away
        played = patiently(
            load, lambda p: bool(p.wrong) and p.away == p.wrong, self._leave, patient=self._own
        )
        if played.wrong:
            raise TestbedError(ansible.listed(played.wrong, "\n"), "l4sbench docs fabric a-tofino-switch")
        self._memory.save(replace(self._memory.known, switches=said.switching.facts(played)))

    def _prepare(self, limit_s: float, stop: Callable[[], bool], **more: object) -> ansible.Played:
        """Prepare all hosts for the stage that was entered last."""
        said = self._declared
        lean = any("lean" in tools(cell, TRAITS.default_traffic) for cell in said.cells)
        variables = {
            **said.preparing(self._stage),
            **({"l4sbench_lean": str(compiled(self._memory.path.parent))} if lean else {}),
            **brought(said.booted(self._stage)),
            **more,
        }
        limit_s *= said.slowdown
        return ansible.play("prepare.yml", said.inventory, said.names, variables, limit_s=limit_s, stop=stop)

    # ---- a trial
    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial on the hosts and write their nodes' raw files to `raw`.

        A node of a busy host may miss the start; the trial then begins anew, as nothing of it can count.

        Raises:
            TrialFailed: a host was lost, or a step on it failed, or a node missed the start three times.
            TrialStopped: `stop` was set.
            TestbedError: hosts do not come back, or came back with another kernel.
        """
        began = time.monotonic()
        tried = 0
        while True:
            try:
                return self._run_once(spec, raw, stop)
            except _StartMissedError:
                tried += 1
                spent_s = time.monotonic() - began
                if tried == _STARTS or spent_s + spent_s / tried > spec.wall_limit_s:
                    raise
            for found in raw.iterdir():
                shutil.rmtree(found) if found.is_dir() else found.unlink()

    def _run_once(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        began = time.monotonic()
        said = self._declared
        if self._hosts.state is HostsState.LOST:
            ends_s, before = began + spec.wall_limit_s, self._memory.known.facts
            self._hosts.returned(self._prepare, stop, ends_s, before)
        virtual_s = max(
            (flow.start.s + flow.seconds for program in spec.programs.values() for flow in program.flows),
            default=0.0,
        )
        limit_s = min((virtual_s + MEET_S) * said.slowdown, max(10.0, spec.wall_limit_s - 10))
        if said.switching:
            self._begin_switches(spec, limit_s, stop)
        trial = f"{re.sub('[^A-Za-z0-9_.-]', '-', spec.cell.id)[:100]}.{spec.trial}.{secrets.token_hex(4)}"
        with tempfile.TemporaryDirectory(prefix="l4sbench-results-") as folder:
            results = Path(folder)
            given = {**self._variables(spec, trial, limit_s), "l4sbench_results": str(results)}
            began_s = time.time()
            played = ansible.play(
                "trial.yml", said.inventory, said.names, given, limit_s=spec.wall_limit_s, stop=stop.is_set
            )
            if stop.is_set():
                self._stop(trial)
                raise TrialStopped
            reports, unusable = self._unpacked(results, raw)
            self._raise_failure(played)
            if unusable:
                raise unusable[0]
            keeper = keeper_of(spec.topology, said.switching.addresses)
            start_ns = write_start(raw, reports, keeper, spec.topology.capture)
            if said.switching and start_ns is not None:
                require_clock(f"{keeper}: its clock", start_ns / 1e9, began_s, time.time())
                said.switching.collect(start_ns, virtual_s, raw, results, stop.is_set)
                if stop.is_set():
                    raise TrialStopped
        wall_s = time.monotonic() - began
        return Outcome(
            wall_s=wall_s,
            cpu_s=0.0,
            virtual_s=spec.cell.length.s,
            skew_ms=skew_ms(reports),
            fixed_s=max(0.0, wall_s - virtual_s),
        )

    def _begin_switches(self, spec: TrialSpec, limit_s: float, stop: threading.Event) -> None:
        """Prepare switches for a trial, and before the first one also bring up interfaces of hosts.

        A port of a switch stays down as long as the interface at its other end is, and interfaces for
        experiments are down until a trial needs them.

        Raises:
            TrialFailed: a step failed.
            TrialStopped: `stop` was set.
        """
        if self._hosts.state is not HostsState.LINKED:
            given = self._variables(spec, "links", limit_s)
            played = self._prepare(PREPARE_LIMIT_S, stop.is_set, **given)
            if stop.is_set():
                raise TrialStopped
            self._raise_failure(played)
            self._hosts.transition(HostsState.LINKED)
        self._declared.switching.begin(spec.cell, stop.is_set)
        if stop.is_set():
            raise TrialStopped

    def _variables(self, spec: TrialSpec, trial: str, limit_s: float) -> dict[str, object]:
        switches = self._declared.switching.addresses
        return trial_variables(spec.programs, spec.topology, trial, self._memory.owner(), limit_s, switches)

    def _unpacked(self, results: Path, raw: Path) -> tuple[dict[str, HostReport], list[TrialFailed]]:
        """Return what every host reported, and why results of hosts cannot be used."""
        reports: dict[str, HostReport] = {}
        unusable: list[TrialFailed] = []
        for host in self._declared.hosts:
            try:
                reports[host.name] = unpack(results / f"{host.name}.tar.gz", host.name, host.nodes, raw)
            except TrialFailed as error:
                unusable.append(error)
        return reports, unusable

    def _stop(self, trial: str) -> None:
        """End detached processes; an unreachable host ends them by its own limit."""
        said = self._declared
        variables = {"l4sbench_trial": trial, "l4sbench_stop": True}
        with contextlib.suppress(TestbedError):
            ansible.play("fetch.yml", said.inventory, said.names, variables, limit_s=_STOP_LIMIT_S)

    def _raise_failure(self, played: ansible.Played) -> None:
        wrong = played.wrong
        if not wrong:
            return
        silent = {"unreachable", "unfinished"}
        lost = {h for h, t in wrong.items() if t.status in silent or t.answer.get("state") in _LOST}
        if lost:
            self._hosts.transition(HostsState.LOST)
        elif self._hosts.state is HostsState.LINKED:
            self._hosts.transition(HostsState.READY)  # a host may have been restarted
        first = min(wrong, key=lambda h: (h not in lost, *_rank(wrong[h].answer), h))
        reason = wrong[first].reason(f"Ansible's status is {played.status}")
        failure = _StartMissedError if not lost and wrong[first].answer.get("missed") is True else TrialFailed
        raise failure(f"{first}: {reason}")


def _rank(answer: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return the order of a host's failure among those of a trial: causes come before their consequences."""
    return answer.get("missed") is not True, answer.get("secondary") is True


def _look_closer(played: ansible.Played, inventory: Path) -> str:
    if played.away:
        command = ["ansible", "-i", str(inventory), ",".join(played.away), "-m", "ping", "-vvv"]
        return f"for details: {shlex.join(command)}"
    return "l4sbench docs ssh by-hand: playbooks/prepare.yml in the folder of `plan --export` prints details"
