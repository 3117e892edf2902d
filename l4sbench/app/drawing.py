# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies as text: a tree of nodes and networks, and the way of every pair's packets."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.tree import Tree

    from l4sbench.topology import Topology

_WIDTH: Final = 1000


def drawing(topology: Topology) -> tuple[str, ...]:
    """Return the lines of a tree of nodes and networks, from the first sender on, and of all ways."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    members = {network.name: network for network in topology.networks}

    def grow(tree: Tree, node: str, since: str) -> None:
        for address in topology.by_name[node].addresses:
            if address.network == since:
                continue
            network = members[address.network]
            branch = tree.add(Text(f"{network.name}  {network.prefix}"))
            for other in network.nodes:
                if other != node:
                    grow(branch.add(Text(_about(topology, other))), other, network.name)

    first = topology.pairs[0].sender
    tree = Tree(Text(_about(topology, first)))
    grow(tree, first, "")
    text = StringIO()
    Console(file=text, width=_WIDTH, force_terminal=False, color_system=None).print(tree)
    return (*(line.rstrip() for line in text.getvalue().splitlines()), "", *_ways(topology))


def _about(topology: Topology, name: str) -> str:
    """Return a node and what it is for."""
    node = topology.by_name[name]
    if name in topology.delays:
        return f"{name}  delays by rtt/{topology.parts} at each of {len(node.addresses)} ports"
    bottleneck = topology.bottleneck_of(name)
    if bottleneck is not None:
        captures = ", captures" if name == topology.capture else ""
        return f"{name}  bottleneck to {bottleneck.network}{captures}"
    return f"{name}  {node.role}"


def _ways(topology: Topology) -> Iterator[str]:
    """Yield the nodes that packets of each flow group pass; `=net=>` is a bottleneck."""
    for number, pair in enumerate(topology.pairs):
        group = topology.groups[number] if topology.groups else None
        text = pair.sender
        way = topology.way(*pair)
        for port, after in zip(way, (*(one.node for one in way[1:]), pair.receiver), strict=True):
            text += f" ={port.network}=> {after}" if port in topology.bottlenecks else f" - {after}"
        yield f"{f'flow group {group}' if group else f'flow group {number + 1}'}: {text}"
