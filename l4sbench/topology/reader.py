# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The grammar of topology files: what they state, what follows from it, and every problem with its position.

Networks and nodes must form a tree, so that there is one way between any two nodes: routes follow from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from l4sbench.disk.document import Flaw, KeyPath, load_model
from l4sbench.disk.userfiles import short
from l4sbench.errors import BadValueError, suggest
from l4sbench.facts.factors import GROUP_NAME
from l4sbench.text.models import Strict
from l4sbench.text.parameters import shown
from l4sbench.text.wording import quoted
from l4sbench.topology.model import Address, Network, Node, NodePair, Port, StaticRoute, Topology

MOST_NODES: Final = 60
"""Number of nodes that a topology may have, and of networks."""

MOST_PAIRS: Final = 900
"""Number of pairs: every sender with every receiver."""

LONGEST_NETWORK: Final = 15
"""Length of a network's name: it is the name of interfaces, which Linux limits."""

LONGEST_NAME: Final = 40
"""Length of the name of a topology or a node."""

TAKEN: Final = frozenset(
    {"all", "bastion", "code", "commands", "console", "err", "hosts", "localhost"}
    | {"nodes", "out", "rc", "script", "session", "setup", "ungrouped"}
)
"""Names that nodes cannot have: testbeds put other things beside them."""

_PRIVATE: Final = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_MANAGEMENT: Final = IPv4Network("172.31.255.0/24")  # that of booted nodes
_HOSTS: Final = frozenset({"sender", "receiver"})


def _name(raw: str, of: str, longest: int = LONGEST_NAME) -> str:
    if not GROUP_NAME.fullmatch(raw) or len(raw) > longest:
        hint = f"use at most {longest} lower-case letters, digits and single -"
        raise BadValueError(f"{shown(raw)} is not a valid name of {of}", hint)
    return raw


def _topology_name(raw: str) -> str:
    return _name(raw, "a topology")


def _node_name(raw: str) -> str:
    if raw in TAKEN:
        raise BadValueError(
            f"{shown(raw)} is not a valid name of a node", "testbeds have other things of this name"
        )
    return _name(raw, "a node")


def _network_name(raw: str) -> str:
    return _name(raw, "a network", LONGEST_NETWORK)


def _group_name(raw: str) -> str:
    return _name(raw, "a flow group")


def _members(raw: Any) -> Any:
    """Return the nodes of a network with their addresses; of a list, without."""
    if not isinstance(raw, list):
        return raw
    for number, node in enumerate(raw):
        if not isinstance(node, str):
            raise BadValueError(f"expected names of nodes, not {shown(node)}")
        if node in raw[:number]:
            raise BadValueError(f"{quoted(node)} is on it twice")
    return dict.fromkeys(raw)


def _network(raw: Any) -> Any:
    return {"nodes": raw} if isinstance(raw, list) else raw


class NetworkFile(Strict):
    """A network: its prefix and its nodes with their addresses; what is not stated is chosen."""

    prefix: str | None = None
    nodes: Annotated[dict[str, str | None], BeforeValidator(_members)]


class PairFile(Strict):
    """Nodes of a flow group; `group`: the only one that takes them."""

    sender: str = Field(alias="from")
    receiver: str = Field(alias="to")
    group: Annotated[str, AfterValidator(_group_name)] | None = None


class TopologyFile(Strict):
    """A topology as it is written."""

    topology: Annotated[str, AfterValidator(_topology_name)]
    about: Annotated[str, Field(min_length=1)]
    source: str = ""
    nodes: dict[Annotated[str, AfterValidator(_node_name)], Literal["sender", "receiver", "delay", "router"]]
    networks: dict[
        Annotated[str, AfterValidator(_network_name)], Annotated[NetworkFile, BeforeValidator(_network)]
    ]
    pairs: Annotated[list[PairFile], Field(min_length=1)]
    bottlenecks: Annotated[dict[str, str], Field(min_length=1)]
    capture: str | None = None


def read_topology(path: Path, taken: Collection[str]) -> Topology:
    """Read a topology from its file, whose name is that of the topology, and not among those `taken`.

    Raises:
        InputError: it is not valid; with the line and column of every problem.
    """
    found: list[Topology] = []

    def check(stated: TopologyFile) -> Iterator[Flaw]:
        flaws = [*_flaws_of_size(stated)]  # what is not checked further takes no time
        flaws = flaws or [
            *_flaws_of_name(stated, path.stem, taken),
            *_flaws_of_networks(stated),
            *_flaws_of_uses(stated),
        ]
        if flaws:
            yield from flaws
            return
        if wrong := _flaw_of_tree(stated):
            yield wrong
            return
        made = replace(_made(stated), file=path)
        yield from _flaws_of_ways(made)
        found.append(made)

    load_model(path, TopologyFile, check=check)
    return found[0]


