# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies as values, the ways of packets through them, and the nodes of flow groups."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from l4sbench.errors import InputError, Problem, suggest
from l4sbench.text.wording import quoted
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROLES: Final = ("sender", "receiver", "delay", "router")
"""Uses of a node."""


IPV6_PREFIX: Final = IPv6Address("fd4c:3453:46::")
"""Private prefix (RFC 4193) of the IPv6 addresses of topologies; their last 32 bits are the IPv4 address."""
_EMBEDDED_AT: Final = 96


class Port(NamedTuple):
    """The point where a node joins a network; the testbed resolves it to an interface."""

    node: str
    network: str


@dataclass(frozen=True)
class Address:
    """A node's address on a network."""

    network: str
    ip: str
    prefix: int

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix}"

    @property
    def as_ipv6(self) -> Address:
        """The IPv6 address that follows from this IPv4 address."""
        return Address(self.network, _ipv6(self.ip), _EMBEDDED_AT + self.prefix)


@dataclass(frozen=True)
class StaticRoute:
    """Route to the prefix `to` through the neighbour `via`."""

    to: str
    via: str

    @property
    def as_ipv6(self) -> StaticRoute:
        """The same route between the IPv6 addresses that follow from these."""
        return StaticRoute(_ipv6_prefix(self.to), _ipv6(self.via))


@dataclass(frozen=True)
class Node:
    """A machine: its role, one address per network it is on, and its static routes."""

    name: str
    role: str
    addresses: tuple[Address, ...]
    routes: tuple[StaticRoute, ...] = ()

    def address_on(self, network: str) -> Address:
        """Return its address on `network`; raise KeyError if it has no port there."""
        for address in self.addresses:
            if address.network == network:
                return address
        raise KeyError(f"{self.name} is not on {network}")

    @property
    def as_ipv6(self) -> Node:
        """The node with IPv6 addresses and routes in place of those of IPv4."""
        addresses = tuple(address.as_ipv6 for address in self.addresses)
        return replace(self, addresses=addresses, routes=tuple(route.as_ipv6 for route in self.routes))


@dataclass(frozen=True)
class Network:
    """A link (two ports) or a bridge (more)."""

    name: str
    prefix: str
    nodes: tuple[str, ...]

    @property
    def as_ipv6(self) -> Network:
        """The network with the IPv6 prefix that follows from its own."""
        return replace(self, prefix=_ipv6_prefix(self.prefix))


class NodePair(NamedTuple):
    """The nodes of a group's flows."""

    sender: str
    receiver: str


