# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parameters of an experiment, and the factors that all cells and all flow groups have.

A default never changes once released, because cell ids leave it out; a new meaning gets a new factor. The
parameters of queues and congestion controls (`aqm.<param>`, `<group>.<param>`) are not listed here: the
catalog declares them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from l4sbench.facts.groups import Group
from l4sbench.text.parameters import DAY, HOUR, Parameter, Reference, declared
from l4sbench.text.units import Duration, Kind, Packets, Percent, PerPacket, Plain, Rate, Size, Value, kind_of
from l4sbench.traffic import OF_SEND
from l4sbench.traffic.family import Family

GROUP_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""Names of flow groups and events; they become part of factor, file and column names."""

MAX_TRIALS: Final = 10_000
"""Number of trials that a cell may have."""

DEFAULT_LAB: Final = "default"
"""The lab that has no other name."""

RTT: Final = "rtt"
MEASURED: Final = "measured"
"""Value of `rtt` in a matrix that stands for the round-trip time that the path has by itself."""

DEFAULT_FAMILY: Final = Family.IPV4
"""The version of IP of cells that state none, and of those that were written before there were two."""

LAB_NAME: Final = r"[a-z][a-z0-9-]{0,31}"
"""Names of labs."""


def _table(*factors: Parameter) -> Mapping[str, Parameter]:
    return MappingProxyType({factor.name: factor for factor in factors})


HOSTS: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "ideal": MappingProxyType({}),
        "vm": MappingProxyType({"path.pause": Duration(4_000_000), "path.pause_at": "receivers"}),
    }
)
"""Profile of hosts -> the defaults that it replaces; docs/results/hosts.md, "Host pauses", says why."""

_ALONG: Final = ("senders", "delay", "router", "receivers")

PAUSING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "+".join(kinds): kinds
        for number in range(1, len(_ALONG) + 1)
        for kinds in itertools.combinations(_ALONG, number)
    }
)
"""Values of `path.pause_at` -> the kinds of nodes that pause, in the order of a path."""

FACTORS: Final = _table(
    Parameter(
        "topology",
        "str",
        "Named nodes and networks: one that ships with l4sbench, or the path of a file.",
        default="line6",
        refers="topology",
        source="l4sbench docs matrix",
    ),
    Parameter(
        "family",
        "str",
        "Version of IP of all packets. The topology's IPv6 addresses follow from its IPv4 addresses.",
        default=DEFAULT_FAMILY.value,
        choices=tuple(family.value for family in Family),
    ),
    Parameter("rate", "rate", "Rate of the bottleneck.", required=True, positive=True, maximum=Rate(10**12)),
    Parameter(
        RTT,
        "duration",
        "Round-trip time without queues. A matrix may state measured: that of the path between real hosts, "
        "to which no delay is added.",
        required=True,
        positive=True,
        maximum=HOUR,
    ),
    Parameter(
        "duration",
        "duration",
        "Measured time, after warm-up.",
        required=True,
        positive=True,
        maximum=DAY,
        unit="s",
    ),
    Parameter(
        "warmup",
        "duration",
        "Time before the measured time; kept out of the metrics.",
        default=Duration(0),
        maximum=DAY,
        unit="s",
    ),
    Parameter(
        "aqm", "str", "Queue at the bottleneck, by its name in the catalog.", required=True, refers="queue"
    ),
    Parameter(
        "buffer_bdp",
        "float",
        "Limit of the bottleneck's queue, in bandwidth-delay products.",
        default=1.0,
        positive=True,
        maximum=1e6,
    ),
    Parameter(
        "host",
        "str",
        "Profile of the hosts: ideal, or vm: unless stated, receivers pause as virtual machines do, that is, "
        "path.pause is 4ms and path.pause_at is receivers. Only the virtual testbed applies it.",
        default="ideal",
        choices=tuple(HOSTS),
    ),
    Parameter(
        "path.delay",
        "str",
        "Where the round-trip time comes from: it is added to the path, or is the path's own, such as that "
        "between two sites. rtt: measured states own, with what was measured. Only hosts have own.",
        default="added",
        choices=("added", "own"),
    ),
    Parameter(
        "path.noise",
        "float",
        "Largest processing jitter of a sender in packet times at the bottleneck; 0 turns it off. "
        "Only the virtual testbed applies it.",
        default=1.0,
        minimum=0.0,
        maximum=1e6,
        source="l4sbench docs results/hosts",
    ),
    Parameter(
        "path.pause",
        "duration",
        "Length of a host's pauses, in which it neither receives nor sends; 0 turns them off. Hosts only "
        "hold what they send, by netem, for 1 ms or longer.",
        default=Duration(0),
        maximum=HOUR,
        source="l4sbench docs results/hosts",
    ),
    Parameter(
        "path.pause_every",
        "duration",
        "Mean time from the start of a pause to the start of the next.",
        default=Duration(330_000_000),
        positive=True,
        maximum=HOUR,
    ),
    Parameter(
        "path.pause_at",
        "str",
        "Hosts that pause, each at instants of its own; router only in the virtual testbed.",
        default="delay",
        choices=tuple(PAUSING),
    ),
    Parameter(
        "path.jitter",
        "duration",
        "By how much the delay towards the receivers differs from its mean: bound of a walk and of uniform "
        "values, standard deviation of normal ones; 0 turns it off. Hosts have it by netem, as exact as "
        "their timers, and at most 2 s.",
        default=Duration(0),
        maximum=HOUR,
    ),
    Parameter(
        "path.jitter_model",
        "str",
        "How that delay differs: a random walk in time, or drawn for each packet, uniform or normal. Hosts "
        "walk by commands of tc, whose instants are as exact as the host is in time.",
        default="walk",
        choices=("walk", "uniform", "normal"),
    ),
    Parameter(
        "path.jitter_every",
        "duration",
        "Time from one step of the walk, a tenth of its bound up or down, to the next. Hosts: 1ms at least.",
        default=Duration(10_000_000),
        minimum=Duration(1_000),
        maximum=HOUR,
    ),
    Parameter(
        "path.jitter_order",
        "str",
        "Whether packets keep their order, or may overtake those that left earlier with a longer delay.",
        default="keep",
        choices=("keep", "free"),
    ),
    Parameter(
        "path.jitter_direction",
        "str",
        "Packets that have this jitter: data, towards the receivers, or both, also what receivers send.",
        default="data",
        choices=("data", "both"),
    ),
    Parameter(
        "path.loss",
        "percent",
        "Share of the packets towards the receivers that is lost before the bottleneck. Hosts have losses by "
        "netem, which draws others in every run.",
        default=Percent(0),
        maximum=Percent(10**9),
    ),
    Parameter(
        "path.loss_burst",
        "packets",
        "Mean number of packets lost in a row (Gilbert-Elliott); 0: each is lost independently of others.",
        default=Packets(0),
        maximum=Packets(10**6),
    ),
    Parameter(
        "path.ecn",
        "str",
        "ECN field of packets towards the receivers before the bottleneck: pass, bleach (to Not-ECT), or "
        "ect0 (ECT(1) becomes ECT(0)). Hosts need nft.",
        default="pass",
        choices=("pass", "bleach", "ect0"),
    ),
    Parameter(
        "path.mark",
        "percent",
        "Share of the ECN-capable packets towards the receivers that gets a CE mark before the bottleneck, "
        "each independently of others. Only the virtual testbed applies it.",
        default=Percent(0),
        maximum=Percent(10**9),
    ),
    Parameter(
        "path.ack_thinning",
        "int",
        "Number of pure ACKs of a connection, one after the other, of which the path lets the last one pass; "
        "1: all. ACKs that report a loss (SACK) always pass. A window of too few packets for so many ACKs "
        "waits for its retransmission timeout. Only the virtual testbed applies it.",
        default=1,
        minimum=1,
        maximum=1000,
    ),
    Parameter(
        "path.reverse_rate",
        "rate",
        "Rate at which the router forwards what receivers send, from a FIFO; default: no limit.",
        positive=True,
        maximum=Rate(10**12),
    ),
    Parameter(
        "path.wifi_mcs",
        "int",
        "Wi-Fi instead of a link of constant rate at the bottleneck: index of modulation and coding of "
        "802.11ax at 20 MHz with one spatial stream; rate then gives the buffer only. "
        "Hosts have a link of its mean rate for full packets, less path.wifi_loss, and no aggregation.",
        choices=(2, 4, 7, 9),
        source="l4sbench docs results/stress",
    ),
    Parameter(
        "path.wifi_loss",
        "percent",
        "Share of the frames that do not arrive by Wi-Fi and are sent again, in order: TCP loses none.",
        default=Percent(0),
        maximum=Percent(9 * 10**8),
    ),
    Parameter(
        "host.packet_cost",
        "duration",
        "Time in which each host handles one packet, one after the other. Only the virtual testbed applies "
        "it: netem could hold packets at one port, but not those of all, nor where the queue under test is.",
        default=Duration(0),
        maximum=Duration(10**9),
        unit="ns",
    ),
    Parameter(
        "sample.interval",
        "duration",
        "Time between two samples of sockets and queues.",
        default=Duration(100_000_000),
        minimum=Duration(1_000_000),
        maximum=HOUR,
    ),
    Parameter(
        "capture",
        "str",
        "What is kept of packets at both sides of the bottleneck's queue: off, or headers, from which the "
        "tables packets and packet_flows are made.",
        default="off",
        choices=("off", "headers"),
        source="l4sbench docs run-directory packets",
    ),
    Parameter(
        "traffic.tool",
        "str",
        "What makes the traffic; auto: what suits the testbed.",
        default="auto",
        choices=("auto", "lean", "iperf3"),
    ),
    Parameter(
        "lab",
        "str",
        "Lab whose kernel trials run on: default, or one that lab build --name made. "
        "Only the virtual testbed has labs.",
        default=DEFAULT_LAB,
        pattern=LAB_NAME,
        source="l4sbench docs regressions",
    ),
    Parameter(
        "expect.bottleneck",
        "bool",
        "Whether a trial whose queue never filled, marked or dropped is invalid.",
        default=True,
    ),
)
"""Factors of every cell, by name."""

GROUP_FACTORS: Final = _table(*declared(Group).values(), *OF_SEND.values())
"""Factors of every flow group, by the part of the name after the group's."""

