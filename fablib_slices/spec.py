# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices as plain data: machines, switches and networks of a topology, at one site or several."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field

from l4sbench.disk.document import Document, Flaw, KeyPath, load_model
from l4sbench.errors import BadValueError, InputError, suggest
from l4sbench.facts.kernels import DISTRIBUTION, KernelWish
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted
from l4sbench.topology import find_topology, is_path, mac_of, topology

if TYPE_CHECKING:
    from l4sbench.topology import Topology

DEFAULT_IMAGE: Final = "default_debian_13"
SHARED_NIC: Final = "NIC_Basic"
"""A share of a card. A network between sites takes several of one site only from different hosts."""

NAME_PATTERN: Final = r"^[A-Za-z0-9_\-][A-Za-z0-9_.\-]{1,254}$"
"""Names that FABRIC's information model accepts (fabric_fim), limited to ASCII and without a leading dot,
because folders have these names, too."""


def _slice_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise BadValueError(
            f'"{quoted(name)}" is not a valid name of a slice',
            "use 2 to 255 letters, digits, dots, dashes or underscores, and no leading dot",
        )
    return name


def _topology_name(name: str) -> str:
    try:
        return name if is_path(name) else topology(name).name
    except InputError as error:
        raise BadValueError(error.problems[0].message, error.problems[0].hint) from None


def _kernel(text: str) -> str:
    return KernelWish.parse(text).text


class VmWishes(Strict):
    """Properties of one machine; those that are None are the same as for all machines."""

    cores: Annotated[int, Field(ge=1)] | None = None
    ram_gb: Annotated[int, Field(ge=1)] | None = None
    disk_gb: Annotated[int, Field(ge=1)] | None = None
    image: str | None = None


class PortWishes(Strict):
    """A port of a switch.

    Attributes:
        port: The device's number for it, D_P in `pm show` of the switch's `ucli`; by default the one of the
            front port that FABRIC connects to the network.
        mac: The switch's address on the port's network; made from its IPv4 address unless it is given.
        speed, fec: Speed and error correction, which suit the cable.
    """

    port: Annotated[int, Field(ge=0, le=511)] | None = None
    mac: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$")] | None = None
    speed: Literal["1G", "10G", "25G", "40G", "50G", "100G"] = "100G"
    fec: Literal["NONE", "FIRECODE", "REED_SOLOMON"] = "NONE"


class SwitchWishes(Strict):
    """A programmable switch in place of a topology's node.

    Attributes:
        node: The node it replaces.
        kind: Type of switch.
        program: Folder below `p4/` with the program to run.
        ports: Its ports by network, where they are not as by default.
        enter: Words before commands on it, which run them where the SDE is; None: as the role has it.
    """

    node: str
    kind: Literal["tofino"] = "tofino"
    program: str | None = None
    ports: Mapping[str, PortWishes] = {}
    enter: tuple[str, ...] | None = None


class SliceFile(Strict):
    """Description of a slice as users write it (`slice.yaml`); all but its name have defaults.

    Attributes:
        slice: Name, unique among the user's slices.
        topology: Topology the slice is made for, or the path of its file, relative to this one.
        site: FABRIC site; `auto` picks one that has room.
        sites: Nodes at other sites than that one, by site; a network then has nodes at two sites at most.
        hours: Lease to request.
        cores, ram_gb, disk_gb, image: Properties of every machine.
        nodes: Properties of single machines, by the topology's node.
        nic: Component model of all ports.
        kernel: Kernel of every machine: `keep`, `distribution` or `images/NAME`, see `KernelWish`.
        pin: Bind machines to CPUs and memory of their hosts near their cards, so that they pause less.
        switch: A programmable switch in place of a node.
    """

    slice: Annotated[str, AfterValidator(_slice_name)]
    topology: Annotated[str, AfterValidator(_topology_name)] = "line6"
    site: str = "auto"
    sites: Mapping[str, tuple[str, ...]] = {}
    hours: Annotated[int, Field(ge=1)] = 24
    cores: Annotated[int, Field(ge=1)] = 4
    ram_gb: Annotated[int, Field(ge=1)] = 16
    disk_gb: Annotated[int, Field(ge=1)] = 50
    image: str = DEFAULT_IMAGE
    nodes: Mapping[str, VmWishes] = {}
    nic: str = SHARED_NIC
    kernel: Annotated[str, AfterValidator(_kernel)] = DISTRIBUTION
    pin: bool = False
    switch: SwitchWishes | None = None


