# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parameters of an experiment, and the factors that all cells and all flow groups have.

A default never changes once released, because cell ids leave it out; a new meaning gets a new factor. The
parameters of queues and congestion controls (`aqm.<param>`, `<group>.<param>`) are not listed here: the
catalog declares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from l4sbench.errors import BadValueError, did_you_mean
from l4sbench.expressions import matches
from l4sbench.units import (
    EXPECTED,
    Duration,
    Kind,
    Packets,
    Percent,
    Plain,
    Rate,
    Size,
    Value,
    parse_quantity,
)
from l4sbench.wording import quoted

Condition: TypeAlias = Mapping[str, tuple[Value, ...]]
"""Parameter -> values it may have; holds if every parameter has one of its values."""

GROUP_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""Names of flow groups and events; they become part of factor, file and column names."""

MAX_TRIALS: Final = 10_000
"""Number of trials that a cell may have."""

DEFAULT_LAB: Final = "default"
"""The lab that has no other name."""

LAB_NAME: Final = r"[a-z][a-z0-9-]{0,31}"
"""Names of labs."""

OWN: Final = "default"
"""The word that leaves a parameter to the queue itself, as in `aqm.limit: default`."""

_PUNCTUATION: Final = "_.:%+/=,-"
_WORD: Final = re.compile(f"[A-Za-z0-9{_PUNCTUATION}]+")  # the hyphen is last

_UNITS: Final[Mapping[str, str]] = {
    "rate": "mbit",
    "duration": "ms",
    "size": "B",
    "packets": "p",
    "percent": "%",
}
_Quantity: Final = Rate | Duration | Size | Packets | Percent


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named setting: a factor of cells or flow groups, or a parameter that a catalog entry declares.

    Attributes:
        name: dotted name; without the prefix (`aqm.`, `<group>.`) for flow groups and catalog entries.
        kind: type of its values.
        meaning: one sentence, with units where the kind does not imply them.
        default: value if a matrix does not state it; None: see `required` and `derive`.
        required: True if every cell must state it. A parameter that is neither stated, nor required, nor
            derived, nor has a default is absent.
        derive: source of a value that is not stated: `buffer`, `rate`, or the name of another parameter.
        own: value a queue uses when its command leaves the parameter out, as far as known; such a parameter
            also accepts the word `default`.
        choices: allowed words of a `str` or values of an `int`; empty: any name, any number.
        pattern: regular expression that a `str` must match.
        word: True if a `str` becomes an argument of a command, and must be one word of it.
        minimum: smallest allowed value.
        maximum: largest allowed value.
        positive: True if zero is not allowed.
        unit: unit that a bare number most likely means, for error messages; empty: the usual one of the kind.
        when: values of sibling parameters with which this one applies.
        source: what defines it, such as `RFC 8290`; empty: the sources of its entry, or l4sbench itself.
    """

    name: str
    kind: Kind
    meaning: str = ""
    default: Value | None = None
    required: bool = False
    derive: str | None = None
    own: Value | None = None
    choices: tuple[str, ...] | tuple[int, ...] = ()
    pattern: str | None = None
    word: bool = False
    minimum: Value | None = None
    maximum: Value | None = None
    positive: bool = False
    unit: str = ""
    when: Condition = field(default_factory=dict)
    source: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Words accepted in place of a quantity or number."""
        return (OWN,) if self.own is not None and self.kind != "str" else ()

    def parse(self, raw: object) -> Value:
        """Return the value of `raw`, as read from YAML or a command line.

        Raises:
            BadValueError: `raw` is not a valid value; the message says what is expected.
        """
        if isinstance(raw, str) and raw in self.words:
            return raw
        try:
            value = self._typed(str(raw) if isinstance(raw, _Quantity) else raw)
            self._check_range(value)
        except BadValueError as error:
            if error.hint is None and self.words:
                raise BadValueError(error.message, f"{OWN} leaves it to the queue") from None
            raise
        return value

    def _typed(self, raw: object) -> Value:
        match self.kind:
            case "bool":
                return _boolean(raw)
            case "int" | "float":
                return _number(self.kind, raw)
            case "str":
                return self._word(raw)
        expected = EXPECTED[self.kind]
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            number = shown(raw)
            hint = f"did you mean {number}{self.unit or _UNITS[self.kind]}?" if raw >= 0 else None
            raise BadValueError(f"expected {expected}, but {number} has no unit", hint)
        if not isinstance(raw, str):
            raise BadValueError(f"expected {expected}, not {shown(raw)}")
        return parse_quantity(self.kind, raw)

    def _word(self, raw: object) -> str:
        choices = tuple(map(str, self.choices))
        expected = f"expected one of {', '.join(choices)}" if choices else "expected a name"
        if isinstance(raw, bool):
            # `off` is a text in YAML 1.2 but a boolean in 1.1, which many editors and tools still use
            word = "on" if raw else "off"
            hint = f'write "{word}", in quotes' if word in choices else None
            raise BadValueError(f"{expected}, but {shown(raw)} is a boolean", hint)
        if not isinstance(raw, str):
            raise BadValueError(f"{expected}, not {shown(raw)}")
        if choices and raw not in choices:
            hint = did_you_mean(raw, choices)
            if "off" in choices and raw.lower() in {"no", "none", "false", "0"}:
                hint = 'did you mean "off"?'
            raise BadValueError(f"{expected}, not {shown(raw)}", hint)
        if not raw:
            raise BadValueError(f"{expected}, not an empty text")
        if self.pattern is not None and not matches(raw, self.pattern):
            raise BadValueError(f"{shown(raw)} does not match the pattern {self.pattern}")
        if self.word:
            as_word(raw)
        return raw

    def _check_range(self, value: Value) -> None:
        if self.kind == "int" and self.choices and value not in self.choices:
            raise BadValueError(f"expected one of {', '.join(map(str, self.choices))}, not {plain(value)}")
        limit = None
        if self.positive and not _amount(value) > 0:
            limit = "more than 0"
        elif self.minimum is not None and _amount(value) < _amount(self.minimum):
            limit = f"at least {plain(self.minimum)}"
        elif self.maximum is not None and _amount(value) > _amount(self.maximum):
            limit = f"at most {plain(self.maximum)}"
        if limit is not None:
            raise BadValueError(f"{plain(value)} is out of range; it must be {limit}")


_HOUR: Final = Duration(3600 * 10**9)
_DAY: Final = Duration(24 * 3600 * 10**9)


def _table(*factors: Parameter) -> Mapping[str, Parameter]:
    return MappingProxyType({factor.name: factor for factor in factors})


HOSTS: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "ideal": MappingProxyType({}),
        "vm": MappingProxyType({"path.pause": Duration(4_000_000), "path.pause_at": "receivers"}),
    }
)
"""Profile of hosts -> the defaults that it replaces; docs/results/hosts.md, "Host pauses", says why."""

FACTORS: Final = _table(
    Parameter(
        "topology",
        "str",
        "Named nodes and networks: one that ships with l4sbench, or the path of a file.",
        default="line6",
        source="l4sbench docs matrix",
    ),
    Parameter("rate", "rate", "Rate of the bottleneck.", required=True, positive=True, maximum=Rate(10**12)),
    Parameter(
        "rtt", "duration", "Round-trip time without queues.", required=True, positive=True, maximum=_HOUR
    ),
    Parameter(
        "duration",
        "duration",
        "Measured time, after warm-up.",
        required=True,
        positive=True,
        maximum=_DAY,
        unit="s",
    ),
    Parameter(
        "warmup",
        "duration",
        "Time before the measured time; kept out of the metrics.",
        default=Duration(0),
        maximum=_DAY,
        unit="s",
    ),
    Parameter("aqm", "str", "Queue at the bottleneck, by its name in the catalog.", required=True),
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
        "Length of a host's pauses, in which it neither receives nor sends; 0 turns them off. "
        "Only the virtual testbed applies it.",
        default=Duration(0),
        maximum=_HOUR,
        source="l4sbench docs results/hosts",
    ),
    Parameter(
        "path.pause_every",
        "duration",
        "Mean time from the start of a pause to the start of the next.",
        default=Duration(330_000_000),
        positive=True,
        maximum=_HOUR,
    ),
    Parameter(
        "path.pause_at",
        "str",
        "Hosts that pause, each at instants of its own.",
        default="delay",
        choices=("delay", "router", "receivers"),
    ),
    Parameter(
        "path.jitter",
        "duration",
        "By how much the delay towards the receivers differs from its mean: bound of a walk and of uniform "
        "values, standard deviation of normal ones; 0 turns it off. Only the virtual testbed applies it.",
        default=Duration(0),
        maximum=_HOUR,
    ),
    Parameter(
        "path.jitter_model",
        "str",
        "How that delay differs: a random walk in time, or drawn for each packet, uniform or normal.",
        default="walk",
        choices=("walk", "uniform", "normal"),
    ),
    Parameter(
        "path.jitter_every",
        "duration",
        "Time from one step of the walk, a tenth of its bound up or down, to the next.",
        default=Duration(10_000_000),
        minimum=Duration(1_000),
        maximum=_HOUR,
    ),
    Parameter(
        "path.jitter_order",
        "str",
        "Whether packets keep their order, or may overtake those that left earlier with a longer delay.",
        default="keep",
        choices=("keep", "free"),
    ),
    Parameter(
        "path.loss",
        "percent",
        "Share of the packets towards the receivers that is lost before the bottleneck. "
        "Only the virtual testbed applies it.",
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
        "ect0 (ECT(1) becomes ECT(0)). Only the virtual testbed applies it.",
        default="pass",
        choices=("pass", "bleach", "ect0"),
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
        "Only the virtual testbed applies it.",
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
        "Time in which each host handles one packet, one after the other. "
        "Only the virtual testbed applies it.",
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
        maximum=_HOUR,
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

ECN_MODES: Final = ("off", "classic", "accecn", "dctcp")


_LEAN: Final = ("lean",)
_FLENT: Final = ("flent",)
_EXEC: Final = ("exec",)


@dataclass(frozen=True, slots=True)
class Send:
    """One kind of traffic that the flows of a group may send: a value of `<group>.send`.

    Attributes:
        tcp: True if the kernel's TCP sends it, so that the group has a congestion control and ECN.
        needs: factors of the group without which it is not defined.
        takes: factors that it may have; all others of `OF_SEND` do not apply.
        tools: traffic tools that can send it.
    """

    tcp: bool
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ("lean", "iperf3")

    @property
    def lean_only(self) -> bool:
        """True if of the tools for the lab and for hosts only the lab's own can send it."""
        return self.tools == _LEAN

    @property
    def hosts_only(self) -> bool:
        """True if it runs on the wall clock alone."""
        return self.tools == _FLENT

    @property
    def own_tool(self) -> str:
        """The tool that sends this kind and no other, whatever `traffic.tool` says; empty: there is none."""
        return self.tools[0] if self.tools in (_FLENT, _EXEC) else ""


