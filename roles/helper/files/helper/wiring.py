# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Needs of a host besides its nodes' own settings: namespaces, bridges between them, kernel modules.

A host that holds one node needs no namespace. On a host with several nodes each is in its own namespace; a
network that several of them share with nodes on other hosts is a bridge in another namespace, which also gets
the host's interface; a network within the host needs none.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Iterable, Mapping

from facts import module as module_facts
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
    take_all,
    write_whole,
)
from tuning import GRO_BY_HARDWARE, free_offloads, offloads, remembered, restore, set_offloads

_MOVED = STATE / "moved.json"
_WIRED = STATE / "wired.json"
"""File with the layout that the namespaces were made for."""
_NAMES = 2
"""Version of `hub_names`: namespaces that were made with other names are made anew."""
_QUIET = ("tso", "off", "gso", "off", "gro", "off")


def wire(part: Mapping[str, Any]) -> list[str]:
    """Set up namespaces and links of the host's nodes, and return what was changed. Raises Failed."""
    several = len(part["host_nodes"]) > 1
    wanted = [HUB, *(namespace_of(part, node) or "" for node in part["host_nodes"])] if several else []
    # a network has a bridge or none by its nodes, which are others in another topology
    layout = {"boot": boot_id(), **{name: part[name] for name in ("host_nodes", "networks", "ports")}}
    layout["names"] = _NAMES
    kept = wanted if read_json(_WIRED) == layout else []
    changed = unwire([netns for netns in namespaces() if netns not in kept])
    changed += _without_former([] if several else part["host_nodes"])
    there = namespaces()
    for netns in wanted:
        if netns not in there:
            run(["ip", "netns", "add", netns])
            changed.append(f"namespace {netns}")
    if not several:
        return changed
    STATE.mkdir(parents=True, exist_ok=True)
    write_whole(_WIRED, json.dumps(layout))
    for network, nodes in part["networks"].items():
        here = [node for node in nodes if node in part["host_nodes"]]
        if here:
            changed += _network(part, network, here, len(nodes) > len(here))
    return changed


def _without_former(nodes: list[str]) -> list[str]:
    """Restore what the host had before it was another node than these, whose settings it would keep."""
    changed = []
    for node in remembered():
        with suppress(Failed):  # teardown tries again, and reports it
            changed += [] if node in nodes else restore(node)
    return changed


def _network(part: Mapping[str, Any], network: str, here: list[str], outside: bool) -> list[str]:
    mac = part["ports"].get(network)
    spaces = [namespace_of(part, node) or "" for node in here]
    if outside and mac is None:
        raise Failed(f"{network} leads to other hosts, and no interface is named for it")
    if outside and len(here) == 1:
        return _move(mac, spaces[0], network)
    if not outside and len(here) == 2:
        return _pair(network, spaces[0], network, spaces[1])
    bridge, ends = hub_names(part["networks"], network)
    changed = []
    if bridge not in _names(HUB):
        run(["ip", "link", "add", bridge, "type", "bridge"], netns=HUB)
        run(["ip", "link", "set", bridge, "up"], netns=HUB)
        changed.append(f"bridge {bridge}")
    for number, netns in enumerate(spaces):
        end = f"{ends}-{number}"
        changed += _pair(network, netns, end, HUB)
        changed += _join(end, bridge)
    if outside:
        changed += _move(mac, HUB, network)
        changed += _join(by_mac(mac, HUB) or "", bridge)
    return changed


def hub_names(networks: Iterable[str], network: str) -> tuple[str, str]:
    """Return the names of a network's bridge, and of the ends of its links there without their numbers.

    A network's name may be as long as Linux has names of interfaces, so that there is no room for more, and
    the network's number takes its place.
    """
    number = sorted(networks).index(network)
    return f"br-{number}", f"hub-{number}"


def _names(netns: str) -> set[str]:
    return {str(link["ifname"]) for link in links(netns)}


