# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Checks of a layout, which is the nodes that each host holds: against topologies and against cells. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.program.rewriting import rewrites
from l4sbench.program.wires import air_rates
from l4sbench.testbeds.ssh.hosts import PORTS_VARIABLE, Host
from l4sbench.text.units import Rate
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.topology import Topology


def too_fast(cells: Sequence[Cell], hosts: Sequence[Host]) -> Iterator[str]:
    """Yield a line about the cells whose rate is above what the hosts carry in time, if there are any."""
    limits = [host.carries for host in hosts if host.carries is not None]
    least = min(limits, default=None)
    above = [
        cell
        for cell in cells
        if least is not None and max(air_rates(cell), default=cell.highest_rate) > least
    ]
    if least is None or not above:
        return
    many = f"{len(above)} of {len(cells)} cells {'is' if len(above) == 1 else 'are'} faster"
    if least.bits_per_s == 0:
        yield f"{many} than these hosts carry in time: none of the measured rates (l4sbench_carries: none)"
        return
    yield (
        f"{many} than these hosts carry in time; {least} fits (l4sbench_carries). "
        f"A matrix with `extends: FILE` and `rate: {least}` has the same cells at that rate"
    )


def approximated(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line about the cells that hosts run with less than the lab has, if there are any."""
    by_wifi = [rates for cell in cells if (rates := air_rates(cell))]
    if by_wifi:
        shown = ", ".join(map(str, sorted(frozenset[Rate]().union(*by_wifi))))
        yield (
            f"{len(by_wifi)} of {len(cells)} cells {'has' if len(by_wifi) == 1 else 'have'} Wi-Fi, in whose "
            f"place hosts have a link of its mean rate ({shown}), without aggregation"
        )


def shared_by_all(hosts: Sequence[Host]) -> Iterator[str]:
    """Yield a line about one host that holds all nodes of an experiment."""
    if len(hosts) == 1:
        yield (
            f"{hosts[0].name} holds all nodes on its own CPUs and carries less than several hosts; "
            "table lateness shows whether it was in time (l4sbench docs ssh one-host)"
        )


def require_placed(
    hosts: Sequence[Host], topologies: Iterable[Topology], where: str, switches: Collection[str] = ()
) -> None:
    """Raise InputError with every reason why hosts, and switches as nodes, cannot be these topologies."""
    by_name = {topology.name: topology for topology in topologies}
    wrong = [
        found
        for _, topology in sorted(by_name.items())
        for found in misplaced(hosts, topology, where, switches)
    ]
    if wrong:
        raise InputError(list(dict.fromkeys(wrong)))


def unable_to_rewrite(
    hosts: Iterable[Host], cells: Iterable[Cell], catalog: Catalog, where: str
) -> list[Problem]:
    """Return the hosts that would have to change the ECN field, and cannot."""
    unable = {node: host for host in hosts if not host.rewrites for node in host.nodes}
    ports = (port for cell in cells if rewrites(cell) for port in catalog.topology(cell.topology).data_ports)
    names = {unable[port.node].name for port in ports if port.node in unable} if unable else set()
    message = "path.ecn needs nf_tables, which its kernel is built without"
    hint = "use hosts of a distribution, or --on virtual"
    return [Problem(where, name, message, hint) for name in sorted(names)]


def misplaced(
    hosts: Sequence[Host], topology: Topology, where: str = "", switches: Collection[str] = ()
) -> list[Problem]:
    """Return why these hosts cannot represent this topology, without its nodes that are switches."""
    return [
        *_coverage(hosts, topology, where, switches),
        *(problem for host in hosts for problem in _ports(host, topology, where)),
        *(problem for host in hosts for problem in _shaping_sender(host, topology, where)),
    ]


def _coverage(
    hosts: Sequence[Host], topology: Topology, where: str, switches: Collection[str]
) -> Iterator[Problem]:
    holders: dict[str, list[str]] = {}
    for host in hosts:
        for node in host.nodes:
            if node in topology.by_name or not host.whole:
                holders.setdefault(node, []).append(host.name)
    for node, names in holders.items():
        if node not in topology.by_name:
            yield Problem(
                where,
                quoted(names[0]),
                f"{topology.name} has no node {quoted(node)}",
                did_you_mean(node, topology.by_name) or f"there are {', '.join(topology.by_name)}",
            )
        elif len(names) > 1:
            yield Problem(where, node, f"several hosts hold it: {', '.join(map(quoted, names))}")
    for node in topology.by_name:
        if node in holders and node in switches:
            yield Problem(where, node, f"a switch is this node, and {quoted(holders[node][0])} holds it, too")
        if node not in holders and node not in switches:
            hint = f"give one host l4sbench_node: {node}, or add it to a host's l4sbench_nodes"
            yield Problem(where, node, f"no host holds this node of {topology.name}", hint)


def _ports(host: Host, topology: Topology, where: str) -> Iterator[Problem]:
    needed = {
        network.name
        for network in topology.networks
        if set(network.nodes) & set(host.nodes) and not set(network.nodes) <= set(host.nodes)
    }
    for network in sorted(needed - host.ports.keys()):
        hint = f'give {PORTS_VARIABLE}: {{{network}: "52:54:00:..."}}, the address that `ip link` shows'
        yield Problem(where, quoted(host.name), f"{PORTS_VARIABLE} names no interface for {network}", hint)
    known = {network.name for network in topology.networks}
    for network in sorted(host.ports.keys() - known):
        hint = did_you_mean(network, known) or f"there are {', '.join(sorted(known))}"
        message = f"{topology.name} has no network {quoted(network)}"
        yield Problem(where, f"{quoted(host.name)}.{PORTS_VARIABLE}", message, hint)
    own = sorted(host.ports.values())
    for mac in sorted({mac for mac in own if own.count(mac) > 1}):
        message = f"{mac} is given for several networks; each needs its own interface"
        yield Problem(where, f"{quoted(host.name)}.{PORTS_VARIABLE}", message)


def _shaping_sender(host: Host, topology: Topology, where: str) -> Iterator[Problem]:
    """Yield a problem for every host that holds senders and the delay or the queue under test.

    Flows of other hosts would reach its queues by another way than its own, so groups would not be treated
    alike. Where one host holds all nodes they are.
    """
    if topology.by_name.keys() <= set(host.nodes):
        return
    senders = [node for node in host.nodes if node in topology.senders]
    for node in (*topology.delays, *(port.node for port in topology.bottlenecks)):
        if node in host.nodes and senders:
            part = "delay" if node in topology.delays else "queue under test"
            message = f"the {part} ({node}) is on a host that originates flows ({', '.join(senders)})"
            hint = "put senders on a host without delay and router, or all nodes on this host"
            yield Problem(where, quoted(host.name), message, hint)
