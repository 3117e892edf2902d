# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The form of a kind of traffic: its factors, the conditions on them, its commands and its cost.

A kind is one class in a module of its own beside this one. Its fields are the factors `<group>.<field>` that
only some kinds have, each declared once, and an instance holds the values of a group.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias

from l4sbench.text.parameters import HOUR, Parameter, declared, declares
from l4sbench.text.units import Duration, Rate, Size
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from l4sbench.errors import Problem
    from l4sbench.text.units import Kind, Value

CODEPOINTS: Final = ("not-ect", "ect1", "ect0", "ce")
"""Codepoints of the ECN field in the order of their numbers (RFC 3168 section 5)."""

INPUT: Final = "%input"
"""Argument of a flow's command: the path of the file with its `input`."""
FOLDER: Final = "%folder"
"""Beginning of arguments of a flow's command: the folder of its node's raw files."""
EXECUTABLE: Final = "%exec/"
"""Beginning of the first word of a command: the folder of programs of the user's own."""

Transport: TypeAlias = Literal["tcp", "udp"]


@dataclass(frozen=True)
class Flow:
    """One flow, as its kind of traffic makes commands of it.

    Attributes:
        id: `<group>-<index>`.
        address: IP address of its receiver.
        port: Port of its receiver.
        kernel_cc: Kernel name of its congestion control; empty if the kernel's TCP does not send it.
        sender: Name of its sender; empty if it is of a kind of traffic.
        own_cc: Name that its sender has for its congestion control; empty without a sender.
        has_qlog: True if its sender writes a qlog.
        length: How long it lasts.
        index: Number in its group, from 0.
        family: Version of IP of its packets.
        bottleneck: Rate of the bottleneck at the trial's start.
        networks: Networks of its sender and its receiver.
        handle: Gives the name under which nodes have a program of the user's own.
        draw: Gives a uniform number from [0, 1) for a purpose and a number, the same for every run of a
            trial.
    """

    id: str
    address: str
    port: int
    kernel_cc: str
    length: Duration
    sender: str = ""
    own_cc: str = ""
    has_qlog: bool = False
    index: int = 0
    family: Family = Family.IPV4
    bottleneck: Rate = Rate(1)
    networks: tuple[str, str] = ("", "")
    handle: Callable[[str], str] = str
    draw: Callable[[str, int], float] = lambda _purpose, _number: 0.5


class Ready(StrEnum):
    """Ways in which a server shows that flows may begin."""

    LISTENS = "listens"
    """It listens at the flow's port by TCP."""
    COUNTS = "counts"
    """It is lab-traffic, and counts packets for which nobody listens."""
    OWN = "own"
    """It is a program of the user's own, which need not have a socket, and runs until it is ended."""
    CAPTURES = "captures"
    """It captures packets."""
    AT_ONCE = "at once"
    """It does not show it."""


@dataclass(frozen=True)
class FlowCommands:
    """Argument lists of the sender and the receiver of one flow; no receiver: an empty one."""

    sender: tuple[str, ...]
    receiver: tuple[str, ...] = ()
    ready: Ready = Ready.LISTENS


@dataclass(frozen=True)
class Asked:
    """The part of a cell that the conditions on a group's traffic depend on.

    Attributes:
        group: Name of the group, with which the paths of its factors begin.
        count: Number of its flows.
        lasts: How long each of them lasts.
        bottleneck: Rate of the bottleneck.
        captured: True if packets are captured.
        family: Version of IP.
    """

    group: str
    count: int
    lasts: Duration
    bottleneck: Rate
    captured: bool
    family: Family


@dataclass(frozen=True)
class HostTools:
    """Programs that hosts must have for a flow, and the purpose that errors name."""

    sender: tuple[str, ...] = ()
    receiver: tuple[str, ...] = ()
    purpose: str = ""


NO_TOOLS: Final = HostTools()


def factor(kind: Kind, meaning: str, *, optional: bool = False, **limits: Any) -> Any:
    """Return a field of a kind of traffic: a factor of groups, named as the field."""
    return shared(Parameter("", kind, meaning, **limits), optional=optional)


def shared(parameter: Parameter, *, optional: bool = False) -> Any:
    """Return a field whose factor several kinds of traffic have."""
    return declares(parameter, default=None) if optional else declares(parameter)


RATE: Final = Parameter(
    "rate",
    "rate",
    "Rate of each flow, counted as the bottleneck's queue does: Ethernet frames without their checksum.",
    positive=True,
    maximum=Rate(10**12),
)
CODEPOINT: Final = Parameter(
    "codepoint",
    "str",
    "Codepoint of the ECN field of each packet of what is not TCP's own.",
    choices=CODEPOINTS,
)
SIZE: Final = Parameter(
    "size",
    "size",
    "Payload: of each packet (paced; default: 1472B, a full packet), of each request and of its response "
    "(requests), of each connection (connect-flood), of each object (pages).",
    minimum=Size(1),
    maximum=Size(10**12),
)
PERIOD: Final = Parameter(
    "period",
    "duration",
    "Time from one request (requests), or page (pages), to the next.",
    minimum=Duration(100_000),
    maximum=HOUR,
)

