# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Debian machines that QEMU emulates without KVM or root, with Debian's own kernels and GRUB.

    with machines(TWO, folder) as vms:
        ...  # vms.inventory is for ansible-playbook -i and for l4sbench run --on ssh:...
        on(vms, "ends", "uname", "-r")

Interfaces are linked as in line6, two machines at a network; QEMU's user-mode network is for management and
the archive of packages. All files are removed afterwards, but for disks that were kept:
`vms.keep("ends", path)` after `vms.stop("ends")`, then `machines(..., disk=path)`.

Everything takes about ten times as long as on hardware: a minute to boot on a quiet core. The clock of a
machine with `counted=True` counts instructions, a nanosecond each: by its own clock it is as fast as a PC,
however long that takes, and its trials are on time. Its date falls behind, and is set again and again.
"""

import json
import os
import shlex
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from l4sbench.errors import TestbedError
from tests.lab.debian.disk import SUITE
from tests.lab.debian.emulated_disk import MANAGEMENT_MAC, emulated_disk
from tests.lab.debian.hosts import shared_networks
from tests.lab.debian.root import USER, DiskImage
from tests.lab.nodes.hosts import on
from tests.patience import PATIENCE_S

MEMORY_MB = 1024
NICENESS = 5
_DATE_UNIT = """\
[Service]
ExecStart=/bin/bash -c 'while sleep 1; do read -r now </dev/tcp/10.0.2.2/{port} && date -s @$$now; done'
[Install]
WantedBy=multi-user.target
"""
CPU = "max,la57=off,cx16=off"
"""Without cmpxchg16b: a kernel that QEMU 7.2 interrupts in it comes back with wrong flags, and faults."""


@dataclass(frozen=True)
class VirtualMachine:
    """A machine that runs."""

    process: subprocess.Popen[bytes]
    port: int
    console: Path


@dataclass
class Machines:
    """Machines that run, their inventory for Ansible, and their configuration for ssh."""

    folder: Path
    inventory: Path
    ssh_config: Path
    running: dict[str, VirtualMachine] = field(default_factory=dict)

    def stop(self, name: str) -> None:
        """Shut a machine down.

        Raises:
            TestbedError: The machine does not end.
        """
        on(self, name, "sudo", "systemctl", "poweroff", check=False)
        try:
            self.running[name].process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            raise TestbedError(f"{name} does not shut down") from error
        del self.running[name]

    def keep(self, name: str, path: Path) -> None:
        """Move the disk of a stopped machine to `path`; the disk below it must stay where it is."""
        (self.folder / f"{name}.qcow2").rename(path)


@contextmanager
def machines(
    nodes: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    disk: Path | None = None,
    suite: str = SUITE,
    counted: bool = False,
) -> Iterator[Machines]:
    """Boot virtual machines and wait until ssh reaches each.

    Args:
        nodes: Name of a machine -> nodes of line6 that it holds.
        folder: Folder for disks, consoles and the inventory.
        disk: Disk below theirs, instead of a fresh Debian.
        suite: Codename of Debian's release, also of what is below `disk`.
        counted: Their clocks count instructions. Only for machines that no network links.

    Raises:
        TestbedError: A tool is missing, a machine does not boot, or a network has three machines.
    """
    image = emulated_disk(_start_once, suite)
    with _booted(nodes, folder, image, disk, counted=counted) as vms, ExitStack() as stack:
        if counted:
            port = stack.enter_context(_time_server())
            for name in nodes:
                _keep_date(vms, name, port)
        yield vms


def _keep_date(vms: Machines, name: str, port: int) -> None:
    """Have a machine set its date to ours every few seconds, also after a restart."""
    unit = shlex.quote(_DATE_UNIT.format(port=port))
    path = "/etc/systemd/system/date.service"
    on(
        vms,
        name,
        # a disk that was kept has one already, which asks a server that is gone
        f"printf %s {unit} | sudo tee {path} >/dev/null && sudo systemctl daemon-reload"
        " && sudo systemctl enable --quiet date && sudo systemctl restart date",
    )


@contextmanager
def _time_server() -> Iterator[int]:
    """Serve this machine's time to every connection on the loopback interface; yield the port."""

    class Now(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(f"{time.time():.3f}\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Now) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _booted(
    nodes: Mapping[str, Sequence[str]],
    folder: Path,
    image: DiskImage,
    disk: Path | None,
    *,
    counted: bool = False,
) -> Iterator[Machines]:
    ports = _ports(nodes)
    folder.mkdir(parents=True, exist_ok=True)
    vms = Machines(folder, folder / "inventory.yml", folder / "ssh_config")
    with ExitStack() as stack:
        for name in nodes:
            vm = _start(name, folder, image, disk, ports[name], counted=counted)
            stack.callback(_end, vm)
            vms.running[name] = vm
        _write_ssh(vms, image)
        _write_inventory(vms, nodes, ports)
        for name in nodes:
            _wait_for(vms, name)
        yield vms


def _start_once(image: DiskImage) -> None:
    """Have a fresh Debian write its boot menu, and check that it reaches the archive."""
    folder = image.disk.parent / "first"
    with _booted({"first": ["router"]}, folder, image, None) as vms:
        on(vms, "first", "sudo", "update-grub", timeout_s=PATIENCE_S)
        on(vms, "first", "sudo", "apt-get", "-q", "update", "--error-on=any", timeout_s=PATIENCE_S)
        # as on an image for clouds, which has no lists of packages
        on(vms, "first", "sudo", "rm", "-rf", "/var/lib/apt/lists/*")
        vms.stop("first")
        merge = ["qemu-img", "commit", "-q", str(folder / "first.qcow2")]
        subprocess.run(merge, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        (folder / "first.qcow2").unlink()


def _ports(nodes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return machine -> network -> MAC and the machine at its other end."""
    found: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in nodes}
    for number, (network, here) in enumerate(shared_networks(nodes).items(), 1):
        if len(here) > 2:
            raise TestbedError(f"{network} would have the machines {', '.join(here)}; two are possible")
        for place, name in enumerate(here):
            mac = f"52:54:00:00:{number:02x}:{place + 1:02x}"
            found[name][network] = (mac, here[1 - place])
    return found


def _start(
    name: str,
    folder: Path,
    image: DiskImage,
    disk: Path | None,
    ports: Mapping[str, tuple[str, str]],
    *,
    counted: bool,
) -> VirtualMachine:
    own = folder / f"{name}.qcow2"
    below, kind = (disk, "qcow2") if disk else (image.disk, "raw")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(below.absolute()), "-F", kind, str(own)],
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=True,
    )
    port = _free_port()
    console = folder / f"{name}.console"
    argv = [*_priority(counted=counted), "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]
    argv += ["-nodefaults", "-display", "none", "-cpu", CPU]
    argv += ["-accel", f"tcg,thread={'single' if counted else 'multi'}"]
    if counted:
        argv += ["-icount", "shift=0,sleep=on", "-rtc", "clock=vm"]
    argv += ["-machine", "q35", "-smp", "1", "-m", str(MEMORY_MB), "-serial", f"file:{console}"]
    argv += ["-drive", f"file={own},format=qcow2,if=virtio,cache=unsafe"]
    argv += ["-device", "virtio-rng-pci"]
    argv += ["-netdev", f"user,id=management,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", f"virtio-net-pci,netdev=management,mac={MANAGEMENT_MAC},romfile="]
    for network, (mac, other) in ports.items():
        ends = (f"{end}.path={folder}/{who}-{network}" for end, who in (("local", name), ("remote", other)))
        argv += ["-netdev", f"dgram,id={network},local.type=unix,remote.type=unix,{','.join(ends)}"]
        argv += ["-device", f"virtio-net-pci,netdev={network},mac={mac},romfile="]
    log = folder / f"{name}.qemu"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
    return VirtualMachine(process, port, console)


def _priority(*, counted: bool) -> list[str]:
    """Return the beginning of a command with QEMU's priority.

    While a machine of counted instructions idles, its clock is this machine's, and a wait for a core makes
    its timers late: it goes before everything else where we may have it so.
    """
    return ["chrt", "--rr", "1"] if counted and os.geteuid() == 0 else ["nice", "-n", str(NICENESS)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(vm: VirtualMachine) -> None:
    vm.process.terminate()
    try:
        vm.process.wait(30)  # expires: it is killed then
    except subprocess.TimeoutExpired:
        vm.process.kill()
        vm.process.wait(PATIENCE_S)


def _wait_for(vms: Machines, name: str) -> None:
    vm = vms.running[name]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if vm.process.poll() is not None:
            said = (vms.folder / f"{name}.qemu").read_text(errors="replace")
            raise TestbedError(f"QEMU ended: {said}")
        with suppress(AssertionError, subprocess.TimeoutExpired):
            on(vms, name, "true", timeout_s=90)  # expires: a try, many are made
            return
        if time.monotonic() > deadline:
            raise TestbedError(f"{name} does not boot", hint=f"its console is {vm.console}")
        time.sleep(2)


def _write_ssh(vms: Machines, image: DiskImage) -> None:
    """Write a configuration with which `ssh -F` reaches every machine by name."""
    lines = [line for name, vm in vms.running.items() for line in (f"Host {name}", f"    Port {vm.port}")]
    options = {
        "HostName": "127.0.0.1",
        "User": USER,
        "IdentityFile": image.key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": image.known_hosts,
        "HostKeyAlias": "l4sbench-vm",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": 60,
        "ServerAliveInterval": 30,
        "LogLevel": "ERROR",
    }
    lines += ["Host *", *(f"    {name} {value}" for name, value in options.items())]
    vms.ssh_config.write_text("".join(f"{line}\n" for line in lines))


def _write_inventory(
    vms: Machines,
    nodes: Mapping[str, Sequence[str]],
    ports: Mapping[str, Mapping[str, tuple[str, str]]],
) -> None:
    hosts = {
        name: {
            # else Ansible would share connections with another machine of this name
            "ansible_port": vms.running[name].port,
            "l4sbench_nodes": list(held),
            "l4sbench_ports": {network: mac for network, (mac, _) in ports[name].items()},
        }
        for name, held in nodes.items()
    }
    shared = {
        "ansible_ssh_common_args": f"-F {vms.ssh_config}",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_timeout": 60,
    }
    vms.inventory.write_text(json.dumps({"all": {"vars": shared, "hosts": hosts}}, indent=1))