COMMANDS: Final = tuple(factor.name for factor in GROUP_FACTORS.values() if factor.refers == "program")
"""Those whose values are commands: a program of the user's own with its arguments."""

EVENTS: Final = "events"
"""First part of the names of the factors of events, `events.<event>.<key>`."""

EVENT_AT: Final = "at"
"""Key of an event's instant."""

EVENT_EVERY: Final = "every"
"""Key of the time after which an event takes effect again; other keys are the factors that it changes."""

EVENT_TIMES: Final = frozenset({EVENT_AT, EVENT_EVERY})
"""Both of them."""

_CHANGES: Final = ("rate", "rtt", "path.loss", "path.ecn", "path.wifi_mcs")
"""Factors that an event may change."""

EVENT_FACTORS: Final = _table(
    Parameter(
        EVENT_AT,
        "duration",
        "When it takes effect, after the trial's start.",
        required=True,
        maximum=DAY,
        unit="s",
    ),
    Parameter(
        EVENT_EVERY,
        "duration",
        "Time after which it takes effect again, until the trial's end; not set: once.",
        minimum=Duration(10_000_000),
        maximum=DAY,
    ),
    *(
        replace(FACTORS[name], default=None, required=False, meaning=f"From then on: {FACTORS[name].meaning}")
        for name in _CHANGES
    ),
)
"""Factors of every event, by the part of the name after the event's."""

