# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The nodes that each host holds, the checks of that layout, and each host's part of a trial. Pure.

A host is one machine of an Ansible inventory. Its variables define its place in the experiment:

    l4sbench_node: router                    # or l4sbench_nodes: [tx-l4s, tx-classic], or l4sbench_nodes: all
    l4sbench_ports: {net-mid: "52:54:00:aa:bb:01", net-rx: "52:54:00:aa:bb:02"}

A port is named by its interface's hardware address. A host with several nodes keeps each in a network
namespace and needs one interface per network that leads to other hosts: none if it holds all nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final, cast

from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean
from l4sbench.facts.kernels import CHOICES
from l4sbench.program.rewriting import rewrites
from l4sbench.program.uses import executables
from l4sbench.program.wires import air_rates
from l4sbench.text.units import Rate
from l4sbench.text.wording import quoted, quoted_name

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.program import Program
    from l4sbench.topology import Topology

NODES_VARIABLE: Final = "l4sbench_nodes"
EVERY_NODE: Final = "all"
"""Value of `l4sbench_nodes` for a host that holds all nodes, whatever the topology."""
PORTS_VARIABLE: Final = "l4sbench_ports"
MODULES_VARIABLE: Final = "l4sbench_modules"
TC_VARIABLE: Final = "l4sbench_tc"
CARRIES_VARIABLE: Final = "l4sbench_carries"
CARRIES_NOTHING: Final = "none"
SLOWDOWN_VARIABLE: Final = "l4sbench_slowdown"
REWRITES_VARIABLE: Final = "l4sbench_rewrites"
MOST_SLOWDOWN: Final = 1000.0
VARIABLES: Final = (
    "l4sbench_node",
    NODES_VARIABLE,
    PORTS_VARIABLE,
    MODULES_VARIABLE,
    TC_VARIABLE,
    "l4sbench_kernel",
    "l4sbench_kernels",
    "l4sbench_install",
    "l4sbench_python",
    "l4sbench_topology",
    "l4sbench_switch",
    CARRIES_VARIABLE,
    SLOWDOWN_VARIABLE,
    REWRITES_VARIABLE,
)
"""The variables of hosts that l4sbench reads; docs/ssh.md describes them."""
TO_FILL_IN: Final = "00:00:00:00:00:00"
"""Placeholder for a hardware address in an exported inventory."""

