# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a host must have beside its nodes' own settings: namespaces, bridges between them, kernel modules.

A host that holds one node needs no namespace: the node is the host. Of a host with several nodes each lives
in a namespace of its own; a network that several of them share with nodes elsewhere is a bridge in a
namespace of its own, into which the host's interface goes; one that lies wholly on the host needs none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from system import HUB, STATE, Failed, by_mac, links, namespace_of, namespaces, read_text, run

_QUIET = ("tso", "off", "gso", "off", "gro", "off")


def wire(part: Mapping[str, Any]) -> list[str]:
    """Namespaces and links of the host's nodes; returns what was changed. Raises Failed."""
    if len(part["host_nodes"]) == 1:
        return []
    changed = []
    there = set(namespaces())
    for netns in (HUB, *(namespace_of(part, node) or "" for node in part["host_nodes"])):
        if netns not in there:
            run(["ip", "netns", "add", netns])
            changed.append(f"namespace {netns}")
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


def unwire() -> list[str]:
    """Remove every namespace of ours. Hardware that was in them goes back to the host by itself."""
    found = namespaces()
    for netns in found:
        run(["ip", "netns", "delete", netns])
    return [f"namespace {netns} removed" for netns in found]


def load_modules(part: Mapping[str, Any]) -> list[str]:
    """Load what the nodes' programs need, with their parameters; returns what was changed. Raises Failed."""
    wanted: dict[str, dict[str, Any]] = {}
    for node in part["host_nodes"]:
        for module in part["programs"][node]["modules"]:
            wanted.setdefault(module["name"], module)
    return [line for module in wanted.values() for line in _load(module)]


def _load(module: Mapping[str, Any]) -> list[str]:
    name, params = module["name"], dict(module["params"])
    loaded = Path("/sys/module", name)
    if loaded.exists():
        differ = {key: value for key, value in params.items() if not _is_set(name, key, value)}
        if all(_set(name, key, value) for key, value in differ.items()):
            return [f"{name}: {key} = {value}" for key, value in differ.items()]
        run(["rmmod", name])
    words = [f"{key}={value}" for key, value in params.items()]
    own = STATE / "modules" / read_text("/proc/sys/kernel/osrelease") / f"{name}.ko"
    argv = ["insmod", str(own), *words] if own.exists() else ["modprobe", name, *words]
    ended = run(argv, timeout_s=30, check=False)
    if ended.returncode and module["ours"]:
        said = ended.stderr.strip()[-300:]
        raise Failed(f"module {name} cannot be loaded: {said}; run playbooks/prepare.yml")
    # one that is part of the kernel may be built in; what needs it will say if it is not there
    wrong = [key for key, value in params.items() if module["ours"] and not _is_set(name, key, value)]
    if wrong:
        raise Failed(f"module {name} has no parameter {', '.join(wrong)} or another value: build it anew")
    return [f"{name} loaded"] if not ended.returncode else []


def _is_set(module: str, key: str, value: str) -> bool:
    path = Path("/sys/module", module, "parameters", key)
    return path.exists() and _plain(read_text(path)) == _plain(value)


def _plain(value: str) -> str:
    return {"Y": "1", "N": "0"}.get(value, value)


def _set(module: str, key: str, value: str) -> bool:
    try:
        Path("/sys/module", module, "parameters", key).write_text(value, encoding="utf-8")
    except OSError:
        return False
    return _is_set(module, key, value)
