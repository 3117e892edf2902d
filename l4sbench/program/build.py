# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cell, topology, catalog and conditions -> the program of every node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from l4sbench.errors import InputError
from l4sbench.program.changes import changes
from l4sbench.program.data import (
    OFFLOADS,
    Command,
    Conditions,
    Link,
    Module,
    Program,
    Readback,
    ReadKind,
    Route,
    Sampler,
    Server,
)
from l4sbench.program.flows import flows_of
from l4sbench.program.netem import delays, gates, pauses, walks
from l4sbench.program.placement import Placed, Placement
from l4sbench.program.rewriting import MAKE_TABLE, rules
from l4sbench.program.shapers import bottleneck, port_name, reverse
from l4sbench.program.switches import neighbours, routes_beside, switch_program
from l4sbench.program.wires import readback, settings
from l4sbench.traffic import Ready
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.program.shapers import Shaper
    from l4sbench.topology import Node, Topology

RMEM = (4096, 131_072, 6_291_456)
"""Minimum, initial and maximum receive buffer; set because the kernel's defaults depend on memory size."""
WMEM = (4096, 16_384, 4_194_304)
"""The same for send buffers."""
MANY_PORTS = {"net.ipv4.ip_local_port_range": "1024 65535"}
"""For senders of short connections: by default they have 28,000 ports, and a SYN that is lost keeps one."""
SNAP_BYTES = 96
"""Captured bytes of a packet of IPv4: its Ethernet, IP and TCP headers with all options are at most 94."""
CAPTURE_BUFFER_KIB = 16_384
"""Kernel buffer of a capture: a second of 100 Mbit/s in packets of 150 bytes."""


def programs(
    cell: Cell, topology: Topology, catalog: Catalog, conditions: Conditions
) -> Mapping[str, Program]:
    """Make the program of every node of the topology for one trial of the cell.

    Raises:
        InputError: the cell cannot run, for instance because two groups of one node want different ECN.
    """
    placement = Placement(cell, topology, catalog)
    problems = placement.problems()
    if problems:
        raise InputError(problems)
    return MappingProxyType(
        {
            node.name: switch_program(placement, node)
            if node.name in conditions.switches
            else _program(placement, node, conditions)
            for node in placement.topology.nodes
        }
    )


def path_programs(cell: Cell, topology: Topology, catalog: Catalog) -> Mapping[str, Program]:
    """Make programs that link the nodes and measure the path's own round-trip times; they set up no queues.

    They need nothing of the kernel that a queue or a congestion control of the cell may need.
    """
    placement = Placement(cell, topology, catalog)
    return MappingProxyType(
        {
            node.name: Program(
                node.name,
                sysctls=tuple(_forwarding(cell.family, node).items()),
                links=_links(node),
                routes=_routes(node, ()),
                echoes=_echoes(placement, node.name),
            )
            for node in placement.topology.nodes
        }
    )


def _links(node: Node) -> tuple[Link, ...]:
    offloads = tuple((name, False) for name in OFFLOADS)
    return tuple(Link(address.network, str(address), offloads) for address in node.addresses)


def _captures(placement: Placement, node: str) -> tuple[Server, ...]:
    """Return packet captures on both sides of the queue where the topology has them; none at other nodes.

    Where flows arrive only incoming packets are captured: data before the queue. After the queue both
    directions are captured: data that left, and returning ACKs. Captures start before any flow and contain
    headers only.
    """
    bottleneck = placement.topology.bottleneck_of(node)
    if bottleneck is None or node != placement.topology.capture:
        return ()
    out, family = bottleneck.network, placement.cell.family
    addresses = placement.topology.by_name[node].addresses
    arriving = [address.network for address in addresses if address.network != out]
    snap_bytes = SNAP_BYTES + family.header_bytes - Family.IPV4.header_bytes
    by_udp = any("udp" in placed.group.kind.transports for placed in placement.groups)
    what: tuple[str, ...] = ("tcp", "or", "udp") if by_udp else ("tcp",)
    return tuple(
        _capture(network, ("-Q", "in") if network != out else (), snap_bytes, what)
        for network in (*arriving, out)
    )