EXEC: Final = ("exec_sender", "exec_receiver")
"""Factors of a flow group whose values are commands: a program of the user's own with its arguments."""

SENDS: Final[Mapping[str, Send]] = MappingProxyType(
    {
        "bulk": Send(tcp=True, takes=("bytes",)),
        "requests": Send(tcp=True, needs=("period", "size"), tools=_LEAN),
        "paced": Send(tcp=False, needs=("rate", "codepoint"), takes=("size",)),
        "syn-flood": Send(tcp=False, needs=("rate", "codepoint"), tools=_LEAN),
        "connect-flood": Send(tcp=True, needs=("rate", "size"), tools=_LEAN),
        "workload": Send(tcp=True, needs=("workload", "load"), tools=_LEAN),
        "flent": Send(tcp=False, needs=("test",), tools=_FLENT),
        "exec": Send(tcp=False, needs=EXEC[:1], takes=(*EXEC[1:], "codepoint"), tools=_EXEC),
    }
)
"""Values of `<group>.send`."""

OF_SEND: Final = ("bytes", "rate", "codepoint", "period", "size", "workload", "load", "test", *EXEC)
"""Factors of a flow group that only some kinds of traffic have."""

CODEPOINTS: Final = ("not-ect", "ect1", "ect0")
"""Codepoints of the ECN field in the order of their numbers (RFC 3168 section 5), without CE."""

