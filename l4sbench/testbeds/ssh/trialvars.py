# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Variables that playbooks get beyond the inventory: of trials, and of users' programs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem
from l4sbench.program.uses import executables
from l4sbench.testbeds.ssh.hosts import templates_in

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.program import Program
    from l4sbench.topology import Topology


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
        "l4sbench_networks": {network.name: list(network.nodes) for network in topology.networks},
        "l4sbench_programs": _plain(programs),
        "l4sbench_router": keeper_of(topology, switches),
        "l4sbench_meet": meeting_place(topology, switches),
        "l4sbench_limit_s": limit_s,
    }


def _plain(programs: Mapping[str, Program]) -> dict[str, object]:
    """Return programs as plain data.

    Raises:
        InputError: Ansible would take a text in one for a template.
    """
    plain = {node: program.to_json() for node, program in programs.items()}
    for node, program in plain.items():
        for text in templates_in(program):
            message = f"{text!r} cannot be passed to Ansible, which takes it for a template"
            raise InputError([Problem("", node, message, "remove the braces from the catalog entry")])
    return {**plain}
