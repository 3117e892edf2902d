# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The programs of one trial as plain data. What is to be done is decided in `build`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from l4sbench.catalog import Expectation  # noqa: TC001  (pydantic reads it)
from l4sbench.units import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFLOADS = ("tso", "gso", "gro", "lro")
"""Off on every port, as published. A device that lacks one counts as having it off."""

_Duration = Annotated[
    Duration,
    PlainValidator(lambda raw: raw if isinstance(raw, Duration) else Duration.parse(str(raw))),
    PlainSerializer(str),
]


@dataclass(frozen=True)
class Command:
    """Run to completion; a non-zero exit or a timeout fails the trial."""

    argv: tuple[str, ...]
    timeout_s: float = 10.0


@dataclass(frozen=True)
class Link:
    """The node's port on a network: its address, and which offloads must be off or on."""

    network: str
    address: str
    offloads: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Route:
    """`ip route replace <to> via <via> <options>`."""

    to: str
    via: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A kernel module to load with these parameters; `ours`: built from `kernels/`, else part of the kernel.

    One that is part of the kernel may be built in: then there is nothing to load.
    """

    name: str
    params: tuple[tuple[str, str], ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Server:
    """Started before the flows, lives to the end; its standard output goes to the raw file `output`."""

    id: str
    argv: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class FlowRun:
    """One flow's sender: started `start` after the start instant, runs for `seconds`.

    Attributes:
        flow: `<group>-<index>`.
        group: The flow group's name.
        index: Place in its group, from 0.
        argv: The traffic command.
        output: Raw file for its standard output.
        start: After the start instant, the drawn offset included.
        seconds: Warm-up and measured time.
        receiver: Node it sends to.
        port: TCP port it sends to.
        cc: Kernel name of its congestion control.
        ecn: What it must negotiate: `off`, `classic`, `accecn` or `dctcp`.
    """

    flow: str
    group: str
    index: int
    argv: tuple[str, ...]
    output: str
    start: _Duration
    seconds: float
    receiver: str
    port: int
    cc: str
    ecn: str


@dataclass(frozen=True)
class Sampler:
    """What to sample how often; how is the testbed's matter. `queues` are sampled on one network's port."""

    kind: Literal["sockets", "queues"]
    interval: _Duration
    network: str | None = None


@dataclass(frozen=True)
class Readback:
    """Run after the flows have ended; its standard output goes to the raw file `output`.

    `host`: it tells about the host rather than about what the trial did; a testbed that makes its nodes
    afresh for every trial may leave it out.
    """

    name: str
    argv: tuple[str, ...]
    output: str
    host: bool = False


@dataclass(frozen=True)
class Expected:
    """What the JSON list in the raw file `output` must show; see `differences`.

    Attributes:
        what: The entry in words, for messages.
        output: Raw file of the node.
        match: Keys and values that pick the entry out of the list.
        values: What the entry must hold; dots in keys descend.
    """

    what: str
    output: str
    match: tuple[tuple[str, str | bool], ...]
    values: tuple[Expectation, ...]


@dataclass(frozen=True)
class Program:
    """Everything one node does in one trial, in phases. `to_json` and `from_json` are inverse."""

    node: str
    modules: tuple[Module, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    links: tuple[Link, ...] = ()
    routes: tuple[Route, ...] = ()
    reset: tuple[Command, ...] = ()
    setup: tuple[Command, ...] = ()
    servers: tuple[Server, ...] = ()
    flows: tuple[FlowRun, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    readback: tuple[Readback, ...] = ()
    expected: tuple[Expected, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Plain lists, maps and scalars."""
        plain: dict[str, object] = _PROGRAM.dump_python(self, mode="json")
        return plain

    @staticmethod
    def from_json(plain: object) -> Program:
        """Raises ValueError when `plain` is no program."""
        return _PROGRAM.validate_python(plain)


@dataclass(frozen=True)
class Conditions:
    """What of a trial is not its cell's: drawn from the seed, or the testbed's choice.

    Attributes:
        traffic: Tool that makes the traffic.
        noise_seed: Seeds the path's noise; None: the testbed has noise of its own.
        start_offsets: Flow id -> how much later than its group's `start` it starts.
    """

    traffic: str = "lean"
    noise_seed: int | None = None
    start_offsets: Mapping[str, Duration] = field(default_factory=dict)


_PROGRAM = TypeAdapter(Program)