GROUP_FACTORS: Final = _table(
    Parameter(
        "send",
        "str",
        "Kind of traffic: bulk (one TCP connection as fast as it can), requests (a TCP connection for each), "
        "paced (UDP at a rate), syn-flood (SYNs at a rate), connect-flood (short connections), workload "
        "(connections of many sizes), flent (one of its tests, on hosts), exec (programs of your own).",
        default="bulk",
        choices=tuple(SENDS),
    ),
    Parameter(
        "cc",
        "str",
        "Congestion control of the group, by its name in the catalog; required of what TCP sends.",
        required=True,
    ),
    Parameter("count", "int", "Number of flows.", default=1, minimum=1, maximum=1000),
    Parameter(
        "ecn",
        "str",
        "How its flows use ECN: off, classic (RFC 3168), accecn, dctcp (the receiver echoes as DCTCP). "
        "Default: what its congestion control declares.",
        choices=ECN_MODES,
        source="RFC 3168, RFC 9768, RFC 8257",
    ),
    Parameter(
        "start",
        "duration",
        "When it starts, after the trial's start.",
        default=Duration(0),
        maximum=_DAY,
        unit="s",
    ),
    Parameter(
        "every",
        "duration",
        "Time from the start of one flow of the group to the start of the next; all then start equally late.",
        positive=True,
        maximum=_DAY,
        unit="s",
    ),
    Parameter(
        "lifetime",
        "duration",
        "How long each flow lasts; default: warmup and duration.",
        positive=True,
        maximum=_DAY,
        unit="s",
    ),
    Parameter(
        "stop",
        "duration",
        "When all flows of the group end that have not ended before, after the trial's start.",
        positive=True,
        maximum=_DAY,
        unit="s",
    ),
    Parameter(
        "rtt",
        "duration",
        "Round-trip time of the group without queues, at least that of the cell: its senders delay what they "
        "send by the difference.",
        positive=True,
        maximum=_HOUR,
    ),
    Parameter(
        "bytes",
        "size",
        "Payload after whose delivery a flow of send: bulk ends, if it has not ended before.",
        positive=True,
        maximum=Size(10**15),
        unit="MB",
    ),
    Parameter(
        "rate",
        "rate",
        "Rate of each flow, counted as the bottleneck's queue does: Ethernet frames without their checksum.",
        positive=True,
        maximum=Rate(10**12),
    ),
    Parameter(
        "codepoint",
        "str",
        "Codepoint of the ECN field of each packet of what is not TCP's own.",
        choices=CODEPOINTS,
    ),
    Parameter(
        "period",
        "duration",
        "send: requests: time from one request to the next.",
        minimum=Duration(100_000),
        maximum=_HOUR,
    ),
    Parameter(
        "size",
        "size",
        "Payload: of each packet (paced; default: 1472B, a full packet), of each request and of its response "
        "(requests), of each connection (connect-flood).",
        minimum=Size(1),
        maximum=Size(10**12),
    ),
    Parameter("workload", "str", "send: workload: sizes and arrivals of its connections, by name."),
    Parameter(
        "load",
        "percent",
        "send: workload: payload that arrives for each of its flows, of the rate of the bottleneck.",
        positive=True,
        maximum=Percent(10**10),
    ),
    Parameter("test", "str", "send: flent: name of its test, such as ping."),
    Parameter(
        "exec_sender",
        "str",
        "send: exec: command of the sender: the path of a static program, relative to the matrix, and its "
        "arguments, in which {address}, {port}, {seconds} and others stand for what the flow has.",
        source="l4sbench docs exec",
    ),
    Parameter(
        "exec_receiver",
        "str",
        "send: exec: command of the receiver, likewise; it runs from before the flow to the trial's end.",
        source="l4sbench docs exec",
    ),
    Parameter("from", "str", "Node its flows come from; default: its own."),
    Parameter("to", "str", "Node its flows go to; default: its own."),
)
"""Factors of every flow group, by the part of the name after the group's."""

