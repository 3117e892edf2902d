# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sysctls, interfaces, addresses, offloads and routes of one node, in the namespace this process is in.

Every function compares first and changes only what differs. The values before the first change are stored, so
that `restore` can bring them back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

from system import STATE, Failed, boot_id, by_mac, listed, namespace_of, port, read_json, run, write_whole

_OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
}


def tune(part: Mapping[str, Any], node: str) -> list[str]:
    """Apply everything of the node's program but queues, and return what was changed."""
    program = part["programs"][node]
    memory = _Memory(node, namespace_of(part, node))
    try:
        changed = [line for key, value in program["sysctls"] if (line := _sysctl(memory, key, value))]
        changed += _connect(part, node, memory)
        for link in program["links"]:
            name = port(part, node, link["network"])
            changed += _offloads(memory, part["ports"].get(link["network"]), name, link["offloads"])
    finally:
        memory.save()
    return changed


def connect(part: Mapping[str, Any], node: str) -> None:
    """Set up interfaces, addresses and routes only, so that the node can reach the others."""
    memory = _Memory(node, namespace_of(part, node))
    try:
        _connect(part, node, memory)
    finally:
        memory.save()


def _connect(part: Mapping[str, Any], node: str, memory: _Memory) -> list[str]:
    program = part["programs"][node]
    changed = _up("lo", memory, None)
    for link in program["links"]:
        name = port(part, node, link["network"])
        changed += _up(name, memory, part["ports"].get(link["network"]))
        changed += _address(memory, name, link["address"])
    return changed + [line for route in program["routes"] if (line := _route(memory, route))]


def restore(node: str) -> list[str]:
    """Restore what `tune` changed outside of namespaces, and return what was changed."""
    memory = _Memory(node)
    changed = []
    for key, value in memory.plain.get("sysctls", {}).items():
        path = _sysctl_path(key)
        if path.exists() and " ".join(path.read_text().split()) != value:
            path.write_text(value)
            changed.append(f"sysctl {key} = {value}")
    for (name,) in memory.plain.get("queues", []):
        ended = run(["tc", "qdisc", "del", "dev", name, "root"], check=False)
        changed += [] if ended.returncode else [f"queues of {name} removed"]
    for to, via in memory.plain.get("routes", []):
        ended = run(["ip", "route", "del", to, "via", via], check=False)
        changed += [] if ended.returncode else [f"route to {to} removed"]
    for name, address in memory.plain.get("addresses", []):
        ended = run(["ip", "address", "del", address, "dev", name], check=False)
        changed += [] if ended.returncode else [f"address {address} removed"]
    for mac, flags in memory.plain.get("offloads", {}).items():
        name = by_mac(mac)
        if name:
            set_offloads(name, flags, check=False)
            changed.append(f"offloads of {name} as before")
    for (name,) in memory.plain.get("up", []):
        ended = run(["ip", "link", "set", name, "down"], check=False)
        changed += [] if ended.returncode else [f"{name} down"]
    memory.path.unlink(missing_ok=True)
    return changed


def remember_queues(part: Mapping[str, Any], node: str, names: list[str]) -> None:
    """Store the interfaces at which queues were set up, so that `restore` removes them."""
    memory = _Memory(node, namespace_of(part, node))
    for name in names:
        memory.added("queues", name)
    memory.save()


class _Memory:
    """Values before the first change, in a file per node.

    Settings in a node's namespace vanish with it, and are not stored (see `wiring`).
    """

    def __init__(self, node: str, netns: str | None = None) -> None:
        self._netns = netns
        self.path = STATE / f"before-{node}.json"
        self.plain: dict[str, Any] = read_json(self.path) or {}
        if self.plain.get("boot") != boot_id():  # a restart has restored all of it
            self.plain = {"boot": boot_id()}
        self._was = json.dumps(self.plain, sort_keys=True)

    def first(self, kind: str, key: str, value: object) -> None:
        if self._netns:
            return
        self.plain.setdefault(kind, {}).setdefault(key, value)

    def added(self, kind: str, *what: str) -> None:
        if self._netns:
            return
        rows = self.plain.setdefault(kind, [])
        if list(what) not in rows:
            rows.append(list(what))

    def first_offload(self, mac: str, flag: str, on: bool) -> None:
        self.first("offloads", mac, {})
        self.plain.get("offloads", {}).get(mac, {}).setdefault(flag, on)

    def save(self) -> None:
        if json.dumps(self.plain, sort_keys=True) != self._was:
            STATE.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(self.plain))