CONNECTIONS: Final = ("ssh", "smart", "paramiko_ssh")
"""Accepted values of `ansible_connection`, all by ssh."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_NAME_HINT: Final = (
    "use letters, digits, dots, dashes and underscores, or an IPv6 address; "
    "ansible_host may name another address to connect to"
)
_MODULE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAC: Final = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_TEMPLATE: Final = re.compile(r"\{[{%#]")


@dataclass(frozen=True)
class Host:
    """A machine of the inventory.

    Attributes:
        name: As the inventory names it.
        nodes: Nodes that it holds.
        ports: Hardware addresses of its interfaces, by network.
        brings: Kernel modules that were built elsewhere and are copied to it.
        carries: Highest rate that it carries in time; 0 if it carries none, None if nobody measured it.
        whole: True if it holds all nodes of any topology (`l4sbench_nodes: all`).
        slowdown: Seconds of ours that one by its own clock takes at most, as on an emulated machine.
        rewrites: False if its kernel has no tables for nft, and none can be had.
    """

    name: str
    nodes: tuple[str, ...]
    ports: Mapping[str, str] = field(default_factory=dict)
    brings: frozenset[str] = frozenset()
    carries: Rate | None = None
    whole: bool = False
    slowdown: float = 1.0
    rewrites: bool = True


def hosts_of(variables: Mapping[str, Mapping[str, object]], where: str) -> tuple[Host, ...]:
    """Return the hosts that hold nodes, from the variables of all hosts of an inventory; others are ignored.

    The nodes of one that holds all of them follow from topologies (`settled`).

    Raises:
        InputError: all invalid variables.
    """
    problems: list[Problem] = []
    hosts: list[Host] = []
    for name, given in sorted(variables.items()):
        nodes = given.get(NODES_VARIABLE, given.get("l4sbench_node"))
        if nodes is not None and not is_name(name):
            message = f"{json.dumps(quoted(name))} is not a valid name of a host"
            problems.append(Problem(where, "", message, _NAME_HINT))
            continue
        problems += _misspelt(where, name, given)
        if nodes is None:
            continue
        wrong = list(_wrong_values(where, name, given))
        problems += wrong
        if not wrong:
            whole = given.get(NODES_VARIABLE) == EVERY_NODE
            listed = [] if whole else [nodes] if isinstance(nodes, str) else cast("list[str]", nodes)
            ports = cast("dict[str, object]", given.get(PORTS_VARIABLE, {}))
            modules = cast("dict[str, str]", given.get(MODULES_VARIABLE, {}))
            lowered = {str(network): str(mac).lower() for network, mac in ports.items()}
            problems += _bad_addresses(where, name, lowered)
            carries = _rate(given[CARRIES_VARIABLE]) if CARRIES_VARIABLE in given else None
            slowdown = _slowdown(given.get(SLOWDOWN_VARIABLE, 1)) or 1.0
            able = str(given.get(REWRITES_VARIABLE, True)).lower() in _TRUE
            hosts.append(
                Host(name, tuple(listed), lowered, frozenset(modules), carries, whole, slowdown, able)
            )
    if not hosts and not problems:
        message = "no host names its node"
        hint = "give hosts the variable l4sbench_node, such as l4sbench_node: tx-l4s (l4sbench docs ssh)"
        problems.append(Problem(where, "", message, hint))
    if problems:
        raise InputError(problems)
    return tuple(hosts)


def settled(hosts: Iterable[Host], topologies: Iterable[Topology]) -> tuple[Host, ...]:
    """Return hosts with all their nodes: those of all these topologies for one that holds all."""
    every = tuple(dict.fromkeys(node for place in topologies for node in place.by_name))
    return tuple(replace(host, nodes=every) if host.whole else host for host in hosts)


def is_name(text: str) -> bool:
    """Return True if a text may name a host: a name as in the DNS, an IPv4 or an IPv6 address.

    Names become file names, and Ansible gives other characters a meaning of its own.
    """
    if _NAME.fullmatch(text):
        return True
    address, percent, zone = text.partition("%")
    try:
        IPv6Address(address)
    except ValueError:
        return False
    return not percent or _NAME.fullmatch(zone) is not None


def is_template(text: str) -> bool:
    """Return True if Ansible would evaluate a text."""
    return _TEMPLATE.search(text) is not None


def _wrong_values(where: str, host: str, given: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the variables of a host that are not as docs/ssh.md describes them."""
    templates = [(name, text) for name in VARIABLES for text in _templates(given.get(name))]
    for name, text in templates:
        message = f"{quoted(text)} is a template, which is not evaluated here"
        yield Problem(where, f"{quoted(host)}.{name}", message, "write the value itself")
    if templates:
        return
    for name, (fits, message, hint) in _FORMS.items():
        if name in given and not fits(given[name]):
            yield Problem(where, f"{quoted(host)}.{name}", message, hint)
    connection = given.get("ansible_connection", "ssh")
    if str(connection).removeprefix("ansible.builtin.") not in CONNECTIONS:
        message = f"{json.dumps(quoted(str(connection)))} is not a connection by ssh"
        yield Problem(
            where, f"{quoted(host)}.ansible_connection", message, f"choose from {', '.join(CONNECTIONS)}"
        )


def _is_nodes(plain: object) -> bool:
    return isinstance(plain, list) and bool(plain) and all(isinstance(node, str) for node in plain)


def _is_modules(plain: object) -> bool:
    return isinstance(plain, dict) and all(
        _MODULE.fullmatch(name) and isinstance(file, str) for name, file in plain.items()
    )


def _rate(plain: object) -> Rate | None:
    """Return the rate in `l4sbench_carries`; None if it is not valid."""
    if plain == CARRIES_NOTHING:
        return Rate(0)
    try:
        return Rate.parse(str(plain))
    except BadValueError:
        return None


def _slowdown(plain: object) -> float | None:
    """Return the number in `l4sbench_slowdown`; None if it is not valid."""
    try:
        number = float(str(plain))
    except ValueError:
        return None
    return number if 1.0 <= number <= MOST_SLOWDOWN else None


_TRUE: Final = frozenset({"true", "yes"})
_BOOLEANS: Final = _TRUE | {"false", "no"}
"""Forms of booleans; those of INI files are texts."""
_NODES_FORM: Final = f"must be a node's name, or in {NODES_VARIABLE} a list of them or {EVERY_NODE}"
_FORMS: Final[Mapping[str, tuple[Callable[[object], bool], str, str | None]]] = {
    "l4sbench_node": (lambda plain: isinstance(plain, str) or _is_nodes(plain), _NODES_FORM, None),
    NODES_VARIABLE: (lambda plain: isinstance(plain, str) or _is_nodes(plain), _NODES_FORM, None),
    PORTS_VARIABLE: (
        lambda plain: isinstance(plain, dict),
        "must map each network to the hardware address of its interface",
        'net-tx: "52:54:00:..."',
    ),
    MODULES_VARIABLE: (
        _is_modules,
        "must map each module to its file on this machine",
        "tcp_prague: /path/to.ko",
    ),
    TC_VARIABLE: (
        _is_modules,
        "must map each kind of queue to tc's part of it, a file on this machine",
        "KIND: /path/to/q_KIND.so",
    ),
    "l4sbench_kernel": (
        lambda plain: isinstance(plain, str | dict),
        "must be the name of a kernel, or an entry of kernels/images in full",
        f"choose from {CHOICES}",
    ),
    CARRIES_VARIABLE: (
        lambda plain: _rate(plain) is not None,
        f"must be a rate, or {CARRIES_NOTHING}",
        "25mbit",
    ),
    SLOWDOWN_VARIABLE: (
        lambda plain: _slowdown(plain) is not None,
        f"must be a number from 1 to {MOST_SLOWDOWN:g}",
        "20",
    ),
    REWRITES_VARIABLE: (lambda plain: str(plain).lower() in _BOOLEANS, "must be true or false", None),
    "l4sbench_install": (lambda plain: str(plain).lower() in _BOOLEANS, "must be true or false", None),
    "l4sbench_python": (
        lambda plain: isinstance(plain, str),
        "must be a program's name or path on the host",
        "/usr/bin/python3.11",
    ),
}
"""Variable -> test of its value, message and hint."""


