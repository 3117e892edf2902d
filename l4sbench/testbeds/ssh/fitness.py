# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Every problem that prevents hosts from running a matrix, by the facts that they reported. Pure."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from l4sbench.errors import Problem
from l4sbench.testbeds.ssh.facts import (
    FILES,
    FREE_MB,
    NETEM,
    REWRITING,
    RULES,
    NodeNeeds,
    clock_off_s,
    older,
)
from l4sbench.testbeds.ssh.hosts import TC_VARIABLE
from l4sbench.traffic.family import Family
from l4sbench.traffic.flent import WITHOUT_NETPERF
from l4sbench.traffic.tools import IPERF3

if TYPE_CHECKING:
    from l4sbench.facts.traits import Needs
    from l4sbench.testbeds.ssh.facts import HostFacts
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.topology import Topology

CLOCK_S: Final = 60.0
"""Largest accepted error of a host's clock. It dates raw files and logs; no step depends on it."""
_EVERYWHERE: Final = ("ip", "tc", "ss", "ethtool")
_WITHOUT_NETPERF: Final = f"choose a test without it ({', '.join(WITHOUT_NETPERF)})"
_KERNELS: Final = "kernels/images lists installable kernels (l4sbench docs ssh)"
_MEND: Final = {
    "tcpdump": "apt install tcpdump",
    "nft": "apt install nftables",
    "netperf": f"{_WITHOUT_NETPERF}, or install netperf (Debian: non-free) on the hosts",
    "netserver": f"{_WITHOUT_NETPERF}, or install netperf (Debian: non-free) on the hosts",
}

_Obstacle: TypeAlias = tuple[str, str]
"""Something that prevents a host from running cells, and a hint."""


def unfit(
    hosts: Sequence[Host],
    facts: Mapping[str, HostFacts],
    topology: Topology,
    wanted: Mapping[str, NodeNeeds],
    needs: Needs,
) -> list[Problem]:
    """Return every problem that prevents these hosts from running cells with these needs."""
    found: list[Problem] = []
    for host in hosts:
        seen = facts[host.name]
        of_nodes = {node: wanted.get(node, NodeNeeds()) for node in host.nodes}
        tools = dict.fromkeys(_EVERYWHERE, "programs")
        obstacles: list[_Obstacle] = []
        if any(own.traffic for own in of_nodes.values()):
            tools |= dict.fromkeys(needs.traffic & {IPERF3}, "traffic")
            if "lean" in needs.traffic:
                obstacles += _other_machine(seen)
        for own in of_nodes.values():
            tools |= own.tools
        if needs.capture and topology.capture in host.nodes:
            tools["tcpdump"] = "capture"
        obstacles += _of_host(seen, tools)
        obstacles += _of_interfaces(host, seen, topology, needs.families)
        for node, own in of_nodes.items():
            obstacles += ((f"{node}: {message}", hint) for message, hint in _of_node(seen, own))
        found += (Problem("", host.name, message, hint) for message, hint in obstacles)
    return list(dict.fromkeys(found))


def _of_host(seen: HostFacts, tools: Mapping[str, str]) -> Iterator[_Obstacle]:
    if not seen.root:
        hint = "let its user become root without a password, or set ansible_become_password"
        yield "the helper does not run as root on it", hint
    for tool, purpose in sorted(tools.items()):
        if tool not in seen.tools:
            hint = _MEND.get(tool, "playbooks/prepare.yml installs it if the host has package sources")
            yield f"{tool} is missing ({purpose} needs it)", hint
    off_s = clock_off_s(seen.time_s, *seen.asked_s) if seen.asked_s else 0.0
    if abs(off_s) > CLOCK_S:
        yield f"its clock is {off_s:+.0f} s off", "synchronize it by chrony or systemd-timesyncd"
    if seen.free_mb < FREE_MB:
        hint = "playbooks/teardown.yml removes files of earlier trials"
        yield f"{seen.free_mb} MB are free in /var/lib", hint


def _other_machine(seen: HostFacts) -> Iterator[_Obstacle]:
    """Yield an obstacle on a host that does not run what is compiled here."""
    here = platform.machine()
    if seen.machine not in {here, ""}:
        message = f"it is a machine of type {seen.machine}, and lab-traffic is compiled here, for {here}"
        yield message, "only iperf3 can send there: bulk and paced flows, without bytes, for whole seconds"


