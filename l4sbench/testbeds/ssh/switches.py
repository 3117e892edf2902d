# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Switches of an inventory, and what the control part of their program is told for a cell.

A switch takes the place of a router. It is a host of the inventory with one variable:

    l4sbench_switch:
      node: router
      ports:                          # by network: the front port, and a hardware address of your choice
        net-mid: {front: 1/0, mac: "02:00:00:00:01:84"}
        net-rx: {front: 2/0, mac: "02:00:00:00:01:8c", speed: 100G, fec: NONE}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

from pydantic import Field

from l4sbench.catalog import Bottleneck
from l4sbench.catalog.switches import switch_programs
from l4sbench.disk.document import Document, Flaw
from l4sbench.errors import InputError, Problem
from l4sbench.program.switches import plain_value
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.text.models import Strict
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, Queue
    from l4sbench.catalog.switches import SwitchProgram
    from l4sbench.disk.document import Tree
    from l4sbench.facts.cell import Cell
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.topology import Node, Topology

VARIABLE: Final = "l4sbench_switch"
FRONT: Final = r"^[1-9][0-9]?/[0-3]$"
"""Names of front ports, as the device's own map has them."""


class SwitchPort(Strict):
    """A port: its front port (connector and channel), or the device's number for it; and its address."""

    front: Annotated[str, Field(pattern=FRONT)] | None = None
    port: Annotated[int, Field(ge=0, le=511)] | None = None
    mac: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$")]
    speed: Literal["1G", "10G", "25G", "40G", "50G", "100G"] = "100G"
    fec: Literal["NONE", "FIRECODE", "REED_SOLOMON"] = "NONE"

    @property
    def name(self) -> int | str:
        """The port as the control part takes it."""
        return self.front if self.front is not None else cast("int", self.port)


class Switch(Strict):
    """A switch: the node that it is, and its ports by network."""

    node: str
    ports: Mapping[str, SwitchPort]


def switches_of(variables: Mapping[str, Mapping[str, object]], where: str) -> dict[str, Switch]:
    """Return the switches of an inventory by their hosts' names.

    Raises:
        InputError: all invalid variables.
    """
    found: dict[str, Switch] = {}
    problems: list[Problem] = []
    for name, given in sorted(variables.items()):
        if VARIABLE not in given:
            continue
        try:
            document = Document("", cast("Tree", given[VARIABLE]))
            switch = document.validate(Switch)
            document.refuse(_unnamed(switch))
            found[name] = switch
        except InputError as error:
            place = f"{name}.{VARIABLE}"
            problems += [
                Problem(where, f"{place}.{p.path}".rstrip("."), p.message, p.hint) for p in error.problems
            ]
    if problems:
        raise InputError(problems)
    return found


def _unnamed(switch: Switch) -> Iterator[Flaw]:
    """Yield the ports that have no name, or two."""
    for network, port in switch.ports.items():
        if (port.front is None) == (port.port is None):
            message = "needs either the front port or the device's number for it"
            yield Flaw(("ports", network), message, "front: 1/0, or port: 132 (D_P in `pm show` of ucli)")


def placed_of(
    variables: Mapping[str, Mapping[str, object]], where: str
) -> tuple[tuple[Host, ...], dict[str, Switch]]:
    """Return the hosts and the switches of an inventory.

    Raises:
        InputError: all invalid variables of both.
    """
    problems: list[Problem] = []
    hosts: tuple[Host, ...] = ()
    switches: dict[str, Switch] = {}
    try:
        hosts = hosts_of(variables, where)
    except InputError as error:
        problems += error.problems
    try:
        switches = switches_of(variables, where)
    except InputError as error:
        problems += error.problems
    if problems:
        raise InputError(problems)
    return hosts, switches


def misplaced_switches(switches: Mapping[str, Switch], topology: Topology, where: str) -> Iterator[Problem]:
    """Yield why these switches cannot be nodes of a topology."""
    for name, switch in switches.items():
        place = f"{name}.{VARIABLE}"
        node = topology.by_name.get(switch.node)
        if topology.bottleneck_of(switch.node) is None or node is None:
            routers = " or ".join(port.node for port in topology.bottlenecks)
            yield Problem(where, place, f"a switch cannot be {switch.node}", f"use {routers}")
            continue
        if switch.node in topology.delays:
            yield Problem(where, place, f"{switch.node} delays packets, which a switch cannot")
        networks = {address.network for address in node.addresses}
        for network in sorted(networks ^ switch.ports.keys()):
            lacks = "names no port for" if network in networks else f"{switch.node} is not on"
            yield Problem(where, f"{place}.ports", f"{lacks} {network}")


def addresses_of(switches: Mapping[str, Switch]) -> dict[str, dict[str, str]]:
    """Return the hardware addresses of switches by network, for each node that is one."""
    return {
        switch.node: {network: port.mac.lower() for network, port in switch.ports.items()}
        for switch in switches.values()
    }