def _move(mac: str, netns: str, network: str) -> list[str]:
    if by_mac(mac, netns):
        return []
    for where in (None, *namespaces()):
        name = by_mac(mac, where)
        if name:
            if where is None:
                _note_moved(mac.lower(), name)
            run(["ip", "link", "set", name, "netns", netns], netns=where)
            return [f"{name} ({network}) to {netns}"]
    raise Failed(f"{network}: this host has no interface with the address {mac}")


def _note_moved(mac: str, name: str) -> None:
    """Store the state of an interface, which changes on its way through a namespace."""
    (link,) = (link for link in links() if link["ifname"] == name)
    state = {"up": "UP" in link.get("flags", []), "mtu": link["mtu"], "offloads": free_offloads(name)}
    noted = {**(read_json(_MOVED) or {}), mac: state}
    STATE.mkdir(parents=True, exist_ok=True)
    write_whole(_MOVED, json.dumps(noted))


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
    # merged packets would cross the bridge as one, and the queue under test would not see packets
    run(["ethtool", "-K", name, *_QUIET], netns=HUB, check=False)
    there = offloads(run(["ethtool", "-k", name], netns=HUB, check=False).stdout)
    if there.get(GRO_BY_HARDWARE) == (True, True):
        run(["ethtool", "-K", name, GRO_BY_HARDWARE, "off"], netns=HUB, check=False)
    run(["ip", "link", "set", name, "master", bridge, "up"], netns=HUB)
    return [f"{name} in {bridge}"]


def unwire(found: list[str]) -> list[str]:
    """Remove these namespaces, and restore the hardware in them, which the kernel returns soon after.

    Raises Failed if it does not come back.
    """
    macs = {str(link["address"]).lower() for netns in found for link in links(netns) if _is_hardware(link)}
    for netns in found:
        run(["ip", "netns", "delete", netns])
    deadline = time.monotonic() + 5
    while any(by_mac(mac) is None for mac in macs) and time.monotonic() < deadline:
        time.sleep(0.05)
    noted = read_json(_MOVED) or {}
    for mac, was in list(noted.items()):
        name = by_mac(mac)
        if name:
            set_offloads(name, was["offloads"], check=False)
            if "mtu" in was:  # an earlier version of the helper did not note it
                run(["ip", "link", "set", name, "mtu", str(was["mtu"])], check=False)
            run(["ip", "link", "set", name, "up" if was["up"] else "down"], check=False)
            del noted[mac]
    if _MOVED.exists():
        write_whole(_MOVED, json.dumps(noted))
    away = sorted(mac for mac in macs if by_mac(mac) is None)
    if away:
        raise Failed(f"interfaces have not come back from namespaces that were removed: {', '.join(away)}")
    return [f"namespace {netns} removed" for netns in found]


def _is_hardware(link: Mapping[str, Any]) -> bool:
    return link.get("link_type") == "ether" and not is_made(link)


def load_modules(part: Mapping[str, Any]) -> list[str]:
    """Load the nodes' modules with their parameters, and return what was changed. Raises Failed."""
    return [line for module in _wanted(part).values() for line in _load(module)]