@dataclass(frozen=True)
class VmSpec:
    """A virtual machine; `role` is the part its node plays (`sender`, `receiver`, `delay`, `router`).

    `site` is empty where it is the slice's.
    """

    name: str
    role: str
    cores: int
    ram_gb: int
    disk_gb: int
    image: str
    site: str = ""


@dataclass(frozen=True)
class PortSpec:
    """A port of a switch: its network, its address, speed, error correction.

    `port` is the device's number for it; None: FABRIC names the front port once it is connected.
    """

    network: str
    port: int | None
    mac: str
    speed: str = "100G"
    fec: str = "NONE"


@dataclass(frozen=True)
class SwitchSpec:
    """A whole programmable switch; playbooks/switch.yml loads `program` on it.

    `ports` are those of all its networks; `enter` are words before commands on it.
    """

    name: str
    role: str
    kind: str
    program: str | None
    ports: tuple[PortSpec, ...] = ()
    enter: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NetSpec:
    """A layer-2 network and the nodes on it, each by a port of component model `nic`."""

    name: str
    nodes: tuple[str, ...]
    nic: str


@dataclass(frozen=True)
class SliceSpec:
    """A slice at a site, some of whose machines may be at others.

    `kernel` is what its machines run, as `KernelWish` has it; `pin`: they are bound to CPUs of their hosts.
    """

    name: str
    topology: str
    site: str
    hours: int
    vms: tuple[VmSpec, ...]
    switches: tuple[SwitchSpec, ...]
    nets: tuple[NetSpec, ...]
    kernel: str = DISTRIBUTION
    pin: bool = False

    @property
    def at_sites(self) -> Mapping[str, SliceSpec]:
        """Its parts by site, each with the machines and ends of networks there; switches are at its own."""
        names = dict.fromkeys((self.site, *(vm.site or self.site for vm in self.vms)))
        return {name: self._part(name) for name in names}

    def _part(self, site: str) -> SliceSpec:
        vms = tuple(vm for vm in self.vms if (vm.site or self.site) == site)
        switches = self.switches if site == self.site else ()
        here = {node.name for node in (*vms, *switches)}
        nets = tuple(
            replace(net, nodes=tuple(node for node in net.nodes if node in here)) for net in self.nets
        )
        return replace(self, site=site, vms=vms, switches=switches, nets=nets)

    def crosses(self, net: NetSpec) -> bool:
        """Return True if a network has nodes at several sites."""
        return sum(any(node in net.nodes for node in part.names) for part in self.at_sites.values()) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its machines and switches."""
        return tuple(node.name for node in (*self.vms, *self.switches))

    @property
    def digest(self) -> str:
        """Digest over what is reserved, but for the lease and the site.

        What is set up on a switch once it is reserved does not count.
        """
        own = asdict(self)
        for name in ("name", "hours", "site", "kernel", "pin"):
            del own[name]
        for vm in own["vms"]:
            if not vm["site"]:  # as before there were several sites
                del vm["site"]
        for switch in own["switches"]:
            del switch["ports"], switch["enter"]
        text = json.dumps(own, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def slice_file(name: str, **wishes: str | int) -> SliceFile:
    """Return the description of a slice from its name and the options of a command line.

    Raises:
        InputError: all options that are not valid.
    """
    return Document("", {"slice": name, **wishes}).validate(SliceFile)


def load_slice_file(path: Path) -> SliceFile:
    """Read the description of a slice from a YAML file.

    Raises:
        InputError: all problems of the file.
    """
    if not path.exists():
        hint = "pass a file that ends in .yaml and describes a slice, or only the name of a slice"
        raise InputError(f"file {path} does not exist", hint)

    def flaws(wishes: SliceFile) -> Iterator[Flaw]:
        try:
            place = find_topology(wishes.topology, path.parent)
        except InputError as error:
            for problem in error.problems:
                yield Flaw(
                    ("topology",), " ".join(filter(None, (problem.where, problem.message))), problem.hint
                )
            return
        yield from _flaws(place, wishes)

    wishes = load_model(path, SliceFile, check=flaws)
    if is_path(wishes.topology):
        return wishes.model_copy(update={"topology": str(path.parent.absolute() / wishes.topology)})
    return wishes


def spec_of(topology: Topology, wishes: SliceFile) -> SliceSpec:
    """Return the slice that a topology needs, with the properties the user wants.

    Raises:
        InputError: all wishes that do not fit the topology.
    """
    nodes = [node.name for node in topology.nodes]
    switch = wishes.switch.node if wishes.switch else None
    Document("", None).refuse(_flaws(topology, wishes))
    return SliceSpec(
        name=wishes.slice,
        topology=topology.name,
        site=wishes.site,
        hours=wishes.hours,
        vms=tuple(_vm(name, topology, wishes) for name in nodes if name != switch),
        switches=_switches(topology, wishes),
        nets=tuple(NetSpec(net.name, net.nodes, wishes.nic) for net in topology.networks),
        kernel=wishes.kernel,
        pin=wishes.pin,
    )


def _flaws(topology: Topology, wishes: SliceFile) -> Iterator[Flaw]:
    """Yield the wishes that do not fit the topology.

    A switch can only replace the router: it cannot run flows, nor hold packets back for milliseconds.
    """
    nodes = [node.name for node in topology.nodes]
    switch = wishes.switch.node if wishes.switch else None
    named: list[tuple[KeyPath, str]] = [(("nodes", name), name) for name in wishes.nodes]
    if switch:
        named.append((("switch", "node"), switch))
    for path, name in named:
        if name not in nodes:
            yield Flaw(path, f"topology {topology.name} has no node {quoted(name)}", suggest(name, nodes))
    routers = [port.node for port in topology.bottlenecks]
    if switch in nodes and switch not in routers:
        hint = f"use {' or '.join(routers)}, where the bottleneck is"
        yield Flaw(("switch", "node"), f"a switch cannot replace {quoted(switch)}", hint)
    if switch in routers and wishes.switch and wishes.switch.ports:
        networks = {address.network for address in topology.by_name[str(switch)].addresses}
        for network in sorted(wishes.switch.ports.keys() - networks):
            hint = f"there are {', '.join(sorted(networks))}"
            yield Flaw(("switch", "ports", network), f"{switch} is not on {network}", hint)
    yield from _flaws_of_sites(topology, wishes)
    if switch in nodes and switch in wishes.nodes:
        yield Flaw(("nodes", switch), f"{switch} is a switch, which has no size and no image", "remove it")


def _flaws_of_sites(topology: Topology, wishes: SliceFile) -> Iterator[Flaw]:
    nodes = [node.name for node in topology.nodes]
    placed: dict[str, str] = {}
    for site, names in wishes.sites.items():
        for number, name in enumerate(names):
            path: KeyPath = ("sites", site, number)
            if name not in nodes:
                yield Flaw(path, f"topology {topology.name} has no node {quoted(name)}", suggest(name, nodes))
            elif wishes.switch and name == wishes.switch.node:
                yield Flaw(path, f"{name} is a switch, which is at the slice's own site", "use site for it")
            elif placed.setdefault(name, site) != site:
                yield Flaw(path, f"{name} is at {placed[name]} already")
    if wishes.sites and wishes.site == "auto":
        yield Flaw(("sites",), "the other nodes have no site of their own", "name it by site")
        return
    for net in topology.networks:
        found = Counter(placed.get(node, wishes.site) for node in net.nodes)
        if len(found) > 2:
            hint = "FABRIC's networks between sites (L2STS) connect two"
            yield Flaw(("sites",), f"{net.name} would be at {', '.join(sorted(found))}", hint)
        elif len(found) == 2 and max(found.values()) > 1 and wishes.nic == SHARED_NIC:
            hint = "cross where each side has one node (delay and router), or choose another nic"
            yield Flaw(("sites",), f"{net.name} would have several {SHARED_NIC} at one of two sites", hint)


def _vm(name: str, topology: Topology, wishes: SliceFile) -> VmSpec:
    own = wishes.nodes.get(name, VmWishes())
    away = (site for site, names in wishes.sites.items() if name in names and site != wishes.site)
    return VmSpec(
        name=name,
        role=topology.by_name[name].role,
        cores=own.cores or wishes.cores,
        ram_gb=own.ram_gb or wishes.ram_gb,
        disk_gb=own.disk_gb or wishes.disk_gb,
        image=own.image or wishes.image,
        site=next(away, ""),
    )


def _switches(topology: Topology, wishes: SliceFile) -> tuple[SwitchSpec, ...]:
    if wishes.switch is None:
        return ()
    switch = wishes.switch
    node = topology.by_name[switch.node]
    wished = [(address, switch.ports.get(address.network, PortWishes())) for address in node.addresses]
    ports = tuple(
        PortSpec(address.network, one.port, (one.mac or mac_of(address.ip)).lower(), one.speed, one.fec)
        for address, one in wished
    )
    return (SwitchSpec(node.name, node.role, switch.kind, switch.program, ports, switch.enter),)
