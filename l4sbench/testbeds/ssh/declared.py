# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The hosts that an inventory gives some cells to run on, and what follows from their facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from l4sbench.disk import assets
from l4sbench.errors import InputError, Problem
from l4sbench.facts.traits import Identity, Needs, Stage, Stages
from l4sbench.testbeds.ssh.facts import HostFacts, NodeNeeds, asked_of, identity, node_needs
from l4sbench.testbeds.ssh.fitness import unfit
from l4sbench.testbeds.ssh.hosts import Host, settled
from l4sbench.testbeds.ssh.images import Image, load_images
from l4sbench.testbeds.ssh.installs import installs, possible_installs
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.kernels import (
    Allowed,
    Choice,
    advice,
    allowed,
    anything,
    choose,
    module_sources,
    not_installable,
    own_kernels,
    running,
    together,
    unfit_kernels,
)
from l4sbench.testbeds.ssh.layout import (
    approximated,
    require_placed,
    shared_by_all,
    too_fast,
    unable_to_rewrite,
)
from l4sbench.testbeds.ssh.lean import source_digest
from l4sbench.testbeds.ssh.memory import CHANGE_S, Known
from l4sbench.testbeds.ssh.switches import placed_of
from l4sbench.testbeds.ssh.switching import Switching
from l4sbench.testbeds.ssh.trialvars import executable_variables

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.topology import Topology


