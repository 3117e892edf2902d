# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed: the hosts of an Ansible inventory, prepared once, then one task per host and trial."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from platformdirs import user_cache_path

from l4sbench import assets
from l4sbench.errors import InputError, Problem, TestbedError, TrialFailed
from l4sbench.program import captures
from l4sbench.testbed import CostModel, Identity, Needs, Outcome, TestbedTraits, TrialStopped
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.facts import (
    HostFacts,
    asked_of,
    entries_of,
    identity,
    node_needs,
    read_facts,
    unfit,
)
from l4sbench.testbeds.ssh.images import KernelPlan, load_images, plan_kernels
from l4sbench.testbeds.ssh.layout import (
    Host,
    hosts_of,
    meeting_place,
    misplaced,
    networks_of,
    shared,
)
from l4sbench.topology import topology as find_topology

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping, Sequence

    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.program import Program
    from l4sbench.topology import Topology
    from l4sbench.trial import TrialSpec

TRAITS: Final = TestbedTraits(
    default_traffic="iperf3",
    noise=False,
    parallel=False,
    cost=CostModel(fixed_s=12.0, per_virtual_s=1.0),
)

PREPARE_LIMIT_S: Final = 3600.0
"""A kernel may have to be installed and booted."""
RETURN_LIMIT_S: Final = 600.0
"""How long a host that was lost may take to come back before the run is given up."""
MEET_S: Final = 60.0
"""What a trial may take on a host beyond its flows' time."""
SOCKETS_FILE: Final = "sockets.jsonl"
_STOP_LIMIT_S: Final = 15.0
_RETRY_S: Final = 10.0
_LOST: Final = frozenset({"lost", "unknown"})
"""What a host says of a trial that it does not run any more and did not end."""