def _capture(network: str, direction: tuple[str, ...], snap_bytes: int, packets: tuple[str, ...]) -> Server:
    what = ("-i", port_name(network), *direction, "-s", str(snap_bytes), "-B", str(CAPTURE_BUFFER_KIB))
    how = ("-n", "-Z", "root", "--time-stamp-precision", "nano", "-w", "-")
    return Server(f"capture-{network}", ("tcpdump", *what, *how, *packets), f"{network}.pcap", Ready.CAPTURES)


def _program(placement: Placement, node: Node, conditions: Conditions) -> Program:
    touching = list(placement.on(node.name))
    runs, servers = flows_of(placement, node.name, conditions)
    if conditions.capture or placement.cell.capture == "headers":
        servers = (*servers, *_captures(placement, node.name))
    wired = conditions.wire_seed is not None
    shapers = [*bottleneck(placement, node.name, wires=wired), *reverse(placement, node.name)]
    rewriting: list[Shaper] = []
    wires: tuple[tuple[str, str], ...] = ()
    if conditions.wire_seed is None:
        shapers += delays(placement, node.name)
        shapers += gates(placement, node.name)
        rewriting += rules(placement, node.name)
    else:
        wires = settings(placement, node.name, conditions.wire_seed)
    sysctls = _sysctls(placement, node, touching)
    modules = _modules(placement, node, touching)
    return Program(
        node=node.name,
        modules=modules,
        sysctls=(*sysctls, *wires),
        links=_links(node),
        neighbours=tuple(neighbours(placement, node, conditions.switches)),
        routes=(*_routes(node, touching), *routes_beside(placement, node, conditions.switches)),
        reset=tuple(
            Command(("tc", "qdisc", "del", "dev", port_name(network), "root"))
            for network in dict.fromkeys(shaper.network for shaper in shapers)
        ),
        rules=tuple(map(Command, (MAKE_TABLE, *_commands(rewriting)))) if rewriting else (),
        setup=tuple(map(Command, _commands(shapers))),
        servers=servers,
        flows=runs,
        samplers=_samplers(placement, node, touching),
        readback=(
            *(reading for shaper in (*shapers, *rewriting) for reading in shaper.readback),
            *([readback(placement, node.name, wires)] if conditions.wire_seed is not None else []),
            *_host_facts(node, placement.cell.family, sysctls, modules),
        ),
        expected=tuple(expected for shaper in (*shapers, *rewriting) for expected in shaper.expected),
        changes=changes(placement, node.name, wires=wired),
        pauses=() if wired else tuple(pauses(placement, node.name, conditions.pause_seed)),
        walks=() if wired else tuple(walks(placement, node.name, conditions.pause_seed)),
        echoes=_echoes(placement, node.name) if placement.cell.has_own_delay else (),
    )


def _echoes(placement: Placement, node: str) -> tuple[str, ...]:
    """Return the addresses of the receivers to which a node sends flows."""
    pairs = (placed.pair for placed in placement.groups if placed.pair.sender == node)
    by_name = placement.topology.by_name
    return tuple(dict.fromkeys(by_name[pair.receiver].addresses[0].ip for pair in pairs))


def _commands(shapers: Sequence[Shaper]) -> Iterator[tuple[str, ...]]:
    return (argv for shaper in shapers for argv in shaper.commands)


