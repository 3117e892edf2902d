# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Starting a lab of nodes: keys, files that nodes boot from, and the keeper in its namespaces."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.disk import assets
from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes import ssh
from l4sbench.testbeds.nodes.home import Home, Remains, State, tail
from l4sbench.testbeds.nodes.keeper import GO, RESTART, LabOrder
from l4sbench.testbeds.nodes.plan import BASTION
from l4sbench.testbeds.nodes.process import Process
from l4sbench.testbeds.nodes.userland import USER, NodeUserland
from l4sbench.testbeds.virtual.guest import memory_dir
from l4sbench.testbeds.virtual.lab.cache import digest_of

if TYPE_CHECKING:
    from l4sbench.testbeds.nodes.plan import LabPlan
    from l4sbench.testbeds.virtual.lab import Lab
    from l4sbench.topology import Topology

_BASTION_SSHD = "ForceCommand /usr/bin/echo this is a bastion: it only forwards\nPermitTTY no\n"
_FIRST = ("nice", "-n", "-19")
_RESTART = """\
#!/bin/sh
exec {python} -I -c '
import os, sys
os.closerange(3, 65536)
os.execv(sys.argv[1], sys.argv[2:])
' {kernel} "$0" "$@"
"""


def key(plan: LabPlan, lab: Lab) -> str:
    """Return the digest of everything that a lab is started from."""
    boot = assets.digest(assets.folder("kernels") / "lab" / "node")
    modules = (f"{name} {digest}" for name, digest in sorted(lab.digests.modules.items()))
    return digest_of([plan.model_dump_json(), lab.digests.kernel, lab.digests.userland, boot, *modules])


def start(
    home: Home,
    plan: LabPlan,
    lab: Lab,
    userland: NodeUserland,
    memory_mb: int,
    topology: Topology,
    listen: tuple[str, int] | None = None,
) -> State:
    """Write the files that nodes boot from, start the keeper, and store its state.

    Args:
        home: The lab's folder.
        plan: Nodes and bridges.
        lab: Kernel and modules.
        userland: Root of the nodes.
        memory_mb: Memory of one node.
        topology: Name of the nodes' topology.
        listen: Address and port on the host for the plan's bastion.

    Raises:
        TestbedError: Keys could not be made, the address is taken, or the keeper ended at once.
    """
    with nullcontext() if listen is None else _listen(*listen) as listener:
        return _start(home, plan, lab, userland, memory_mb, topology, listener)


def _start(
    home: Home,
    plan: LabPlan,
    lab: Lab,
    userland: NodeUserland,
    memory_mb: int,
    topology: Topology,
    listener: socket.socket | None,
) -> State:
    folder = home.folder
    bastion: tuple[str, int] | None = None if listener is None else listener.getsockname()[:2]
    for name in (ssh.KEY, *(() if bastion is None else (ssh.BASTION_KEY,))):
        ssh.make_key(folder / name, "ecdsa")
    (folder / "host-keys").mkdir(exist_ok=True)
    home.consoles.mkdir(exist_ok=True)
    run = Path(tempfile.mkdtemp(prefix="l4sbench-nodes-", dir=memory_dir(len(plan.nodes) * memory_mb)))
    # from here on the next command knows what to remove, however this process ends
    write_whole(home.note, Remains(keeper=None, run=run).model_dump_json(indent=1))
    for node in plan.nodes:
        ssh.make_key(folder / "host-keys" / node.name, "ed25519")
        (home.consoles / f"{node.name}.log").unlink(missing_ok=True)
    _furnish(folder, plan, lab, userland, run)
    ssh.write_ssh(folder, run, plan, USER, bastion)
    ssh.write_inventory(folder, run, plan, topology)
    order = LabOrder(
        plan=plan,
        kernel=lab.kernel,
        run=run,
        consoles=home.consoles,
        memory_mb=memory_mb,
        bastion_fd=None if listener is None else listener.fileno(),
    )
    write_whole(folder / "order.json", order.model_dump_json(indent=1))
    process = launch(folder, listener)
    keeper = Process.of(process.pid)
    if keeper is None or process.stdin is None:
        raise no_keeper(folder)
    state = State(key=key(plan, lab), plan=plan, keeper=keeper, run=run, bastion=bastion)
    write_whole(home.note, state.model_dump_json(indent=1))
    with suppress(BrokenPipeError), process.stdin:  # waiting for the nodes notices a keeper that has ended
        process.stdin.write(GO)
    process.returncode = 0  # nobody waits for it: it stays
    return state