FACTOR_NAMES: Final = frozenset({*FACTORS, *GROUP_FACTORS, *EVENT_FACTORS})
"""All of them; those of groups and events without the name of the group or event."""


class Owner(StrEnum):
    """Kinds of things that have factors."""

    CELL = "cell"
    QUEUE = "queue"
    GROUP = "group"
    EVENT = "event"


class Name(NamedTuple):
    """A dotted name of a factor or parameter, or the column of a table that is named after it.

    Attributes:
        kind: The kind of thing that has it.
        owner: That thing's name: `aqm`, a flow group, an event; empty for factors of the cell.
        key: Its name without that: `rate`, `path.loss`, `target`, `cc`, `at`.
    """

    kind: Owner
    owner: str
    key: str

    @property
    def group(self) -> str:
        """The flow group that has it; empty if none has."""
        return self.owner if self.kind is Owner.GROUP else ""


_QUEUE: Final = "aqm"

RESERVED: Final = frozenset({name.partition(".")[0] for name in FACTORS} | {EVENTS})
"""Words that are not valid names of flow groups, because factors begin with them."""

_SECONDS: Final = frozenset({"duration", "warmup", "start", "start_within", "stop", "every", "lifetime"})


@lru_cache(maxsize=16384)
def name_of(dotted: str) -> Name:
    """Take a dotted name apart, whether there is such a factor or not: matrices define the groups."""
    head, dot, rest = dotted.partition(".")
    if head == EVENTS:
        event, _, key = rest.partition(".")
        if key and GROUP_NAME.fullmatch(event):
            return Name(Owner.EVENT, event, key)
    if dot and head == _QUEUE:
        return Name(Owner.QUEUE, head, rest)
    if not dot or head in RESERVED:
        return Name(Owner.CELL, "", dotted)
    return Name(Owner.GROUP, head, rest)


