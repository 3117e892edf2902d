# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a host must have beside its nodes' own settings: namespaces, bridges between them, kernel modules.

A host that holds one node needs no namespace: the node is the host. Of a host with several nodes each lives
in a namespace of its own; a network that several of them share with nodes elsewhere is a bridge in a
namespace of its own, into which the host's interface goes; one that lies wholly on the host needs none.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Mapping

from system import (
    HUB,
    STATE,
    Failed,
    boot_id,
    by_mac,
    is_made,
    links,
    namespace_of,
    namespaces,
    read_json,
    read_text,
    run,
    write_whole,
)

_QUIET = ("tso", "off", "gso", "off", "gro", "off")


def wire(part: Mapping[str, Any]) -> list[str]:
    """Namespaces and links of the host's nodes; returns what was changed. Raises Failed."""
    several = len(part["host_nodes"]) > 1
    wanted = [HUB, *(namespace_of(part, node) or "" for node in part["host_nodes"])] if several else []
    there = namespaces()
    changed = unwire([netns for netns in there if netns not in wanted])
    for netns in wanted:
        if netns not in there:
            run(["ip", "netns", "add", netns])
            changed.append(f"namespace {netns}")
    if not several:
        return changed
    for network, nodes in part["networks"].items():
        here = [node for node in nodes if node in part["host_nodes"]]
        if here:
            changed += _network(part, network, here, len(nodes) > len(here))
    return changed


def _network(part: Mapping[str, Any], network: str, here: list[str], outside: bool) -> list[str]:
    mac = part["ports"].get(network)
    spaces = [namespace_of(part, node) or "" for node in here]
    if outside and mac is None:
        raise Failed(f"{network}: no interface is named for it, and it leads to other hosts")
    if outside and len(here) == 1:
        return _move(mac, spaces[0], network)
    if not outside and len(here) == 2:
        return _pair(network, spaces[0], network, spaces[1])
    bridge = f"br-{network}"[:15]
    changed = []
    if bridge not in _names(HUB):
        run(["ip", "link", "add", bridge, "type", "bridge"], netns=HUB)
        run(["ip", "link", "set", bridge, "up"], netns=HUB)
        changed.append(f"bridge {bridge}")
    for number, netns in enumerate(spaces):
        end = f"hub-{network.replace('net-', '')[:8]}-{number}"
        changed += _pair(network, netns, end, HUB)
        changed += _join(end, bridge)
    if outside:
        changed += _move(mac, HUB, network)
        changed += _join(by_mac(mac, HUB) or "", bridge)
    return changed


def _names(netns: str) -> set[str]:
    return {str(link["ifname"]) for link in links(netns)}


def _move(mac: str, netns: str, network: str) -> list[str]:
    if by_mac(mac, netns):
        return []
    for where in (None, *namespaces()):
        name = by_mac(mac, where)
        if name:
            run(["ip", "link", "set", name, "netns", netns], netns=where)
            return [f"{name} ({network}) to {netns}"]
    raise Failed(f"{network}: this host has no interface with the address {mac}")


def _pair(name: str, netns: str, peer: str, peer_netns: str) -> list[str]:
    if name in _names(netns):
        return []
    argv = ["ip", "link", "add", name, "netns", netns, "type", "veth"]
    run([*argv, "peer", "name", peer, "netns", peer_netns])
    return [f"{name} in {netns}"]


def _join(name: str, bridge: str) -> list[str]:
    link = next(link for link in links(HUB) if link["ifname"] == name)
    if link.get("master") == bridge and "UP" in link.get("flags", []):
        return []
    # merged packets would cross the bridge as one, and the queue under test would see no packets
    run(["ethtool", "-K", name, *_QUIET], netns=HUB, check=False)
    run(["ip", "link", "set", name, "master", bridge, "up"], netns=HUB)
    return [f"{name} in {bridge}"]


def unwire(found: list[str]) -> list[str]:
    """Remove these namespaces. The kernel gives hardware that was in them back to the host, soon after."""
    macs = {str(link["address"]) for netns in found for link in links(netns) if _is_hardware(link)}
    for netns in found:
        run(["ip", "netns", "delete", netns])
    deadline = time.monotonic() + 5
    while any(by_mac(mac) is None for mac in macs) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"namespace {netns} removed" for netns in found]


def _is_hardware(link: Mapping[str, Any]) -> bool:
    return link.get("link_type") == "ether" and not is_made(link)


def load_modules(part: Mapping[str, Any]) -> list[str]:
    """Load what the nodes' programs need, with their parameters; returns what was changed. Raises Failed."""
    wanted: dict[str, dict[str, Any]] = {}
    for node in part["host_nodes"]:
        for module in part["programs"][node]["modules"]:
            wanted.setdefault(module["name"], module)
    return [line for module in wanted.values() for line in _load(module)]


def _load(module: Mapping[str, Any]) -> list[str]:
    """Load a module, or give a loaded one its parameters.

    What a parameter takes and what it shows may differ in form, so what was asked for is written down beside
    what was shown then; while both are the same nothing has to be done.
    """
    name, params = module["name"], dict(module["params"])
    note = STATE / f"module-{name}.json"
    loaded = Path("/sys/module", name).exists()
    if loaded and read_json(note) == _state(name, params):
        return []
    if loaded and all(_set(name, key, value) for key, value in params.items()):
        write_whole(note, json.dumps(_state(name, params)))
        return [f"{name}: {key} = {value}" for key, value in params.items()]
    if loaded:
        run(["rmmod", name])
    words = [f"{key}={value}" for key, value in params.items()]
    own = STATE / "modules" / read_text("/proc/sys/kernel/osrelease") / f"{name}.ko"
    argv = ["insmod", str(own), *words] if own.exists() else ["modprobe", name, *words]
    ended = run(argv, timeout_s=30, check=False)
    if ended.returncode and module["ours"]:
        said = ended.stderr.strip()[-300:]
        raise Failed(f"module {name} cannot be loaded: {said}; run playbooks/prepare.yml")
    # one that is part of the kernel may be built in; what needs it will say if it is not there
    lacking = [key for key in params if module["ours"] and not _parameter(name, key).exists()]
    if lacking:
        raise Failed(f"module {name} has no parameter {', '.join(lacking)}: build it anew")
    if not ended.returncode:
        STATE.mkdir(parents=True, exist_ok=True)
        write_whole(note, json.dumps(_state(name, params)))
    return [] if ended.returncode else [f"{name} loaded"]


def _state(name: str, params: Mapping[str, str]) -> dict[str, Any]:
    shown = {key: read_text(_parameter(name, key)) for key in params}
    return {"boot": boot_id(), "asked": dict(params), "shown": shown}


def _parameter(module: str, key: str) -> Path:
    return Path("/sys/module", module, "parameters", key)


def _set(module: str, key: str, value: str) -> bool:
    try:
        _parameter(module, key).write_text(value, encoding="utf-8")
    except OSError:
        return False
    return True
