# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the traffic tools. Every flow has its own process and its own port.

`lean` is lab-traffic (docs/guest.md), made for virtual time. `iperf3` is the widely used tool; it takes whole
seconds, and a group of several flows is several processes instead of `-P`, so that both tools have the same
flows with the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem
from l4sbench.factors import CODEPOINTS
from l4sbench.program.data import EXECUTABLE, FOLDER, INPUT
from l4sbench.program.flent import tools_of
from l4sbench.program.timing import NOT_BY_IPERF3, whole_seconds

if TYPE_CHECKING:
    from l4sbench.cell import Group
    from l4sbench.executables import ExecCommand
    from l4sbench.units import Duration

FIRST_PORT = 5001
"""Port of the first flow; the others follow in the order of the matrix."""
INTERVAL_S = 1
"""Length of the intervals in the tools' results, as in the published experiments."""
UDP_HEADERS = 14 + 20 + 8
"""Bytes of the Ethernet, IPv4 and UDP headers; the queue at the bottleneck counts all of them."""
MOST_UDP_BYTES = 1472
"""Payload of a full UDP packet of 1500 bytes."""
SYN_BYTES = 14 + 20 + 20
"""Length of a frame with a SYN without options, as of hping3."""
MSS_BYTES = 1448
"""Payload of a full TCP segment with timestamps."""
PACING_TIMER_US = 100
"""Time between two looks of iperf3 whether a packet is due; its default of 1,000 makes bursts of them."""
_CODES = {name: code for code, name in enumerate(CODEPOINTS)}


@dataclass(frozen=True)
class OwnProgram:
    """One end of a flow of `send: exec`: its command, the program's handle, the network of its node."""

    command: ExecCommand
    handle: str
    network: str


@dataclass(frozen=True)
class OwnPrograms:
    """Both ends of a flow of `send: exec`; None: there is no program at that end."""

    sender: OwnProgram | None
    receiver: OwnProgram | None


@dataclass(frozen=True)
class Flow:
    """Parameters of one flow for a traffic tool.

    `kernel_cc` is empty if TCP does not send it, `index` its number in its group, `own` None unless programs
    of the user's own send it.
    """

    id: str
    address: str
    port: int
    kernel_cc: str
    length: Duration
    group: Group
    index: int = 0
    own: OwnPrograms | None = None


@dataclass(frozen=True)
class FlowCommands:
    """Argument lists of the sender and the receiver of one flow; no receiver: an empty one."""

    sender: tuple[str, ...]
    receiver: tuple[str, ...]


def commands(tool: str, flow: Flow) -> FlowCommands:
    """Return the argument lists of a flow's two ends; the testbed resolves the paths of the tools.

    Raises:
        InputError: no such tool, a fraction of a second for iperf3, or traffic that it cannot send.
    """
    if tool == "lean":
        return _lean(flow)
    if tool == "iperf3":
        return _iperf3(flow)
    if tool == "flent":
        return _flent(flow)
    if tool == "exec":
        return _exec(flow)
    raise InputError(
        [Problem("", "traffic.tool", f"{tool} is not a valid traffic tool; choose from lean, iperf3")]
    )