INITIAL_WINDOW: Final = 10
"""Segments that a new connection may send at once (RFC 6928)."""


def slow_start_rounds(payload_bytes: int, mss_bytes: int) -> int:
    """Return the round trips in which a new connection sends a payload, from the first data to its ACK.

    The window begins with 10 segments (RFC 6928) and doubles in every round trip (RFC 5681 section 3.1), so
    that r of them carry 10 (2^r - 1) segments; `Send.round_trips` adds what is around them.
    """
    segments = -(-payload_bytes // mss_bytes)
    return max(1, math.ceil(math.log2(segments / INITIAL_WINDOW + 1)))


@dataclass(frozen=True, kw_only=True)
class Send(ABC):
    """The traffic of a flow group. A subclass is a kind of traffic: a value of `<group>.send`.

    Attributes:
        name: The kind's name.
        about: What it is, in a few words, as the meaning of the factor `send` lists it.
        by_tcp: True if the kernel's TCP sends it, so that the group has a congestion control and ECN.
        has_controls: True if it has congestion controls of its own, so that the group names one.
        one_connection: True if each flow is one TCP connection, whose sockets are sampled.
        transports: Protocols of its packets.
        by_iperf3: True if iperf3 can send it; lab-traffic can send all that have no tool of their own.
        own_tool: The tool that sends this kind and no other, whatever `traffic.tool` says; empty: none.
        hosts_only: True if it runs on the wall clock alone.
        output: Ending of the raw files with the output of its commands.
        close_s: Time that its sender may take to end after its planned end.
        only_syns: True if its packets are SYNs of which no connection comes.
        many_open: True if tens of thousands of its connections are open at a time.
        each_mbit: Megabits of a bulk transfer that cost a simulation as much as one of its connections, or
            SYNs (docs/results/speed.md); 0: its packets cost as much as those of a bulk transfer.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    by_tcp: ClassVar[bool] = False
    has_controls: ClassVar[bool] = False
    one_connection: ClassVar[bool] = False
    transports: ClassVar[tuple[Transport, ...]] = ("tcp",)
    by_iperf3: ClassVar[bool] = False
    own_tool: ClassVar[str] = ""
    hosts_only: ClassVar[bool] = False
    output: ClassVar[str] = "json"
    close_s: ClassVar[float] = 10.0
    only_syns: ClassVar[bool] = False
    many_open: ClassVar[bool] = False
    each_mbit: ClassVar[float] = 0.0

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Self:
        """Return the traffic of a group with these values of its factors, of which others are ignored.

        Raises:
            KeyError: a factor is missing that the kind needs.
        """
        needed = {name: values[name] for name in cls.needs()}
        return cls(**needed, **{name: values.get(name) for name in cls.takes()})

    @classmethod
    @cache
    def factors(cls) -> tuple[Parameter, ...]:
        """Return the factors that it has beside those of every group."""
        return tuple(declared(cls).values())

    @classmethod
    @cache
    def needs(cls) -> tuple[str, ...]:
        """Return the names of those without which it is not defined."""
        return tuple(one.name for one in fields(cls) if one.default is MISSING)

    @classmethod
    @cache
    def takes(cls) -> tuple[str, ...]:
        """Return the names of those that it may have; factors of other kinds do not apply."""
        return tuple(one.name for one in fields(cls) if one.default is not MISSING)

    @abstractmethod
    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends; the testbed resolves the paths of programs.

        `tool` is `lean` or `iperf3`, and of no meaning for kinds that have a tool of their own.

        Raises:
            InputError: the tool cannot send it so.
        """

    def input(self, flow: Flow) -> str:
        """Return the content of the file that the sender reads (`INPUT`); empty: it reads none."""
        del flow
        return ""

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield what is wrong with the values of its factors, beyond the range of each."""
        del asked
        yield from ()

    @property
    def limit(self) -> Size | None:
        """Payload after whose delivery a flow ends; None: it ends by its time."""
        return None

    @property
    def greedy(self) -> bool:
        """True if its flows send as fast as they can, as long as they last."""
        return False

    @property
    def is_l4s(self) -> bool:
        """True if it is asked to send packets with ECT(1) that are not TCP's own."""
        return getattr(self, CODEPOINT.name, None) == "ect1"

    def round_trips(self, payload_bytes: int, mss_bytes: int) -> int | None:
        """Return those that a connection with this payload takes at most, without a queue or a loss.

        None: its connections, if any, are not complete at some time.
        """
        del payload_bytes, mss_bytes
        return None

    @property
    def host_tools(self) -> HostTools:
        """Programs that hosts must have beside the traffic tool."""
        return NO_TOOLS

    @property
    def each_per_s(self) -> float:
        """Number of connections that a flow opens in a second, or of SYNs; of meaning with `each_mbit`."""
        return 0.0
