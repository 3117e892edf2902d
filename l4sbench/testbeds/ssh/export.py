# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A folder for running single trials by hand: `ansible-playbook -i hosts.yml playbooks/trial.yml`.

It holds playbooks, roles and settings for Ansible, the source of kernel modules that hosts build, one file of
variables per cell (the cell's first trial), and, where no inventory is named, one to fill in.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from l4sbench.disk import assets
from l4sbench.disk.document import reported
from l4sbench.disk.files import new_folder
from l4sbench.disk.plain import is_plain, read_plain
from l4sbench.disk.trust import read_code
from l4sbench.errors import InputError, Problem
from l4sbench.program import problems, programs
from l4sbench.program.timing import tools
from l4sbench.program.trial import draw_conditions, seed_of
from l4sbench.program.uses import senders
from l4sbench.testbeds.ssh.facts import node_needs
from l4sbench.testbeds.ssh.hosts import TO_FILL_IN, settled
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.kernels import module_sources
from l4sbench.testbeds.ssh.layout import require_placed
from l4sbench.testbeds.ssh.lean import NAME, compiled
from l4sbench.testbeds.ssh.switches import addresses_of, misplaced_switches, placed_of, switch_config
from l4sbench.testbeds.ssh.switching import Switching
from l4sbench.testbeds.ssh.testbed import MEET_S, TRAITS
from l4sbench.testbeds.ssh.trialvars import executable_variables, trial_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from l4sbench.facts.cell import Cell
    from l4sbench.matrix import Matrix
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.testbeds.ssh.switches import Switch
    from l4sbench.topology import Topology

MARK: Final = ".l4sbench-export"
"""File that marks an exported folder, which may be replaced; it has the SHA-256 of `hosts.yml` as written."""

_INVENTORY: Final = "hosts.yml"
"""The inventory that an export holds for a user to fill in."""

MOST_CELLS: Final = 2000
"""Cells that one export holds: more are hundreds of megabytes, and nobody runs them by hand."""

_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", ".ansible", "tests")

_ANSIBLE_CFG: Final = """\
[defaults]
roles_path = roles
forks = 32
timeout = 30
inject_facts_as_vars = False
[ssh_connection]
pipelining = True
retries = 2
"""

_README: Final = """\
# {matrix}: trials by hand

Made by `l4sbench plan {matrix} --export`. In this folder, with Ansible 2.17 or newer:

    ansible-playbook -i {inventory} playbooks/prepare.yml
    ansible-playbook -i {inventory} playbooks/trial.yml -e @cells/{first}.yml
    ansible-playbook -i {inventory} playbooks/teardown.yml

`prepare.yml` installs missing tools and, on hosts whose kernel is new enough, builds the kernel modules in
`modules/` by DKMS. It boots another kernel where the inventory says so (`l4sbench_kernel`). With a cell
(`-e @cells/...`) it sets up links and queues as well, to look around.

`cells/` has a file for each of the {count} cells, with what every node does in the cell's first trial.
Results come to `results/<cell>/`, one archive per host: `raw/<node>/` in it is what the trial left. If the
connection was lost for good, the hosts go on; this brings what they have:

    ansible-playbook -i {inventory} playbooks/fetch.yml \\
        -e l4sbench_trial={first}.1 -e l4sbench_results=results/{first}
"""


def export(folder: Path, matrix: Matrix, inventory: Path | None) -> int:
    """Write the folder, whole or not at all, and return the number of cells.

    Of an earlier export, a `hosts.yml` that the user has changed stays.

    Args:
        folder: Destination; may exist when it is empty or an earlier export without results.
        matrix: Its cells are exported.
        inventory: The inventory to name in the commands; None: write one to fill in.

    Raises:
        InputError: the matrix has more than `MOST_CELLS` cells, something else is in the folder, the
            inventory's hosts cannot be the topology, a program cannot be handed to Ansible, or a sender is
            not built.
        TestbedError: the lean traffic tool, which some cell needs, cannot be compiled.
    """
    if len(matrix.cells) > MOST_CELLS:
        message = f"{len(matrix.cells)} cells exceed the maximum of {MOST_CELLS} for an export"
        raise InputError(
            [Problem(f"{matrix.path}:1:1", "", message, "choose cells by filters, such as aqm=dualpi2")]
        )
    _require_sound(matrix)
    _require_built(matrix)
    names = dict.fromkeys(cell.topology for cell in matrix.cells)
    topologies = {name: matrix.catalog.topology(name) for name in names}
    placed = _Placed()
    if inventory is not None:
        placed = _placed(inventory, list(topologies.values()))
        switching = Switching(inventory, placed.switches, placed.hosts, matrix.catalog)
        if problems := switching.problems(matrix.cells, str(inventory)):
            raise InputError(problems)
    place = Path(os.path.realpath(folder))  # unlike `resolve`, it leaves a circle of links to `mkdir`
    _require_free(folder, place)
    place.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(place, replace=True) as made:
        _carry_over(place, made)
        _write(made, matrix, topologies, inventory, placed)
    return len(matrix.cells)


def _require_sound(matrix: Matrix) -> None:
    """Raise InputError with every reason why cells have no programs, as `plan` without an export does."""
    wrong = (one for cell in matrix.cells for one in problems(cell, matrix.catalog))
    if found := dict.fromkeys(replace(one, where=matrix.where(one.path)) for one in wrong):
        raise InputError(reported(found))


def _require_built(matrix: Matrix) -> None:
    """Raise InputError unless the senders that the cells use have their programs, which the export holds."""
    used = sorted({name for cell in matrix.cells for name in senders(cell)})
    missing = [name for name in used if not matrix.catalog.sender(name).program.is_built]
    if missing:
        message = f"an export copies the programs of senders, but these are not built: {', '.join(missing)}"
        hint = f"l4sbench senders build {' '.join(missing)}"
        raise InputError([Problem(f"{matrix.path}:1:1", "", message, hint)])


@dataclass(frozen=True)
class _Placed:
    """The hosts and switches of an inventory."""

    hosts: tuple[Host, ...] = ()
    switches: Mapping[str, Switch] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that are switches."""
        return frozenset(switch.node for switch in self.switches.values())


def _placed(inventory: Path, topologies: Sequence[Topology]) -> _Placed:
    """Return the hosts and switches of an inventory; they must be these topologies."""
    where, variables = str(inventory), read_inventory(inventory)
    hosts, switches = placed_of(variables, where)
    found = _Placed(settled(hosts, topologies), switches)
    problems = [
        problem for place in topologies for problem in misplaced_switches(found.switches, place, where)
    ]
    if problems:
        raise InputError(problems)
    require_placed(found.hosts, topologies, where, found.nodes)
    return found


def _require_free(folder: Path, place: Path) -> None:
    hint = "choose a folder that does not exist"
    if Path.cwd().is_relative_to(place):
        raise InputError(f"{folder} is the current folder or above it", hint)
    if place.exists() and not place.is_dir():
        raise InputError(f"{folder} is not a folder", hint)
    if place.exists() and any(place.iterdir()) and not (place / MARK).exists():
        raise InputError(f"{folder} is not empty and not an export", hint)
    results = place / "results"
    if results.is_dir() and any(results.iterdir()):
        hint = f"choose another folder, or move {folder / 'results'} away"
        raise InputError(f"{folder} has results of trials, which a new export would remove", hint)


def _carry_over(before: Path, made: Path) -> None:
    """Copy the inventory of an earlier export, unless it still is what that export wrote."""
    inventory = before / _INVENTORY
    if not (inventory.is_symlink() or is_plain(inventory)):
        return
    written = read_plain(before / MARK).decode(errors="replace").strip() if is_plain(before / MARK) else ""
    if inventory.is_symlink() or _digest(inventory.read_bytes()) != written:
        shutil.copy2(inventory, made / _INVENTORY, follow_symlinks=False)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(
    folder: Path,
    matrix: Matrix,
    topologies: Mapping[str, Topology],
    inventory: Path | None,
    placed: _Placed,
) -> None:
    (folder / "cells").mkdir()
    for cell in matrix.cells:
        # plain JSON: Ansible's YAML reader takes 1e-07 for text; `json.dumps` indents ten times as slowly
        content = to_json(_variables(cell, topologies[cell.topology], matrix, placed), indent=1)
        (folder / "cells" / f"{cell.id}.yml").write_bytes(content + b"\n")
    _write_modules(folder, matrix)
    for part in ("playbooks", "roles"):
        shutil.copytree(assets.folder(part), folder / part, ignore=_NOT_COPIED, dirs_exist_ok=True)
    if placed.switches:
        shutil.copytree(assets.folder("p4"), folder / "p4", ignore=_NOT_COPIED)
    mark = ""
    if inventory is None and not os.path.lexists(folder / _INVENTORY):
        content = _hosts(next(iter(topologies.values()))).encode()
        (folder / _INVENTORY).write_bytes(content)
        mark = f"{_digest(content)}\n"
    named = _INVENTORY if inventory is None else shlex.quote(str(inventory.resolve()))
    readme = _README.format(
        matrix=matrix.name, inventory=named, first=matrix.cells[0].id, count=len(matrix.cells)
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")
    (folder / "ansible.cfg").write_text(_ANSIBLE_CFG, encoding="utf-8")
    (folder / MARK).write_text(mark, encoding="utf-8")


def _write_modules(folder: Path, matrix: Matrix) -> None:
    """Write what hosts are given, our modules' sources and lab-traffic, and a file of its variables."""
    needs = node_needs(matrix.cells, matrix.catalog)
    names = sorted({name for need in needs.values() for name in need.modules | need.parts})
    sources: dict[str, dict[str, object]] = {}
    for source in module_sources(matrix.catalog, names):
        # files that several of our modules share are links; here each folder has its own
        code = read_code(source.folder, links_below=assets.folder("kernels"))
        code.write(folder / "modules" / source.name)
        place = f"{{{{ playbook_dir }}}}/../modules/{source.name}"
        sources[source.name] = {**source.variables(), "folder": place}
    variables: dict[str, object] = {
        "modules_of_node": {
            node: sorted((need.modules | need.parts) & sources.keys()) for node, need in needs.items()
        },
        "sources_of_modules": sources,
        "l4sbench_module_sources": (
            f"{{{{ {_of_nodes('modules_of_node')} | map('extract', sources_of_modules) | list }}}}"
        ),
        "tools_of_node": {node: need.installed for node, need in needs.items()},
        "l4sbench_tools": f"{{{{ {_of_nodes('tools_of_node')} }}}}",
    }
    if any("lean" in tools(cell, TRAITS.default_traffic) for cell in matrix.cells):
        (folder / "bin").mkdir()
        with tempfile.TemporaryDirectory() as made:
            shutil.copy(compiled(Path(made)), folder / "bin" / NAME)
        variables["l4sbench_lean"] = f"{{{{ playbook_dir }}}}/../bin/{NAME}"
    if own := executable_variables(matrix.cells, matrix.catalog):
        (folder / "bin").mkdir(exist_ok=True)
        for one in own:
            shutil.copyfile(one["file"], folder / "bin" / one["name"])
        variables["l4sbench_executables"] = [
            {"file": f"{{{{ playbook_dir }}}}/../bin/{one['name']}", "name": one["name"]} for one in own
        ]
    (folder / "playbooks" / "group_vars").mkdir(parents=True)
    text = json.dumps(variables, indent=1)
    (folder / "playbooks" / "group_vars" / "all.yml").write_text(f"{text}\n", encoding="utf-8")


def _of_nodes(name: str) -> str:
    """Return what Ansible computes: the items that a map of lists has for the nodes of a host."""
    nodes = (
        f"({name} if l4sbench_nodes | default('') == 'all' else [l4sbench_nodes | default(l4sbench_node)])"
    )
    return f"{nodes} | flatten | map('extract', {name}) | flatten | unique"


def _variables(cell: Cell, topology: Topology, matrix: Matrix, placed: _Placed) -> dict[str, object]:
    traits = replace(TRAITS, switches=addresses_of(placed.switches))
    conditions = draw_conditions(cell, seed_of(matrix.seed, 1), traits)
    program_of = programs(cell, topology, matrix.catalog, conditions)
    ends = [flow.start.s + flow.seconds for program in program_of.values() for flow in program.flows]
    limit_s = max(ends, default=0.0) + MEET_S
    place = topology.of_family(cell.family)
    given = trial_variables(program_of, place, f"{cell.id}.1", "by hand", limit_s, placed.nodes)
    configs = {
        name: switch_config(cell, topology, matrix.catalog, switch, placed.hosts)
        for name, switch in placed.switches.items()
    }
    more = {"l4sbench_switch_configs": configs} if configs else {}
    return {**given, **more, "l4sbench_results": f"results/{cell.id}"}


def _hosts(topology: Topology) -> str:
    """Return an inventory with a host per node to fill in. YAML 1.1 reads unquoted addresses as numbers."""
    two = ", ".join(topology.senders[:2])
    lines = [
        f"# One host per node; with l4sbench_nodes: [{two}] fewer suffice, with l4sbench_nodes: all one that",
        "# needs no l4sbench_ports (l4sbench docs ssh).",
        "# ansible_host: name or address for ssh; l4sbench_ports: hardware addresses that `ip link` shows.",
        "all:",
        "  vars: {ansible_user: debian}",
        "  hosts:",
    ]
    for node in topology.nodes:
        ports = ", ".join(f'{address.network}: "{TO_FILL_IN}"' for address in node.addresses)
        lines += [
            f"    host-{node.name}:",
            f"      ansible_host: {node.name}.example.org",
            f"      l4sbench_node: {node.name}",
            f"      l4sbench_ports: {{{ports}}}",
        ]
    return "".join(f"{line}\n" for line in lines)