def switch_config(
    cell: Cell, topology: Topology, catalog: Catalog, switch: Switch, hosts: Sequence[Host]
) -> dict[str, object]:
    """Return the configuration of a program's control part for a cell (`ports.json` is an example of one).

    Raises:
        InputError: the program on the switch cannot do what the cell asks for.
    """
    refused = next(_refused(cell, topology, catalog, switch), None)
    if refused is not None:
        raise InputError([Problem("", cell.id, *refused)])
    queue = catalog.queue(cell.aqm)
    at = Bottleneck(cell.rate, cell.rtt, cell.buffer_bdp)
    kind = queue.tc(cell.aqm_params, at)[0]
    given = queue.effective(cell.aqm_params, at)
    of_port: dict[str, int] = {}
    of_switch: dict[str, int] = {}
    for name, taken in switch_programs()[kind].takes.items():
        (of_port if taken.of == "port" else of_switch)[name] = plain_value(given[name])
    bottleneck = topology.bottleneck_of(switch.node)
    ports: list[dict[str, object]] = []
    for network, port in switch.ports.items():
        one: dict[str, object] = {"port": port.name, "mac": port.mac, "speed": port.speed, "fec": port.fec}
        one["name"] = network
        if bottleneck is not None and network == bottleneck.network:
            one |= {
                "rate_kbps": round(cell.rate.bits_per_s / 1000),
                "buffer_bytes": queue.limit_bytes(cell.aqm_params, at),
                **of_port,
            }
        ports.append(one)
    return {
        "program": kind,
        "ports": ports,
        "hosts": {},
        "routes": dict(_routes(topology, switch, hosts)),
        **of_switch,
        "sample_ms": max(1, round(cell.sample_interval.ms)),
    }


def unsuitable(
    cells: Iterable[Cell], catalog: Catalog, switches: Iterable[Switch], where: str
) -> list[Problem]:
    """Return why switches cannot run these cells; what is the same for several cells once."""
    switches = tuple(switches)
    found: dict[_Refusal, list[str]] = {}
    for cell in cells if switches else ():
        for switch in switches:
            for refusal in _refused(cell, catalog.topology(cell.topology), catalog, switch):
                found.setdefault(refusal, []).append(cell.id)
    return [
        Problem(where, own[0] + (f" and {len(own) - 1} more" if own[1:] else ""), message, hint)
        for (message, hint), own in found.items()
    ]


_Refusal: TypeAlias = tuple[str, str | None]
"""Something that a switch cannot do, and a hint."""


def _refused(cell: Cell, topology: Topology, catalog: Catalog, switch: Switch) -> Iterator[_Refusal]:
    """Yield what a cell asks for that the program on the switch cannot do."""
    queue = catalog.queue(cell.aqm)
    at = Bottleneck(cell.rate, cell.rtt, cell.buffer_bdp)
    offered = switch_programs()
    program = offered.get(queue.tc(cell.aqm_params, at)[0])
    if program is None:
        message = f"there is no program for switches with the queue {cell.aqm}"
        yield message, f"choose from {', '.join(offered)}"
        return
    if cell.family is not Family.IPV4:
        message = f"the program on a switch is for IPv4 only, not for {cell.family.words}"
        yield message, "write family: ipv4"
    if cell.events:
        yield "a switch keeps its rate for a whole trial, and this cell has events", None
    if cell.capture != "off" and topology.capture == switch.node:
        message = f"capture: {cell.capture} would keep packets at {switch.node}, which is a switch"
        yield message, "write capture: off, or use a router"
    if cell.reverse_rate is not None and switch.node in {port.node for port in topology.reverse_ports}:
        message = f"path.reverse_rate would shape a second port of {switch.node}, which is a switch"
        yield message, "leave it out, or use a router"
    yield from _refused_values(cell, queue, at, program)


def _refused_values(cell: Cell, queue: Queue, at: Bottleneck, program: SwitchProgram) -> Iterator[_Refusal]:
    """Yield values of the queue's parameters that the program on the switch cannot have."""
    values = queue.effective(cell.aqm_params, at)
    for name, constant in program.constants.items():
        if values[name] != constant:
            message = f"{name} of the switch's program is {constant}, not {values[name]}"
            yield message, "leave it out, or compile the program with another one by hand"
    for name in sorted(cell.aqm_params.keys() & set(program.lacks)):
        yield f"the switch's program has no {name}", "leave it out"
    if values[program.rate] != cell.rate:
        message = f"{program.rate} of a switch is its link's rate, {cell.rate}, not {values[program.rate]}"
        yield message, f"leave {program.rate} out"
    taken = {name: plain_value(values[name]) for name in program.takes}
    for name, one in program.takes.items():
        if not one.minimum <= taken[name] <= one.maximum:
            yield f"{name} of a switch is from {one.minimum} to {one.maximum}, not {values[name]}", None
    limit = queue.limit_bytes(cell.aqm_params, at)
    sizes = program.queue_cells(limit, taken)
    if min(sizes) < program.packet_cells:
        message = f"a queue of a switch would have {min(sizes)} cells of {program.cell_bytes} bytes"
        yield f"{message}, less than a packet", f"a packet takes {program.packet_cells}"
    elif max(sizes) > program.most_cells:
        yield f"a buffer of {limit} bytes is too large for a switch", None


def _routes(
    topology: Topology, switch: Switch, hosts: Sequence[Host]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the routes of a switch: one to each neighbour, since nothing answers ARP, and its node's own."""
    # a host that is several nodes has namespaces with addresses of their own, which nobody knows before
    macs = {
        (host.nodes[0], network): mac
        for host in hosts
        if len(host.nodes) == 1
        for network, mac in host.ports.items()
    }
    by_ip: dict[str, tuple[Node, str]] = {}
    for node in topology.nodes:
        for address in node.addresses:
            if node.name != switch.node and address.network in switch.ports:
                by_ip[address.ip] = (node, address.network)

    def via(ip: str) -> dict[str, object]:
        node, network = by_ip[ip]
        if (node.name, network) not in macs:
            raise InputError(f"{node.name} is beside a switch, so it must be a host of its own")
        return {"port": switch.ports[network].name, "mac": macs[node.name, network]}

    for ip in by_ip:
        yield f"{ip}/32", via(ip)
    for route in topology.by_name[switch.node].routes:
        yield route.to, via(route.via)
