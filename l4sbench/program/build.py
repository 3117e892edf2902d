# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cell, topology, catalog and conditions -> the program of every node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from l4sbench.catalog import Expectation
from l4sbench.catalog.template import write
from l4sbench.errors import InputError
from l4sbench.program.data import (
    OFFLOADS,
    Command,
    Conditions,
    Expected,
    FlowRun,
    Link,
    Module,
    Program,
    Readback,
    Route,
    Sampler,
    Server,
)
from l4sbench.program.placement import Placed, Placement
from l4sbench.program.traffic import Flow, commands
from l4sbench.program.wires import PATH_LIMIT, readback, settings
from l4sbench.units import Duration

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.topology import Node, Topology

RMEM = (4096, 131_072, 6_291_456)
"""Minimum, initial and maximum receive buffer; set because the kernel's defaults depend on memory size."""
WMEM = (4096, 16_384, 4_194_304)
"""The same for send buffers."""
SNAP_BYTES = 96
"""Captured bytes of a packet: its Ethernet, IPv4 and TCP headers with all options are at most 94."""
CAPTURE_BUFFER_KIB = 16_384
"""Kernel buffer of a capture: a second of 100 Mbit/s in packets of 150 bytes."""
CLASS = "1:3"
"""HTB class of the bottleneck, as published."""


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
    return MappingProxyType({node.name: _program(placement, node, conditions) for node in topology.nodes})


def _captures(topology: Topology, node: str) -> tuple[Server, ...]:
    """Return packet captures on both sides of the bottleneck's queue; none for any other node.

    Where flows arrive only incoming packets are captured: data before the queue. After the queue both
    directions are captured: data that left, and returning ACKs. Captures start before any flow and contain
    headers only.
    """
    where, out = topology.bottleneck
    if node != where:
        return ()
    arriving = [address.network for address in topology.by_name[where].addresses if address.network != out]
    return tuple(_capture(network, ("-Q", "in") if network != out else ()) for network in (*arriving, out))


def _capture(network: str, direction: tuple[str, ...]) -> Server:
    what = ("-i", _port(network), *direction, "-s", str(SNAP_BYTES), "-B", str(CAPTURE_BUFFER_KIB))
    how = ("-n", "-Z", "root", "--time-stamp-precision", "nano", "-w", "-")
    return Server(f"capture-{network}", ("tcpdump", *what, *how, "tcp"), f"{network}.pcap")


def _program(placement: Placement, node: Node, conditions: Conditions) -> Program:
    touching = list(placement.on(node.name))
    runs, servers = _traffic(placement, node, conditions)
    if conditions.capture or placement.cell.capture == "headers":
        servers = (*servers, *_captures(placement.topology, node.name))
    shapers = list(_bottleneck(placement, node))
    wires: tuple[tuple[str, str], ...] = ()
    if conditions.wire_seed is None:
        shapers += _delays(placement, node)
    else:
        wires = settings(placement, node.name, conditions.wire_seed)
    sysctls = _sysctls(placement, touching)
    modules = _modules(placement, node, touching)
    return Program(
        node=node.name,
        modules=modules,
        sysctls=(*sysctls, *wires),
        links=tuple(
            Link(address.network, str(address), tuple((name, False) for name in OFFLOADS))
            for address in node.addresses
        ),
        routes=_routes(node, touching),
        reset=tuple(
            Command(("tc", "qdisc", "del", "dev", _port(shaper.network), "root")) for shaper in shapers
        ),
        setup=tuple(Command(argv) for shaper in shapers for argv in shaper.commands),
        servers=servers,
        flows=runs,
        samplers=_samplers(placement, node, touching),
        readback=(
            *(reading for shaper in shapers for reading in shaper.readback),
            *([readback(placement, node.name, wires)] if conditions.wire_seed is not None else []),
            *_host_facts(node, sysctls, modules),
        ),
        expected=tuple(expected for shaper in shapers for expected in shaper.expected),
    )


