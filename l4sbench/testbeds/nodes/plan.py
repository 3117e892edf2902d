# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The plan of a lab of booted nodes: addresses, interfaces, bridges. A pure function of the topology."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from l4sbench.topology import Topology

MANAGEMENT = ipaddress.IPv4Network("172.31.255.0/24")
"""Network for ssh. It exists only in the lab's network namespace; no topology uses it."""
MANAGEMENT_6 = ipaddress.IPv6Network("fd4c:3453:ff::/64")
"""The same in IPv6, the only kind at many sites of FABRIC. A private prefix (RFC 4193)."""

BASTION = "bastion"
"""The node that is on management alone and leads to the others, as on FABRIC."""

MANAGEMENT_BRIDGE = "management"
_FIRST_HOST = 11


class PortPlan(Strict):
    """One interface of a node.

    Attributes:
        network: The topology's network; "" for management.
        mac: The interface's hardware address, which identifies it on the node.
        tap: The host's end of it, in the lab's namespace.
        bridge: Bridge of the host's end.
    """

    network: str
    mac: str
    tap: str
    bridge: str


class NodePlan(Strict):
    """One node; `ports` begins with management, the topology's networks follow."""

    name: str
    address: str
    address_6: str
    ports: tuple[PortPlan, ...]


class LabPlan(Strict):
    """All nodes of a lab, and the bridges between them.

    Attributes:
        topology: The topology's name.
        nodes: Its nodes in order, then the bastion if there is one.
        bridges: Bridges that link them.
    """

    topology: str
    nodes: tuple[NodePlan, ...]
    bridges: tuple[str, ...]

    def link_commands(self) -> str:
        """Return the input of `ip -batch` that makes bridges and taps."""
        lines = ["link set lo up"]
        for bridge in self.bridges:
            # the host does not take part: the bridge only forwards, and at once
            lines += [
                f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0",
                f"link set {bridge} addrgenmode none",
                f"link set {bridge} up",
            ]
        lines += [
            f"address add {MANAGEMENT[1]}/{MANAGEMENT.prefixlen} dev {MANAGEMENT_BRIDGE}",
            f"address add {MANAGEMENT_6[1]}/{MANAGEMENT_6.prefixlen} dev {MANAGEMENT_BRIDGE} nodad",
        ]
        for port in (port for node in self.nodes for port in node.ports):
            lines += [
                f"tuntap add dev {port.tap} mode tap",
                f"link set {port.tap} addrgenmode none",
                f"link set {port.tap} master {port.bridge} up",
            ]
        return "".join(f"{line}\n" for line in lines)


def plan_lab(topology: Topology, *, bastion: bool = False) -> LabPlan:
    """Return the plan for a topology, with or without a bastion. Addresses depend only on nodes' order."""
    members = {node.name: [address.network for address in node.addresses] for node in topology.nodes}
    if bastion:
        members[BASTION] = []
    return plan_members(topology.name, members, [network.name for network in topology.networks])


def plan_members(topology: str, members: Mapping[str, Sequence[str]], networks: Sequence[str]) -> LabPlan:
    """Return the plan for any hosts.

    Args:
        topology: Name of the topology whose nodes they hold.
        members: Host -> networks that it has an interface in.
        networks: All networks.
    """
    bridges = {network: f"net{number}" for number, network in enumerate(networks)}
    nodes = []
    for number, (name, own) in enumerate(members.items()):
        nodes.append(
            NodePlan(
                name=name,
                address=str(MANAGEMENT[_FIRST_HOST + number]),
                address_6=str(MANAGEMENT_6[_FIRST_HOST + number]),
                ports=tuple(
                    PortPlan(
                        network=network,
                        # locally administered (IEEE 802, the 2 in the first byte), then the letters L4S
                        mac=f"02:4c:34:53:{number:02x}:{place:02x}",
                        tap=f"tap{number}.{place}",
                        bridge=bridges.get(network, MANAGEMENT_BRIDGE),
                    )
                    for place, network in enumerate(["", *own])
                ),
            )
        )
    return LabPlan(topology=topology, nodes=tuple(nodes), bridges=(MANAGEMENT_BRIDGE, *bridges.values()))
