# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Access to nodes: the lab's keys, an ssh configuration, and the inventory for Ansible."""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes import connect
from l4sbench.testbeds.nodes.keeper import SOCKET
from l4sbench.testbeds.nodes.plan import BASTION
from l4sbench.testbeds.ssh.hosts import CARRIES_VARIABLE, REWRITES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from l4sbench.testbeds.nodes.capacity import Capacity
    from l4sbench.testbeds.nodes.plan import LabPlan
    from l4sbench.topology import Topology

_KEYGEN_S = 60
KEY = "id_ecdsa"
BASTION_KEY = "id_bastion"


def system_python() -> Path:
    """Return the interpreter outside of any virtual environment, which may be removed while a lab is up."""
    return Path(sys.executable).resolve()


def make_key(path: Path, kind: str) -> None:
    """Make a key pair without a password, unless it exists; `kind` is `ecdsa` or `ed25519`.

    Raises:
        TestbedError: ssh-keygen is missing or failed.
    """
    if path.exists() and path.with_name(f"{path.name}.pub").exists():
        return
    partial = path.with_name(f"{path.name}.new")
    for old in (partial, partial.with_name(f"{partial.name}.pub"), path):
        old.unlink(missing_ok=True)
    try:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "l4sbench", "-f", str(partial)],
            check=True,
            capture_output=True,
            text=True,
            timeout=_KEYGEN_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise TestbedError(f"ssh-keygen failed: {said}", hint="l4sbench doctor") from error
    shutil.move(f"{partial}.pub", f"{path}.pub")
    partial.rename(path)


def write_ssh(
    folder: Path, run: Path, plan: LabPlan, user: str, bastion: tuple[str, int] | None = None
) -> Path:
    """Write `known_hosts` and `ssh_config` into the lab's folder, and return the path of `ssh_config`.

    `ssh -F` with it reaches every node by name and by address, through the bastion if there is one: `bastion`
    is its address and port on the host.
    """
    known = []
    for node in plan.nodes:
        kind, key = (folder / "host-keys" / f"{node.name}.pub").read_text(encoding="utf-8").split()[:2]
        known.append(f"{node.name},{node.address},{node.address_6} {kind} {key}\n")
    write_whole(folder / "known_hosts", "".join(known))
    path = folder / "ssh_config"
    keeper = shlex.join([str(system_python()), "-I", connect.__file__, str(run / SOCKET)])
    proxy = [f"    ProxyCommand {keeper.replace('%', '%%')} %h %p", "    ProxyUseFdpass yes"]
    way = []
    if bastion is not None:
        through = shlex.join(["ssh", "-F", str(path)])
        proxy = [f"    ProxyCommand {through.replace('%', '%%')} -W [%h]:%p {BASTION}"]
        way = [
            f"Host {BASTION}",
            f"    HostName {bastion[0]}",
            f"    Port {bastion[1]}",
            f"    HostKeyAlias {BASTION}",
            f"    IdentityFile {_quoted(folder / BASTION_KEY)}",
            "    ProxyCommand none",
        ]
    lines = [
        "# made by l4sbench lab up",
        *way,
        *(line for node in plan.nodes for line in (f"Host {node.name}", f"    HostName {node.address}")),
        "Host *",
        f"    User {user}",
        f"    IdentityFile {_quoted(folder / KEY)}",
        "    IdentitiesOnly yes",
        f"    UserKnownHostsFile {_quoted(folder / 'known_hosts')}",
        "    GlobalKnownHostsFile /dev/null",
        "    StrictHostKeyChecking yes",
        "    PasswordAuthentication no",
        "    ServerAliveInterval 10",
        *proxy,
    ]
    write_whole(path, "".join(f"{line}\n" for line in lines))
    return path


def _quoted(path: Path) -> str:
    return '"{}"'.format(str(path).replace("%", "%%"))


def control_sockets(run: Path) -> list[Path]:
    """Return the sockets of ssh processes that keep a connection to a node open for the next command."""
    return sorted(run.glob("ssh-*"))


def write_inventory(
    folder: Path, run: Path, plan: LabPlan, topology: Topology, capacity: Capacity | None = None
) -> Path:
    """Write the lab's inventory for Ansible, with what the lab carries once measured; return its path."""
    from ruamel.yaml import YAML

    hosts = {
        node.name: {
            "ansible_host": node.address,
            "l4sbench_node": node.name,
            "l4sbench_ports": {port.network: port.mac for port in node.ports if port.network},
        }
        for node in plan.nodes
        if node.name != BASTION
    }
    # without a ControlPath on its command line, Ansible adds one and would reuse a connection
    # to a lab that is gone.
    arguments = ["-F", str(folder / "ssh_config"), "-o", f"ControlPath={run}/ssh-%C"]
    inventory = {
        "all": {
            "vars": {
                "ansible_user": "debian",
                "ansible_python_interpreter": "/usr/bin/python3",
                # halves the time per task, as nodes start programs slowly; sudo needs no terminal here
                "ansible_pipelining": True,
                "ansible_ssh_private_key_file": str(folder / KEY),
                "ansible_ssh_common_args": shlex.join(arguments),
                "l4sbench_topology": topology.name,
                **({} if capacity is None else {CARRIES_VARIABLE: capacity.rate}),
                REWRITES_VARIABLE: False,  # the lab's kernel has no nf_tables
            },
            "children": {"nodes": {"hosts": hosts}, **_roles(topology)},
        }
    }
    text = io.StringIO()
    text.write("# made by l4sbench lab up\n")
    YAML().dump(inventory, text)
    path = folder / "inventory.yml"
    write_whole(path, text.getvalue())
    return path


def _roles(topology: Topology) -> Mapping[str, object]:
    """Return groups of nodes by role; no group has the name of a node."""
    groups = {
        "role_sender": topology.senders,
        "role_receiver": topology.receivers,
        "role_delay": topology.delays,
        "role_router": topology.routers,
    }
    return {name: {"hosts": dict.fromkeys(nodes)} for name, nodes in groups.items()}
