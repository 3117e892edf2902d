# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A cell placed on its topology, and conflicts between its groups there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from l4sbench.catalog import Bottleneck, CongestionControl, Queue
from l4sbench.catalog.entries import ECN_MODES, PACKET_BYTES
from l4sbench.errors import Problem
from l4sbench.text.units import Duration
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, Exports
    from l4sbench.catalog.entries import EcnMode
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.topology import NodePair, Topology

FIRST_PORT = 5001
"""Port of the first flow; the others follow in the order of the matrix."""
RTT = "the round-trip time"
INITIAL_WINDOW = "the initial window"
NO_ECN_FALLBACK = "net.ipv4.tcp_ecn_fallback"
"""Sysctl for how a host repeats a SYN that was not answered: 1 is without ECN, 0 with it."""
SOCKET_SHARE = 4
"""Socket buffers are this many times as large as the path and its queue: bookkeeping takes up to as much
memory as the data, and slow start may have twice as much in flight before it detects a loss."""

PATH_LIMIT = 60_000
"""Packets that a delay can hold at least, as in the published experiments."""


@dataclass(frozen=True)
class Placed:
    """A flow group with its nodes and its congestion control; None: TCP does not send it."""

    group: Group
    pair: NodePair
    cc: CongestionControl | None

    @property
    def receiver_cc(self) -> str | None:
        """Congestion control of its receiver: by its ECN mode, or else by its own congestion control.

        A receiver whose ECN is another has none, as a control that needs ECN makes its host negotiate it.
        """
        mode = self._ecn_mode
        if self.cc is None or mode is None or self.group.receiver_ecn not in (None, self.group.ecn):
            return None
        return mode.receiver_cc or self.cc.receiver_cc

    @property
    def _ecn_mode(self) -> EcnMode | None:
        return None if self.cc is None or self.group.ecn is None else self.cc.ecn_modes[self.group.ecn]

    def sysctls(self, role: str) -> tuple[tuple[str, str], ...]:
        """Return the sysctls that it sets on its sending or receiving node.

        A SYN that is lost would be sent again without asking for ECN (RFC 3168 section 6.1.1.1), and a flow
        without the ECN of its group makes its trial invalid; so that fallback is off.
        """
        mode = self._ecn_mode
        if self.cc is None or mode is None:
            return ()
        other = self.group.receiver_ecn
        theirs = mode.receiver if other is None else ECN_MODES[other].receiver
        ecn = {NO_ECN_FALLBACK: "0", **(mode.sender if role == "sender" else theirs)}
        # a parameter that the matrix states wins over what its ECN mode sets it to
        return tuple({**ecn, **dict(self.own_sysctls(role))}.items())

    def own_sysctls(self, role: str) -> tuple[tuple[str, str], ...]:
        """Return those of the sysctls that its congestion control needs whatever its ECN."""
        return () if self.cc is None else self.cc.role_sysctls(role, self.group.params)

    @property
    def module_params(self) -> tuple[tuple[str, str], ...]:
        """Parameters of the kernel module of its congestion control."""
        return () if self.cc is None else self.cc.module_params(self.group.params)