def _of_interfaces(
    host: Host, seen: HostFacts, topology: Topology, families: Collection[Family]
) -> Iterator[_Obstacle]:
    there = {interface.mac: interface for interface in seen.interfaces}
    own = {
        str(address)
        for family in Family
        for node in topology.of_family(family).nodes
        if node.name in host.nodes
        for address in node.addresses
    }
    for network, mac in host.ports.items():
        interface = there.get(mac)
        if interface is None:
            known = ", ".join(f"{i.name} {i.mac}" for i in seen.interfaces if not i.management)
            yield f"no interface has the address {mac} ({network})", f"it has {known or 'none to spare'}"
        elif interface.management:
            message = f"{interface.name} ({network}) is used by the ssh connection or the default route"
            yield message, "use separate interfaces for the experiment"
        else:
            # an interface may have got one of IPv6 by itself, and that does not matter to IPv4
            others = interface.addresses_6 if Family.IPV6 in families else ()
            for address in sorted({*interface.addresses, *others} - own):
                message = f"{interface.name} ({network}) has the address {address} as well"
                yield message, f"remove it: ip address del {address} dev {interface.name}"


def _of_needs(seen: HostFacts, wanted: NodeNeeds) -> Iterator[_Obstacle]:
    """Yield what kernel and iproute2 lack for catalog entries and paths."""
    release = seen.kernel_release
    for name, needs in wanted.needs.items():
        if needs.kernel and older(release, needs.kernel):
            yield f"{name} needs Linux {needs.kernel}, and {release} is running", _KERNELS
        tc = seen.tools.get("tc", "?")
        if needs.iproute2 and tc != "?" and older(tc, needs.iproute2):
            hint = "install a newer version; kernels/images/debian-backports.yml shows how"
            yield f"{name} needs iproute2 {needs.iproute2}, and {tc} is installed", hint
        if not seen.modules.keys() & set(needs.modules):
            yield from _of_config(seen, name, needs.config)
    for what in sorted(wanted.netem):
        yield from _of_config(seen, what, (NETEM,))
    if "nft" in wanted.tools:
        yield from _of_config(seen, REWRITING, RULES)


def _of_node(seen: HostFacts, wanted: NodeNeeds) -> Iterator[_Obstacle]:
    yield from _of_needs(seen, wanted)
    for cc in sorted(wanted.ccs - set(seen.ccs)):
        hint = "playbooks/prepare.yml installs our modules (l4sbench docs ssh)"
        yield f"the kernel has no congestion control {cc}", hint
    for module in sorted(wanted.modules - seen.modules.keys()):
        hint = "playbooks/prepare.yml builds it by DKMS (l4sbench docs ssh)"
        yield f"kernel module {module} is missing", hint
    for module in sorted(wanted.modules & seen.modules.keys()):
        state = seen.modules[module].state
        if state.startswith("for "):
            message = f"kernel module {module} was built {state}, and {seen.kernel_release} is running"
            yield message, "l4sbench_modules copies a file built for the running kernel"
    for kind in sorted(wanted.queues - set(seen.queues)):
        hint = f"playbooks/prepare.yml compiles q_{kind}.so, or {TC_VARIABLE} copies it (l4sbench docs ssh)"
        yield f"tc does not know the queue {kind}", hint
    if wanted.accecn and not seen.accecn:
        message = f"the kernel has no AccECN, which {', '.join(sorted(wanted.accecn))} negotiates"
        yield message, "Linux 7.0 has it; kernels/images lists installable kernels"


def _of_config(seen: HostFacts, what: str, symbols: Iterable[str]) -> Iterator[_Obstacle]:
    if seen.config is None:
        return
    for symbol in symbols:
        state, file = seen.config.get(symbol), FILES.get(symbol)
        if state not in {"y", "m"}:
            yield f"{what} needs CONFIG_{symbol}, which {seen.kernel_release} lacks", _KERNELS
        elif state == "m" and file is not None and file not in seen.modules:
            message = f"{what} needs the module {file}, which is not installed for the kernel"
            yield message, f"Ubuntu has it in linux-modules-extra-{seen.kernel_release}"
