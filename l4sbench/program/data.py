# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The programs of one trial as plain data; `build` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, PlainSerializer, PlainValidator

from l4sbench.catalog import Expectation, Exports  # noqa: TC001  (pydantic reads it)
from l4sbench.errors import BadValueError
from l4sbench.text.parameters import shown
from l4sbench.text.units import Duration
from l4sbench.traffic import DEFAULT_SEND, Ready, Send, kind_of_send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter

OFFLOADS = ("tso", "gso", "gro", "lro")
"""Off on every port, as in the published experiments. One that a device lacks counts as off."""

RULES: Final = ("inet", "l4sbench")
"""Family and name of the table of nft that has all rules of a node."""

_Duration = Annotated[
    Duration,
    PlainValidator(lambda raw: raw if isinstance(raw, Duration) else Duration.parse(str(raw))),
    PlainSerializer(str),
]


def raw_name(name: str) -> str:
    """Return a name that may be part of the path of a raw file: programs may come from elsewhere.

    Raises:
        BadValueError: it could lead to another folder than the one that it is looked for in.
    """
    if name in {"", ".", ".."} or any(sign in name for sign in "/\\\0"):
        raise BadValueError(f"{shown(name)} is not a valid name of a raw file or its folder")
    return name


_RawName = Annotated[str, AfterValidator(raw_name)]


@dataclass(frozen=True)
class Command:
    """Run to completion; a non-zero exit or a timeout fails the trial."""

    argv: tuple[str, ...]
    timeout_s: float = 10.0


@dataclass(frozen=True)
class Link:
    """The node's port on a network: its address, and the required state of offloads."""

    network: _RawName
    address: str
    offloads: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Route:
    """`ip route replace <to> via <via> <options>`."""

    to: str
    via: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Neighbour:
    """`ip neigh replace <ip> lladdr <mac> nud permanent` at the port to a network: it answers no ARP."""

    network: str
    ip: str
    mac: str