def _sysctls(
    placement: Placement, node: Node, touching: Sequence[tuple[str, Placed]]
) -> tuple[tuple[str, str], ...]:
    found = {**_forwarding(placement.cell.family, node), "net.ipv4.tcp_no_metrics_save": "1"}
    if touching:
        for key, (least, initial, most) in (("rmem", RMEM), ("wmem", WMEM)):
            found[f"net.ipv4.tcp_{key}"] = f"{least} {initial} {max(most, placement.socket_bytes)}"
    for role, placed in touching:
        if role == "sender" and placed.cc is not None and not placed.group.kind.one_connection:
            found |= MANY_PORTS
        found |= dict(placed.sysctls(role))
    return tuple(found.items())


def _forwarding(family: Family, node: Node) -> Mapping[str, str]:
    """Return what makes a node forward; of IPv6 only where it has to, as it then ignores other routers."""
    if family is Family.IPV4:
        return {"net.ipv4.ip_forward": "1"}
    return {"net.ipv6.conf.all.forwarding": "1"} if len(node.addresses) > 1 else {}


def _modules(placement: Placement, node: Node, touching: Sequence[tuple[str, Placed]]) -> tuple[Module, ...]:
    found: dict[str, Module] = {}
    for _, placed in touching:
        if placed.cc is not None and (module := placed.cc.module) is not None:
            found[module.name] = Module(module.name, placed.module_params, ours=module.source is not None)
    if placement.topology.bottleneck_of(node.name) and (module := placement.queue.module) is not None:
        params = placement.queue.module_params(placement.cell.aqm_params, placement.setting)
        found[module.name] = Module(module.name, params, ours=module.source is not None)
    return tuple(found.values())


def _routes(node: Node, touching: Sequence[tuple[str, Placed]]) -> tuple[Route, ...]:
    """Routes set the receivers' congestion control and initial windows, for which there is no sysctl."""
    wanted = [placed.receiver_cc for role, placed in touching if role == "receiver" and placed.receiver_cc]
    options: tuple[str, ...] = ("congctl", wanted[0]) if wanted else ()
    windows = [placed.group.initial_window for _, placed in touching if placed.group.initial_window]
    options += ("initcwnd", str(windows[0].count)) if windows else ()
    return tuple(Route(route.to, route.via, options) for route in node.routes)


def _samplers(
    placement: Placement, node: Node, touching: Sequence[tuple[str, Placed]]
) -> tuple[Sampler, ...]:
    interval = placement.cell.sample_interval
    found: list[Sampler] = []
    if touching:
        ccs = (placed.cc for _, placed in touching)
        reported = dict.fromkeys(cc.exports for cc in ccs if cc is not None and cc.exports is not None)
        found.append(Sampler("sockets", interval, exports=tuple(reported)))
    bottleneck = placement.topology.bottleneck_of(node.name)
    if bottleneck is not None:
        found.append(Sampler("queues", interval, bottleneck.network, placement.queue_exports))
    return tuple(found)


def _host_facts(
    node: Node, family: Family, sysctls: Sequence[tuple[str, str]], modules: Sequence[Module]
) -> Iterator[Readback]:
    def about(
        kind: ReadKind, argv: tuple[str, ...], output: str, of: str = "", network: str = ""
    ) -> Readback:
        name = f"{kind} {of}".rstrip()
        return Readback(name, argv, output, host=True, kind=kind, network=network)

    yield about(ReadKind.KERNEL, ("uname", "-a"), "uname.txt")
    yield about(ReadKind.SYSCTLS, ("sysctl", *(key for key, _ in sysctls)), "sysctls.txt")
    version = ("-6",) if family is Family.IPV6 else ()
    yield about(ReadKind.ROUTES, ("ip", *version, "-j", "route", "show"), "routes.json")
    for network in (address.network for address in node.addresses):
        argv = ("ethtool", "-k", port_name(network))
        yield about(ReadKind.OFFLOADS, argv, f"offloads-{network}.txt", network, network)
    for module in modules:
        if module.params:
            place = ("grep", "-r", "", f"/sys/module/{module.name}/parameters")
            yield about(ReadKind.PARAMETERS, place, f"module-{module.name}.txt", module.name)
