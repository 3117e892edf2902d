# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ordinary Debian machines on user-mode Linux, as hosts of an inventory: without root, KVM or containers.

    with debian_hosts(lab, TWO, folder) as hosts:
        ...  # hosts.inventory is for ansible-playbook -i and for l4sbench run --on ssh:...
        on(hosts, "ends", "uname", "-r")

They are linked by the keeper of a lab of nodes. Other than nodes they boot from a disk of their own, by the
menu that their GRUB wrote (loader.py), and keep what was written there. The archive of packages is reached
through ssh. All of it is gone afterwards.
"""

import json
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes import ssh
from l4sbench.testbeds.nodes.connect import ask
from l4sbench.testbeds.nodes.keeper import GO, RESTART, SOCKET, LabOrder
from l4sbench.testbeds.nodes.lab import answers
from l4sbench.testbeds.nodes.plan import LabPlan, plan_members
from l4sbench.testbeds.nodes.starting import launch
from l4sbench.testbeds.virtual.guest import memory_dir
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.topology import topology
from tests.lab.debian import loader
from tests.lab.debian.disk import PROXY_PORT, debian_disk
from tests.lab.debian.root import USER, DiskImage
from tests.lab.nodes.hosts import on
from tests.patience import PATIENCE_S

LINE6 = topology("line6")

TWO = {
    "ends": ("tx-l4s", "tx-classic", "rx-l4s", "rx-classic"),
    "middle": ("delay", "router"),
}
"""Host -> nodes of line6; delay and queue are not on the host that originates flows."""


@dataclass(frozen=True)
class DebianHosts:
    """Hosts that run.

    Attributes:
        plan: Their addresses and interfaces.
        run: Folder of the keeper's sockets and of their memory.
        consoles: Folder of their console output.
        inventory: Their inventory for Ansible and l4sbench.
        ssh_config: Their configuration for ssh.
    """

    plan: LabPlan
    run: Path
    consoles: Path
    inventory: Path
    ssh_config: Path

    def stop(self, name: str) -> None:
        """Shut a host down.

        Raises:
            TestbedError: The host does not end.
        """
        on(self, name, "sudo", "systemctl", "poweroff", check=False)
        deadline = time.monotonic() + PATIENCE_S
        while json.loads(ask(str(self.run / SOCKET), "nodes")[0])[name]["running"]:
            if time.monotonic() > deadline:
                raise TestbedError(f"{name} does not shut down")
            time.sleep(0.2)


def shared_networks(held: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the networks of line6 between machines that hold its nodes -> the machines.

    Args:
        held: Name of a machine -> nodes that it holds.
    """
    found = {
        network.name: tuple(name for name, nodes in held.items() if set(nodes) & set(network.nodes))
        for network in LINE6.networks
    }
    return {network: there for network, there in found.items() if len(there) > 1}


@contextmanager
def debian_hosts(
    lab: Lab,
    held: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    disk: Path | None = None,
    variables: Mapping[str, object] | None = None,
    memory_mb: int = 768,
) -> Iterator[DebianHosts]:
    """Boot hosts and wait until one can log in to each.

    Args:
        lab: Whose kernel they run.
        held: Name of a host -> nodes of line6 that it holds.
        folder: For disks, consoles and the inventory.
        disk: What their disks are copies of instead of a fresh Debian.
        variables: For all hosts of the inventory, such as `l4sbench_kernel`.
        memory_mb: Of each.

    Raises:
        TestbedError: A tool is missing, or a host does not boot.
    """

    def start_once(image: DiskImage) -> None:
        """Have a fresh Debian write its boot menu, and check that it reaches the archive."""
        with _booted(
            {"first": ["router"]}, image.folder / "first", image, image.disk, {}, memory_mb
        ) as first:
            on(first, "first", "sudo", "update-grub", timeout_s=PATIENCE_S)
            on(first, "first", "sudo", "apt-get", "-q", "update", "--error-on=any", timeout_s=PATIENCE_S)
            first.stop("first")
        (image.folder / "first" / "first.disk").replace(image.disk)
        shutil.rmtree(image.folder / "first")

    image = debian_disk(lab, start_once)
    with _booted(held, folder, image, disk or image.disk, variables or {}, memory_mb) as hosts:
        yield hosts