def _furnish(folder: Path, plan: LabPlan, lab: Lab, userland: NodeUserland, run: Path) -> None:
    """Make one folder per node: links to what it boots from, and its own files."""
    boot = run / "boot"
    boot.mkdir()
    for name in ("dev", "proc", "run", "sys"):
        (boot / name).mkdir()
    sources = assets.folder("kernels") / "lab" / "node"
    shutil.copy(userland.base / "usr" / "bin" / "busybox", boot / "busybox")
    shutil.copy(sources / "init", boot / "init")
    modules = run / "modules"
    modules.mkdir()
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(lab.kernel.parent / "tree" / name, modules / name)
    for path in lab.modules.values():
        for file in (path, *path.parent.glob("q_*.so")):  # a queue's module, and tc's part of it
            shutil.copy(file, modules / file.name)
    for node in plan.nodes:
        seat = run / node.name
        own = seat / "own"
        own.mkdir(parents=True)
        (seat / "boot").symlink_to(boot)  # hostfs accepts only absolute paths
        (seat / "base").symlink_to(userland.base)
        (seat / "layer").symlink_to(userland.layer)
        shutil.copytree(modules, own / "modules")
        for name in ("start", "inittab"):
            shutil.copy(sources / name, own / name)
        name = ssh.BASTION_KEY if node.name == BASTION else ssh.KEY
        shutil.copy(folder / f"{name}.pub", own / "authorized_keys")
        (own / "sshd").write_text(_BASTION_SSHD if node.name == BASTION else "", encoding="utf-8")
        shutil.copy(folder / "host-keys" / node.name, own / "ssh_host_ed25519_key")
        # names and addresses from the plan: letters, digits, dots, colons
        restart = seat / RESTART
        python, kernel = (shlex.quote(str(path)) for path in (ssh.system_python(), lab.kernel))
        restart.write_text(_RESTART.format(python=python, kernel=kernel), encoding="utf-8")
        restart.chmod(0o755)
        (own / "node").write_text(
            f"NAME={node.name}\nUSER={USER}\nMAC={node.ports[0].mac}\n"
            f"ADDRESSES='{node.address}/24 {node.address_6}/64'\n",
            encoding="utf-8",
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        ports = "; ports below 1024 need root" if isinstance(error, PermissionError) else ""
        raise TestbedError(
            f"the bastion cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}{ports}",
            hint="give another address, such as --bastion 127.0.0.1:0 for any free port",
        ) from error


def launch(folder: Path, listener: socket.socket | None) -> subprocess.Popen[bytes]:
    """Start the keeper in new namespaces; it outlives this process.

    It and its nodes come before this machine's other processes where this user may ask for that (root, or
    RLIMIT_NICE), as a packet waits until its node has had its turn. Elsewhere `nice` only warns. It must be
    asked for here: the namespaces have no privilege outside.
    """
    # process 1 of the namespaces ends with unshare
    namespaces = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    keeper: list[str | Path] = [sys.executable, "-m", "l4sbench.testbeds.nodes.keeper", folder / "order.json"]
    with (folder / "keeper.log").open("wb") as log:
        try:
            return subprocess.Popen(
                [*_FIRST, "unshare", *namespaces, *keeper],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=() if listener is None else (listener.fileno(),),
                cwd="/",
                env={**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"},
            )
        except OSError as error:
            raise TestbedError(f"cannot start unshare: {error}", hint="l4sbench doctor") from error


def no_keeper(folder: Path) -> TestbedError:
    """Return the error for a keeper that has ended, with its log."""
    return TestbedError(
        f"the lab's keeper does not run:\n{tail(folder / 'keeper.log')}", hint="l4sbench doctor"
    )
