# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Access to machines of a slice: through the bastion, by key, written as an Ansible inventory."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from l4sbench.errors import TestbedError
from l4sbench.facts.kernels import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fablib_slices.answers import Machine, Slice
    from fablib_slices.spec import PortSpec, SliceSpec, SwitchSpec


@dataclass(frozen=True)
class Access:
    """The bastion, the user's login on it, and the keys for it and for the machines.

    `public_key_file` belongs to `private_key_file`; FABRIC accepts RSA and ECDSA keys for machines.
    """

    bastion_host: str
    bastion_user: str
    bastion_key_file: Path
    private_key_file: Path
    public_key_file: Path
    bastion_port: int = 22

    @classmethod
    def of(cls, fablib: Any) -> Access:
        """Return the access that fablib is configured for."""
        return cls(
            bastion_host=str(fablib.get_bastion_host()),
            bastion_user=str(fablib.get_bastion_username()),
            bastion_key_file=Path(fablib.get_bastion_key_location() or ""),
            private_key_file=Path(fablib.get_default_slice_private_key_file() or ""),
            public_key_file=Path(fablib.get_default_slice_public_key_file() or ""),
        )

    def public_key(self) -> str:
        """Return the public key for machines.

        Raises:
            TestbedError: the key cannot be read, or FABRIC does not accept its kind.
        """
        try:
            key = self.public_key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TestbedError(f"cannot read the slice key: {error}", SLICE_KEY_HINT) from error
        kind = key.split(" ")[0]
        if not kind.startswith(("ssh-rsa", "ecdsa-")):
            message = (
                f"the slice key {self.public_key_file} is {kind or 'empty'}; FABRIC accepts RSA and ECDSA"
            )
            raise TestbedError(message, SLICE_KEY_HINT)
        return key

    def check(self, known_hosts: Path) -> None:
        """Try the bastion once: it bans clients that fail for every machine.

        Raises:
            TestbedError: a key is missing, or ssh cannot use it, or the bastion is unreachable or refuses the
                login.
        """
        for name, key, hint in (
            ("bastion", self.bastion_key_file, KEYS_HINT),
            ("slice", self.private_key_file, SLICE_KEY_HINT),
        ):
            if not key.is_file():
                raise TestbedError(f"the {name} key {key} does not exist", hint)
            _require_readable(name, key)
        target = f"{self.bastion_user}@{self.bastion_host}"
        options = [*ssh_options(self.bastion_key_file, known_hosts), "-o", "BatchMode=yes"]
        argv = ["ssh", *options, "-p", str(self.bastion_port), target, "exit"]
        try:
            ended = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_KNOCK_S, check=False
            )
        except subprocess.TimeoutExpired:
            return  # a login that gets no answer may still forward connections
        except OSError as error:
            raise TestbedError(f"cannot run ssh: {error}", "l4sbench doctor") from error
        if ended.returncode != _SSH_FAILED or "open failed" in ended.stderr:
            return  # logged in; a bastion has no shell
        said = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = "check this machine's network"
        if "denied" in said:
            hint = KEYS_HINT
        elif "Host key" in said:
            hint = f"its host key changed; if FABRIC announced that, remove {known_hosts}"
        raise TestbedError(f"the bastion refuses {target}: {said}", hint)

    def proxy_command(self, known_hosts: Path) -> str:
        """Return ssh's ProxyCommand through the bastion; addresses in brackets, as they may be IPv6."""
        options = ssh_options(self.bastion_key_file, known_hosts)
        target = f"{self.bastion_user}@{self.bastion_host}"
        return shlex.join(["ssh", *options, "-p", str(self.bastion_port), "-W", "[%h]:%p", target])


def _require_readable(name: str, key: Path) -> None:
    """Raise TestbedError if ssh would ignore a private key, as the login that fails then does not say so."""
    argv = ["ssh-keygen", "-y", "-P", "", "-f", str(key)]
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_KNOCK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"cannot run ssh-keygen: {error}", "l4sbench doctor") from error
    if not ended.returncode:
        return
    said = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
    hint = None
    if "bad permissions" in said:
        hint = f"only you may read it: {shlex.join(['chmod', '600', str(key)])}"
    elif "passphrase" in said:
        change = shlex.join(["ssh-keygen", "-p", "-f", str(key)])
        hint = f"a run cannot ask for a passphrase: use a key without one, or remove it by {change}"
    raise TestbedError(f"ssh cannot use the {name} key: {said}", hint)


KEYS_HINT: Final = (
    "bastion keys expire after six months: make one in the portal (SSH keys), "
    "or by FablibManager().create_bastion_keys()"
)
SLICE_KEY_HINT: Final = "fablib makes one: FablibManager().create_sliver_keys()"
_KNOCK_S: Final = 60.0
_SSH_FAILED: Final = 255