@contextmanager
def _booted(
    held: Mapping[str, Sequence[str]],
    folder: Path,
    image: DiskImage,
    disk: Path,
    variables: Mapping[str, object],
    memory_mb: int,
) -> Iterator[DebianHosts]:
    shared = shared_networks(held)
    members = {name: [net for net, there in shared.items() if name in there] for name in held}
    plan = plan_members(LINE6.name, members, list(shared))
    consoles = folder / "consoles"
    consoles.mkdir(parents=True)
    run = Path(tempfile.mkdtemp(prefix="l4sbench-debian-", dir=memory_dir(len(held) * memory_mb)))
    hosts = DebianHosts(plan, run, consoles, folder / "inventory.json", folder / "ssh_config")
    process: subprocess.Popen[bytes] | None = None
    try:
        _furnish(plan, folder, run, image, disk)
        _write_inventory(hosts, held, variables)
        order = LabOrder(
            plan=plan,
            kernel=run / "loader",
            run=run,
            consoles=consoles,
            memory_mb=memory_mb,
            root=(f"ubd0={loader.DISK}", "devtmpfs.mount=1"),
        )
        (folder / "order.json").write_text(order.model_dump_json())
        process = launch(folder, None)
        with process.stdin:  # type: ignore[union-attr]
            process.stdin.write(GO)  # type: ignore[union-attr]
        _await(hosts, folder, process)
        yield hosts
    finally:
        _end(run, process)


def _furnish(plan: LabPlan, folder: Path, run: Path, image: DiskImage, disk: Path) -> None:
    """Write keys, ssh's settings, and per host a folder with its disk and its boot loader."""
    shutil.copy(image.key, folder / ssh.KEY)
    (folder / "host-keys").mkdir()
    python, program = (shlex.quote(str(path)) for path in (ssh.system_python(), loader.__file__))
    script = run / "loader"
    script.write_text(f'#!/bin/sh\nexec {python} -I {program} {PATIENCE_S} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    for node in plan.nodes:
        shutil.copy(image.folder / "host_key.pub", folder / "host-keys" / f"{node.name}.pub")
        own = folder / f"{node.name}.disk"
        argv = ["cp", "--sparse=always", "--reflink=auto", str(disk), str(own)]
        subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        seat = run / node.name
        seat.mkdir()
        (seat / loader.DISK).symlink_to(own.absolute())
        (seat / RESTART).symlink_to(script)
    ssh.write_ssh(folder, run, plan, USER)
    with (folder / "ssh_config").open("a", encoding="utf-8") as config:
        # a proxy on the host through which its apt reaches the archive; the next connection may find it there
        config.write(f"    RemoteForward 127.0.0.1:{PROXY_PORT}\n    LogLevel ERROR\n")


def _write_inventory(
    hosts: DebianHosts, held: Mapping[str, Sequence[str]], variables: Mapping[str, object]
) -> None:
    told = {
        node.name: {
            "ansible_host": node.address,
            "l4sbench_nodes": list(held[node.name]),
            "l4sbench_ports": {port.network: port.mac for port in node.ports if port.network},
        }
        for node in hosts.plan.nodes
    }
    arguments = ["-F", str(hosts.ssh_config), "-o", f"ControlPath={hosts.run}/ssh-%C"]
    everybody = {
        "ansible_user": USER,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": shlex.join(arguments),
        "ansible_timeout": 60,
        "ansible_pipelining": True,
        **variables,
    }
    hosts.inventory.write_text(json.dumps({"all": {"vars": everybody, "hosts": told}}, indent=1))


def _ended(run: Path) -> list[str]:
    """Return the names of the hosts that do not run any more."""
    try:
        told = json.loads(ask(str(run / SOCKET), "nodes")[0])
    except OSError:  # the keeper begins
        return []
    return [name for name, node in told.items() if node["ended"]]


def _await(hosts: DebianHosts, folder: Path, keeper: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    waiting = {node.name: node.address for node in hosts.plan.nodes}
    while waiting:
        if keeper.poll() is not None:
            raise TestbedError(f"the keeper ended: {(folder / 'keeper.log').read_text()}")
        late = list(waiting)[:1] if time.monotonic() > deadline else []
        for name in _ended(hosts.run) or late:
            said = (hosts.consoles / f"{name}.log").read_text(errors="replace")[-2000:]
            raise TestbedError(f"{name} does not boot: {said}")
        waiting = {name: at for name, at in waiting.items() if not answers(hosts.run, at)}
        time.sleep(0.2)


def _end(run: Path, keeper: subprocess.Popen[bytes] | None) -> None:
    """End the hosts, and ssh's connections to them."""
    for path in ssh.control_sockets(run):
        argv = ["ssh", "-F", "/dev/null", "-o", f"ControlPath={path}", "-O", "exit", "host"]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S)
    if keeper is not None:
        with suppress(OSError):
            ask(str(run / SOCKET), "stop")
        try:
            keeper.wait(30)  # expires: it is killed then
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait(PATIENCE_S)
    shutil.rmtree(run, ignore_errors=True)
