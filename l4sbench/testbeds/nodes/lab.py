# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A local lab of booted nodes: up, down, status.

Files of a lab are in `nodes/<name>/` of the cache: `state.json`, keys, `ssh_config`,
`inventory.yml`, consoles. Sockets and guest memory are in a folder in memory.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.disk.files import write_whole
from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.nodes import ssh
from l4sbench.testbeds.nodes.capacity import Capacity, measure
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.nodes.connect import ask
from l4sbench.testbeds.nodes.home import Home, State, tail
from l4sbench.testbeds.nodes.keeper import SOCKET
from l4sbench.testbeds.nodes.plan import LabPlan, plan_lab
from l4sbench.testbeds.nodes.starting import key, no_keeper, start
from l4sbench.testbeds.nodes.userland import node_userland
from l4sbench.testbeds.virtual.lab import BuildStep, Lab
from l4sbench.testbeds.virtual.lab.cache import Cache, read_note
from l4sbench.testbeds.virtual.lab.doctor import require
from l4sbench.topology import find_topology, offered, read_topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from l4sbench.topology import Topology


MEMORY_MB = 512
"""Memory of one node. The host provides only what a node touches."""

_BOOT_S = 120.0
_STOP_S = 10.0
_MUX_S = 3.0
"""Limit for a shared connection to end."""


@dataclass(frozen=True)
class NodeStatus:
    """One node: its addresses and state.

    Attributes:
        name: Its name in the topology.
        address: Its management address, inside the lab's network.
        address_6: Its IPv6 management address.
        running: True if its kernel runs.
        ended: How it ended, in words; empty while it runs.
        console: File with its console output.
    """

    name: str
    address: str
    address_6: str
    running: bool
    ended: str
    console: Path


@dataclass(frozen=True)
class NodesStatus:
    """The state of a lab of nodes.

    Attributes:
        name: Its name.
        topology: Its topology; "" when there is no lab of that name.
        folder: Folder of its files.
        up: True if all its nodes run.
        inventory: The inventory for Ansible; None when the lab is not up.
        ssh_config: For `ssh -F`; None when the lab is not up.
        bastion: Address and port on the host of its bastion; None without one.
        nodes: In the topology's order; none when there is no lab.
        fresh: True if it runs what would be started now; a kernel or module may have been built since.
        capacity: The result of `measured`; None before.
    """

    name: str
    topology: str
    folder: Path
    up: bool
    inventory: Path | None = None
    ssh_config: Path | None = None
    bastion: tuple[str, int] | None = None
    nodes: tuple[NodeStatus, ...] = ()
    fresh: bool = False
    capacity: Capacity | None = None


def up(
    topology: str,
    on_progress: Callable[[BuildStep], None] = lambda _: None,
    *,
    name: str | None = None,
    memory_mb: int = MEMORY_MB,
    bastion: tuple[str, int] | None = None,
) -> NodesStatus:
    """Boot a lab's nodes that do not run, and wait until ssh reaches all of them.

    Args:
        topology: Name of the topology, or the path of its file.
        on_progress: Called with a line of text for every step.
        name: Name of the lab, by default its topology's; labs of different names do not see each other.
        memory_mb: Memory of one node.
        bastion: Reach the nodes through a bastion that listens on this address and port of the host; port 0
            takes any that is free.

    Raises:
        InputError: The topology does not exist, or another lab has the name.
        TestbedError: The lab is not built, this machine lacks something, or a node does not come up.
    """
    wanted = find_topology(topology)
    plan, home = plan_lab(wanted, bastion=bastion is not None), Home.of(name or wanted.name)
    lab = Lab.locate()

    def say(message: str, fraction: float | None = None) -> None:
        on_progress(BuildStep("nodes", message, fraction))

    userland = node_userland(lab, say)
    with home.lock():
        state = home.state()
        if state is None or _nodes_of(state) is None:
            if _remove(home):
                say("removed the rest of an earlier lab")
            require(node_checks(len(plan.nodes), memory_mb), "boot nodes")
            _keep_topology(home, wanted)
            state = start(home, plan, lab, userland, memory_mb, wanted, bastion)
        elif state.plan.topology != wanted.name or (bastion is not None and state.bastion is None):
            has = f"topology {state.plan.topology} and {'no' if state.bastion is None else 'a'} bastion"
            raise InputError(
                f"the lab {home.folder.name} is up with {has}",
                f"l4sbench lab down --name {home.folder.name}, or use another --name for the new lab",
            )
        elif state.plan != plan_lab(wanted, bastion=state.bastion is not None):
            raise InputError(
                f"the lab {home.folder.name} is up with another version of the topology {wanted.name}",
                f"l4sbench lab down --name {home.folder.name}, then start it again",
            )
        else:
            _mend(state, say)
        _await(home, state, say)
    return status(home.folder.name)


