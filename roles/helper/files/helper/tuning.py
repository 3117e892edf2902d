# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sysctls, interfaces, addresses, offloads and routes of one node, in the namespace this process is in.

Every function compares first and changes only what differs. The values before the first change are stored, so
that `restore` can bring them back.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from system import (
    STATE,
    Failed,
    boot_id,
    by_mac,
    listed,
    namespace_of,
    port,
    read_json,
    run,
    take_all,
    write_whole,
)

SYSCTLS = Path("/proc/sys")
RULES = ("inet", "l4sbench")
"""Family and name of the table of nft that has all rules of a node (`l4sbench.program.data`)."""
_ROUTE_STATES = ("linkdown", "dead", "offload", "rt_offload", "trap", "rt_trap")
"""Words that `ip route` shows but does not take."""
FORWARDING_6 = "net.ipv6.conf.all.forwarding"
_TRIALS_OWN = re.compile(r"net(\.[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_-]+)*)+")
GRO_BY_HARDWARE = "rx-gro-hw"
"""GRO by the device below, such as a hypervisor's, which stays on when GRO is turned off."""

MTU = 1500
"""Largest packets of a trial: limits of queues in packets are of that size (PACKET_BYTES of the catalog)."""

_TCP = {
    "autocorking": "1",
    "comp_sack_delay_ns": "1000000",
    "comp_sack_nr": "44",
    "dsack": "1",
    "early_retrans": "3",
    "frto": "2",
    "max_reordering": "300",
    "min_rtt_wlen": "300",
    "min_tso_segs": "2",
    "moderate_rcvbuf": "1",
    "mtu_probing": "0",
    "notsent_lowat": "4294967295",
    "pacing_ca_ratio": "120",
    "pacing_ss_ratio": "200",
    "recovery": "1",
    "reordering": "3",
    "rto_min_us": "200000",
    "sack": "1",
    "shrink_window": "0",
    "slow_start_after_idle": "1",
    "thin_linear_timeouts": "0",
    "timestamps": "1",
    "tso_rtt_log": "9",
    "tso_win_divisor": "3",
    "window_scaling": "1",
}
"""Settings of TCP that Linux has by itself (net/ipv4/tcp_ipv4.c, tcp_sk_init), without those that differ by
version. Hosts that somebody tuned have others, which are not what a cell is about."""

_OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    GRO_BY_HARDWARE: GRO_BY_HARDWARE,
}


def tune(part: Mapping[str, Any], node: str) -> list[str]:
    """Apply everything of the node's program but queues, and return what was changed."""
    program = part["programs"][node]
    memory = Originals(node, namespace_of(part, node))
    try:
        sysctls = {**_usual_tcp(program), **dict(program["sysctls"])}
        own = [port(part, node, link["network"]) for link in program["links"] if is_ipv6(link["address"])]
        first = ipv6_sysctls(own, memory, forwards=FORWARDING_6 in sysctls)
        changed = set_sysctls(memory, {**first, **sysctls})
        changed += _connect(part, node, memory)
        for link in program["links"]:
            name = port(part, node, link["network"])
            changed += _offloads(memory, part["ports"].get(link["network"]), name, link["offloads"])
    finally:
        memory.save()
    return changed


def _usual_tcp(program: Mapping[str, Any]) -> dict[str, str]:
    """Return sysctls of a node where flows begin or end, as far as its kernel has them: `_TCP`."""
    if not (program.get("flows") or program.get("servers")):
        return {}
    wanted = {f"net.ipv4.tcp_{name}": value for name, value in _TCP.items()}
    return {key: value for key, value in wanted.items() if _shown(key) is not None}


def is_ipv6(address: str) -> bool:
    """Return True for an address or prefix of IPv6."""
    return ":" in address


def _ip(address: str) -> list[str]:
    """Return the command that shows things of this address's version of IP; by itself it lists IPv4."""
    return ["ip", "-6", "-j"] if is_ipv6(address) else ["ip", "-j"]


def ipv6_sysctls(own: list[str], memory: Originals, *, forwards: bool) -> dict[str, str]:
    """Return further sysctls of a node whose interfaces `own` have IPv6 addresses: they get no others.

    A host that forwards ignores router advertisements, from which it may have its own default route, except
    at interfaces that ask for them all the same (accept_ra 2). So all others do where they did before.
    """
    wanted = {_of_interface(name, "disable_ipv6"): "0" for name in own}
    wanted.update({_of_interface(name, "accept_ra"): "0" for name in own})
    before = memory.plain.get("sysctls", {})
    for folder in sorted(SYSCTLS.joinpath("net", "ipv6", "conf").iterdir()) if forwards else ():
        key = _of_interface(folder.name, "accept_ra")
        if folder.name not in ("all", "default", "lo", *own) and before.get(key, _shown(key)) == "1":
            wanted[key] = "2"
    return wanted


