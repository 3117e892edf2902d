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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from l4sbench.disk import assets
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import InputError, Problem, TestbedError, TrialFailed
from l4sbench.facts.traits import CostModel, Identity, Needs, Stage, Stages, TestbedTraits
from l4sbench.program.timing import tools
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.facts import (
    HostFacts,
    NodeNeeds,
    asked_of,
    identity,
    node_needs,
    read_facts,
    unfit,
)
from l4sbench.testbeds.ssh.images import Image, load_images
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.kernels import (
    Allowed,
    Choice,
    advice,
    allowed,
    choose,
    module_sources,
    not_installable,
    own_kernels,
    running,
    together,
    unfit_kernels,
)
from l4sbench.testbeds.ssh.layout import (
    Host,
    executable_variables,
    keeper_of,
    require_placed,
    too_fast,
    trial_variables,
)
from l4sbench.testbeds.ssh.lean import compiled, source_digest
from l4sbench.testbeds.ssh.memory import CHANGE_S, Known, Memory
from l4sbench.testbeds.ssh.results import HostReport, skew_ms, unpack, write_start
from l4sbench.testbeds.ssh.switches import placed_of
from l4sbench.testbeds.ssh.switching import Switching, require_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.program.trial import TrialSpec
    from l4sbench.topology import Topology

TRAITS: Final = TestbedTraits(
    default_traffic="iperf3",
    wires=False,
    parallel=False,
    cost=CostModel(fixed_s=12.0, per_virtual_s=1.0),
)