def _keep_topology(home: Home, topology: Topology) -> None:
    """Keep a copy of a topology of the user's own in the lab's folder."""
    shutil.rmtree(home.topology, ignore_errors=True)
    if topology.file is not None and topology.name not in offered():
        home.topology.mkdir()
        write_whole(home.topology / f"{topology.name}.yml", topology.file.read_bytes())


def _topology(home: Home, name: str) -> Topology:
    """Return the topology of a lab: its copy, or the one that ships with l4sbench."""
    copy = home.topology / f"{name}.yml"
    return read_topology(copy) if copy.is_file() else find_topology(name)


def _mend(state: State, say: Callable[[str], None]) -> None:
    """Boot nodes that have ended."""
    for node, reports in (_nodes_of(state) or {}).items():
        if not reports["running"]:
            say(f"{node} had ended ({reports['ended']}); booting it again")
            ask(str(state.run / SOCKET), f"boot {node}")


def down(name: str) -> bool:
    """End a lab and remove everything of it but its keys; return True if there was anything.

    The next lab of this name uses the same keys.

    Raises:
        InputError: No lab can have that name.
        TestbedError: The lab's keeper cannot be ended.
    """
    home = Home.of(name)
    if not home.folder.exists():
        return False
    with home.lock():
        return _remove(home)


def status(name: str) -> NodesStatus:
    """Return the state of a lab; change nothing.

    Raises:
        InputError: No lab can have that name.
    """
    home = Home.of(name)
    state = home.state()
    if state is None:
        return NodesStatus(name=name, topology="", folder=home.folder, up=False)
    reports = _nodes_of(state)
    nodes = tuple(
        NodeStatus(
            name=node.name,
            address=node.address,
            address_6=node.address_6,
            running=bool(reports and reports[node.name]["running"]),
            ended=str(reports[node.name]["ended"]) if reports else "the lab's keeper has ended",
            console=home.consoles / f"{node.name}.log",
        )
        for node in state.plan.nodes
    )
    return NodesStatus(
        name=name,
        topology=state.plan.topology,
        folder=home.folder,
        up=all(node.running for node in nodes),
        inventory=home.folder / "inventory.yml" if reports else None,
        ssh_config=home.folder / "ssh_config" if reports else None,
        bastion=state.bastion,
        nodes=nodes,
        fresh=state.key == _key_now(state.plan),
        capacity=read_note(home.capacity_note, Capacity),
    )


def measured(name: str) -> NodesStatus:
    """Measure what a lab carries, unless that is known; the result is stored, and stated in its inventory.

    Call it before any trial has run on the nodes.

    Raises:
        InputError: No lab can have that name.
        TestbedError: The lab is not up, or a node did not take part.
    """
    home = Home.of(name)
    with home.lock():
        state, now = home.state(), status(name)
        if now.capacity is not None:
            return now
        if state is None or now.ssh_config is None:
            raise TestbedError("the lab is not up", hint="l4sbench lab up")
        topology = _topology(home, state.plan.topology)
        capacity = measure(now.ssh_config, topology, state.plan.nodes)
        ssh.write_inventory(home.folder, state.run, state.plan, topology, capacity)
        write_whole(home.capacity_note, capacity.model_dump_json(indent=1))
    return replace(now, capacity=capacity)


def halt(name: str, node: str) -> None:
    """End one node of a lab at once, as when its power fails; `up` boots it again.

    Raises:
        InputError: No lab can have that name.
        TestbedError: The lab is not up, or has no such node.
    """
    state = Home.of(name).state()
    try:
        answer = "the lab is not up" if state is None else ask(str(state.run / SOCKET), f"halt {node}")[0]
    except OSError as error:
        answer = str(error)
    if answer != "ok":
        raise TestbedError(f"{node} of {name} cannot be ended: {answer}", hint="l4sbench lab status")


