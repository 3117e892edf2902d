# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The hosts that hold nodes, by the variables of an Ansible inventory. Pure.

A host is one machine of an Ansible inventory. Its variables define its place in the experiment:

    l4sbench_node: router                    # or l4sbench_nodes: [tx-l4s, tx-classic], or l4sbench_nodes: all
    l4sbench_ports: {net-mid: "52:54:00:aa:bb:01", net-rx: "52:54:00:aa:bb:02"}

A port is named by its interface's hardware address. A host with several nodes keeps each in a network
namespace and needs one interface per network that leads to other hosts: none if it holds all nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final, cast

from l4sbench.errors import BadValueError, InputError, Problem, did_you_mean
from l4sbench.facts.kernels import CHOICES
from l4sbench.text.units import Rate
from l4sbench.text.wording import quoted, quoted_name

if TYPE_CHECKING:
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


def templates_in(plain: object) -> Iterator[str]:
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


def _wrong_values(where: str, host: str, given: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the variables of a host that are not as docs/ssh.md describes them."""
    templates = [(name, text) for name in VARIABLES for text in templates_in(given.get(name))]
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