PREPARE_LIMIT_S: Final = 3600.0
"""Limit for preparing hosts, which may install and boot a kernel."""
RETURN_LIMIT_S: Final = 600.0
"""Limit for a lost host to come back before the run ends."""
MEET_S: Final = 60.0
"""Limit of a trial on a host beyond its flows' time."""
_INSTALLED: Final = frozenset({"flent", "iperf", "irtt", "ping"})
"""Programs that some cells need beside the usual ones, and that hosts install."""
_STOP_LIMIT_S: Final = 15.0
_RETRY_S: Final = 10.0
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
        own: The hosts were made for the run: they may boot what cells need without `l4sbench_kernels`, and
            take some minutes until they can be reached.
        cache: Folder for what hosts reported; by default in the user's cache.
        leave: Set by a caller that no longer waits for `identity`, to stop preparing.
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
    ) -> None:
        self._inventory = inventory
        self._catalog = catalog
        self._cells = cells
        self._stage_cells = cells
        self._contact = contact
        self._own = own
        self._leave = leave or threading.Event()
        self._memory = Memory(inventory, cache)
        self._known = Known()
        self._hosts: tuple[Host, ...] = ()
        self._switching = Switching(inventory, {}, (), catalog)
        self._linked = False
        self._may: Allowed | None = None
        self._boots: Mapping[str, Image] = {}
        self._facts: Mapping[str, HostFacts] = {}
        self._locked = contextlib.ExitStack()
        self._shaken_s: float | None = None

    @property
    def name(self) -> str:
        """Return `ssh`."""
        return "ssh"

    @property
    def traits(self) -> TestbedTraits:
        """Return its traits: real time, one trial at a time, noise of its own; and its switches.

        Raises:
            InputError: the inventory is invalid.
        """
        self._inventory_says()
        return replace(TRAITS, switches=self._switching.addresses)

    # ---- before anything runs
    def identity(self) -> Identity:
        """Return what the hosts run. The first call installs missing tools and modules.

        Raises:
            InputError: the inventory is invalid.
            TestbedError: hosts cannot be reached or prepared; the message names all of them.
        """
        self._inventory_says()
        if not self._facts:
            if self._contact:
                self._ask()
            else:
                self._known = self._memory.load((host.name for host in self._hosts), self._switching.names)
                self._facts = self._known.facts
        return self._identity(self._hosts, self._facts)

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Return every problem that prevents the hosts from running the cells.

        For hosts that may boot other kernels, only problems that no kernel solves; `enter` checks the rest.
        """
        if not self._facts:
            self.identity()
        _, may = self._inventory_says()
        wanted = node_needs(self._cells, self._catalog)
        for host in self._hosts:
            if host.name in may:
                wanted |= {
                    node: NodeNeeds(traffic=wanted[node].traffic, tools=wanted[node].tools)
                    for node in host.nodes
                    if node in wanted
                }
        found = [*choose(self._cells, self._catalog, self._hosts, may)[1], *unfit_kernels(may, self._facts)]
        for name in sorted(needs.topologies):
            found += self._unfit(self._catalog.topology(name), wanted, needs)
        found += self._other_machines(needs)
        found += self._switching.unable(needs, self._known.switches)
        found += [
            Problem(
                "",
                name,
                "only the virtual testbed can do this",
                "leave it out, or use --on virtual",
            )
            for name in sorted(needs.wires)
        ]
        return list(dict.fromkeys(found))

    def _other_machines(self, needs: Needs) -> Iterator[Problem]:
        """Yield a problem for each program of the user's own that is not for a host's type of machine."""
        for own in (self._catalog.executable(name) for name in sorted(needs.executables)):
            for host in self._hosts:
                there = self._facts[host.name].machine
                if there not in {own.machine, ""}:
                    message = f"{own.name} is a program for {own.machine}, and the host is {there}"
                    yield Problem(
                        "", host.name, message, "all hosts must be of the program's type of machine"
                    )

    def _unfit(self, topology: Topology, wanted: Mapping[str, NodeNeeds], needs: Needs) -> list[Problem]:
        return unfit(self._hosts, self._facts, topology, wanted, needs)

    # ---- kernels
    def stages(self) -> Stages | None:
        """Return which kernels the hosts boot for which cells; None when no host may boot another one.

        Queries no host, but uses remembered facts.

        Raises:
            InputError: the inventory or a file of kernels/images is invalid.
            TestbedError: Ansible is not installed.
        """
        self._recall()
        hosts, may = self._inventory_says()
        if not may:
            return None
        choices, _ = choose(self._cells, self._catalog, hosts, may)
        return Stages(
            tuple(self._stage(choice, hosts, may) for choice in choices),
            running(may, self._known.facts),
            self._known.change_s or CHANGE_S,
        )

    def _stage(self, choice: Choice, hosts: Sequence[Host], may: Allowed) -> Stage:
        usual, seen = self._known.facts, self._known.of(choice.state)
        images = _images(may, choice.state)
        known = all(host.name in (seen if host.name in images else usual) for host in hosts) and all(
            image.runs(seen[name].kernel_release) for name, image in images.items()
        )
        if known:
            facts = {host.name: (seen if host.name in images else usual)[host.name] for host in hosts}
        else:
            shall = {name: HostFacts(kernel_release=f"image {image.name}") for name, image in images.items()}
            facts = {host.name: HostFacts(kernel_release="?") for host in hosts} | {**usual} | shall
        return Stage(choice.state, choice.cells, self._identity(hosts, facts), known)

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        """Make every host run the kernel that a stage names, with our modules for it.

        Hosts that do not run it yet install it if it is missing, restart, and must come back with it.

        Raises:
            TrialFailed: a host did not get its kernel, or cannot run the cells with it.
            TrialStopped: `stop` was set. Hosts finish a restart, and the next run waits for them.
            TestbedError: hosts that were lost earlier do not come back.
        """
        began = time.monotonic()
        hosts, may = self._inventory_says()
        self._boots = _images(may, stage.state)
        self._stage_cells = [cell for cell in self._cells if cell.id in stage.cells]
        restarts = dict(stage.state) != {**running(may, self._facts)}
        self._linked = False
        self._remember(replace(self._known, changing=True))
        played = self._prepare_all(stop, patient=self._shaken_s is not None)
        wrong = _wrong(played)
        if wrong:
            self._shaken_s = self._shaken_s or time.monotonic()
            names = ", ".join(sorted({stage.state[name] for name in wrong if name in stage.state}))
            raise TrialFailed(f"hosts are not ready{f' with {names}' if names else ''}: {_listed(wrong)}")
        self._facts = _facts(played, hosts)
        known = self._known.with_stage(stage.state, self._facts)
        took_s = round(time.monotonic() - began, 1) if restarts else known.change_s
        self._remember(replace(known, changing=False, change_s=took_s))
        wanted = node_needs(self._stage_cells, self._catalog)
        shapes = self._topologies(self._stage_cells)
        problems = [problem for shape in shapes for problem in self._unfit(shape, wanted, Needs())]
        if problems:
            raise TrialFailed("; ".join(str(problem) for problem in dict.fromkeys(problems)))
        return self._identity(hosts, self._facts)

    def _prepare_all(self, stop: threading.Event, *, patient: bool) -> ansible.Played:
        """Prepare hosts; with patience, wait for those that cannot be reached."""
        deadline = time.monotonic() + (RETURN_LIMIT_S if patient else 0.0)
        while True:
            played = self._prepare({}, limit_s=PREPARE_LIMIT_S, stop=stop.is_set)
            if stop.is_set():
                raise TrialStopped
            away = {h: t for h, t in played.hosts.items() if t.status == "unreachable"}
            if not away:
                self._shaken_s = None
                return played
            if time.monotonic() > deadline:
                if self._shaken_s:
                    raise TestbedError(
                        f"hosts did not come back within {RETURN_LIMIT_S:g} s: {_listed(away)}"
                    )
                return played
            if stop.wait(_RETRY_S):
                raise TrialStopped

    def advice(self) -> tuple[str, ...]:
        """Return hints about rates and kernels.

        Which cells are faster than the hosts carry in time. For hosts that need another kernel and may boot
        none: which would suffice; for others: which of those that they may boot they cannot install.
        """
        hosts, may = self._inventory_says()
        self._recall()
        facts = self._known.facts
        found = advice(self._cells, self._catalog, hosts, facts, load_images(), may)
        return (*too_fast(self._cells, hosts), *found, *not_installable(may, facts))

    def _inventory_says(self) -> tuple[tuple[Host, ...], Allowed]:
        if self._may is None:
            variables = read_inventory(self._inventory)
            where = str(self._inventory)
            hosts, switches = placed_of(variables, where)
            topologies = self._topologies(self._cells)
            switching = Switching(self._inventory, switches, hosts, self._catalog)
            if misplaced := switching.misplaced(topologies, where):
                raise InputError(misplaced)
            require_placed(hosts, topologies, where, switching.addresses)
            if problems := switching.problems(self._cells, where):
                raise InputError(problems)
            self._switching = switching
            self._hosts, self._may = hosts, allowed(variables, load_images(), hosts, where)
        usual = self._known.facts
        if self._own and not self._may and all(host.name in usual for host in self._hosts):
            self._may = own_kernels(self._cells, self._catalog, self._hosts, usual, load_images())
        return self._hosts, self._may

    def _topologies(self, cells: Iterable[Cell]) -> list[Topology]:
        return [self._catalog.topology(name) for name in sorted({cell.topology for cell in cells})]

    def _recall(self) -> None:
        if not self._known.facts:
            with contextlib.suppress(TestbedError):
                self._known = self._memory.load()

    # ---- asking
    def _ask(self) -> None:
        hosts, _ = self._inventory_says()
        self._lock()
        self._recall()
        # an interrupted run may have left restarting hosts; new machines may not listen yet
        played = self._prepare_all(self._leave, patient=self._known.changing or self._own)
        wrong = _wrong(played)
        if wrong:
            raise TestbedError(_listed(wrong, "\n"), self._look_closer(wrong))
        facts = _facts(played, hosts)
        self._remember(replace(self._known, facts=facts, changing=False))
        if self._switching:
            self._load_switches()
        self._facts = facts

    def _load_switches(self) -> None:
        """Build and load the program of switches, with the settings of the first cell.

        Raises:
            TestbedError: a switch cannot be reached, or a step on it failed.
        """
        deadline = time.monotonic() + (RETURN_LIMIT_S if self._own else 0.0)
        while True:
            played = self._switching.load(self._cells[0], limit_s=PREPARE_LIMIT_S, stop=self._leave.is_set)
            wrong = _wrong(played)
            away = all(outcome.status == "unreachable" for outcome in wrong.values())
            if not (wrong and away) or time.monotonic() > deadline or self._leave.wait(_RETRY_S):
                break
        if wrong:
            raise TestbedError(_listed(wrong, "\n"), "l4sbench docs fabric a-tofino-switch")
        self._remember(replace(self._known, switches=self._switching.facts(played)))

    def _look_closer(self, wrong: Mapping[str, ansible.HostOutcome]) -> str:
        away = [host for host, outcome in wrong.items() if outcome.status == "unreachable"]
        if away:
            command = ["ansible", "-i", str(self._inventory), ",".join(away), "-m", "ping", "-vvv"]
            return f"for details: {shlex.join(command)}"
        return (
            "l4sbench docs ssh by-hand: playbooks/prepare.yml in the folder of `plan --export` prints details"
        )

    def _remember(self, known: Known) -> None:
        self._known = known
        self._memory.save(known)

    def _lock(self) -> None:
        """Lock the inventory: two runs on the same hosts would end each other's trials."""
        from filelock import FileLock, Timeout

        self._memory.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._memory.path.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            message = f"another run uses the hosts of {self._inventory}"
            raise TestbedError(message, "wait until it ends, or use other hosts") from error
        self._locked.callback(lock.release)

    def _prepare(
        self, more: Mapping[str, object], *, limit_s: float, stop: Callable[[], bool] = lambda: False
    ) -> ansible.Played:
        needs = node_needs(self._stage_cells, self._catalog)
        lean = any("lean" in tools(cell, TRAITS.default_traffic) for cell in self._cells)
        variables = {
            "l4sbench_asked": asked_of(self._catalog),
            "l4sbench_tools": sorted({tool for need in needs.values() for tool in need.tools} & _INSTALLED),
            "l4sbench_kernel_of": {host: image.variables() for host, image in self._boots.items()},
            "l4sbench_module_sources_of": {
                host.name: [
                    source.variables()
                    for source in module_sources(self._catalog, together(host, needs).modules)
                ]
                for host in self._hosts
            },
            **({"l4sbench_lean": str(compiled(self._memory.path.parent))} if lean else {}),
            "l4sbench_executables": executable_variables(self._cells, self._catalog),
            **more,
        }
        names = [host.name for host in self._hosts]
        return ansible.play("prepare.yml", self._inventory, names, variables, limit_s=limit_s, stop=stop)

    def _identity(self, hosts: Sequence[Host], facts: Mapping[str, HostFacts]) -> Identity:
        """Return what hosts with these facts run, and what they are given: the helper, and lab-traffic."""
        helper = assets.digest(assets.folder("roles") / "helper" / "files", suffixes=(".py",))
        switches = self._switching.runs(self._known.switches)
        return identity(hosts, facts, helper, source_digest(), switches)

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
        if self._shaken_s is not None:
            self._await_return(stop, self._shaken_s, began + spec.wall_limit_s)
        virtual_s = max(
            (flow.start.s + flow.seconds for program in spec.programs.values() for flow in program.flows),
            default=0.0,
        )
        limit_s = min(virtual_s + MEET_S, max(10.0, spec.wall_limit_s - 10))
        if self._switching:
            self._begin_switches(spec, limit_s, stop)
        switches = self._switching.addresses
        trial = f"{re.sub('[^A-Za-z0-9_.-]', '-', spec.cell.id)[:100]}.{spec.trial}.{secrets.token_hex(4)}"
        with tempfile.TemporaryDirectory(prefix="l4sbench-results-") as folder:
            results = Path(folder)
            variables = {
                **trial_variables(spec.programs, spec.topology, trial, self._owner(), limit_s, switches),
                "l4sbench_results": str(results),
            }
            names = [host.name for host in self._hosts]
            began_s = time.time()
            played = ansible.play(
                "trial.yml", self._inventory, names, variables, limit_s=spec.wall_limit_s, stop=stop.is_set
            )
            if stop.is_set():
                self._stop(trial)
                raise TrialStopped
            reports, unusable = self._unpacked(results, raw)
            self._raise_failure(played)
            if unusable:
                raise unusable[0]
            keeper = keeper_of(spec.topology, switches)
            start_ns = write_start(raw, reports, keeper)
            if self._switching and start_ns is not None:
                require_clock(f"{keeper}: its clock", start_ns / 1e9, began_s, time.time())
                self._switching.collect(start_ns, virtual_s, raw, results, stop.is_set)
                if stop.is_set():
                    raise TrialStopped
        wall_s = time.monotonic() - began
        return Outcome(
            wall_s=wall_s,
            cpu_s=0.0,
            virtual_s=(spec.cell.warmup.ns + spec.cell.duration.ns) / 1e9,
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
        if not self._linked:
            switches = self._switching.addresses
            given = trial_variables(spec.programs, spec.topology, "links", self._owner(), limit_s, switches)
            played = self._prepare(given, limit_s=PREPARE_LIMIT_S, stop=stop.is_set)
            if stop.is_set():
                raise TrialStopped
            self._raise_failure(played)
            self._linked = True
        self._switching.begin(spec.cell, stop.is_set)
        if stop.is_set():
            raise TrialStopped

    def _unpacked(self, results: Path, raw: Path) -> tuple[dict[str, HostReport], list[TrialFailed]]:
        """Return what every host reported, and why results of hosts cannot be used."""
        reports: dict[str, HostReport] = {}
        unusable: list[TrialFailed] = []
        for host in self._hosts:
            try:
                reports[host.name] = unpack(results / f"{host.name}.tar.gz", host.name, host.nodes, raw)
            except TrialFailed as error:
                unusable.append(error)
        return reports, unusable

    def _owner(self) -> str:
        """Return this controller's name for hosts: its next trial may end one that it left behind."""
        path = self._memory.path.with_name("owner")
        if not path.exists():
            path.write_text(secrets.token_hex(8), encoding="ascii")
        return path.read_text(encoding="ascii")

    def _stop(self, trial: str) -> None:
        """End detached processes; an unreachable host ends them by its own limit."""
        names = [host.name for host in self._hosts]
        variables = {"l4sbench_trial": trial, "l4sbench_stop": True}
        with contextlib.suppress(TestbedError):
            ansible.play("fetch.yml", self._inventory, names, variables, limit_s=_STOP_LIMIT_S)

    def _raise_failure(self, played: ansible.Played) -> None:
        wrong = _wrong(played)
        if not wrong:
            return
        lost = {h for h, t in wrong.items() if t.status == "unreachable" or t.answer.get("state") in _LOST}
        if lost and self._shaken_s is None:
            self._shaken_s = time.monotonic()
        self._linked = False  # a host may have been restarted
        first = min(wrong, key=lambda h: (h not in lost, *_rank(wrong[h].answer), h))
        outcome = wrong[first]
        manner = "cannot be reached: " if outcome.status == "unreachable" else ""
        reason = outcome.message or f"Ansible's status is {played.status}"
        failure = _StartMissedError if not lost and outcome.answer.get("missed") is True else TrialFailed
        raise failure(f"{first}: {manner}{reason}")

    def _await_return(self, stop: threading.Event, since_s: float, trial_ends_s: float) -> None:
        """Wait for lost hosts and prepare all again: a restart resets settings.

        They were lost at `since_s`. The trial waits until its limit at `trial_ends_s`, then the next trial.
        """
        while True:
            limit_s = max(_RETRY_S, min(RETURN_LIMIT_S, trial_ends_s - time.monotonic()))
            played = self._prepare({}, limit_s=limit_s, stop=stop.is_set)
            wrong = _wrong(played)
            if not wrong and not stop.is_set():
                break
            reasons = _listed(wrong)
            if time.monotonic() > since_s + RETURN_LIMIT_S:
                raise TestbedError(
                    f"hosts did not come back within {RETURN_LIMIT_S:g} s: {reasons}",
                    "once they are reachable, the same command resumes the run",
                )
            if stop.wait(_RETRY_S):
                raise TrialStopped
            if time.monotonic() + _RETRY_S > trial_ends_s:
                raise TrialFailed(f"hosts have not come back: {reasons}")
        for name, outcome in played.hosts.items():
            now, before = read_facts(dict(outcome.answer), name), self._facts[name]
            if (now.kernel_release, now.kernel_version) != (before.kernel_release, before.kernel_version):
                message = f"{name} came back with Linux {now.kernel_release}, not {before.kernel_release}"
                raise TestbedError(message, "boot the kernel that the run began with, or start a --new run")
        self._shaken_s = None


def _wrong(played: ansible.Played) -> dict[str, ansible.HostOutcome]:
    return {host: outcome for host, outcome in sorted(played.hosts.items()) if outcome.status != "ok"}


def _rank(answer: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return the order of a host's failure among those of a trial: causes come before their consequences."""
    return answer.get("missed") is not True, answer.get("secondary") is True


def _listed(wrong: Mapping[str, ansible.HostOutcome], separator: str = "; ") -> str:
    return separator.join(
        f"{host}: {'cannot be reached: ' if outcome.status == 'unreachable' else ''}{outcome.message}"
        for host, outcome in sorted(wrong.items())
    )


def _facts(played: ansible.Played, hosts: Iterable[Host]) -> dict[str, HostFacts]:
    return {host.name: read_facts(dict(played.hosts[host.name].answer), host.name) for host in hosts}


def _images(may: Allowed, state: Mapping[str, str]) -> dict[str, Image]:
    """Return host -> the kernel that a state names for it."""
    return {
        host: next(image for image in may[host] if image.name == name)
        for host, name in state.items()
        if host in may
    }