def _of_interface(name: str, key: str) -> str:
    """Return the sysctl of an interface, in whose name a slash stands for a dot as for sysctl(8)."""
    return f"net.ipv6.conf.{name.replace('.', '/')}.{key}"


def connect(part: Mapping[str, Any], node: str) -> None:
    """Set up interfaces, addresses and routes only, so that the node can reach the others."""
    memory = Originals(node, namespace_of(part, node))
    try:
        _connect(part, node, memory)
    finally:
        memory.save()


def _connect(part: Mapping[str, Any], node: str, memory: Originals) -> list[str]:
    program = part["programs"][node]
    changed = _up("lo", memory, None)
    for link in program["links"]:
        name, mac = port(part, node, link["network"]), part["ports"].get(link["network"])
        changed += _no_jumbo_frames(name, memory, mac)
        changed += _up(name, memory, mac)
        changed += _address(memory, name, link["address"])
    changed += _neighbours(part, node, memory, program.get("neighbours", []))
    return changed + [line for route in program["routes"] if (line := _route(memory, route))]


def _neighbours(part: Mapping[str, Any], node: str, memory: Originals, wanted: list[Any]) -> list[str]:
    """Make neighbours known that answer no ARP, and forget those of an earlier trial."""
    named = [(port(part, node, one["network"]), one["ip"], one["mac"].lower()) for one in wanted]
    changed = []
    for name, ip in list(memory.plain.get("neighbours", [])):
        if (name, ip) not in [(one[0], one[1]) for one in named]:
            run(["ip", "neigh", "del", ip, "dev", name], check=False)
            memory.plain["neighbours"].remove([name, ip])
            changed.append(f"neighbour {ip} forgotten")
    for name, ip, mac in named:
        shown = listed([*_ip(ip), "neigh", "show", ip, "dev", name])
        if any(item.get("lladdr") == mac and "PERMANENT" in item.get("state", []) for item in shown):
            continue
        run(["ip", "neigh", "replace", ip, "lladdr", mac, "dev", name, "nud", "permanent"])
        memory.added("neighbours", name, ip)
        changed.append(f"neighbour {ip} is {mac}")
    return changed


def remembered() -> list[str]:
    """Return the nodes that `tune` changed outside of namespaces, and that are not restored yet."""
    start, end = "before-", ".json"
    return [path.name[len(start) : -len(end)] for path in sorted(STATE.glob(f"{start}*{end}"))]


def restore(node: str) -> list[str]:
    """Restore what `tune` changed outside of namespaces, and return what was changed.

    Raises Failed after everything was tried; the values before are kept then, so that it can be repeated.
    """
    memory = Originals(node)
    changed = take_all(_undoing(memory))
    memory.path.unlink(missing_ok=True)
    return changed


def _undoing(memory: Originals) -> Iterator[Callable[[], list[str]]]:
    """Yield the steps that restore a node's settings, in order."""
    plain = memory.plain
    for key, value in plain.get("sysctls", {}).items():
        yield partial(_sysctl_as_before, key, value)
    for (name,) in plain.get("queues", []):
        yield partial(_undo, ["tc", "qdisc", "del", "dev", name, "root"], f"queues of {name} removed")
    yield partial(_without_rules, memory)
    for to, via in plain.get("routes", []):
        yield partial(_undo, ["ip", "route", "del", to, "via", via], f"route to {to} removed")
    for to, words in plain.get("replaced", {}).items():
        yield partial(_route_as_before, to, words)
    for name, ip in plain.get("neighbours", []):
        yield partial(_undo, ["ip", "neigh", "del", ip, "dev", name], f"neighbour {ip} forgotten")
    for name, address in plain.get("addresses", []):
        yield partial(_undo, ["ip", "address", "del", address, "dev", name], f"address {address} removed")
    for mac, flags in plain.get("offloads", {}).items():
        yield partial(_offloads_as_before, mac, flags)
    for mac, mtu in plain.get("mtu", {}).items():
        yield partial(_mtu_as_before, mac, mtu)
    for (name,) in plain.get("up", []):
        yield partial(_undo, ["ip", "link", "set", name, "down"], f"{name} down")


