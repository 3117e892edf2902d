# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Facts that hosts report, and what cells need of the hosts of each node. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from l4sbench.catalog import Queue
from l4sbench.disk import assets
from l4sbench.errors import TestbedError
from l4sbench.facts.traits import Identity
from l4sbench.program.netem import pauses_hosts
from l4sbench.program.rewriting import rewrites
from l4sbench.program.wires import pausing
from l4sbench.testbeds.ssh.hosts import EVERY_NODE
from l4sbench.traffic.send import NO_TOOLS

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.catalog import Catalog, CongestionControl, KernelNeeds
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.topology import Topology
    from l4sbench.traffic.send import HostTools

FREE_MB: Final = 100
"""Least room that a host needs for files of trials."""
REWRITING: Final = "path.ecn"
"""Name of the factor for which a path needs nft, and the kernel `RULES`."""
RULES: Final = ("NF_TABLES", "NF_TABLES_INET")
NETEM: Final = "NET_SCH_NETEM"
FILES: Final = {NETEM: "sch_netem", "NF_TABLES": "nf_tables"}
"""Symbols of the kernel -> module that has it where it is not built in; Ubuntu packages some apart."""

Word = Annotated[str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A text of a host: of one line, and of a length that messages and patterns have room for."""


class _Reported(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class HostModule(_Reported):
    """A kernel module: digest of its source, and its state (loaded, there, or for another kernel)."""

    srcversion: Word
    state: Word = "there"


class Interface(_Reported):
    """An Ethernet interface; `management`: the ssh connection or the default route uses it."""

    name: Word
    mac: Word
    netns: Word | None = None
    addresses: tuple[Word, ...] = ()
    addresses_6: tuple[Word, ...] = ()
    management: bool = False


class HostFacts(_Reported):
    """Facts that a host reported (roles/helper, `facts`). `config` is None where it is not readable.

    `queues` are those kinds that its tc knows, of the kinds for which we have tc's part. Its clock showed
    `time_s` between the two instants `asked_s` of this machine's clock.
    """

    kernel_release: Word
    kernel_version: Word = ""
    machine: Word = ""
    distribution: Word = ""
    python: Word = ""
    root: bool = True
    boot_id: Word = ""
    time_s: float = 0.0
    asked_s: tuple[float, float] | None = None
    accecn: bool = True
    tools: dict[Word, Word] = {}
    config: dict[Word, Word] | None = None
    modules: dict[Word, HostModule] = {}
    ccs: tuple[Word, ...] = ()
    queues: tuple[Word, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    free_mb: int = FREE_MB


class SwitchFacts(_Reported):
    """Facts that a switch reported (roles/tofino, `control`): its SDE and the program on it."""

    sde: Word
    program: Word
    python: Word = ""
    time_s: float = 0.0


_Facts = TypeVar("_Facts", bound=_Reported)


_INSTALLED: Final = frozenset({"flent", "iperf", "irtt", "nft", "ping"})
"""Programs that some cells need beside the usual ones, and that hosts install."""


@dataclass
class NodeNeeds:
    """Requirements of cells for one node.

    Attributes:
        needs: By the name of the catalog entry that has them; a queue and a congestion control may share one.
        ccs: Kernel names of congestion controls.
        modules: Kernel modules of ours.
        parts: Modules of Linux that hosts can build, where their kernel was built without.
        queues: Kinds of queues for which tc needs a part of ours.
        accecn: Names of the congestion controls that negotiate AccECN on it.
        traffic: True if flows begin or end on it.
        netem: Names of what netem does on it.
        tools: Further programs that its flows need, with what for.
    """

    needs: dict[str, KernelNeeds] = field(default_factory=dict)
    ccs: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    accecn: set[str] = field(default_factory=set)
    traffic: bool = False
    netem: set[str] = field(default_factory=set)
    tools: dict[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> list[str]:
        """Those of the further programs that hosts install, sorted."""
        return sorted(self.tools.keys() & _INSTALLED)

    def add(self, entry: Queue | CongestionControl) -> None:
        """Add a catalog entry that is used on the node."""
        name = entry.name
        if self.needs.get(name, entry.needs) != entry.needs:
            name += " (queue)" if isinstance(entry, Queue) else " (congestion control)"
        self.needs[name] = entry.needs
        self.parts.update(parts_of_linux().keys() & set(entry.needs.modules))
        if entry.module is not None and entry.module.source is not None:
            self.modules.add(entry.module.name)
            self.queues.update(tc_parts(entry.module.source))


def _delaying(cell: Cell) -> tuple[object, ...]:
    """Return the part of a cell that decides which nodes need netem."""
    longer = tuple(group.name for group in cell.groups if group.rtt is not None)
    path = (cell.has_own_delay, cell.has_losses, cell.path_pause_at if pauses_hosts(cell) else "")
    return (*path, longer)


def _add_path(found: Mapping[str, NodeNeeds], cell: Cell, place: Topology) -> None:
    """Add what the nodes of a path need to make it as the cell states."""
    for port in place.data_ports if rewrites(cell) else ():
        found[port.node].tools["nft"] = REWRITING
    for node, what in _netem_on(cell, place):
        found[node].netem.add(what)


def _netem_on(cell: Cell, place: Topology) -> Iterator[tuple[str, str]]:
    """Yield nodes that need netem, and what for."""
    if cell.has_losses or not cell.has_own_delay:
        yield from ((node, "path.loss" if cell.has_own_delay else "the delay") for node in place.delays)
    if pauses_hosts(cell):
        yield from ((node, "path.pause") for node in pausing(cell, place))
    for group, pair in zip(cell.groups, place.place(cell.nodes).values(), strict=True):
        if group.rtt is not None:
            yield pair.sender, f"{group.name}.rtt"


@cache
def parts_of_linux() -> Mapping[str, Path]:
    """Return the modules of Linux that DKMS builds from the source of a host's kernel, with our folders."""
    folders = sorted((assets.folder("kernels") / "linux").glob("*/dkms.conf"))
    return {conf.parent.name: conf.parent for conf in folders}


def tc_parts(source: Path) -> list[str]:
    """Return the kinds of queues for which a module's folder has tc's part."""
    return sorted(path.stem.removeprefix("q_") for path in source.glob("q_*.c"))


def node_needs(cells: Iterable[Cell], catalog: Catalog) -> dict[str, NodeNeeds]:
    """Return the requirements of these cells for every node of their topologies."""
    shapes: dict[object, Cell] = {}
    for cell in cells:
        groups = tuple((g.name, g.cc, g.ecn, g.receiver_ecn, g.nodes, _host_tools(g)) for g in cell.groups)
        shapes.setdefault((cell.topology, cell.aqm, groups, rewrites(cell), _delaying(cell)), cell)
    found: dict[str, NodeNeeds] = {}
    for cell in shapes.values():
        place = catalog.topology(cell.topology)
        for node in place.by_name:
            found.setdefault(node, NodeNeeds())
        for port in place.bottlenecks:
            found[port.node].add(catalog.queue(cell.aqm))
        _add_path(found, cell, place)
        for group, pair in zip(cell.groups, place.place(cell.nodes).values(), strict=True):
            for node in pair:
                found[node].traffic = True
            own = _host_tools(group)
            found[pair.sender].tools |= dict.fromkeys(own.sender, own.purpose)
            found[pair.receiver].tools |= dict.fromkeys(own.receiver, own.purpose)
            if group.cc is None or group.ecn is None:
                continue
            cc = catalog.congestion_control(group.cc)
            for node in pair:
                found[node].add(cc)
                found[node].ccs.add(cc.kernel_name)
                if "accecn" in (group.ecn, group.receiver_ecn):
                    found[node].accecn.add(cc.name)
            receiver_cc = cc.ecn_modes[group.ecn].receiver_cc or cc.receiver_cc
            if receiver_cc:
                found[pair.receiver].ccs.add(receiver_cc)
    return found


def _host_tools(group: Group) -> HostTools:
    """Return the programs that a group's hosts must have; `plan` reports what the group lacks."""
    return group.sends.host_tools if group.complete else NO_TOOLS


def entries_of(catalog: Catalog) -> list[Queue | CongestionControl]:
    """Return every entry of a catalog."""
    return [*catalog.queues.values(), *catalog.congestion_controls.values()]


def asked_of(catalog: Catalog) -> dict[str, list[str]]:
    """Return the extra facts to query from hosts: everything that any entry of the catalog may need."""
    entries = entries_of(catalog)
    modules = {module for entry in entries for module in entry.needs.modules}
    modules |= {entry.module.name for entry in entries if entry.module is not None}
    ccs = {cc.kernel_name for cc in catalog.congestion_controls.values()}
    ccs |= {cc.receiver_cc for cc in catalog.congestion_controls.values() if cc.receiver_cc}
    own = {entry.module.source for entry in entries if entry.module is not None and entry.module.source}
    symbols = {symbol for entry in entries for symbol in entry.needs.config}
    return {
        "config": sorted(symbols | {NETEM, *RULES}),
        "modules": sorted(modules | {*FILES.values()}),
        "ccs": sorted(ccs),
        "queues": sorted({kind for source in own for kind in tc_parts(source)}),
    }


def identity(
    hosts: Sequence[Host],
    facts: Mapping[str, HostFacts],
    helper: str,
    lean: str,
    switches: Mapping[str, str] | None = None,
) -> Identity:
    """Return the software that these hosts run, by node and without host names: equal hosts are equal.

    `helper` and `lean` are digests of what they are given: the helper, and the source of lab-traffic.
    `switches` says what the nodes run that are switches.
    """
    # the nodes of a host that holds all of them depend on the cells, and identities do not
    held = {host.name: (EVERY_NODE,) if host.whole else host.nodes for host in hosts}
    by_node = sorted((node, facts[host]) for host, nodes in held.items() for node in nodes)
    releases = sorted({seen.kernel_release for _, seen in by_node})
    modules: dict[str, set[str]] = {}
    for _, seen in by_node:
        for name, module in seen.modules.items():
            modules.setdefault(name, set()).add(module.srcversion)
    return Identity(
        testbed="ssh",
        kernel_release=", ".join(releases),
        common={
            "helper": helper,
            **{f"kernel of {node}": f"{t.kernel_release} {t.kernel_version}" for node, t in by_node},
            **{f"iproute2 of {node}": seen.tools.get("tc", "") for node, seen in by_node},
            **{f"switch {node}": runs for node, runs in sorted((switches or {}).items())},
        },
        modules={name: ", ".join(sorted(versions)) for name, versions in modules.items()},
        tools={
            **{
                tool: ", ".join(sorted({seen.tools[tool] for _, seen in by_node if tool in seen.tools}))
                for tool in ("iperf3", "flent")
            },
            "lean": lean,
        },
    )


def clock_off_s(shown_s: float, after_s: float, before_s: float) -> float:
    """Return how far a clock was off that showed an instant between two of this machine's."""
    return min(shown_s - after_s, 0.0) + max(shown_s - before_s, 0.0)


def older(version: str, than: str) -> bool:
    """Return True if a release such as `6.12.48-amd64` is older than `7.0` by its leading numbers."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def read_facts(plain: object, host: str) -> HostFacts:
    """Parse the facts that a host reported. Raises TestbedError when they are malformed."""
    return _read(HostFacts, plain, host)


def read_switch_facts(plain: object, host: str) -> SwitchFacts:
    """Parse the facts that a switch reported. Raises TestbedError when they are malformed."""
    return _read(SwitchFacts, plain, host)


def _read(kind: type[_Facts], plain: object, host: str) -> _Facts:
    from pydantic import ValidationError

    from l4sbench.text.models import first_problem

    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        raise TestbedError(f"{host} reported malformed facts: {first_problem(error)}") from error
