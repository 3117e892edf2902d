# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Virtual machines with an ordinary Debian, as hosts of an inventory, emulated by QEMU without KVM or root.

    with machines(TWO, folder) as vms:
        ...  # vms.inventory is for ansible-playbook -i and for l4sbench run --on ssh:...
        vms.on("ends", "uname", "-r")

Interfaces are linked as line6 says, two machines at a network; management goes by QEMU's user-mode network,
through which a machine reaches the archive of packages too. All of it is gone afterwards, but for disks
that were kept: `vms.keep("ends", path)` after `vms.stop("ends")`, then `machines(..., disk=path)`.

`python -m tests.lab.vms` boots two, prints their inventory and holds them until interrupted.
Everything takes some ten times as long as on hardware: about a minute to boot on a quiet core.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

from l4sbench.errors import TestbedError
from tests.lab.debian.hosts import shared_networks
from tests.lab.debian.root import USER, DiskImage
from tests.lab.vms.image import MANAGEMENT_MAC, debian_disk

BOOT_S = 900
"""How long a machine may take until one can log in, on a busy machine."""
STOP_S = 300
NICENESS = 5
CPU = "max,la57=off,cx16=off"
"""Without cmpxchg16b: a kernel that QEMU 7.2 interrupts in it comes back with wrong flags, and faults."""