@dataclass(frozen=True)
class Module:
    """A kernel module to load with these parameters; `ours`: built from `kernels/`, not part of the kernel.

    A module that is part of the kernel may be built in; then nothing is loaded.
    """

    name: str
    params: tuple[tuple[str, str], ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Server:
    """A process that runs from before the first flow to the end; its stdout goes to raw file `output`.

    `ready` is how it shows that flows may begin; None in programs of earlier versions.
    """

    id: str
    argv: tuple[str, ...]
    output: _RawName
    ready: Ready | None = None

    def __post_init__(self) -> None:
        """Recognize captures in programs that were stored before servers said what they are."""
        if self.ready is None and self.argv[:1] == ("tcpdump",):
            object.__setattr__(self, "ready", Ready.CAPTURES)


@dataclass(frozen=True)
class FlowRun:
    """The sender of one flow: starts `start` after the start instant and runs for `seconds`.

    Attributes:
        flow: `<group>-<index>`.
        group: The flow group's name.
        index: Number in its group, from 0.
        argv: The traffic command.
        output: Raw file for its standard output.
        start: After the start instant, including the drawn offset.
        seconds: Warm-up and measured time.
        receiver: Node it sends to.
        port: Port it sends to.
        cc: Kernel name of its congestion control; empty: TCP does not send it.
        ecn: ECN that it must negotiate: `off`, `classic`, `accecn` or `dctcp`; empty without `cc`.
        send: Kind of traffic, as in the factor `<group>.send`.
        bytes: Payload after whose delivery it ends; None: when its time is over.
        sampled: Whether the sockets of its connection are sampled.
        close_s: Time that it may take to end after its planned end.
        input: Content of a file that its command reads, whose place is where `INPUT` is among the arguments.
    """

    flow: _RawName
    group: str
    index: int
    argv: tuple[str, ...]
    output: _RawName
    start: _Duration
    seconds: float
    receiver: _RawName
    port: int
    cc: str
    ecn: str
    send: str = DEFAULT_SEND
    bytes: int | None = None
    sampled: bool = True
    close_s: float = 10.0
    input: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError if there is no such kind of traffic."""
        kind_of_send(self.send)

    @property
    def kind(self) -> type[Send]:
        """Kind of its traffic."""
        return kind_of_send(self.send)


@dataclass(frozen=True)
class Sampler:
    """Things to sample and the interval; the testbed decides how.

    Attributes:
        kind: `sockets` of the node, or `queues` of one of its ports.
        interval: From one sample to the next.
        network: The network that the port is on.
        exports: State of their own that these sockets or queues report.
    """

    kind: Literal["sockets", "queues"]
    interval: _Duration
    network: _RawName | None = None
    exports: tuple[Exports, ...] = ()


class ReadKind(StrEnum):
    """Kinds of read-backs, by what their output is."""

    KERNEL = "kernel"
    SYSCTLS = "sysctls"
    ROUTES = "routes"
    OFFLOADS = "offloads"
    PARAMETERS = "parameters"
    QDISCS = "qdiscs"
    CLASSES = "classes"
    RULES = "rules"
    SWITCH = "switch"


@dataclass(frozen=True)
class Readback:
    """A command that runs after the flows have ended; its stdout goes to the raw file `output`.

    Attributes:
        name: Its name for messages.
        argv: The command.
        output: Raw file for its standard output.
        host: It reads a property of the host, not an effect of the trial; a testbed that creates its nodes
            for every trial may skip it.
        kind: Kind of its output; None in programs of earlier versions if it is not one of these.
        network: Network of the port that it is about; empty: the whole node.
    """

    name: str
    argv: tuple[str, ...]
    output: _RawName
    host: bool = False
    kind: ReadKind | None = None
    network: str = ""

    def __post_init__(self) -> None:
        """Take from the command what programs of earlier versions do not say."""
        if self.kind is not None or not self.argv:
            return
        network = next((word[1:] for word in self.argv if word.startswith("@")), "")
        object.__setattr__(self, "network", network)
        known = (_BEFORE_KINDS.get(word) for word in self.argv)
        object.__setattr__(self, "kind", next((kind for kind in known if kind is not None), None))


_BEFORE_KINDS: Final = {
    "uname": ReadKind.KERNEL,
    "sysctl": ReadKind.SYSCTLS,
    "ip": ReadKind.ROUTES,
    "ethtool": ReadKind.OFFLOADS,
    "grep": ReadKind.PARAMETERS,
    "qdisc": ReadKind.QDISCS,
    "class": ReadKind.CLASSES,
    "control.py": ReadKind.SWITCH,
}


@dataclass(frozen=True)
class Expected:
    """Required content of the JSON list in the raw file `output`; see `differences`.

    Attributes:
        what: The entry in words, for messages.
        output: Raw file of the node.
        match: Keys and values that select the entry from the list.
        values: Required values of the entry; dots in keys descend.
    """

    what: str
    output: _RawName
    match: tuple[tuple[str, str | bool], ...]
    values: tuple[Expectation, ...]


CHANGES_FILE = "events.json"
"""Raw file of a node: a list with `event`, `factor` and `t_ms` (when it took effect) of its changes."""


@dataclass(frozen=True)
class Change:
    """A change that an event makes at a node, in place, while flows run.

    Attributes:
        event: The event's name.
        factor: The factor that changes.
        value: Its new value, as in the matrix.
        at: After the start instant.
        commands: One after the other, each at once after the one before.
        sysctls: What these commands set, of sysctls.
        readback: Command that shows the result.
        expected: What it must show, of queues; the values hold from then on.
    """

    event: str
    factor: str
    value: str
    at: _Duration
    commands: tuple[tuple[str, ...], ...]
    readback: Readback
    sysctls: tuple[tuple[str, str], ...] = ()
    expected: tuple[Expected, ...] = ()


PAUSES_FILE = "pauses.json"
"""Raw file of a node: `start_ms` and `length_ms` of each of its pauses, after the start instant."""


@dataclass(frozen=True)
class NodePauses:
    """Pauses of a node, in which what it sends waits, one after the other while flows run.

    Attributes:
        length: Of each pause.
        every: Mean time from the start of one to the start of the next; gaps are uniform from 0 on.
        seed: Seed of the gaps.
        begin: Commands of tc after which packets wait.
        end: Commands of tc after which none does.
    """

    length: _Duration
    every: _Duration
    seed: int
    begin: tuple[tuple[str, ...], ...]
    end: tuple[tuple[str, ...], ...]


WALKS_FILE = "walks.json"
"""Raw file of a node: for each walk, how many `steps` it went and for how many of these tc was `set`."""


@dataclass(frozen=True)
class NodeWalk:
    """A random walk of a port's delay while flows run; it begins in the middle and ends there.

    Attributes:
        every: Time from one step to the next, up or down by one level; the walk turns at its bounds.
        seed: Seed of the steps.
        levels: Commands of tc that set a delay, from the least to the longest.
    """

    every: _Duration
    seed: int
    levels: tuple[tuple[str, ...], ...]


ROUND_TRIPS_FILE = "rtt.json"
"""Raw file of a node: for each address of `echoes` the shortest round-trip time in ms, or null."""


@dataclass(frozen=True)
class Program:
    """Everything that one node does in one trial, in phases. `to_json` and `from_json` are inverse.

    `rules` make the table `RULES` anew, which the node has only in trials that have them. `sysctls` and
    `expected` hold until `changes` change them, in order of their instants. `echoes` are addresses to which
    the node measures the path's own round-trip time before flows start.
    """

    node: _RawName
    modules: tuple[Module, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    links: tuple[Link, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    routes: tuple[Route, ...] = ()
    reset: tuple[Command, ...] = ()
    rules: tuple[Command, ...] = ()
    setup: tuple[Command, ...] = ()
    servers: tuple[Server, ...] = ()
    flows: tuple[FlowRun, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    readback: tuple[Readback, ...] = ()
    expected: tuple[Expected, ...] = ()
    changes: tuple[Change, ...] = ()
    pauses: tuple[NodePauses, ...] = ()
    echoes: tuple[str, ...] = ()
    walks: tuple[NodeWalk, ...] = ()

    @property
    def sysctls_at_end(self) -> Mapping[str, str]:
        """Required values of the sysctls after the trial."""
        return dict(self.sysctls) | {name: value for change in self.changes for name, value in change.sysctls}

    @property
    def expected_at_end(self) -> tuple[Expected, ...]:
        """Required content of the read-backs after the trial: `expected`, with what changed meanwhile."""
        latest = {expected.what: expected for change in self.changes for expected in change.expected}
        return tuple(
            replace(expected, values=_updated(expected.values, latest[expected.what].values))
            if expected.what in latest
            else expected
            for expected in self.expected
        )

    def to_json(self) -> dict[str, object]:
        """Return plain lists, maps and scalars."""
        plain: dict[str, object] = _adapter().dump_python(self, mode="json", exclude=_WORDS)
        return plain

    @staticmethod
    def from_json(plain: object) -> Program:
        """Parse plain data. Raises ValueError when it is not a program."""
        return _adapter().validate_python(plain)


def _updated(before: tuple[Expectation, ...], after: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    by_key = {one.key: one for one in after}
    return tuple(by_key.get(one.key, one) for one in before)


@dataclass(frozen=True)
class Conditions:
    """The parts of a trial that its cell does not decide: drawn from the seed, or chosen by the testbed.

    Attributes:
        traffic: The traffic tool, of `traffic.tool: auto` that of the testbed (`timing.tool` has exceptions).
        wire_seed: Seed of noise and pauses of the lab's wires; None: the networks are not wires, so netem
            delays, and the testbed has noise of its own.
        pause_seed: Seed of pauses where the networks are not wires.
        start_offsets: Flow id -> delay of its start after its group's `start`.
        workload_seed: Seed of sizes and arrivals of workloads.
        switches: The nodes that are switches, each with its hardware addresses by network.
        capture: Capture packets although the cell does not ask for it.
    """

    traffic: str = "lean"
    wire_seed: int | None = None
    pause_seed: int = 0
    start_offsets: Mapping[str, Duration] = field(default_factory=dict)
    capture: bool = False
    workload_seed: int = 0
    switches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


_WORDS: Final[Any] = {
    "samplers": {"__all__": {"exports": {"__all__": {"panels": True, "columns": {"__all__": {"doc"}}}}}}
}
"""Parts of a program that only say what its tables mean."""


@cache
def _adapter() -> TypeAdapter[Program]:
    from pydantic import TypeAdapter

    return TypeAdapter(Program)