@dataclass(frozen=True)
class Topology:
    """Nodes, networks and what they are for.

    Attributes:
        name: Value of the factor `topology`.
        nodes: All nodes, in the order of tables and programs.
        networks: All networks.
        pairs: Sender and receiver nodes of flow groups.
        bottlenecks: Ports whose egress has a queue under test, at most one of each node.
        groups: For each pair, the name of the only flow group that takes it; None: groups take it in order.
        capture: Node with the bottleneck at which `capture: headers` keeps packets.
        about: What it is good for.
        source: Where it was published; empty: nowhere.
        file: Its file; None for one that was made by code.
    """

    name: str
    nodes: tuple[Node, ...]
    networks: tuple[Network, ...]
    pairs: tuple[NodePair, ...]
    bottlenecks: tuple[Port, ...]
    groups: tuple[str | None, ...] = ()
    capture: str = ""
    about: str = field(default="", compare=False)
    source: str = field(default="", compare=False)
    file: Path | None = field(default=None, compare=False)

    def of_family(self, family: Family) -> Topology:
        """Return a topology as it is read, which has IPv4 addresses, with the addresses of `family`."""
        return self._as_ipv6 if family is Family.IPV6 else self

    @cached_property
    def _as_ipv6(self) -> Topology:
        return replace(
            self,
            nodes=tuple(node.as_ipv6 for node in self.nodes),
            networks=tuple(network.as_ipv6 for network in self.networks),
        )

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def digest(self) -> str:
        """Digest of all that testbeds set up; words about it do not count."""
        own = asdict(self)
        for name in ("about", "source", "file"):
            del own[name]
        text = json.dumps(own, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    # ---- roles
    @cached_property
    def senders(self) -> tuple[str, ...]:
        """Nodes that originate flows."""
        return self._with_role("sender")

    @cached_property
    def receivers(self) -> tuple[str, ...]:
        """Nodes that receive flows."""
        return self._with_role("receiver")

    @cached_property
    def delays(self) -> tuple[str, ...]:
        """Nodes whose ports add the round-trip time, each an equal part."""
        return self._with_role("delay")

    @cached_property
    def routers(self) -> tuple[str, ...]:
        """Nodes that forward packets and may have a bottleneck."""
        return self._with_role("router")

    def _with_role(self, role: str) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if node.role == role)

    # ---- bottlenecks
    @property
    def router(self) -> str:
        """Node of the first bottleneck; trials start by its clock."""
        return self.bottlenecks[0].node

    def bottleneck_of(self, node: str) -> Port | None:
        """Return the bottleneck of a node; None if it has none."""
        return next((port for port in self.bottlenecks if port.node == node), None)

    def passed_by(self, pair: NodePair) -> tuple[Port, ...]:
        """Return the bottlenecks that packets of a pair's sender pass, in order."""
        return tuple(port for port in self.way(*pair) if port in self.bottlenecks)

    @cached_property
    def reverse_ports(self) -> tuple[Port, ...]:
        """Ports of nodes with a bottleneck by which packets of receivers leave."""
        used = {port for pair in self.pairs for port in self.way(pair.receiver, pair.sender)}
        return tuple(
            port
            for node in self.nodes
            for port in (Port(node.name, address.network) for address in node.addresses)
            if port in used and self.bottleneck_of(node.name) not in (None, port)
        )

    # ---- delays
    @cached_property
    def delay_ports(self) -> tuple[Port, ...]:
        """Ports of the delay nodes; each delays by the round-trip time divided by `parts`."""
        return tuple(
            Port(name, address.network) for name in self.delays for address in self.by_name[name].addresses
        )

    @cached_property
    def parts(self) -> int:
        """Number of delays on the round trip of every pair."""
        return self.parts_of(self.pairs[0])

    def parts_of(self, pair: NodePair) -> int:
        """Return the number of delays on the round trip of a pair."""
        both = (*self.way(pair.sender, pair.receiver), *self.way(pair.receiver, pair.sender))
        return sum(port in self.delay_ports for port in both)

    def data_port_of(self, pair: NodePair) -> Port | None:
        """Return the last delay before the first bottleneck on the way of a pair; None if there is none."""
        found = None
        for port in self.way(*pair):
            if port in self.bottlenecks:
                return found
            if port in self.delay_ports:
                found = port
        return None

    @cached_property
    def data_ports(self) -> tuple[Port, ...]:
        """Ports that have the jitter and the losses of the path towards the receivers, one on every way."""
        found = (self.data_port_of(pair) for pair in self.pairs)
        return tuple(dict.fromkeys(port for port in found if port is not None))

    @cached_property
    def return_ports(self) -> tuple[Port, ...]:
        """Ports that have the jitter of the way back: the last delay before the sender of every pair."""
        ways = (self.way(pair.receiver, pair.sender) for pair in self.pairs)
        delays = ([port for port in way if port in self.delay_ports] for way in ways)
        return tuple(dict.fromkeys(own[-1] for own in delays if own))

    # ---- ways
    @cached_property
    def sender_networks(self) -> Mapping[str, str]:
        """Sender -> the network its flows leave by."""
        return MappingProxyType({name: self.by_name[name].addresses[0].network for name in self.senders})

    @cached_property
    def _ways(self) -> dict[str, dict[str, tuple[Port, ...]]]:
        """Node -> other node -> its way, as far as anybody asked."""
        return {}

    def way(self, source: str, target: str) -> tuple[Port, ...]:
        """Return the ports by which packets leave nodes on their way; raise KeyError if there is none."""
        if source not in self._ways:
            self._ways[source] = self._ways_from(source)
        return self._ways[source][target]

    def _ways_from(self, source: str) -> dict[str, tuple[Port, ...]]:
        members = {network.name: network.nodes for network in self.networks}
        found: dict[str, tuple[Port, ...]] = {source: ()}
        reached = [source]
        for node in reached:  # it grows meanwhile: nearer nodes come first
            for address in self.by_name[node].addresses:
                for other in members[address.network]:
                    if other not in found:
                        found[other] = (*found[node], Port(node, address.network))
                        reached.append(other)
        return found

    # ---- flow groups
    def place(self, stated: Mapping[str, tuple[str | None, str | None]]) -> Mapping[str, NodePair]:
        """Return the pair of nodes of every flow group.

        A group takes the pair of its name, or else that of its place among the groups without one.

        Args:
            stated: Group -> its factors `from` and `to`; None: the node of its pair.

        Raises:
            InputError: a node is not a sender or receiver, or a group has no pair, or packets do not pass
                what every group's packets must.
        """
        placed: dict[str, NodePair] = {}
        problems: list[Problem] = []
        for group, nodes in stated.items():
            own = self._pair_of(group, tuple(stated))
            sender, receiver = (node or usual for node, usual in zip(nodes, own or (None, None), strict=True))
            if sender is None or receiver is None:
                problems.append(self._unplaced(group, tuple(stated)))
                continue
            wrong = self._misplaced(f"{group}.from", sender, self.senders, "sender")
            wrong += self._misplaced(f"{group}.to", receiver, self.receivers, "receiver")
            placed[group] = NodePair(sender, receiver)
            problems += wrong or self._off_path(group, placed[group])
        if problems:
            raise InputError(problems)
        return MappingProxyType(placed)

    @cached_property
    def _named(self) -> Mapping[str, NodePair]:
        """Pairs that only the group of a name takes."""
        return {
            group: pair for group, pair in zip(self.groups, self.pairs, strict=False) if group is not None
        }

    @cached_property
    def _in_order(self) -> tuple[NodePair, ...]:
        """Pairs that groups take in order."""
        return tuple(
            pair for number, pair in enumerate(self.pairs) if not self.groups or self.groups[number] is None
        )

    def _pair_of(self, group: str, groups: tuple[str, ...]) -> NodePair | None:
        if group in self._named:
            return self._named[group]
        number = [name for name in groups if name not in self._named].index(group)
        return self._in_order[number] if number < len(self._in_order) else None

    def _unplaced(self, group: str, groups: tuple[str, ...]) -> Problem:
        last = self.pairs[-1]
        hint = f"set its nodes, such as {group}.from: {last.sender} and {group}.to: {last.receiver}"
        if not self._named:
            number = groups.index(group) + 1
            message = f"{self.name} has {len(self.pairs)} pairs of nodes, but this is group {number}"
            return Problem("", group, message, hint)
        message = f"no pair of nodes of {self.name} is for it; there are pairs for {', '.join(self._named)}"
        return Problem("", group, message, hint)

    def _misplaced(self, path: str, node: str, offered: tuple[str, ...], role: str) -> list[Problem]:
        if node in offered:
            return []
        return [Problem("", path, f"{quoted(node)} is not a {role} of {self.name}", suggest(node, offered))]

    def _off_path(self, group: str, pair: NodePair) -> list[Problem]:
        """Report a pair that a group states, and whose packets do not pass what those of all pairs do."""
        found = () if pair in self.pairs else self.lacks(pair)
        hint = "choose a pair whose packets do; `l4sbench explain topology` draws them"
        return [Problem("", f"{group}.to", f"{message} in {self.name}", hint) for message in found]

    def lacks(self, pair: NodePair) -> Iterator[str]:
        """Yield what packets of a pair do not pass and must: a bottleneck, as many delays as others."""
        way = f"packets from {pair.sender} to {pair.receiver}"
        if not self.passed_by(pair):
            yield f"{way} pass no bottleneck"
        elif self.data_port_of(pair) is None:
            yield f"{way} pass no delay before a bottleneck"
        elif sum(port in self.data_ports for port in self.way(*pair)) > 1:
            yield f"{way} pass two places of jitter and losses"
        elif self.parts_of(pair) != self.parts:
            first = self.pairs[0]
            yield (
                f"{way} and back pass {self.parts_of(pair)} delays, and those from {first.sender} to "
                f"{first.receiver} {self.parts}: they would differ in their round-trip time"
            )


def mac_of(ip: str) -> str:
    """Return a hardware address for the port with this address: local, and ending in its last four bytes."""
    return ":".join(("02", "00", *(f"{byte:02x}" for byte in ip_address(ip).packed[-4:])))


def _ipv6(ip: str) -> str:
    return str(IPV6_PREFIX + int(IPv4Address(ip)))


def _ipv6_prefix(prefix: str) -> str:
    network = IPv4Network(prefix)
    return f"{_ipv6(str(network.network_address))}/{_EMBEDDED_AT + network.prefixlen}"