EVENTS: Final = "events"
"""First part of the names of the factors of events, `events.<event>.<key>`."""

EVENT_AT: Final = "at"
"""Key of an event's instant; its other keys are the factors that it changes."""

_CHANGES: Final = ("rate", "rtt", "path.loss", "path.ecn", "path.wifi_mcs")
"""Factors that an event may change."""

EVENT_FACTORS: Final = _table(
    Parameter(
        EVENT_AT,
        "duration",
        "When it takes effect, after the trial's start.",
        required=True,
        maximum=_DAY,
        unit="s",
    ),
    *(
        replace(FACTORS[name], default=None, required=False, meaning=f"From then on: {FACTORS[name].meaning}")
        for name in _CHANGES
    ),
)
"""Factors of every event, by the part of the name after the event's."""

FACTOR_NAMES: Final = frozenset({*FACTORS, *GROUP_FACTORS, *EVENT_FACTORS})
"""All of them; those of groups and events without the name of the group or event."""

RESERVED: Final = frozenset({name.partition(".")[0] for name in FACTORS} | {EVENTS})
"""Words that are not valid names of flow groups, because factors begin with them."""

_SECONDS: Final = frozenset({"duration", "warmup", "start", "stop", "every", "lifetime"})


def factor_of(name: str) -> Parameter | None:
    """Return the factor with this dotted name; None for parameters of the catalog and unknown names.

    Any group name is accepted in `<group>.cc`, `<group>.count` ...: matrices define the groups.
    """
    if (factor := FACTORS.get(name)) is not None:
        return factor
    if (parts := event_parts(name)) is not None:
        return EVENT_FACTORS.get(parts[1])
    group, _, rest = name.partition(".")
    return None if group in RESERVED else GROUP_FACTORS.get(rest)