@dataclass(frozen=True)
class Declared:
    """An inventory's hosts and what they may do.

    Attributes:
        inventory: Ansible inventory.
        catalog: The queues and congestion controls that cells may name.
        cells: What is to run there.
        free: Hosts that may boot whatever their cells need and their distribution has; empty once it is
            known what that is.
        hosts: All but switches.
        switching: Its switches.
        images: The kernels of kernels/images.
        may: Those that hosts may boot.
    """

    inventory: Path
    catalog: Catalog
    cells: Sequence[Cell]
    free: frozenset[str]
    hosts: tuple[Host, ...]
    switching: Switching
    images: tuple[Image, ...]
    may: Allowed

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names."""
        return tuple(host.name for host in self.hosts)

    @property
    def slowdown(self) -> float:
        """Seconds of ours that one by the slowest host's clock takes at most."""
        return max((host.slowdown for host in self.hosts), default=1.0)

    def knowing(self, facts: Mapping[str, HostFacts]) -> Declared:
        """Return it with what its free hosts may boot, once the facts of all are known."""
        if not self.free or not facts.keys() >= {*self.names}:
            return self
        free = [host for host in self.hosts if host.name in self.free]
        found = own_kernels(self.cells, self.catalog, free, facts, self.images)
        return replace(self, may={**self.may, **found}, free=frozenset())

    def installs(self, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
        """Return what preparing the hosts installs, in words; for each distribution if that is unknown."""
        free = [host for host in self.hosts if host.name in self.free]
        return (
            *installs(self.cells, self.catalog, self.hosts, self.may, facts),
            *possible_installs(self.cells, self.catalog, free, self.images),
        )

    def booted(self, stage: Stage | None) -> Mapping[str, Image]:
        """Return the kernels that hosts boot for a stage, by host."""
        return _images(self.may, stage.state if stage else {})

    def preparing(self, stage: Stage | None) -> dict[str, object]:
        """Return the variables that prepare hosts for a stage; None: for all cells, as they are."""
        needs = node_needs(self._cells_of(stage), self.catalog)
        boots = self.booted(stage)
        return {
            "l4sbench_asked": asked_of(self.catalog),
            "l4sbench_tools_of": {host.name: together(host, needs).installed for host in self.hosts},
            "l4sbench_kernel_of": {host: image.variables() for host, image in boots.items()},
            "l4sbench_module_sources_of": {
                host.name: [
                    source.variables()
                    for own in (together(host, needs),)
                    for source in module_sources(self.catalog, sorted(own.modules | own.parts))
                ]
                for host in self.hosts
            },
            "l4sbench_executables": executable_variables(self.cells, self.catalog),
        }

    def identity(self, known: Known) -> Identity:
        """Return what the hosts run, and what they are given: the helper, and lab-traffic."""
        helper = assets.digest(assets.folder("roles") / "helper" / "files", suffixes=(".py",))
        switches = self.switching.runs(known.switches)
        return identity(self.hosts, known.facts, helper, source_digest(), switches)

    def stages(self, known: Known) -> Stages | None:
        """Return which kernels the hosts boot for which cells; None when no host may boot another one."""
        if not self.may:
            return None
        choices, _ = choose(self.cells, self.catalog, self.hosts, self.may)
        stages = tuple(self._stage(choice, known) for choice in choices)
        return Stages(stages, running(self.may, known.facts), known.change_s or CHANGE_S)

    def _stage(self, choice: Choice, told: Known) -> Stage:
        usual, seen = told.facts, told.of(choice.state)
        images = _images(self.may, choice.state)
        facts = {name: own for name, own in usual.items() if name not in images}
        facts |= {
            n: seen[n] for n, image in images.items() if n in seen and image.runs(seen[n].kernel_release)
        }
        known = facts.keys() >= {*self.names}
        if not known:
            shall = {name: HostFacts(kernel_release=f"image {image.name}") for name, image in images.items()}
            facts = {name: HostFacts(kernel_release="?") for name in self.names} | {**usual} | shall
        return Stage(choice.state, choice.cells, self.identity(replace(told, facts=facts)), known)

    def advice(self, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
        """Return hints about rates and kernels."""
        found = advice(self.cells, self.catalog, self.hosts, facts, self.images, self.may)
        rates = (
            *too_fast(self.cells, self.hosts),
            *approximated(self.cells),
            *shared_by_all(self.hosts),
        )
        return (*rates, *found, *not_installable(self.may, facts))

    def problems(self, needs: Needs, known: Known) -> list[Problem]:
        """Return what prevents the hosts from running the cells, whatever they boot of what they may."""
        change = {node for host in self.hosts if host.name in self.may for node in host.nodes}
        wanted = {
            node: NodeNeeds(traffic=need.traffic, tools=need.tools) if node in change else need
            for node, need in node_needs(self.cells, self.catalog).items()
        }
        found = [*choose(self.cells, self.catalog, self.hosts, self.may)[1]]
        found += unfit_kernels(self.may, known.facts)
        for name in sorted(needs.topologies):
            found += unfit(self.hosts, known.facts, self.catalog.topology(name), wanted, needs)
        found += self._other_machines(needs, known.facts)
        found += self.switching.unable(needs, known.switches)
        return list(dict.fromkeys(found))

    def _other_machines(self, needs: Needs, facts: Mapping[str, HostFacts]) -> Iterator[Problem]:
        """Yield a problem for each program of the user's own that is not for a host's type of machine."""
        for own in (self.catalog.executable(name) for name in sorted(needs.executables)):
            for name in self.names:
                there = facts[name].machine
                if there not in {own.machine, ""}:
                    message = f"{own.name} is a program for {own.machine}, and the host is {there}"
                    yield Problem("", name, message, "all hosts must be of the program's type of machine")

    def problems_of(self, stage: Stage, facts: Mapping[str, HostFacts]) -> list[Problem]:
        """Return what prevents hosts that run a stage's kernels from running its cells."""
        cells = self._cells_of(stage)
        wanted = node_needs(cells, self.catalog)
        shapes = _topologies(cells, self.catalog)
        found = [one for shape in shapes for one in unfit(self.hosts, facts, shape, wanted, Needs())]
        return list(dict.fromkeys(found))

    def _cells_of(self, stage: Stage | None) -> list[Cell]:
        return [cell for cell in self.cells if stage is None or cell.id in stage.cells]


def declared(inventory: Path, catalog: Catalog, cells: Sequence[Cell], *, own: bool) -> Declared:
    """Return what an inventory says.

    Raises:
        InputError: the inventory is invalid, or cannot hold these cells.
        TestbedError: Ansible is not installed.
    """
    variables = read_inventory(inventory)
    where = str(inventory)
    found, switches = placed_of(variables, where)
    topologies = _topologies(cells, catalog)
    hosts = settled(found, topologies)
    switching = Switching(inventory, switches, hosts, catalog)
    if misplaced := switching.misplaced(topologies, where):
        raise InputError(misplaced)
    require_placed(hosts, topologies, where, switching.addresses)
    if problems := switching.problems(cells, where):
        raise InputError(problems)
    if unable := unable_to_rewrite(hosts, cells, catalog, where):
        raise InputError(unable)
    images = load_images()
    may = allowed(variables, images, hosts, where)
    free = frozenset(anything(variables, hosts, own=own))
    return Declared(inventory, catalog, cells, free, hosts, switching, images, may)


def _topologies(cells: Iterable[Cell], catalog: Catalog) -> list[Topology]:
    return [catalog.topology(name) for name in sorted({cell.topology for cell in cells})]


def _images(may: Allowed, state: Mapping[str, str]) -> dict[str, Image]:
    """Return host -> the kernel that a state names for it."""
    return {
        host: next(image for image in may[host] if image.name == name)
        for host, name in state.items()
        if host in may
    }