def factor_of(name: str) -> Parameter | None:
    """Return the factor with this dotted name; None for parameters of the catalog and unknown names.

    Any group name is accepted in `<group>.cc`, `<group>.count` ...: matrices define the groups.
    """
    kind, _, key = name_of(name)
    tables = {Owner.CELL: FACTORS, Owner.EVENT: EVENT_FACTORS, Owner.GROUP: GROUP_FACTORS}
    return tables[kind].get(key) if kind in tables else None


def refers(name: str, to: Reference) -> bool:
    """Return True if values of the factor with this dotted name are names of such things."""
    factor = factor_of(name)
    return factor is not None and factor.refers == to


class FactorColumn(NamedTuple):
    """A column of table `trials` with the values of a factor.

    Attributes:
        name: In the table; of quantities, their unit is its end: `rate_mbps`, `aqm.target_ms`.
        factor: Dotted name of the factor: `rate`, `aqm.target`.
        unit: Unit of the values: `Mbit/s`, `ms`; empty for words and bare numbers.
    """

    name: str
    factor: str
    unit: str = ""

    @classmethod
    def of(cls, factor: str, kind: Kind) -> Self:
        """Return the column of a factor's values of this kind.

        Durations and instants at the scale of a trial (`duration`, `<group>.start`, `events.<event>.at`) are
        in seconds.
        """
        own = name_of(factor)
        end, unit = COLUMN_ENDS.get(kind, ("", _BARE.get(factor, "")))
        if kind == "duration" and (own.key in _SECONDS or (own.kind is Owner.EVENT and own.key == EVENT_AT)):
            end = unit = "s"
        return cls(f"{factor}_{end}" if end else factor, factor, unit)


COLUMN_ENDS: Final[Mapping[Kind, tuple[str, str]]] = {
    "rate": ("mbps", "Mbit/s"),
    "duration": ("ms", "ms"),
    "size": ("bytes", "bytes"),
    "packets": ("packets", "packets"),
    "percent": ("percent", "%"),
}
"""Kind of quantities -> end of the names of columns that hold them, behind `_`, and their unit there."""

_BARE: Final = {"buffer_bdp": "BDP"}
"""Units of numbers that are written without one."""


def column_of(name: str, value: Value) -> tuple[str, Plain]:
    """Return the table column of a factor, with its unit in the name, and the value stored there.

    `rate` = 100mbit gives `("rate_mbps", 100.0)`, `aqm.target` = 5ms gives `("aqm.target_ms", 5.0)`.
    """
    column = FactorColumn.of(name, kind_of(value))
    match value:
        case Rate():
            return column.name, value.mbps
        case Duration():
            return column.name, value.s if column.unit == "s" else value.ms
        case Size():
            return column.name, value.bytes
        case Packets():
            return column.name, value.count
        case Percent():
            return column.name, value.percent
        case PerPacket():
            return column.name, float(value.each)
        case _:
            return column.name, value