class Placement:
    """A cell with its catalog entries and the places of its groups, from which programs are made."""

    def __init__(self, cell: Cell, topology: Topology, catalog: Catalog) -> None:
        self.cell = cell
        self.topology = topology.of_family(cell.family)
        self.queue: Queue = catalog.queue(cell.aqm)
        self._exports = catalog.exports
        self.catalog = catalog
        self.setting = Bottleneck(cell.rate, cell.rtt, cell.buffer_bdp)
        places = topology.place(cell.nodes)
        self.groups = tuple(
            Placed(
                group,
                places[group.name],
                catalog.congestion_control(group.cc, f"{group.name}.cc")
                if group.cc is not None and group.kind.by_tcp
                else None,
            )
            for group in cell.groups
        )

    def own_cc(self, group: Group) -> str:
        """Return the name that a group's sender has for its congestion control; empty without a sender."""
        if not group.kind.has_controls:
            return ""
        control = self.catalog.sender(group.send).control(group.cc or "")
        return control.own if control else ""

    def has_qlog(self, group: Group) -> bool:
        """Return True if a group's sender writes a qlog."""
        return group.kind.has_controls and self.catalog.sender(group.send).stated.qlog

    def on(self, node: str) -> Iterator[tuple[str, Placed]]:
        """Yield the groups that use a node, with the node's role in each."""
        for placed in self.groups:
            if placed.pair.sender == node:
                yield "sender", placed
            if placed.pair.receiver == node:
                yield "receiver", placed

    @cached_property
    def flows(self) -> tuple[tuple[Placed, int, int], ...]:
        """Every flow: its group, its index in the group, its port."""
        every = [(placed, index) for placed in self.groups for index in range(placed.group.count)]
        return tuple((placed, index, FIRST_PORT + number) for number, (placed, index) in enumerate(every))

    @property
    def queue_exports(self) -> tuple[Exports, ...]:
        """Counters of the bottleneck's kind of queue."""
        kind, _ = self.queue.expects(self.cell.aqm_params, self.setting)
        found = self._exports.get(kind)
        return () if found is None else (found,)

    @property
    def socket_bytes(self) -> int:
        """Minimum size of socket buffers that leaves the network as the limit, whatever events change."""
        held = self.queue.limit_bytes(self.cell.aqm_params, self.setting) * len(self.topology.bottlenecks)
        most = Bottleneck(self.cell.highest_rate, self.cell.longest_rtt, self.cell.buffer_bdp)
        return SOCKET_SHARE * (held + most.bdp_bytes)

    @property
    def path_packets(self) -> int:
        """Number of packets that a delay can hold: more than any flow has in flight."""
        return max(PATH_LIMIT, self.socket_bytes // PACKET_BYTES)

    def extra_delay(self, node: str) -> Duration:
        """Return how long a sender delays what it sends: its groups may have a longer round-trip time."""
        own = (placed.group.rtt for role, placed in self.on(node) if role == "sender")
        return Duration(max((rtt.ns - self.setting.rtt.ns for rtt in own if rtt is not None), default=0))

    def problems(self) -> list[Problem]:
        """Return the reasons why this cell cannot run; empty when it can."""
        found = [*self._family_problems()]
        found += [problem for placed in self.groups for problem in _ecn_problems(placed)]
        if found:
            return found
        for node in self.topology.nodes:
            found += _clashes(node.name, list(self.on(node.name)), self.setting.rtt)
        return found + _module_clashes(self.groups)

    def _family_problems(self) -> Iterator[Problem]:
        """Yield what does not handle packets of the cell's version of IP."""
        entries: list[tuple[str, Queue | CongestionControl]] = [("aqm", self.queue)]
        entries += [(f"{own.group.name}.cc", own.cc) for own in self.groups if own.cc is not None]
        for path, entry in entries:
            only = entry.needs.family
            if only is not None and Family(only) is not self.cell.family:
                message = f"{entry.name} is for {Family(only).words} only, not for {self.cell.family.words}"
                yield Problem("", path, message, f"write family: {only}")


def _ecn_problems(placed: Placed) -> list[Problem]:
    group, cc = placed.group, placed.cc
    if cc is None or group.ecn in cc.ecn_allowed:
        return []
    message = f"{cc.name} does not run with ECN {group.ecn}; it runs with {', '.join(cc.ecn_allowed)}"
    return [Problem("", f"{group.name}.ecn", message)]


def _clashes(node: str, groups: Sequence[tuple[str, Placed]], rtt: Duration) -> list[Problem]:
    """Report settings of a whole node for which two of its groups want different values."""
    hint = "put the groups on different nodes with from and to"
    wanted: dict[str, tuple[str, Placed]] = {}
    found: list[Problem] = []
    for role, placed in groups:
        settings = list(placed.sysctls(role))
        if role == "receiver" and placed.receiver_cc is not None:
            settings.append(("receiving congestion control", placed.receiver_cc))
        if role == "sender" and (placed.cc is not None or placed.group.rtt is not None):
            settings.append((RTT, str(placed.group.rtt or rtt)))
        if placed.cc is not None:
            settings.append((INITIAL_WINDOW, str(placed.group.initial_window or "Linux's")))
        for key, value in settings:
            other, whose = wanted.setdefault(key, (value, placed))
            if other != value:
                first, second = whose.group, placed.group
                of_ecn = key not in {RTT, INITIAL_WINDOW} and key not in dict(placed.own_sysctls(role))
                ecn = [f" (ECN {group.ecn})" if of_ecn else "" for group in (first, second)]
                message = (
                    f"{first.name}{ecn[0]} and {second.name}{ecn[1]} share {node}, "
                    f"and {key} cannot be both {other} and {value}"
                )
                found.append(Problem("", f"{second.name}.ecn" if of_ecn else second.name, message, hint))
    return found


def _module_clashes(groups: Sequence[Placed]) -> list[Problem]:
    """Return module parameters that two groups want differently.

    They hold for a whole kernel, and in the virtual testbed all nodes share one. Parameters that a module has
    per network namespace are sysctls of its entry, and no problem here.
    """
    wanted: dict[tuple[str, str], tuple[str, str]] = {}
    found: list[Problem] = []
    for placed in groups:
        name = placed.cc.module.name if placed.cc and placed.cc.module else ""
        for key, value in placed.module_params:
            other, whose = wanted.setdefault((name, key), (value, placed.group.name))
            if other != value:
                message = (
                    f"module parameter {key} of {name} holds for the whole kernel: "
                    f"{whose} wants {other}, {placed.group.name} wants {value}"
                )
                found.append(Problem("", placed.group.name, message))
    return found
