# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a slice has to be, as plain data: machines, switches and networks of a topology, at a site."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from l4sbench.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from l4sbench.topology import Topology

DEFAULT_IMAGE: Final = "default_ubuntu_24"

NAME_PATTERN: Final = r"^[A-Za-z0-9_\-][A-Za-z0-9_.\-]{1,254}$"
"""What FABRIC's information model takes as a name (fabric_fim), without letters beyond ASCII and a dot first:
folders have these names, too."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VmWishes(_Strict):
    """What a machine should have; what is not said is as for all machines."""

    cores: Annotated[int, Field(ge=1)] | None = None
    ram_gb: Annotated[int, Field(ge=1)] | None = None
    disk_gb: Annotated[int, Field(ge=1)] | None = None
    image: str | None = None


class SwitchWishes(_Strict):
    """A programmable switch in place of a topology's node.

    Attributes:
        node: The node it stands for.
        kind: What it is.
        program: The folder below `p4/` with what it is to run.
    """

    node: str
    kind: Literal["tofino"] = "tofino"
    program: str | None = None


class SliceFile(_Strict):
    """What a user says about a slice (`slice.yaml`); everything has a default but its name.

    Attributes:
        slice: Its name; unique among one's slices.
        topology: The topology it is made for.
        site: FABRIC site; `auto` takes one that has room.
        hours: Lease asked for.
        cores, ram_gb, disk_gb, image: Of every machine.
        nodes: Wishes for single machines, by the topology's node.
        nic: Component model of all ports.
        switch: A programmable switch in place of a node.
    """

    slice: Annotated[str, Field(pattern=NAME_PATTERN)]
    topology: str = "line6"
    site: str = "auto"
    hours: Annotated[int, Field(ge=1)] = 24
    cores: Annotated[int, Field(ge=1)] = 4
    ram_gb: Annotated[int, Field(ge=1)] = 16
    disk_gb: Annotated[int, Field(ge=1)] = 50
    image: str = DEFAULT_IMAGE
    nodes: Mapping[str, VmWishes] = {}
    nic: str = "NIC_Basic"
    switch: SwitchWishes | None = None


@dataclass(frozen=True)
class VmSpec:
    """A virtual machine; `role` is what its node is for (`sender`, `receiver`, `delay`, `router`)."""

    name: str
    role: str
    cores: int
    ram_gb: int
    disk_gb: int
    image: str


@dataclass(frozen=True)
class SwitchSpec:
    """A whole programmable switch; `program` is loaded on it by hand for now."""

    name: str
    role: str
    kind: str
    program: str | None


@dataclass(frozen=True)
class NetSpec:
    """A layer-2 network and the nodes on it, each by a port of component model `nic`."""

    name: str
    nodes: tuple[str, ...]
    nic: str


@dataclass(frozen=True)
class SliceSpec:
    """A slice at one site."""

    name: str
    topology: str
    site: str
    hours: int
    vms: tuple[VmSpec, ...]
    switches: tuple[SwitchSpec, ...]
    nets: tuple[NetSpec, ...]

    @property
    def digest(self) -> str:
        """What tells two slices of one name apart: all but the name, the lease and a site left open."""
        own = asdict(self)
        for name in ("name", "hours", "site"):
            del own[name]
        text = json.dumps(own, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def slice_file(name: str, **wishes: str | int) -> SliceFile:
    """A slice by its name and what is said of it, as on a command line.

    Raises:
        InputError: a wish is none, or the name cannot be one.
    """
    try:
        return SliceFile.model_validate({"slice": name, **wishes})
    except ValidationError as error:
        raise InputError([_problem("", item) for item in error.errors()]) from error


def load_slice_file(path: Path) -> SliceFile:
    """A slice as a YAML file describes it.

    Raises:
        InputError: it cannot be read, or is wrong; carries every problem.
    """
    try:
        read = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        return SliceFile.model_validate(read)
    except FileNotFoundError as error:
        hint = "a file that describes a slice ends in .yaml; a name alone will do, too"
        raise InputError(f"there is no file {path}", hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except YAMLError as error:
        raise InputError(f"{path} is no YAML: {error}") from error
    except ValidationError as error:
        raise InputError([_problem(str(path), item) for item in error.errors()]) from error


_NAMES: Final = "a name has 2 to 255 letters, digits, dots, dashes or underscores, and no dot first"
_KEYS: Final[Mapping[str, type[_Strict]]] = {"nodes": VmWishes, "switch": SwitchWishes}


def _problem(where: str, item: ErrorDetails) -> Problem:
    """What is wrong with a wish, in words of ours rather than of the library that found it."""
    place, given = item["loc"], item["input"]
    key = str(place[-1]) if place else ""
    limit = item.get("ctx", {}).get("ge")
    messages = {
        "extra_forbidden": "unknown key",
        "missing": "is missing",
        "string_pattern_mismatch": _NAMES,
        "string_type": f"expected text, not {given!r}",
        "greater_than_equal": f"must be at least {limit}, not {given!r}",
        "literal_error": f"there is no {key} {given!r}; there is tofino",
    }
    hint = None
    if item["type"].startswith("int_"):
        message = f"expected a whole number, not {given!r}"
    elif item["type"] in {"model_type", "dict_type", "mapping_type"}:
        message = "expected keys with values" if key else "a slice is described by keys, such as slice: NAME"
    else:
        message = messages.get(item["type"], item["msg"])
    if item["type"] == "extra_forbidden":
        own = _KEYS.get(str(place[0]), SliceFile) if len(place) > 1 else SliceFile
        hint = did_you_mean(key, own.model_fields) or f"there is {', '.join(own.model_fields)}"
    return Problem(where, ".".join(map(str, place)), message, hint)


def spec_of(topology: Topology, wishes: SliceFile) -> SliceSpec:
    """The slice that a topology needs, made as the user wishes.

    Raises:
        InputError: a wish is about a node that the topology does not have.
    """
    nodes = [node.name for node in topology.nodes]
    switch = wishes.switch.node if wishes.switch else None
    named = [
        *((f"nodes.{name}", name) for name in wishes.nodes),
        *([("switch.node", switch)] if switch else []),
    ]
    problems = [
        Problem("", path, f"topology {topology.name} has no node {name}", did_you_mean(name, nodes))
        for path, name in named
        if name not in nodes
    ]
    if not problems and switch:
        problems = list(_switch_problems(topology, wishes, switch))
    if problems:
        raise InputError(problems)
    return SliceSpec(
        name=wishes.slice,
        topology=topology.name,
        site=wishes.site,
        hours=wishes.hours,
        vms=tuple(_vm(name, topology, wishes) for name in nodes if name != switch),
        switches=_switches(topology, wishes),
        nets=tuple(NetSpec(net.name, net.nodes, wishes.nic) for net in topology.networks),
    )


def _switch_problems(topology: Topology, wishes: SliceFile, switch: str) -> Iterator[Problem]:
    """A switch neither sends, nor receives, nor holds packets back for milliseconds."""
    if switch != topology.router:
        hint = f"node: {topology.router}, where the queue is"
        yield Problem("", "switch.node", f"a switch cannot stand for {switch}", hint)
    if switch in wishes.nodes:
        yield Problem(
            "",
            f"nodes.{switch}",
            f"{switch} is a switch here, which has no size and no image",
            "leave it out",
        )


def _vm(name: str, topology: Topology, wishes: SliceFile) -> VmSpec:
    own = wishes.nodes.get(name, VmWishes())
    return VmSpec(
        name=name,
        role=_role(name, topology),
        cores=own.cores or wishes.cores,
        ram_gb=own.ram_gb or wishes.ram_gb,
        disk_gb=own.disk_gb or wishes.disk_gb,
        image=own.image or wishes.image,
    )


def _switches(topology: Topology, wishes: SliceFile) -> tuple[SwitchSpec, ...]:
    if wishes.switch is None:
        return ()
    switch = wishes.switch
    return (SwitchSpec(switch.node, _role(switch.node, topology), switch.kind, switch.program),)


def _role(name: str, topology: Topology) -> str:
    if name in topology.senders:
        return "sender"
    if name in topology.receivers:
        return "receiver"
    return "router" if name == topology.router else "delay"