# ---- checks
def _flaws_of_size(stated: TopologyFile) -> Iterator[Flaw]:
    sizes: list[tuple[KeyPath, str, int, int]] = [
        (("nodes",), "nodes", len(stated.nodes), MOST_NODES),
        (("networks",), "networks", len(stated.networks), MOST_NODES),
        (("pairs",), "pairs", len(stated.pairs), MOST_PAIRS),
        (("bottlenecks",), "bottlenecks", len(stated.bottlenecks), MOST_NODES),
    ]
    sizes += [
        (("networks", name), "nodes", len(one.nodes), MOST_NODES) for name, one in stated.networks.items()
    ]
    for path, what, count, most in sizes:
        if count > most:
            yield Flaw(path, f"{count} {what} are too many; at most {most} are possible")


def _flaws_of_name(stated: TopologyFile, stem: str, taken: Collection[str]) -> Iterator[Flaw]:
    if stated.topology != stem:
        message = f"expected {short(stem)}, the name of the file, not {quoted(stated.topology)}"
        yield Flaw(("topology",), message)
    elif stem in taken:
        yield Flaw(("topology",), f"a topology {stem} ships with l4sbench", "choose another name")


def _flaws_of_networks(stated: TopologyFile) -> Iterator[Flaw]:
    """Yield what is wrong with the nodes on networks and with their addresses."""
    on: dict[str, list[str]] = {node: [] for node in stated.nodes}
    for name, network in stated.networks.items():
        for node in network.nodes:
            if node in on:
                on[node].append(name)
            else:
                yield Flaw(
                    ("networks", name), f"there is no node {quoted(node)}", suggest(node, stated.nodes)
                )
        if len(network.nodes) < 2:
            yield Flaw(("networks", name), "a network joins two nodes or more")
        yield from _flaws_of_addresses(stated, name)
    for node, networks in on.items():
        role = stated.nodes[node]
        if role in _HOSTS and len(networks) != 1:
            which = f"on {', '.join(networks)}" if networks else "on no network"
            yield Flaw(("nodes", node), f"a {role} is on one network, and {node} is {which}")
        elif role not in _HOSTS and len(networks) < 2:
            which = f"on {networks[0]} alone" if networks else "on no network"
            yield Flaw(("nodes", node), f"a {role} joins networks, and {node} is {which}")
    prefixes = {name: _prefix(stated, name) for name in stated.networks}
    for (one, own), (other, theirs) in combinations(prefixes.items(), 2):
        if own is not None and theirs is not None and own.overlaps(theirs):
            path = ("networks", other, "prefix") if stated.networks[other].prefix else ("networks", other)
            yield Flaw(path, f"{theirs} overlaps {own} of {one}", "state another prefix")


def _prefix(stated: TopologyFile, name: str) -> IPv4Network | None:
    """Return the prefix of a network, by default that of its place; None if it is not valid."""
    text = stated.networks[name].prefix or f"10.0.{list(stated.networks).index(name) + 1}.0/24"
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _flaws_of_addresses(stated: TopologyFile, name: str) -> Iterator[Flaw]:
    network, prefix = stated.networks[name], _prefix(stated, name)
    path = ("networks", name, "prefix")
    if prefix is None or not 8 <= prefix.prefixlen <= 29:
        yield Flaw(path, f"{quoted(str(network.prefix))} is not a valid prefix, such as 10.0.1.0/24")
        return
    if not any(map(prefix.subnet_of, _PRIVATE)) or prefix.overlaps(_MANAGEMENT):
        hint = f"use one in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, but not {_MANAGEMENT}"
        yield Flaw(path, f"{prefix} is not a private prefix that is free", hint)
        return
    if len(network.nodes) > prefix.num_addresses - 2:
        yield Flaw(path, f"{prefix} has no room for {len(network.nodes)} nodes")
        return
    taken: dict[IPv4Address, str] = {}
    for number, (node, stated_as) in enumerate(network.nodes.items(), 1):
        own = ("networks", name, "nodes", node)
        try:
            address = prefix[number] if stated_as is None else IPv4Address(stated_as)
        except AddressValueError:
            yield Flaw(own, f"{shown(stated_as)} is not a valid IPv4 address")
            continue
        if address not in prefix or address in (prefix.network_address, prefix.broadcast_address):
            yield Flaw(own, f"{address} is not an address of a node in {prefix}")
        elif (other := taken.setdefault(address, node)) != node:
            yield Flaw(own, f"{address} is the address of {other}, too")


