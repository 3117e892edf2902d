# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Named nodes and networks, and which of them plays which part. Pure data: a testbed makes it real.

A port is (node, network). A network of more than two ports is a bridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from l4sbench.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Port(NamedTuple):
    """Where a node meets a network; the testbed resolves it to an interface."""

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
    """Reach the prefix `to` by the neighbour `via`."""

    to: str
    via: str


@dataclass(frozen=True)
class Node:
    """A host: one address per network it is on, and its static routes."""

    name: str
    addresses: tuple[Address, ...]
    routes: tuple[StaticRoute, ...]

    def address_on(self, network: str) -> Address:
        """Its address on `network`; KeyError if it has no port there."""
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
        """Whether more than two ports meet here."""
        return len(self.nodes) > 2


class Pair(NamedTuple):
    """The nodes between which a group's flows run."""

    sender: str
    receiver: str


class Placeable(Protocol):
    """What placing needs to know of a flow group."""

    @property
    def name(self) -> str:
        """The group's name."""

    @property
    def sender(self) -> str | None:
        """The node its `from` names, if any."""

    @property
    def receiver(self) -> str | None:
        """The node its `to` names, if any."""


@dataclass(frozen=True)
class Topology:
    """Nodes, networks and roles.

    Attributes:
        name: Value of the factor `topology`.
        nodes: In the order in which tables and programs list them.
        networks: All of them.
        pairs: Sender and receiver nodes, in the order in which flow groups take them.
        delay: Node whose ports share the round-trip time between them.
        router: Node that holds the bottleneck.
        bottleneck: Port at whose egress the queue under test stands.
    """

    name: str
    nodes: tuple[Node, ...]
    networks: tuple[Network, ...]
    pairs: tuple[Pair, ...]
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
    def sender_networks(self) -> Mapping[str, str]:
        """Sender -> the network its flows leave by."""
        return MappingProxyType({name: self.by_name[name].addresses[0].network for name in self.senders})

    def place(self, groups: Sequence[Placeable]) -> Mapping[str, Pair]:
        """The pair of nodes of every group: its `from`/`to`, else the pair of its place.

        Raises:
            InputError: a node that is no sender or receiver, or more groups than pairs and no `from`/`to`.
        """
        placed: dict[str, Pair] = {}
        problems: list[Problem] = []
        for place, group in enumerate(groups):
            own = self.pairs[place] if place < len(self.pairs) else None
            sender = group.sender or (own.sender if own else None)
            receiver = group.receiver or (own.receiver if own else None)
            if sender is None or receiver is None:
                problems.append(
                    Problem(
                        "",
                        group.name,
                        f"{self.name} has {len(self.pairs)} pairs of nodes, and this is group {place + 1}",
                        f"say where it runs, such as {group.name}.from: {self.pairs[-1].sender} and "
                        f"{group.name}.to: {self.pairs[-1].receiver}",
                    )
                )
                continue
            problems += self._misplaced(f"{group.name}.from", sender, self.senders, "sends")
            problems += self._misplaced(f"{group.name}.to", receiver, self.receivers, "receives")
            placed[group.name] = Pair(sender, receiver)
        if problems:
            raise InputError(problems)
        return MappingProxyType(placed)

    def _misplaced(self, path: str, node: str, offered: tuple[str, ...], does: str) -> list[Problem]:
        if node in offered:
            return []
        message = f"no node {node} {does} in {self.name}; there are {', '.join(offered)}"
        return [Problem("", path, message, did_you_mean(node, offered))]


def _line6() -> Topology:
    """Two senders, delay, router, two receivers: addresses and routes as in the published experiments."""
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
        pairs=(Pair("tx-l4s", "rx-l4s"), Pair("tx-classic", "rx-classic")),
        delay="delay",
        router="router",
        bottleneck=Port("router", "net-rx"),
    )


LINE6 = _line6()

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType({LINE6.name: LINE6})


def topology(name: str) -> Topology:
    """The topology of that name.

    Raises:
        InputError: there is none; the message lists what there is.
    """
    try:
        return TOPOLOGIES[name]
    except KeyError:
        message = f"no topology {name}; there is {', '.join(TOPOLOGIES)}"
        raise InputError([Problem("", "topology", message, did_you_mean(name, TOPOLOGIES))]) from None