class SshTestbed:
    """Runs trials on hosts by ssh, one trial at a time.

    Args:
        inventory: Ansible inventory; docs/ssh.md says what its hosts must say.
        catalog: What may be asked of the hosts.
        cells: What is to run there.
        capture: Keep packets at both ports of the router.
        contact: Ask the hosts; else what they told last time counts.
        cache: Folder for what hosts told; by default in the user's cache.
    """

    def __init__(
        self,
        inventory: Path,
        catalog: Catalog,
        cells: Sequence[Cell],
        *,
        capture: bool = False,
        contact: bool = True,
        cache: Path | None = None,
    ) -> None:
        self._inventory = inventory
        self._catalog = catalog
        self._cells = cells
        self._capture = capture
        self._contact = contact
        where = hashlib.sha256(str(inventory.resolve()).encode()).hexdigest()[:16]
        self._kept = (cache or user_cache_path("l4sbench") / "hosts") / f"{where}.json"
        self._hosts: tuple[Host, ...] = ()
        self._facts: dict[str, HostFacts] = {}
        self._locked = contextlib.ExitStack()
        self._shaken = False

    @property
    def name(self) -> str:
        """`ssh`."""
        return "ssh"

    @property
    def traits(self) -> TestbedTraits:
        """Real time, one trial at once, noise of its own."""
        return TRAITS

    # ---- before anything runs
    def identity(self) -> Identity:
        """What the hosts run. The first call prepares them: tools and modules that are missing are installed.

        Raises:
            InputError: the inventory cannot be understood.
            TestbedError: a host cannot be reached or prepared; it tells of all of them.
        """
        if not self._facts:
            self._facts = self._ask() if self._contact else self._remember()
        helper = assets.digest(assets.folder("roles") / "helper" / "files", suffixes=(".py",))
        return identity(self._hosts, self._facts, helper)

    def check(self, needs: Needs) -> Sequence[Problem]:
        """Everything that keeps the hosts from running the cells."""
        if not self._facts:
            self.identity()
        wanted = node_needs(self._cells, self._catalog)
        found: list[Problem] = []
        for name in sorted(needs.topologies):
            topology = find_topology(name)
            found += misplaced(self._hosts, topology, str(self._inventory))
            found += unfit(
                self._hosts,
                self._facts,
                topology,
                wanted,
                traffic=needs.traffic,
                capture=self._capture,
                now_s=time.time(),
            )
        return list(dict.fromkeys(found))

    def kernels(self) -> KernelPlan:
        """Which kernels the cells need on which nodes, and how many restarts that takes; asks no host.

        What the hosts run counts as far as they were asked before.

        Raises:
            InputError: the data in kernels/images is wrong.
        """
        if not self._facts:
            with contextlib.suppress(TestbedError):
                self._facts = self._remember()
        told = {node: self._facts[host.name] for host in self._hosts for node in host.nodes if self._facts}
        return plan_kernels(self._cells, self._catalog, load_images(), told)

    def _ask(self) -> dict[str, HostFacts]:
        self._hosts = self._read_hosts()
        self._lock()
        played = self._prepare({}, limit_s=PREPARE_LIMIT_S)
        wrong = [
            f"{host}: {'cannot be reached: ' if told.status == 'unreachable' else ''}{told.message}"
            for host, told in sorted(played.hosts.items())
            if told.status != "ok"
        ]
        if wrong:
            hint = f"look closer with: ansible-playbook -i {self._inventory} playbooks/prepare.yml"
            raise TestbedError("\n".join(wrong), hint)
        facts = {
            host.name: read_facts(dict(played.hosts[host.name].answer), host.name) for host in self._hosts
        }
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        plain = {
            "hosts": {h.name: {"nodes": list(h.nodes), "ports": dict(h.ports)} for h in self._hosts},
            "facts": {name: told.model_dump(mode="json") for name, told in facts.items()},
        }
        partial = self._kept.with_suffix(".partial")
        partial.write_text(json.dumps(plain, indent=1), encoding="utf-8")
        partial.replace(self._kept)
        return facts

    def _read_hosts(self) -> tuple[Host, ...]:
        return hosts_of(ansible.read_inventory(self._inventory), str(self._inventory))

    def _remember(self) -> dict[str, HostFacts]:
        try:
            plain = json.loads(self._kept.read_text(encoding="utf-8"))
            self._hosts = tuple(
                Host(name, tuple(given["nodes"]), given["ports"]) for name, given in plain["hosts"].items()
            )
            return {name: read_facts(told, name) for name, told in plain["facts"].items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TestbedError(
                f"the hosts of {self._inventory} have not been asked yet what they run", "a run asks them"
            ) from error

    def _lock(self) -> None:
        """Two runs on the same hosts would end each other's trials."""
        from filelock import FileLock, Timeout

        self._kept.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._kept.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            message = f"another run uses the hosts of {self._inventory}"
            raise TestbedError(message, "wait for its end, or use other hosts") from error
        self._locked.callback(lock.release)

    def _prepare(self, more: Mapping[str, object], *, limit_s: float) -> ansible.Played:
        variables = {
            "l4sbench_asked": asked_of(self._catalog),
            "l4sbench_module_sources": self._sources(),
            **more,
        }
        names = [host.name for host in self._hosts]
        return ansible.play("prepare.yml", self._inventory, names, variables, limit_s=limit_s)

    def _sources(self) -> list[dict[str, str]]:
        """Modules of ours that the cells need and that can be built by DKMS."""
        wanted = {name for needs in node_needs(self._cells, self._catalog).values() for name in needs.modules}
        found = {}
        for entry in entries_of(self._catalog):
            module = entry.module
            if module is None or module.source is None or module.name not in wanted:
                continue
            with contextlib.suppress(OSError):
                text = (module.source / "dkms.conf").read_text(encoding="utf-8")
                if version := re.search(r'^PACKAGE_VERSION="?([\w.+~-]+)"?$', text, re.MULTILINE):
                    source = {"name": module.name, "version": version[1], "folder": str(module.source)}
                    found[module.name] = source
        return list(found.values())

    # ---- a trial
    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        """Run one trial on the hosts and leave what their nodes wrote in `raw`.

        Raises:
            TrialFailed: a host was lost, or a step on it failed.
            TrialStopped: `stop` was set.
            TestbedError: hosts do not come back, or came back with another kernel.
        """
        began = time.monotonic()
        if self._shaken:
            self._await_return(stop)
        virtual_s = max(
            (flow.start.s + flow.seconds for program in spec.programs.values() for flow in program.flows),
            default=0.0,
        )
        limit_s = min(virtual_s + MEET_S, max(10.0, spec.wall_limit_s - 10))
        trial = f"{re.sub('[^A-Za-z0-9_.-]', '-', spec.cell.id)[:100]}.{spec.trial}.{secrets.token_hex(4)}"
        with tempfile.TemporaryDirectory(prefix="l4sbench-results-") as folder:
            results = Path(folder)
            variables = {
                **trial_variables(self._with_capture(spec), spec.topology, trial, self._owner(), limit_s),
                "l4sbench_results": str(results),
            }
            names = [host.name for host in self._hosts]
            played = ansible.play(
                "trial.yml", self._inventory, names, variables, limit_s=spec.wall_limit_s, stop=stop.is_set
            )
            if stop.is_set():
                self._stop(trial)
                raise TrialStopped
            told = {host: _unpack(results / f"{host}.tar.gz", host, raw) for host in names}
        self._raise_failure(played)
        _write_start(raw, told, spec.topology.router)
        wall_s = time.monotonic() - began
        return Outcome(
            wall_s=wall_s,
            cpu_s=0.0,
            virtual_s=(spec.cell.warmup.ns + spec.cell.duration.ns) / 1e9,
            skew_ms=_skew_ms(told),
            fixed_s=max(0.0, wall_s - virtual_s),
        )

    def _with_capture(self, spec: TrialSpec) -> Mapping[str, Program]:
        """The programs, with captures where they are asked for and a program has none."""
        if not self._capture:
            return spec.programs
        return {node: _with_servers(program, spec.topology) for node, program in spec.programs.items()}

    def _owner(self) -> str:
        """Names this controller to the hosts: a trial it left behind may be ended by its next one."""
        path = self._kept.with_name("owner")
        if not path.exists():
            path.write_text(secrets.token_hex(8), encoding="ascii")
        return path.read_text(encoding="ascii")

    def _stop(self, trial: str) -> None:
        """End what runs detached; a host that cannot be told ends it by its own limit."""
        names = [host.name for host in self._hosts]
        variables = {"l4sbench_trial": trial, "l4sbench_stop": True}
        with contextlib.suppress(TestbedError):
            ansible.play("fetch.yml", self._inventory, names, variables, limit_s=_STOP_LIMIT_S)

    def _raise_failure(self, played: ansible.Played) -> None:
        wrong = {host: told for host, told in played.hosts.items() if told.status != "ok"}
        if not wrong:
            return
        lost = {h for h, t in wrong.items() if t.status == "unreachable" or t.answer.get("state") in _LOST}
        self._shaken = bool(lost)
        # what a host saw by itself says more than what it heard of another one
        first = min(wrong, key=lambda h: (h not in lost, bool(wrong[h].answer.get("secondary")), h))
        told = wrong[first]
        manner = "cannot be reached: " if told.status == "unreachable" else ""
        reason = told.message or f"Ansible says {played.status}"
        raise TrialFailed(f"{first}: {manner}{reason}")

    def _await_return(self, stop: threading.Event) -> None:
        """Wait for lost hosts and prepare all again: who was restarted has forgotten what was set."""
        deadline = time.monotonic() + RETURN_LIMIT_S
        while True:
            played = self._prepare({}, limit_s=RETURN_LIMIT_S)
            wrong = {host: told for host, told in played.hosts.items() if told.status != "ok"}
            if not wrong:
                break
            if time.monotonic() > deadline:
                reasons = "; ".join(f"{host}: {told.message}" for host, told in sorted(wrong.items()))
                raise TestbedError(f"hosts did not come back within {RETURN_LIMIT_S:g} s: {reasons}")
            if stop.wait(_RETRY_S):
                raise TrialStopped
        for name, told in played.hosts.items():
            now, before = read_facts(dict(told.answer), name), self._facts[name]
            if (now.kernel_release, now.kernel_version) != (before.kernel_release, before.kernel_version):
                message = f"{name} came back with Linux {now.kernel_release}, not {before.kernel_release}"
                raise TestbedError(message, "boot the kernel that the run began with, or begin a --new run")
        self._shaken = False


def check_inventory(inventory: Path, topologies: Iterable[str]) -> None:
    """Whether the hosts of an inventory can be these topologies. Raises InputError with every reason."""
    hosts = hosts_of(ansible.read_inventory(inventory), str(inventory))
    names = sorted(topologies)
    wrong = [found for name in names for found in misplaced(hosts, find_topology(name), str(inventory))]
    if wrong:
        raise InputError(wrong)


def _with_servers(program: Program, topology: Topology) -> Program:
    known = {server.id for server in program.servers}
    more = tuple(server for server in captures(topology, program.node) if server.id not in known)
    return replace(program, servers=(*program.servers, *more))


def trial_variables(
    programs: Mapping[str, Program], topology: Topology, trial: str, owner: str, limit_s: float
) -> dict[str, object]:
    """What playbooks/trial.yml must know of a trial beyond the inventory.

    Raises:
        InputError: a text of a program would be a template to Ansible.
    """
    both = shared(networks_of(topology), programs)
    tools = {server.argv[0] for program in programs.values() for server in program.servers}
    return {
        "l4sbench_trial": trial,
        "l4sbench_owner": owner,
        "l4sbench_networks": both["networks"],
        "l4sbench_programs": both["programs"],
        "l4sbench_router": topology.router,
        "l4sbench_meet": meeting_place(topology),
        "l4sbench_limit_s": limit_s,
        "l4sbench_capture": "tcpdump" in tools,
    }


def _unpack(archive: Path, host: str, raw: Path) -> Mapping[str, Any]:
    """Put a host's raw files into the trial's, and return what it told of its nodes."""
    if not archive.is_file():
        return {}
    with tempfile.TemporaryDirectory(dir=raw, prefix="unpack-") as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        for node in sorted(Path(folder, "raw").glob("*")):
            node.rename(raw / node.name)
            _gather_sockets(raw / node.name / SOCKETS_FILE, raw / SOCKETS_FILE)
        told = json.loads(Path(folder, "result.json").read_text(encoding="utf-8"))
        kept = raw / "hosts"
        kept.mkdir(exist_ok=True)
        for name in ("result.json", "log"):
            if Path(folder, name).is_file() and Path(folder, name).stat().st_size:
                Path(folder, name).rename(kept / f"{host}.{name}")
    return told if isinstance(told, dict) else {}


def _gather_sockets(own: Path, common: Path) -> None:
    """A trial has one file with the sockets of all nodes; every line says whose it is."""
    if own.is_file():
        with common.open("ab") as out:
            out.write(own.read_bytes())
        own.unlink()


def _write_start(raw: Path, told: Mapping[str, Mapping[str, Any]], router: str) -> None:
    """The start instant by the clock that the router's captures carry."""
    for host in told.values():
        node = host.get("nodes", {}).get(router)
        if node and "start_epoch_ns" in node:
            text = json.dumps({"t0_ns": node["start_epoch_ns"]}) + "\n"
            (raw / "start.json").write_text(text, encoding="utf-8")


def _skew_ms(told: Mapping[str, Mapping[str, Any]]) -> float:
    """Between the least and the most late start of a flow: how far apart the nodes started."""
    late_ms = [
        float(flow["late_ms"])
        for host in told.values()
        for node in host.get("nodes", {}).values()
        for flow in node.get("flows") or []
    ]
    return max(late_ms) - min(late_ms) if late_ms else 0.0