def _flaws_of_uses(stated: TopologyFile) -> Iterator[Flaw]:
    """Yield what is wrong with pairs, bottlenecks and the place of captures."""
    taken: dict[str, int] = {}
    for number, pair in enumerate(stated.pairs):
        for key, node, role in (("from", pair.sender, "sender"), ("to", pair.receiver, "receiver")):
            if stated.nodes.get(node) != role:
                those = [name for name, own in stated.nodes.items() if own == role]
                yield Flaw(("pairs", number, key), f"{quoted(node)} is not a {role}", suggest(node, those))
        if pair.group is not None and taken.setdefault(pair.group, number) != number:
            yield Flaw(("pairs", number, "group"), f"another pair is for {pair.group}, too")
    for node, network in stated.bottlenecks.items():
        routers = [name for name, own in stated.nodes.items() if own == "router"]
        if node not in routers:
            other = suggest(node, routers) or "give it the role router"
            yield Flaw(("bottlenecks", node), f"{quoted(node)} is not a router", other)
            continue
        own_networks = [name for name, one in stated.networks.items() if node in one.nodes]
        if network not in own_networks:
            hint = suggest(network, own_networks)
            yield Flaw(("bottlenecks", node), f"{node} is not on {quoted(network)}", hint)
    if stated.capture is not None and stated.capture not in stated.bottlenecks:
        hint = suggest(stated.capture, [node for node in stated.bottlenecks if node in stated.nodes])
        yield Flaw(("capture",), f"{quoted(stated.capture)} has no bottleneck", hint)


def _flaw_of_tree(stated: TopologyFile) -> Flaw | None:
    """Return why nodes and networks are no tree: a network that closes a circle, or a node that is apart."""
    part: dict[str, str] = {node: node for node in stated.nodes}

    def root(node: str) -> str:
        while part[node] != node:
            node = part[node]
        return node

    for name, network in stated.networks.items():
        first, *others = network.nodes
        for node in others:
            if root(node) == root(first):
                message = f"{first} and {node} would be joined in two ways, and routes could not be chosen"
                return Flaw(("networks", name), message, "leave out one of them")
            part[root(node)] = root(first)
    first, *others = stated.nodes
    apart = [node for node in others if root(node) != root(first)]
    return Flaw(("nodes", apart[0]), f"no networks join {apart[0]} with {first}") if apart else None


def _flaws_of_ways(made: Topology) -> Iterator[Flaw]:
    for number, pair in enumerate(made.pairs):
        for message in made.lacks(pair):
            yield Flaw(("pairs", number), message)
    passed = {port for pair in made.pairs for port in made.passed_by(pair)}
    for port in made.bottlenecks:
        if port not in passed:
            yield Flaw(("bottlenecks", port.node), "no pair's packets pass it")


# ---- what follows
def _made(stated: TopologyFile) -> Topology:
    networks = {name: _addresses(stated, name) for name in stated.networks}
    nodes = tuple(
        Node(name, role, tuple(own[name] for own in networks.values() if name in own))
        for name, role in stated.nodes.items()
    )
    bare = Topology(
        name=stated.topology,
        nodes=nodes,
        networks=tuple(
            Network(name, str(_prefix(stated, name)), tuple(own)) for name, own in networks.items()
        ),
        pairs=tuple(NodePair(pair.sender, pair.receiver) for pair in stated.pairs),
        bottlenecks=tuple(Port(*one) for one in stated.bottlenecks.items()),
        groups=tuple(pair.group for pair in stated.pairs),
        capture=stated.capture or next(iter(stated.bottlenecks)),
        about=" ".join(stated.about.split()),
        source=" ".join(stated.source.split()),
    )
    return replace(bare, nodes=tuple(replace(node, routes=tuple(_routes(bare, node))) for node in nodes))


def _addresses(stated: TopologyFile, name: str) -> Mapping[str, Address]:
    prefix = _prefix(stated, name)
    if prefix is None:
        raise ValueError(f"{name} has no valid prefix")
    return {
        node: Address(name, text or str(prefix[number]), prefix.prefixlen)
        for number, (node, text) in enumerate(stated.networks[name].nodes.items(), 1)
    }


def _routes(topology: Topology, node: Node) -> Iterator[StaticRoute]:
    """Yield the routes of a node to networks that it is not on.

    Senders and receivers know the networks of others of their kind and those of bottlenecks, where nodes meet
    before a trial; all others know every network.
    """
    known = {port.network for port in topology.bottlenecks}
    known |= {one.addresses[0].network for one in topology.nodes if one.role in _HOSTS}
    attached = {address.network for address in node.addresses}
    for network in topology.networks:
        if network.name in attached or (node.role in _HOSTS and network.name not in known):
            continue
        way = topology.way(node.name, network.nodes[0])
        first = way[0].network
        neighbour = way[1].node if len(way) > 1 else network.nodes[0]
        yield StaticRoute(network.prefix, topology.by_name[neighbour].address_on(first).ip)