@dataclass(frozen=True)
class VirtualMachine:
    """One that runs."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    disk: Path
    console: Path


@dataclass
class Machines:
    """Those that run, and the inventory that has them."""

    folder: Path
    image: DiskImage
    inventory: Path
    running: dict[str, VirtualMachine] = field(default_factory=dict)

    def on(self, name: str, *argv: str, check: bool = True, timeout_s: float = 600) -> str:
        """What a command on a machine says; words reach its shell as they are.

        Raises:
            TestbedError: It failed (with `check`), or took too long.
        """
        vm = self.running[name]
        full = ["ssh", *self.ssh_words(), "-p", str(vm.port), f"{USER}@127.0.0.1", *argv]
        try:
            done = subprocess.run(
                full,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TestbedError(f"{name}: {' '.join(argv)}: no end within {timeout_s:g} s") from error
        if check and done.returncode:
            raise TestbedError(f"{name}: {' '.join(argv)}: {done.stderr or done.stdout}")
        return done.stdout

    def ssh_words(self) -> list[str]:
        """What ssh needs to log in to any of them."""
        image = self.image
        options = {
            "IdentityFile": image.key,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": image.known_hosts,
            "HostKeyAlias": "l4sbench-vm",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": 60,
            "ServerAliveInterval": 30,
            "LogLevel": "ERROR",
        }
        return [
            "-F",
            "/dev/null",
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        ]

    def stop(self, name: str) -> None:
        """Shut a machine down as one does.

        Raises:
            TestbedError: It does not end.
        """
        self.on(name, "sudo", "systemctl", "poweroff", check=False)
        try:
            self.running[name].process.wait(STOP_S)
        except subprocess.TimeoutExpired as error:
            raise TestbedError(f"{name} does not shut down") from error
        del self.running[name]

    def keep(self, name: str, path: Path) -> None:
        """Keep the disk of a machine that was stopped; what it was laid over must stay where it is."""
        partial = path.with_name(f"{path.name}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.qcow2").rename(partial)
        partial.rename(path)


@contextmanager
def machines(
    nodes: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    suite: str = "trixie",
    disk: Path | None = None,
    variables: Mapping[str, object] | None = None,
    memory_mb: int = 1024,
) -> Iterator[Machines]:
    """Boot virtual machines and wait until one can log in to each.

    Args:
        nodes: Name of a machine -> nodes of line6 that it holds.
        folder: For disks, consoles and the inventory.
        suite: Which Debian.
        disk: What their disks are laid over instead of a fresh Debian.
        variables: For all hosts of the inventory, such as `l4sbench_kernel`.
        memory_mb: Of each.

    Raises:
        TestbedError: A tool is missing, a machine does not boot, or a network has three machines.
    """
    image = debian_disk(suite, _start_once)
    with _booted(nodes, folder, image, disk, variables or {}, memory_mb) as vms:
        yield vms


@contextmanager
def _booted(
    nodes: Mapping[str, Sequence[str]],
    folder: Path,
    image: DiskImage,
    disk: Path | None,
    variables: Mapping[str, object],
    memory_mb: int,
) -> Iterator[Machines]:
    ports = _ports(nodes)
    folder.mkdir(parents=True, exist_ok=True)
    vms = Machines(folder, image, folder / "inventory.yml")
    with ExitStack() as stack:
        for name in nodes:
            vm = _start(name, folder, image, disk, ports[name], memory_mb)
            stack.callback(_end, vm)
            vms.running[name] = vm
        _write_inventory(vms, nodes, ports, variables)
        for name in nodes:
            _wait_for(vms, name)
        yield vms


def _start_once(image: DiskImage) -> None:
    """Have a fresh Debian write its boot menu, and see that it reaches the archive."""
    folder = image.disk.parent / "first"
    with _booted({"first": ["router"]}, folder, image, None, {}, 1024) as vms:
        vms.on("first", "sudo", "update-grub")
        vms.on("first", "sudo", "apt-get", "-q", "update", "--error-on=any")
        # as on an image for clouds: whoever wants packages must fetch the lists first
        vms.on("first", "sudo", "rm", "-rf", "/var/lib/apt/lists/*")
        vms.stop("first")
        merge = ["qemu-img", "commit", "-q", str(folder / "first.qcow2")]
        subprocess.run(merge, stdin=subprocess.DEVNULL, timeout=600, check=True)
        (folder / "first.qcow2").unlink()


def _ports(nodes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, tuple[str, str]]]:
    """Machine -> network -> MAC and the machine at its other end."""
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
    memory_mb: int,
) -> VirtualMachine:
    own = folder / f"{name}.qcow2"
    below, kind = (disk, "qcow2") if disk else (image.disk, "raw")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(below.absolute()), "-F", kind, str(own)],
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    port = _free_port()
    console = folder / f"{name}.console"
    argv = ["nice", "-n", str(NICENESS), "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]
    argv += ["-nodefaults", "-display", "none", "-accel", "tcg,thread=multi", "-cpu", CPU]
    argv += ["-machine", "q35", "-smp", "1", "-m", str(memory_mb), "-serial", f"file:{console}"]
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
    return VirtualMachine(name, process, port, own, console)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(vm: VirtualMachine) -> None:
    vm.process.terminate()
    try:
        vm.process.wait(30)
    except subprocess.TimeoutExpired:
        vm.process.kill()
        vm.process.wait(30)


def _wait_for(vms: Machines, name: str) -> None:
    vm = vms.running[name]
    deadline = time.monotonic() + BOOT_S
    while True:
        if vm.process.poll() is not None:
            said = (vms.folder / f"{name}.qemu").read_text(errors="replace")
            raise TestbedError(f"QEMU ended: {said}")
        try:
            vms.on(name, "true", timeout_s=90)
        except TestbedError as error:
            if time.monotonic() > deadline:
                raise TestbedError(f"{name} does not boot: {error}", hint=f"look at {vm.console}") from error
            time.sleep(2)
        else:
            return


def _write_inventory(
    vms: Machines,
    nodes: Mapping[str, Sequence[str]],
    ports: Mapping[str, Mapping[str, tuple[str, str]]],
    variables: Mapping[str, object],
) -> None:
    hosts = {
        name: {
            "ansible_host": "127.0.0.1",
            "ansible_port": vms.running[name].port,
            "l4sbench_nodes": list(held),
            "l4sbench_ports": {network: mac for network, (mac, _) in ports[name].items()},
        }
        for name, held in nodes.items()
    }
    shared = {
        "ansible_user": USER,
        "ansible_ssh_common_args": " ".join(vms.ssh_words()),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_timeout": 60,
        **variables,
    }
    partial = vms.inventory.with_suffix(".partial")
    YAML().dump({"all": {"vars": shared, "hosts": hosts}}, partial)
    partial.rename(vms.inventory)