def _undo(argv: list[str], done: str) -> list[str]:
    """Run a command that fails if there is nothing to undo, as after a restart by hand."""
    return [] if run(argv, check=False).returncode else [done]


def _sysctl_as_before(key: str, value: str) -> list[str]:
    if _shown(key) in {None, value}:
        return []
    _write_sysctl(key, value)
    return [f"sysctl {key} = {value}"]


def _route_as_before(to: str, words: list[str] | None) -> list[str]:
    if words is None:
        return []
    run([*_ip(to)[:-1], "route", "replace", *words])
    return [f"route to {to} as before"]


def _offloads_as_before(mac: str, flags: Mapping[str, bool]) -> list[str]:
    name = by_mac(mac)
    if name is None:
        return []
    set_offloads(name, flags, check=False)
    return [f"offloads of {name} as before"]


def _mtu_as_before(mac: str, mtu: int) -> list[str]:
    name = by_mac(mac)
    return _undo(["ip", "link", "set", name, "mtu", str(mtu)], f"{name}: MTU {mtu}") if name else []


def remember_queues(part: Mapping[str, Any], node: str, names: list[str]) -> None:
    """Store the interfaces at which queues were set up, so that `restore` removes them."""
    memory = Originals(node, namespace_of(part, node))
    for name in names:
        memory.added("queues", name)
    memory.save()


def remember_rules(part: Mapping[str, Any], node: str) -> None:
    """Store that the node gets rules of nft, also in a namespace, where the next trial may want none."""
    memory = Originals(node, namespace_of(part, node))
    memory.added("rules", *RULES)
    memory.save()


def forget_rules(part: Mapping[str, Any], node: str) -> None:
    """Remove the rules of nft of an earlier trial, if there was one that had any."""
    memory = Originals(node, namespace_of(part, node))
    _without_rules(memory)
    memory.save()


def _without_rules(memory: Originals) -> list[str]:
    changed = []
    for table in memory.plain.pop("rules", []):
        ended = run(["nft", "delete", "table", *table], check=False)
        changed += [] if ended.returncode else [f"rules of nft in {' '.join(table)} removed"]
    return changed


class Originals:
    """Settings as they were before, kept in a file per node; only the first value of each counts.

    What a node sets in a namespace of its own disappears with the namespace (see `wiring`), so of that only
    sysctls and rules are kept, for the next trial there.
    """

    def __init__(self, node: str, netns: str | None = None) -> None:
        self._netns = netns
        self.path = STATE / (f"inside-{node}.json" if netns else f"before-{node}.json")
        self.plain: dict[str, Any] = read_json(self.path) or {}
        # after a restart, or in another namespace, all of it is as it was
        here = f"{boot_id()} {Path('/proc/self/ns/net').stat().st_ino}" if netns else boot_id()
        if self.plain.get("boot") != here:
            self.plain = {"boot": here}
        self._was = json.dumps(self.plain, sort_keys=True)

    def first(self, kind: str, key: str, value: object) -> None:
        """Keep a value unless one is kept already."""
        if self._netns and kind != "sysctls":
            return
        self.plain.setdefault(kind, {}).setdefault(key, value)

    def added(self, kind: str, *what: str) -> None:
        """Keep something to be removed again."""
        if self._netns and kind != "rules":
            return
        rows = self.plain.setdefault(kind, [])
        if list(what) not in rows:
            rows.append(list(what))

    def first_offload(self, mac: str, flag: str, on: bool) -> None:
        """Keep the state of an interface's offload unless it is kept already."""
        self.first("offloads", mac, {})
        self.plain.get("offloads", {}).get(mac, {}).setdefault(flag, on)

    def save(self) -> None:
        """Write the file if anything was kept."""
        if json.dumps(self.plain, sort_keys=True) != self._was:
            STATE.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(self.plain))


def _sysctl_path(key: str) -> Path:
    """Return the file of a sysctl. Raises Failed for one that a trial must not set."""
    if not _TRIALS_OWN.fullmatch(key):
        raise Failed(f"{key!r} is not a sysctl below net., and trials set no others")
    return SYSCTLS.joinpath(*(part.replace("/", ".") for part in key.split(".")))