def _sysctl_path(key: str) -> Path:
    return Path("/proc/sys", *key.split("."))


def _sysctl(memory: _Memory, key: str, value: str) -> str | None:
    path = _sysctl_path(key)
    try:
        was = " ".join(path.read_text().split())
        if was == " ".join(value.split()):
            return None
        memory.first("sysctls", key, was)
        path.write_text(value)
    except FileNotFoundError as error:
        raise Failed(f"this kernel has no sysctl {key}") from error
    except OSError as error:
        raise Failed(f"sysctl {key} = {value}: {error.strerror}") from error
    return f"sysctl {key} = {value}"


def _up(name: str, memory: _Memory, mac: str | None) -> list[str]:
    flags = listed(["ip", "-j", "link", "show", "dev", name])[0].get("flags", [])
    if "UP" in flags:
        return []
    if mac:  # some drivers turn offloads on when their interface comes up
        for flag, on in free_offloads(name).items():
            memory.first_offload(mac, flag, on)
    memory.added("up", name)
    run(["ip", "link", "set", name, "up"])
    return [f"{name} up"]


def _address(memory: _Memory, name: str, address: str) -> list[str]:
    shown = listed(["ip", "-j", "-4", "address", "show", "dev", name])
    there = {f"{i.get('local')}/{i.get('prefixlen')}" for item in shown for i in item.get("addr_info", [])}
    if address in there:
        return []
    run(["ip", "address", "replace", address, "dev", name])
    memory.added("addresses", name, address)
    return [f"{name} has {address}"]


def offloads(text: str) -> dict[str, tuple[bool, bool]]:
    """Parse `ethtool -k`: offload -> (on, can be changed)."""
    found = {}
    for line in text.splitlines():
        name, colon, state = line.partition(":")
        for short, full in _OFFLOADS.items():
            if colon and name.strip() == full:
                found[short] = (state.split()[:1] == ["on"], "[fixed]" not in state)
    return found


def free_offloads(name: str) -> dict[str, bool]:
    """Return the offloads of an interface that can be changed, with True for those that are on."""
    shown = offloads(run(["ethtool", "-k", name], check=False).stdout)
    return {flag: on for flag, (on, free) in shown.items() if free}


def set_offloads(name: str, flags: Mapping[str, bool], *, check: bool = True) -> None:
    """Turn offloads of an interface on and off."""
    words = [word for flag, on in flags.items() for word in (flag, "on" if on else "off")]
    if words:
        run(["ethtool", "-K", name, *words], check=check)


def _offloads(memory: _Memory, mac: str | None, name: str, wanted: list[list[Any]]) -> list[str]:
    differ = _other_offloads(name, wanted)
    if not differ:
        return []
    if mac:
        for flag, on in differ.items():
            memory.first_offload(mac, flag, not on)
    set_offloads(name, differ)
    stuck = _other_offloads(name, wanted)
    if stuck:
        # a driver may turn an offload on without the kernel's knowledge, which then takes it for off
        set_offloads(name, {flag: not on for flag, on in stuck.items()})
        set_offloads(name, stuck)
    return [f"{name}: {flag} {'on' if on else 'off'}" for flag, on in differ.items()]


def _other_offloads(name: str, wanted: list[list[Any]]) -> dict[str, bool]:
    """Return the offloads that are not as wanted and can be changed."""
    shown = free_offloads(name)
    return {flag: on for flag, on in wanted if shown.get(flag) == (not on)}


def _route(memory: _Memory, route: Mapping[str, Any]) -> str | None:
    to, via, options = route["to"], route["via"], list(route["options"])
    shown = listed(["ip", "-j", "-d", "route", "show", to])
    if any(_is(item, via, options) for item in shown):
        return None
    run(["ip", "route", "replace", to, "via", via, *options])
    memory.added("routes", to, via)
    return " ".join(["route to", to, "via", via, *options])


def _is(item: Mapping[str, Any], via: str, options: list[str]) -> bool:
    metrics: dict[str, Any] = {}
    for metric in item.get("metrics", []):
        metrics.update(metric)
    wanted = dict(zip(options[::2], options[1::2]))
    # iproute2 reads it as congctl and prints it, in JSON, as congestion
    shown = metrics.get("congestion", metrics.get("congctl")) or ""
    return item.get("gateway") == via and str(shown) == wanted.get("congctl", "")