BASTION_HOSTS: Final = "known_hosts-bastion"


def _short(*words: str) -> str:
    """Return a short name for a socket, whose path is limited to about a hundred bytes."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:10]


def ssh_options(key: Path, known_hosts: Path) -> list[str]:
    """Return options that ignore the user's own ssh configuration, agents and known hosts."""
    return [
        *("-F", "/dev/null", "-i", str(key)),
        *("-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"),
        *("-o", f"UserKnownHostsFile={known_hosts}", "-o", "StrictHostKeyChecking=accept-new"),
        *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4", "-o", "ConnectTimeout=30"),
    ]


def inventory(
    found: Slice, access: Access, known_hosts: Path, spec: SliceSpec | None = None
) -> Mapping[str, object]:
    """Return a slice's machines as an Ansible inventory for `l4sbench run --on ssh:INVENTORY`.

    Hosts are in the group `nodes` and in `role_<role>`; each has `l4sbench_node` and `l4sbench_ports` (MAC by
    network). A switch is in the group `switches` instead of a role's, and has `l4sbench_switch` if the
    description is given; otherwise it is no host of a run. ssh keeps connections, because the bastion
    bans clients that connect too often.

    Args:
        found: The slice; it must be ready.
        access: Access to its machines.
        known_hosts: File for the machines' host keys, stored at first contact; for this slice alone, as the
            next one may get the same addresses. The bastion's key is in a file beside it.
        spec: Its description, with the kernel that machines run and what switches' ports are set to.

    Raises:
        TestbedError: a machine has no address, or a port no MAC, yet.
    """
    hosts: dict[str, dict[str, object]] = {}
    roles: dict[str, dict[str, dict[str, object]]] = {}
    switches = spec.switches if spec is not None else ()
    # machines of a slice may boot what their cells need without being told so
    kernel = {"l4sbench_kernel": spec.kernel} if spec is not None and spec.kernel != DISTRIBUTION else {}
    for machine in found.machines:
        if not machine.address:
            raise TestbedError(
                f"{machine.name} of slice {found.name} has no address yet", "wait and try again"
            )
        own: dict[str, object] = {"l4sbench_node": machine.name, "l4sbench_ports": dict(machine.ports)}
        if machine.switch:
            own = _of_switch(next((one for one in switches if one.name == machine.name), None), machine)
        hosts[machine.name] = {
            "ansible_host": machine.address,
            "ansible_user": machine.user,
            **own,
            "fabric_site": machine.site,
            # By default Ansible names kept connections by address; they could lead to a removed slice.
            "ansible_control_path": f"%(directory)s/{_short(found.id, machine.name)}",
        }
        group = "switches" if machine.switch else f"role_{machine.role}"
        roles.setdefault(group, {})[machine.name] = {}
    proxy = access.proxy_command(known_hosts.with_name(BASTION_HOSTS))
    options = [
        *ssh_options(access.private_key_file, known_hosts),
        *("-o", "ControlMaster=auto", "-o", "ControlPersist=300s"),
        *("-o", f"ProxyCommand={proxy}"),
    ]
    children: dict[str, object] = {"nodes": {"hosts": hosts}}
    children |= {role: {"hosts": members} for role, members in sorted(roles.items())}
    return {
        "all": {
            "vars": {
                "ansible_ssh_private_key_file": str(access.private_key_file),
                "ansible_ssh_common_args": shlex.join(options),
                "ansible_become": True,
                **kernel,
                "fabric_slice": found.name,
                "fabric_slice_id": found.id,
            },
            "children": children,
        }
    }


def _of_switch(spec: SwitchSpec | None, machine: Machine) -> dict[str, object]:
    """Return the variables of a switch. Commands there run as its own user, who has the SDE.

    Raises:
        TestbedError: FABRIC does not name the front port of a network.
    """
    own: dict[str, object] = {"ansible_become": False}
    if spec is not None:
        ports = {
            one.network: {**_port_of(one, machine), "mac": one.mac, "speed": one.speed, "fec": one.fec}
            for one in spec.ports
        }
        own["l4sbench_switch"] = {"node": spec.name, "ports": ports}
        if spec.enter is not None:
            own["tofino_enter"] = list(spec.enter)
    return own


def _port_of(one: PortSpec, machine: Machine) -> dict[str, object]:
    """Return the device's number for a port as the description has it, else its front port."""
    if one.port is not None:
        return {"port": one.port}
    front = dict(machine.ports).get(one.network)
    if front is None:
        message = f"FABRIC does not name the front port of {machine.name} on {one.network}"
        hint = f"add switch.ports: {{{one.network}: {{port: D_P}}}} to the slice's file (pm show in ucli)"
        raise TestbedError(message, hint)
    return {"front": front}