def set_sysctls(memory: Originals, wanted: Mapping[str, str]) -> list[str]:
    """Set the node's sysctls; returns what was changed.

    Those that an earlier trial set and this one does not are put back first. If anything differs all are
    written, in order: one may write others, as the version of a congestion control does.
    """
    before = memory.plain.get("sysctls", {})
    left = {key: was for key, was in before.items() if key not in wanted and _shown(key) not in {None, was}}
    shown = {key: _shown(key) for key in wanted}
    differ = {key: value for key, value in wanted.items() if shown[key] != " ".join(value.split())}
    if not left and not differ:
        return []
    for key, was in shown.items():
        if was is None:
            hint = "; if a module of the catalog has it, playbooks/prepare.yml builds and loads that module"
            raise Failed(f"this kernel has no sysctl {key}{hint}")
        memory.first("sysctls", key, was)
    for key, value in {**left, **wanted}.items():
        _write_sysctl(key, value)
    return [f"sysctl {key} = {value}" for key, value in {**left, **differ}.items()]


def _write_sysctl(key: str, value: str) -> None:
    try:
        _sysctl_path(key).write_text(value)
    except OSError as error:
        raise Failed(f"sysctl {key} = {value}: {error.strerror}") from error


def _shown(key: str) -> str | None:
    """Return the value of a sysctl; None if this kernel has none of that name."""
    try:
        return " ".join(_sysctl_path(key).read_text().split())
    except FileNotFoundError:
        return None


def _no_jumbo_frames(name: str, memory: Originals, mac: str | None) -> list[str]:
    mtu = int(listed(["ip", "-j", "link", "show", "dev", name])[0].get("mtu", MTU))
    if mtu <= MTU:
        return []
    if mac:
        memory.first("mtu", mac, mtu)
    run(["ip", "link", "set", name, "mtu", str(MTU)])
    return [f"{name}: MTU {MTU}"]


def _up(name: str, memory: Originals, mac: str | None) -> list[str]:
    flags = listed(["ip", "-j", "link", "show", "dev", name])[0].get("flags", [])
    if "UP" in flags:
        return []
    if mac:  # some drivers turn offloads on when their interface comes up
        for flag, on in free_offloads(name).items():
            memory.first_offload(mac, flag, on)
    memory.added("up", name)
    run(["ip", "link", "set", name, "up"])
    return [f"{name} up"]


def _address(memory: Originals, name: str, address: str) -> list[str]:
    shown = listed([*_ip(address), "address", "show", "dev", name])
    there = {f"{i.get('local')}/{i.get('prefixlen')}" for item in shown for i in item.get("addr_info", [])}
    if address in there:
        return []
    at_once = ["nodad"] if is_ipv6(address) else []
    run(["ip", "address", "replace", address, "dev", name, *at_once])
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


def _offloads(memory: Originals, mac: str | None, name: str, wanted: list[list[Any]]) -> list[str]:
    if ["gro", False] in [list(pair) for pair in wanted]:
        wanted = [*wanted, [GRO_BY_HARDWARE, False]]
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


def _route(memory: Originals, route: Mapping[str, Any]) -> str | None:
    to, via, options = route["to"], route["via"], list(route["options"])
    shown = listed([*_ip(to), "-d", "route", "show", to])
    if any(_is(item, via, options) for item in shown):
        return None
    if to not in [known for known, _ in memory.plain.get("routes", [])]:
        memory.first("replaced", to, _replaced_by_ours(to))
    run(["ip", "route", "replace", to, "via", via, *options])
    memory.added("routes", to, via)
    return " ".join(["route to", to, "via", via, *options])


def _replaced_by_ours(to: str) -> list[str] | None:
    """Return the route that ours takes the place of, in the words of `ip route`; None if there is none.

    It is the one with the metric that ours has, which Linux does not show for IPv4.
    """
    metric = "1024" if is_ipv6(to) else None
    for line in run([*_ip(to)[:-1], "-o", "route", "show", to]).stdout.splitlines():
        shown = re.search(r"\bmetric ([0-9]+)", line)
        if (shown[1] if shown else None) == metric:
            return [word for word in line.replace("\\", " ").split() if word not in _ROUTE_STATES]
    return None


def _is(item: Mapping[str, Any], via: str, options: list[str]) -> bool:
    metrics: dict[str, Any] = {}
    for metric in item.get("metrics", []):
        metrics.update(metric)
    wanted = dict(zip(options[::2], options[1::2]))
    # iproute2 reads it as congctl and prints it, in JSON, as congestion
    shown = metrics.get("congestion", metrics.get("congctl")) or ""
    if str(metrics.get("initcwnd", "")) != wanted.get("initcwnd", ""):
        return False
    return item.get("gateway") == via and str(shown) == wanted.get("congctl", "")
