# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies: named nodes and networks and their roles, as plain data that testbeds set up.

A port is (node, network). A network of more than two ports is a bridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from l4sbench.errors import InputError, Problem, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Port(NamedTuple):
    """The point where a node joins a network; the testbed resolves it to an interface."""

    node: str
    network: str


@dataclass(frozen=True)
class Address:
    """A node's IPv4 address on a network."""

    network: str
    ip: str
    prefix: int

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix}"


@dataclass(frozen=True)
class StaticRoute:
    """Route to the prefix `to` through the neighbour `via`."""

    to: str
    via: str


@dataclass(frozen=True)
class Node:
    """A host: one address per network it is on, and its static routes."""

    name: str
    addresses: tuple[Address, ...]
    routes: tuple[StaticRoute, ...]

    def address_on(self, network: str) -> Address:
        """Return its address on `network`; raise KeyError if it has no port there."""
        for address in self.addresses:
            if address.network == network:
                return address
        raise KeyError(f"{self.name} is not on {network}")


@dataclass(frozen=True)
class Network:
    """A link (two ports) or a bridge (more)."""

    name: str
    prefix: str
    nodes: tuple[str, ...]

    @property
    def is_bridge(self) -> bool:
        """True if it has more than two ports."""
        return len(self.nodes) > 2


class NodePair(NamedTuple):
    """The nodes of a group's flows."""

    sender: str
    receiver: str


@dataclass(frozen=True)
class Topology:
    """Nodes, networks and roles.

    Attributes:
        name: Value of the factor `topology`.
        nodes: All nodes, in the order of tables and programs.
        networks: All networks.
        pairs: Sender and receiver nodes, in the order in which flow groups take them.
        delay: Node whose ports add the round-trip time, each an equal share.
        router: Node with the bottleneck.
        bottleneck: Port whose egress has the queue under test.
    """

    name: str
    nodes: tuple[Node, ...]
    networks: tuple[Network, ...]
    pairs: tuple[NodePair, ...]
    delay: str
    router: str
    bottleneck: Port

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def senders(self) -> tuple[str, ...]:
        """Nodes that originate flows, each once."""
        return tuple(dict.fromkeys(pair.sender for pair in self.pairs))

    @cached_property
    def receivers(self) -> tuple[str, ...]:
        """Nodes that receive flows, each once."""
        return tuple(dict.fromkeys(pair.receiver for pair in self.pairs))

    @cached_property
    def delay_ports(self) -> tuple[Port, ...]:
        """Ports of the delay node; each gets the round-trip time divided by their number."""
        return tuple(Port(self.delay, address.network) for address in self.by_name[self.delay].addresses)

    @cached_property
    def data_port(self) -> Port:
        """Port of the delay node by which packets leave for the router and the receivers."""
        networks = {network.name for network in self.networks if self.router in network.nodes}
        return next(port for port in self.delay_ports if port.network in networks)

    @cached_property
    def reverse_ports(self) -> tuple[Port, ...]:
        """Ports of the router by which packets of receivers leave."""
        found = (Port(self.router, address.network) for address in self.by_name[self.router].addresses)
        return tuple(port for port in found if port != self.bottleneck)

    @cached_property
    def sender_networks(self) -> Mapping[str, str]:
        """Sender -> the network its flows leave by."""
        return MappingProxyType({name: self.by_name[name].addresses[0].network for name in self.senders})

    def place(self, stated: Mapping[str, tuple[str | None, str | None]]) -> Mapping[str, NodePair]:
        """Return the pair of nodes of every flow group.

        Args:
            stated: Group -> its factors `from` and `to`; None: the node of the pair at its index.

        Raises:
            InputError: a node is not a sender or receiver, or there are more groups than pairs.
        """
        placed: dict[str, NodePair] = {}
        problems: list[Problem] = []
        for index, (group, nodes) in enumerate(stated.items()):
            own = self.pairs[index] if index < len(self.pairs) else (None, None)
            sender, receiver = (node or usual for node, usual in zip(nodes, own, strict=True))
            if sender is None or receiver is None:
                message = f"{self.name} has {len(self.pairs)} pairs of nodes, but this is group {index + 1}"
                last = self.pairs[-1]
                hint = f"set its nodes, such as {group}.from: {last.sender} and {group}.to: {last.receiver}"
                problems.append(Problem("", group, message, hint))
                continue
            problems += self._misplaced(f"{group}.from", sender, self.senders, "sender")
            problems += self._misplaced(f"{group}.to", receiver, self.receivers, "receiver")
            placed[group] = NodePair(sender, receiver)
        if problems:
            raise InputError(problems)
        return MappingProxyType(placed)

    def _misplaced(self, path: str, node: str, offered: tuple[str, ...], role: str) -> list[Problem]:
        if node in offered:
            return []
        return [Problem("", path, f"{node} is not a {role} of {self.name}", suggest(node, offered))]


def _line6() -> Topology:
    """Return two senders, delay, router, two receivers, with addresses and routes as published."""
    to_rx, to_tx = "10.0.5.0/24", "10.0.0.0/24"

    def host(name: str, network: str, ip: str, route: StaticRoute) -> Node:
        return Node(name, (Address(network, ip, 24),), (route,))

    tx_route, rx_route = StaticRoute(to_rx, "10.0.0.2"), StaticRoute(to_tx, "10.0.5.1")
    return Topology(
        name="line6",
        nodes=(
            host("tx-l4s", "net-tx", "10.0.0.100", tx_route),
            host("tx-classic", "net-tx", "10.0.0.101", tx_route),
            Node(
                "delay",
                (Address("net-tx", "10.0.0.2", 24), Address("net-mid", "10.0.2.2", 24)),
                (StaticRoute(to_rx, "10.0.2.1"),),
            ),
            Node(
                "router",
                (Address("net-mid", "10.0.2.1", 24), Address("net-rx", "10.0.5.1", 24)),
                (StaticRoute(to_tx, "10.0.2.2"),),
            ),
            host("rx-l4s", "net-rx", "10.0.5.100", rx_route),
            host("rx-classic", "net-rx", "10.0.5.101", rx_route),
        ),
        networks=(
            Network("net-tx", to_tx, ("tx-l4s", "tx-classic", "delay")),
            Network("net-mid", "10.0.2.0/24", ("delay", "router")),
            Network("net-rx", to_rx, ("router", "rx-l4s", "rx-classic")),
        ),
        pairs=(NodePair("tx-l4s", "rx-l4s"), NodePair("tx-classic", "rx-classic")),
        delay="delay",
        router="router",
        bottleneck=Port("router", "net-rx"),
    )


LINE6 = _line6()

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType({LINE6.name: LINE6})


def topology(name: str) -> Topology:
    """Return the topology of that name.

    Raises:
        InputError: there is none; the hint lists all.
    """
    try:
        return TOPOLOGIES[name]
    except KeyError:
        message = f"unknown topology {name}"
        raise InputError([Problem("", "topology", message, suggest(name, TOPOLOGIES))]) from None