def event_parts(name: str) -> tuple[str, str] | None:
    """Return the event and the key of `events.<event>.<key>`; None for every other name.

    The key is `at` or the factor that the event changes; it need not be one that events have.
    """
    head, _, rest = name.partition(".")
    event, _, key = rest.partition(".")
    return (event, key) if head == EVENTS and key and GROUP_NAME.fullmatch(event) else None


def column_of(name: str, value: Value) -> tuple[str, Plain]:
    """Return the table column of a factor, with its unit in the name, and the value stored there.

    `rate` = 100mbit gives `("rate_mbps", 100.0)`, `aqm.target` = 5ms gives `("aqm.target_ms", 5.0)`;
    durations and instants at the scale of a trial (`duration`, `<group>.start`, `events.<event>.at`) are in
    seconds.
    """
    parts = event_parts(name)
    match value:
        case Rate():
            return f"{name}_mbps", value.mbps
        case Duration() if name.rpartition(".")[2] in _SECONDS or (parts and parts[1] == EVENT_AT):
            return f"{name}_s", value.s
        case Duration():
            return f"{name}_ms", value.ms
        case Size():
            return f"{name}_bytes", value.bytes
        case Packets():
            return f"{name}_packets", value.count
        case Percent():
            return f"{name}_percent", value.percent
        case _:
            return name, value


def plain(value: Value) -> Plain:
    """Return a value as JSON holds it: quantities as their canonical text, whole floats as integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str | bool | int):
        return value
    return str(value)


def _amount(value: Value) -> int | float:
    match value:
        case Rate():
            return value.bits_per_s
        case Duration():
            return value.ns
        case Size():
            return value.bytes
        case Packets():
            return value.count
        case Percent():
            return value.ppb
        case str():
            raise TypeError("a word has no size")
        case _:
            return value


def as_word(text: str) -> str:
    """Return a text unchanged if no shell, tc or ip reads it as more than one plain word.

    Raises:
        BadValueError: it is not one word.
    """
    if not _WORD.fullmatch(text):
        raise BadValueError(f"{shown(text)} is not one word of letters, digits and {_PUNCTUATION}")
    return text


def shown(raw: object) -> str:
    """Return a YAML value as error messages quote it."""
    match raw:
        case None:
            return "nothing"
        case bool():
            return "true" if raw else "false"
        case str():
            return f'"{quoted(raw)}"'
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case _:
            return quoted(str(raw))


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw in {"true", "false"}:
        return raw == "true"
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(raw).lower())
    raise BadValueError(
        f"expected true or false, not {shown(raw)}", f"did you mean {meant}?" if meant else None
    )


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEYOND: Final = 10**18


def _number(kind: Kind, raw: object) -> Value:
    whole = kind == "int"
    if isinstance(raw, str) and (_INTEGER if whole else _DECIMAL).fullmatch(raw):
        number: int | float = float(raw)  # of any length
        if not -_BEYOND < number < _BEYOND:
            raise BadValueError(f"{shown(raw)} is out of range")
        raw = int(raw) if whole else number
    if isinstance(raw, bool) or not isinstance(raw, int if whole else int | float):
        raise BadValueError(f"expected a {'whole ' if whole else ''}number, not {shown(raw)}")
    if not -_BEYOND < raw < _BEYOND:  # nor are infinity and NaN; a whole number may be too large for a float
        raise BadValueError(f"{shown(raw)} is out of range")
    return raw if whole else float(raw)