def _wanted(part: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    wanted: dict[str, dict[str, Any]] = {}
    for node in part["host_nodes"]:
        for module in part["programs"][node]["modules"]:
            wanted.setdefault(module["name"], module)
    return wanted


def unload_former(part: Mapping[str, Any]) -> list[str]:
    """Unload the nodes' modules that were built again since they were loaded, and return what was changed.

    Queues and sysctls of the trial before may use them, so its settings are undone first. Raises Failed when
    something else uses one.
    """
    release = read_text("/proc/sys/kernel/osrelease")
    former = [name for name in _wanted(part) if _is_former(name, release)]
    if not former:
        return []
    changed = take_all([partial(unwire, namespaces()), *(partial(restore, node) for node in remembered())])
    for name in former:
        if not _unload(name):
            raise Failed(f"another version of module {name} is loaded and in use: restart this host")
        changed.append(f"another version of {name} unloaded")
    return changed


def _is_former(name: str, release: str) -> bool:
    loaded, there = read_text(f"/sys/module/{name}/srcversion"), module_facts(name, release)
    return bool(loaded and there and there["srcversion"] != loaded)


def _load(module: Mapping[str, Any]) -> list[str]:
    """Load a module, or give a loaded one its parameters.

    A parameter may show a value in another form than it was set, so both forms are stored; while both are the
    same nothing has to be done.
    """
    name, params = module["name"], dict(module["params"])
    note = STATE / f"module-{name}.json"
    loaded = Path("/sys/module", name).exists()
    noted = read_json(note) or {}
    # the state before our first change, which a restart restores, too
    before = noted.get("before") if loaded and noted.get("boot") == boot_id() else None
    if before is None:
        before = {"loaded": loaded, "params": _shown(name, params) if loaded else {}}
    if loaded and noted == _state(name, params, before):
        return []
    if loaded:
        before["params"] = {**_shown(name, params), **before["params"]}
    if loaded and all(_set(name, key, value) for key, value in params.items()):
        write_whole(note, json.dumps(_state(name, params, before)))
        return [f"{name}: {key} = {value}" for key, value in params.items()]
    if loaded:
        run(["rmmod", name])
    words = [f"{key}={value}" for key, value in params.items()]
    own = STATE / "modules" / read_text("/proc/sys/kernel/osrelease") / f"{name}.ko"
    argv = ["insmod", str(own), *words] if own.exists() else ["modprobe", name, *words]
    ended = run(argv, timeout_s=30, check=False)
    if ended.returncode and module["ours"]:
        said = ended.stderr.strip()[-300:]
        raise Failed(f"cannot load module {name}: {said}; run playbooks/prepare.yml")
    # a module of the kernel may be built in; the command that needs it fails if it is missing
    lacking = [key for key in params if module["ours"] and not _parameter(name, key).exists()]
    if lacking:
        raise Failed(f"module {name} has no parameter {', '.join(lacking)}: rebuild it")
    if not ended.returncode:
        STATE.mkdir(parents=True, exist_ok=True)
        write_whole(note, json.dumps(_state(name, params, before)))
    return [] if ended.returncode else [f"{name} loaded"]


def restore_modules() -> list[str]:
    """Unload unused modules that `load_modules` loaded, restore others' parameters; return changes."""
    changed = []
    for note in sorted(STATE.glob("module-*.json")):
        name, noted = note.name[len("module-") : -len(".json")], read_json(note) or {}
        before = noted.get("before", {})
        if noted.get("boot") != boot_id() or not Path("/sys/module", name).exists():
            continue
        if not before.get("loaded", True):
            changed.append(f"{name} unloaded" if _unload(name) else f"{name} stays loaded: it is in use")
            continue
        for key, value in before.get("params", {}).items():
            if read_text(_parameter(name, key)) != value and _set(name, key, value):
                changed.append(f"{name}: {key} = {value}")
    return changed


def _unload(name: str) -> bool:
    """Unload a module; closing connections keep a congestion control for some seconds."""
    deadline = time.monotonic() + 5
    while run(["rmmod", name], check=False).returncode:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _state(name: str, params: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "boot": boot_id(),
        "asked": dict(params),
        "shown": _shown(name, params),
        "before": dict(before),
    }


def _shown(name: str, params: Mapping[str, str]) -> dict[str, str]:
    return {key: read_text(_parameter(name, key)) for key in params}


def _parameter(module: str, key: str) -> Path:
    return Path("/sys/module", module, "parameters", key)


def _set(module: str, key: str, value: str) -> bool:
    try:
        _parameter(module, key).write_text(value, encoding="utf-8")
    except OSError:
        return False
    return True