def _sysctls(placement: Placement, touching: Sequence[tuple[str, Placed]]) -> tuple[tuple[str, str], ...]:
    found = {"net.ipv4.ip_forward": "1", "net.ipv4.tcp_no_metrics_save": "1"}
    if touching:
        for key, (least, initial, most) in (("rmem", RMEM), ("wmem", WMEM)):
            found[f"net.ipv4.tcp_{key}"] = f"{least} {initial} {max(most, placement.socket_bytes)}"
    for role, placed in touching:
        found |= dict(placed.sysctls(role))
    return tuple(found.items())


def _modules(placement: Placement, node: Node, touching: Sequence[tuple[str, Placed]]) -> tuple[Module, ...]:
    found: dict[str, Module] = {}
    for _, placed in touching:
        if (module := placed.cc.module) is not None:
            params = placed.cc.module_params(placed.group.params)
            found[module.name] = Module(module.name, params, ours=module.source is not None)
    if node.name == placement.topology.router and (module := placement.queue.module) is not None:
        params = placement.queue.module_params(placement.cell.aqm_params, placement.setting)
        found[module.name] = Module(module.name, params, ours=module.source is not None)
    return tuple(found.values())


def _routes(node: Node, touching: Sequence[tuple[str, Placed]]) -> tuple[Route, ...]:
    """Routes set the receivers' congestion control, as a namespace cannot set each of them by sysctl."""
    wanted = [placed.receiver_cc for role, placed in touching if role == "receiver" and placed.receiver_cc]
    options = ("congctl", wanted[0]) if wanted else ()
    return tuple(Route(route.to, route.via, options) for route in node.routes)


@dataclass(frozen=True)
class _Shaper:
    """The queuing disciplines of one port."""

    network: str
    commands: tuple[tuple[str, ...], ...]
    readback: tuple[Readback, ...]
    expected: tuple[Expected, ...]


def _bottleneck(placement: Placement, node: Node) -> Iterator[_Shaper]:
    where, network = placement.topology.bottleneck
    if node.name != where:
        return
    dev = ("dev", _port(network))
    rate = placement.setting.rate
    params = placement.cell.aqm_params
    kind, options = placement.queue.expects(params, placement.setting)
    qdiscs, classes = _qdisc_file(network), f"class-{network}.json"
    queue = placement.queue.tc(params, placement.setting)
    rate_bytes = rate.bits_per_s // 8
    yield _Shaper(
        network,
        (
            ("tc", "qdisc", "replace", *dev, "root", "handle", "1:", "htb", "default", "3"),
            ("tc", "class", "add", *dev, "parent", "1:", "classid", CLASS, "htb", "rate", write(rate)),
            ("tc", "qdisc", "replace", *dev, "parent", CLASS, "handle", "3:", *queue),
        ),
        (
            _show_qdiscs(network),
            Readback(f"class {network}", ("tc", "-s", "-j", "class", "show", *dev), classes),
        ),
        (
            Expected(
                f"htb at {network}",
                qdiscs,
                (("kind", "htb"), ("root", True)),
                (Expectation("options.default", "0x3"),),
            ),
            Expected(
                f"htb class {CLASS} at {network}",
                classes,
                (("class", "htb"), ("handle", CLASS)),
                (
                    Expectation("rate", rate_bytes),
                    Expectation("ceil", rate_bytes),
                    *_burst(rate_bytes),
                ),
            ),
            Expected(
                f"{kind} at {network}",
                qdiscs,
                (("kind", kind), ("parent", CLASS)),
                tuple(Expectation(f"options.{item.key}", item.value, item.within) for item in options),
            ),
        ),
    )