def _seconds(length: Duration) -> str:
    whole, rest = divmod(length.ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _lean(flow: Flow) -> FlowCommands:
    # No low-water mark: lab-traffic sleeps in one system call anyway, and with a mark the kernel would
    # underestimate the reader's speed and keep the window small.
    common = ("--port", str(flow.port), "--seconds", _seconds(flow.length), "--interval", str(INTERVAL_S))
    group = flow.group
    to, name = ("--to", flow.address, *common), ("--flow", flow.id)
    match group.send:
        case "paced" | "syn-flood":
            what = ("--syn",) if group.send == "syn-flood" else ("--size", str(_packet_bytes(group)))
            rate = (
                "--frames",
                _frames_per_s(group),
                "--codepoint",
                str(_CODES[group.codepoint or "not-ect"]),
            )
            return FlowCommands(
                ("lab-traffic", "pace", *to, *what, *rate, *name), ("lab-traffic", "count", *common, *what)
            )
        case "workload":
            return FlowCommands(
                ("lab-traffic", "request", *to, "--schedule", INPUT, "--cc", flow.kernel_cc, *name),
                ("lab-traffic", "answer", *common),
            )
        case "requests" | "connect-flood":
            size = ("--size", str(group.size.bytes if group.size else 1))
            answers = ("--answer",) if group.send == "requests" else ()
            every = ("--every-ns", str(_connection_every_ns(group)), "--cc", flow.kernel_cc)
            return FlowCommands(
                ("lab-traffic", "request", *to, *size, *every, *answers, *name),
                ("lab-traffic", "answer", *common, *size, *answers),
            )
    ends = ("--bytes", str(group.bytes.bytes)) if group.bytes else ()
    return FlowCommands(
        ("lab-traffic", "send", *to, "--cc", flow.kernel_cc, *ends, *name),
        ("lab-traffic", "receive", *common, *ends),
    )


def _packet_bytes(group: Group) -> int:
    """Payload of a UDP packet."""
    return group.size.bytes if group.size else MOST_UDP_BYTES


def frame_bytes(group: Group) -> int:
    """Return the length of a frame of `send: paced` or `syn-flood`."""
    return SYN_BYTES if group.send == "syn-flood" else _packet_bytes(group) + UDP_HEADERS


def _rate(group: Group) -> int:
    return group.rate.bits_per_s if group.rate else 1


def _frames_per_s(group: Group) -> str:
    """Return the exact rate as a fraction: frames, and the nanoseconds in which they leave."""
    return f"{_rate(group)}/{frame_bytes(group) * 8}"


def _connection_every_ns(group: Group) -> int:
    """Return the time from one connection to the next."""
    if group.send == "requests":
        return group.period.ns if group.period else 1_000_000_000
    return max(1, round(connection_bytes(group) * 8e9 / _rate(group)))


def connection_bytes(group: Group) -> int:
    """Return the length of all frames that the opener of a connection of `connect-flood` sends without loss.

    SYN, ACK, payload in full segments, FIN, and the ACK of the other FIN, with timestamps.
    """
    payload = group.size.bytes if group.size else 1
    return 74 + 66 + payload + 66 * -(-payload // MSS_BYTES) + 66 + 66


def _iperf3(flow: Flow) -> FlowCommands:
    if not whole_seconds(flow.length):
        message = f"iperf3 runs for whole seconds, and {flow.id} must run for {flow.length}"
        raise InputError(
            [Problem("", "duration", message, "use traffic.tool: lean, or round warmup + duration")]
        )
    if flow.group.kind.lean_only or flow.group.bytes is not None:
        raise InputError([Problem("", f"{flow.group.name}.send", NOT_BY_IPERF3, "use traffic.tool: lean")])
    port, seconds = str(flow.port), str(flow.length.ns // 1_000_000_000)
    every = ("-i", str(INTERVAL_S), "-J")
    receiver = ("iperf3", "-s", "-1", "-p", port, *every)
    to = ("iperf3", "-c", flow.address, "-p", port, "-t", seconds)
    if flow.group.send == "paced":
        payload = _packet_bytes(flow.group)
        bits = round(_rate(flow.group) * payload / frame_bytes(flow.group))
        tos = str(_CODES[flow.group.codepoint or "not-ect"])  # the ECN field is its two lowest bits
        paced = ("-u", "-b", str(bits), "-l", str(payload), "-S", tos, "--pacing-timer", str(PACING_TIMER_US))
        return FlowCommands((*to, *paced, *every), receiver)
    return FlowCommands((*to, "-C", flow.kernel_cc, *every), receiver)


def exec_json(flow: str, side: str) -> str:
    """Return the raw file in which a program of the user's own leaves its JSON; `side`: sender, receiver."""
    return f"flow-{flow}.{side}.json"


def _exec(flow: Flow) -> FlowCommands:
    """Return the commands of the user's own programs, with all placeholders filled in."""
    codepoint = flow.group.codepoint
    values = {
        "address": flow.address,
        "port": str(flow.port),
        "seconds": _seconds(flow.length),
        "flow": flow.id,
        "index": str(flow.index),
        **({"codepoint": codepoint, "ecn": str(_CODES[codepoint])} if codepoint else {}),
    }

    def argv(side: str, own: OwnProgram | None) -> tuple[str, ...]:
        if own is None:
            return ()
        json = f"{FOLDER}/{exec_json(flow.id, side)}"
        filled = own.command.filled({**values, "interface": f"@{own.network}", "json": json})
        return (f"{EXECUTABLE}{own.handle}", *filled)

    programs = flow.own or OwnPrograms(None, None)
    return FlowCommands(argv("sender", programs.sender), argv("receiver", programs.receiver))


def _flent(flow: Flow) -> FlowCommands:
    """Return the commands of one test, without the seconds that flent leaves before and after its traffic.

    Its data file has the flow's name as title.
    """
    test, port = flow.group.test or "ping", str(flow.port)
    seconds = str(max(1, flow.length.ns // 1_000_000_000))
    to = ("-4", "-H", flow.address, "--netperf-control-port", port)
    how = ("-l", seconds, "-d", "0", "-t", flow.id, "-D", FOLDER, "-r", "/dev/null")
    return FlowCommands(("flent", test, *to, *how), tools_of(test).server(port))