def labs() -> tuple[NodesStatus, ...]:
    """Return every lab of nodes that was started and not taken down."""
    found = sorted((Cache.open().root / "nodes").glob("*/state.json"))
    return tuple(status(path.parent.name) for path in found)


def _key_now(plan: LabPlan) -> str:
    """Return the key that a lab of this plan would be started with now; "" when no lab is built."""
    try:
        return key(plan, Lab.locate())
    except TestbedError:
        return ""


def _nodes_of(state: State) -> dict[str, dict[str, str | bool]] | None:
    """Return the keeper's report of its nodes; None when it does not answer."""
    if not state.keeper.runs():
        return None
    try:
        answer, _ = ask(str(state.run / SOCKET), "nodes")
        nodes: dict[str, dict[str, str | bool]] = json.loads(answer)
    except (OSError, ValueError):
        return None
    return nodes


def _await(home: Home, state: State, say: Callable[[str, float | None], None]) -> None:
    """Wait until every node's sshd answers.

    Raises:
        TestbedError: A node ended or does not answer in time; its console's end is in the message.
    """
    nodes = state.plan.nodes
    waiting = {node.name: node.address for node in nodes}
    deadline = time.monotonic() + _BOOT_S
    while waiting:
        say(f"booting {', '.join(waiting)}", 1 - len(waiting) / len(nodes))
        if not state.keeper.runs():
            raise no_keeper(home.folder)
        reports = _nodes_of(state)
        if reports is None:
            time.sleep(0.1)
            continue
        for name in waiting:
            if not reports[name]["running"]:
                raise _not_up(home, name, f"ended ({reports[name]['ended']})")
        with ThreadPoolExecutor(len(waiting)) as pool:
            found = pool.map(lambda address: answers(state.run, address), waiting.values())
            waiting = {name: at for (name, at), yes in zip(waiting.items(), found, strict=True) if not yes}
        if waiting and time.monotonic() > deadline:
            raise _not_up(home, next(iter(waiting)), f"does not answer after {_BOOT_S:.0f} s")
        if waiting:
            time.sleep(0.2)


def _not_up(home: Home, node: str, what: str) -> TestbedError:
    console = home.consoles / f"{node}.log"
    return TestbedError(
        f"node {node} {what}:\n{tail(console)}",
        hint=f"its console is {console}; l4sbench lab down --name {home.folder.name} removes what is left",
    )


def answers(run: Path, address: str) -> bool:
    """Return True if an sshd answers at this address."""
    try:
        _, descriptors = ask(str(run / SOCKET), f"connect {address} 22 1")
        if not descriptors:
            return False
        with socket.socket(fileno=descriptors[0]) as connection:
            connection.settimeout(5.0)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _remove(home: Home) -> bool:
    """End what runs and remove what is left; return True if there was anything."""
    state = home.remains()
    if state is None:
        return False
    for path in ssh.control_sockets(state.run):
        with suppress(subprocess.TimeoutExpired):  # a hanging one ends by itself once its node is gone
            subprocess.run(
                ["ssh", "-F", "/dev/null", "-o", f"ControlPath={path}", "-O", "exit", "node"],
                stdin=subprocess.DEVNULL,  # ssh leaves a shared stdin non-blocking
                capture_output=True,
                check=False,
                timeout=_MUX_S,
            )
    if state.keeper is not None and state.keeper.runs():
        with suppress(OSError):
            ask(str(state.run / SOCKET), "stop")
        if not state.keeper.wait(_STOP_S):
            state.keeper.kill()  # its child, process 1 of the namespaces, ends with it
            if not state.keeper.wait(_STOP_S):
                raise TestbedError(f"process {state.keeper.pid}, the lab's keeper, does not end")
    shutil.rmtree(state.run, ignore_errors=True)
    shutil.rmtree(home.topology, ignore_errors=True)
    for name in ("inventory.yml", "ssh_config", "known_hosts", "order.json", home.capacity_note.name):
        (home.folder / name).unlink(missing_ok=True)
    home.note.unlink(missing_ok=True)
    return True