def _burst(rate_bytes: int) -> Iterator[Expectation]:
    """Return the default burst of tc: one timer tick of the rate and one packet of 1600 bytes.

    With high-resolution timers a tick is 1 ns. On a kernel that has not switched to them yet (before its
    first timer interrupt) tc uses a jiffy for a tick and makes a burst of many packets, so that the queue
    would not see the bottleneck. The kernel stores bursts as multiples of 64 ns, so they read back rounded.
    """
    exact = rate_bytes // 1_000_000_000 + 1600
    within = max(16, 2 * 64 * rate_bytes // 1_000_000_000)
    return (Expectation(key, exact, within) for key in ("burst", "cburst"))


def _delays(placement: Placement, node: Node) -> Iterator[_Shaper]:
    """Return the round-trip time in equal parts on all ports of the delay node."""
    ports = placement.topology.delay_ports
    for port in ports:
        if port.node == node.name:
            part = Duration(placement.setting.rtt.ns // len(ports))
            yield _netem(port.network, part)


def _netem(network: str, delay: Duration) -> _Shaper:
    how = ("delay", write(delay), "limit", str(PATH_LIMIT))
    return _Shaper(
        network,
        (("tc", "qdisc", "replace", "dev", _port(network), "root", "netem", *how),),
        (_show_qdiscs(network),),
        (
            Expected(
                f"netem at {network}",
                _qdisc_file(network),
                (("kind", "netem"), ("root", True)),
                (
                    Expectation("options.limit", PATH_LIMIT),
                    Expectation("options.delay.delay", delay.s, 1e-7),
                ),
            ),
        ),
    )


def _traffic(
    placement: Placement, node: Node, conditions: Conditions
) -> tuple[tuple[FlowRun, ...], tuple[Server, ...]]:
    runs: list[FlowRun] = []
    servers: list[Server] = []
    for placed, index, port in placement.flows:
        if node.name not in placed.pair:
            continue
        group, pair = placed.group, placed.pair
        name = f"{group.name}-{index}"
        address = placement.topology.by_name[pair.receiver].addresses[0].ip
        flow = Flow(name, address, port, placed.cc.kernel_name, placement.length)
        both = commands(conditions.traffic, flow)
        if pair.receiver == node.name:
            servers.append(Server(name, both.receiver, f"flow-{name}.receiver.json"))
        if pair.sender == node.name:
            later = conditions.start_offsets.get(name, Duration(0))
            runs.append(
                FlowRun(
                    flow=name,
                    group=group.name,
                    index=index,
                    argv=both.sender,
                    output=f"flow-{name}.sender.json",
                    start=Duration(group.start.ns + later.ns),
                    seconds=placement.length.s,
                    receiver=pair.receiver,
                    port=port,
                    cc=placed.cc.kernel_name,
                    ecn=group.ecn,
                )
            )
    return tuple(runs), tuple(servers)


def _samplers(
    placement: Placement, node: Node, touching: Sequence[tuple[str, Placed]]
) -> tuple[Sampler, ...]:
    interval = placement.cell.sample_interval
    found: list[Sampler] = []
    if touching:
        reported = dict.fromkeys(placed.cc.exports for _, placed in touching if placed.cc.exports is not None)
        found.append(Sampler("sockets", interval, exports=tuple(reported)))
    where, network = placement.topology.bottleneck
    if where == node.name:
        found.append(Sampler("queues", interval, network, placement.queue_exports))
    return tuple(found)


def _host_facts(
    node: Node, sysctls: Sequence[tuple[str, str]], modules: Sequence[Module]
) -> Iterator[Readback]:
    yield Readback("kernel", ("uname", "-a"), "uname.txt", host=True)
    yield Readback("sysctls", ("sysctl", *(key for key, _ in sysctls)), "sysctls.txt", host=True)
    yield Readback("routes", ("ip", "-j", "route", "show"), "routes.json", host=True)
    for address in node.addresses:
        network = address.network
        argv = ("ethtool", "-k", _port(network))
        yield Readback(f"offloads {network}", argv, f"offloads-{network}.txt", host=True)
    for module in modules:
        if module.params:
            name = f"parameters {module.name}"
            place = f"/sys/module/{module.name}/parameters"
            yield Readback(name, ("grep", "-r", "", place), f"module-{module.name}.txt", host=True)


def _show_qdiscs(network: str) -> Readback:
    argv = ("tc", "-s", "-j", "qdisc", "show", "dev", _port(network))
    return Readback(f"qdisc {network}", argv, _qdisc_file(network))


def _qdisc_file(network: str) -> str:
    return f"qdisc-{network}.json"


def _port(network: str) -> str:
    return f"@{network}"
