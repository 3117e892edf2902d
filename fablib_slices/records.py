# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Records of slices on this machine: their description, and the access to their machines.

Below the user's state folder, a folder per slice: `slice.json` (id, lease, site, images, versions),
`slice.graphml`, `inventory.yml`, and the host keys of its machines and of the bastion. FABRIC's own data is
authoritative; the folder can be restored from it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from fablib_slices.access import BASTION_HOSTS, Access, inventory
from fablib_slices.graph import slice_graph
from fablib_slices.spec import NetSpec, PortSpec, SliceSpec, SwitchSpec, VmSpec
from l4sbench.disk.files import write_whole
from l4sbench.disk.places import state_folder
from l4sbench.errors import InputError
from l4sbench.facts.kernels import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fablib_slices.answers import Slice


def folder(name: str) -> Path:
    """Return the folder of a slice's records."""
    return state_folder() / "slices" / name


def _made(name: str) -> Path:
    path = folder(name)
    path.mkdir(parents=True, exist_ok=True)
    return path


def bastion_hosts(name: str) -> Path:
    """Return the file with the bastion's host key for a slice."""
    return _made(name) / BASTION_HOSTS


def numbered(name: str) -> tuple[str, ...]:
    """Return the recorded slices of a run that used several of this name."""
    kept = [path.parent.name for path in folder(name).parent.glob("*-*/slice.json")]
    return tuple(sorted(one for one in kept if re.fullmatch(re.escape(name) + "-[1-9][0-9]*", one)))


def keep_inventory(found: Slice, access: Access, spec: SliceSpec | None = None) -> Path:
    """Write a slice's inventory and return its path; `spec` is the slice's description, if it is known.

    Ansible reads YAML 1.1, in which an unquoted address of decimal digits is a number; this writes for it.

    Raises:
        TestbedError: a machine has no address yet.
    """
    from io import StringIO

    own = _made(found.name)
    known_hosts = own / f"known_hosts-{found.id[:8]}"
    for path in own.glob("known_hosts*"):
        if path.name not in {known_hosts.name, BASTION_HOSTS}:
            path.unlink()  # an earlier slice's machines had other keys
    text = StringIO()
    yaml = YAML()
    yaml.version = (1, 1)
    yaml.dump(inventory(found, access, known_hosts, spec), text)
    path = own / "inventory.yml"
    write_whole(path, text.getvalue())
    return path


def keep(spec: SliceSpec, found: Slice | None = None) -> None:
    """Record a slice's description and, once it is ready, its state."""
    own = _made(spec.name)
    came: dict[str, object] = {}
    if found is not None:
        came = {
            "id": found.id,
            "lease_end": found.lease_end.isoformat(),
            "sites": sorted({machine.site for machine in found.machines}),
        }
    record = {
        **came,
        "digest": spec.digest,
        "spec": asdict(spec),
        "versions": {
            name: version(name) for name in ("fabrictestbed-extensions", "fabrictestbed", "fabric-fim")
        },
    }
    write_whole(own / "slice.json", json.dumps(record, indent=2) + "\n")
    write_whole(own / "slice.graphml", slice_graph(spec))


def kept_spec(name: str) -> SliceSpec | None:
    """Return the recorded description of the slice of this name; None when there is none.

    Raises:
        InputError: the record is malformed.
    """
    path = folder(name) / "slice.json"
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))["spec"]
        return SliceSpec(
            name=spec["name"],
            topology=spec["topology"],
            site=spec["site"],
            hours=spec["hours"],
            vms=tuple(VmSpec(**vm) for vm in spec["vms"]),
            switches=tuple(_switch(switch) for switch in spec["switches"]),
            nets=tuple(NetSpec(net["name"], tuple(net["nodes"]), net["nic"]) for net in spec["nets"]),
            kernel=spec.get("kernel", DISTRIBUTION),
            pin=bool(spec.get("pin")),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is malformed: {error}", "remove it; FABRIC has the same data") from error


def _switch(plain: Mapping[str, Any]) -> SwitchSpec:
    enter = plain.get("enter")
    own = {
        "ports": tuple(PortSpec(**port) for port in plain.get("ports", ())),
        "enter": None if enter is None else tuple(str(word) for word in enter),
    }
    return SwitchSpec(**{**plain, **own})