def _misspelt(where: str, host: str, given: Mapping[str, object]) -> Iterator[Problem]:
    """Yield misspelt variables of ours; names unlike ours belong to others."""
    for name in sorted(given):
        if name.startswith("l4sbench_") and name not in VARIABLES and (hint := did_you_mean(name, VARIABLES)):
            yield Problem(where, f"{quoted(host)}.{quoted_name(name, VARIABLES)}", "unknown variable", hint)


def _bad_addresses(where: str, host: str, ports: Mapping[str, str]) -> Iterator[Problem]:
    for network, mac in ports.items():
        if mac == TO_FILL_IN:
            message, hint = "its hardware address is not filled in", "`ip link` on the host shows it"
            yield Problem(where, f"{quoted(host)}.{PORTS_VARIABLE}.{quoted(network)}", message, hint)
        elif not _MAC.fullmatch(mac):
            hint = "quote it: YAML reads some of them as numbers"
            message = f"{quoted(mac)} is not a valid hardware address"
            yield Problem(where, f"{quoted(host)}.{PORTS_VARIABLE}.{quoted(network)}", message, hint)


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


def _plain(programs: Mapping[str, Program]) -> dict[str, object]:
    """Return programs as plain data.

    Raises:
        InputError: Ansible would take a text in one for a template.
    """
    plain = {node: program.to_json() for node, program in programs.items()}
    for node, program in plain.items():
        for text in _templates(program):
            message = f"{text!r} cannot be passed to Ansible, which takes it for a template"
            raise InputError([Problem("", node, message, "remove the braces from the catalog entry")])
    return {**plain}


def _templates(plain: object) -> Iterator[str]:
    """Yield the texts in plain data that Ansible would evaluate."""
    # JSON has the signs of a template only in texts, and to look at it once is faster than at each of them
    if is_template(json.dumps(plain)):
        yield from filter(is_template, _texts(plain))


def _texts(plain: object) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        for key, value in plain.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(plain, list | tuple):
        for item in plain:
            yield from _texts(item)


def networks_of(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return the networks of a topology with their nodes."""
    return {network.name: network.nodes for network in topology.networks}


def keeper_of(topology: Topology, switches: Collection[str] = ()) -> str:
    """Return the node by whose clock trials start: the router, or a neighbour of one that is a switch."""
    network = next(net for net in topology.networks if net.name == topology.bottlenecks[0].network)
    return next(node for node in (topology.router, *network.nodes) if node not in switches)


def meeting_place(topology: Topology, switches: Collection[str] = ()) -> str:
    """Return the keeper's address that every node can reach: all have routes to its bottleneck's network."""
    keeper = topology.by_name[keeper_of(topology, switches)]
    return keeper.address_on(topology.bottlenecks[0].network).ip


def executable_variables(cells: Iterable[Cell], catalog: Catalog) -> list[dict[str, str]]:
    """Return the programs of the user's own that hosts are given, as playbooks/prepare.yml takes them."""
    used = {name for cell in cells for name in executables(cell)}
    own = (catalog.executable(name) for name in sorted(used))
    return [{"file": str(one.file.absolute()), "name": one.handle} for one in own]


def trial_variables(
    programs: Mapping[str, Program],
    topology: Topology,
    trial: str,
    owner: str,
    limit_s: float,
    switches: Collection[str] = (),
) -> dict[str, object]:
    """Return the variables of a trial that playbooks/trial.yml needs beyond the inventory.

    Nodes that are switches have no part in it.

    Raises:
        InputError: Ansible would take a text of a program for a template.
    """
    programs = {node: program for node, program in programs.items() if node not in switches}
    return {
        "l4sbench_trial": trial,
        "l4sbench_owner": owner,
        "l4sbench_networks": {name: list(nodes) for name, nodes in networks_of(topology).items()},
        "l4sbench_programs": _plain(programs),
        "l4sbench_router": keeper_of(topology, switches),
        "l4sbench_meet": meeting_place(topology, switches),
        "l4sbench_limit_s": limit_s,
    }
