# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flows that did not do what their cell asks for, and which of them their trial can do without.

A fault counts only if it can move the trial's result. One flow of many cannot: its share of its group is
below what trials differ by. So where at most `MOST_LEFT_OUT` of a group's flows have faults, they are named
and left out of the group's figures, and the trial is valid; where more have, the trial is invalid.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.flows import read_flows
from collectors.sockets import socket_rows
from l4sbench.faults import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from collectors.flows import FlowResult
    from l4sbench.cell import Cell, Group
    from l4sbench.program.trial import EndedTrial

MOST_LEFT_OUT: Final = 0.05
"""Share of a group's flows that may have faults: one of 20. It is also the most by which leaving them out can
change the group's goodput, if they would have had none at all."""

HOST_LIMITED: Final = 0.01
"""Share of its busy time, after the warm-up, in which a flow may be limited by its host's buffers."""

START_LIMITED: Final = 0.02
"""A flow may also be limited at its start for this share of its busy time, while the receiver's window grows:
with the whole link for that time its share of the link would be at most two points higher."""

START_RTTS: Final = 50
START_MS: Final = 1000.0
"""The start of a flow: so many base RTTs, at least this time. Slow start and the receiver's autotuning take a
number of RTTs, and in a full queue each is several base RTTs."""

SHORT_BY: Final = 0.01
SHORT_BY_S: Final = 0.1
"""A flow may end early by this share of its time or by this many seconds, as iperf3's clock is coarse."""

OFF_RATE: Final = 0.01
"""Share by which the rate of a paced flow or a flood may differ from the one asked for, and share of the
connections that may lack a port, and of the packets of `send: exec` with another codepoint."""

MOST_FRAME_BYTES: Final = 65_549
"""Length of the longest frame that a paced flow may consist of."""

NEGOTIATED: Final[Mapping[str, str]] = {
    "off": "off",
    "classic": "classic",
    "accecn": "accecn",
    "dctcp": "classic",
}
"""The ECN that each `ecn` of a flow group must negotiate. DCTCP's own echo is negotiated as classic ECN."""


def faults(
    flows: Sequence[FlowResult], cell: Cell, samples: Callable[[], pl.DataFrame]
) -> dict[str, tuple[Fault, ...]]:
    """Return the flows of a trial that have faults, with all of these.

    Args:
        flows: The results of the traffic tools.
        cell: The trial's cell.
        samples: Gives the samples of sockets, when first needed.
    """
    groups = {group.name: group for group in cell.groups}
    if _rewrites_ecn(cell):
        groups = {name: replace(group, codepoint=None) for name, group in groups.items()}
    sockets = _Sockets(samples, cell)
    found = {flow.run.flow: tuple(_of(flow, groups[flow.run.group], sockets)) for flow in flows}
    return {name: own for name, own in found.items() if own}


def _rewrites_ecn(cell: Cell) -> bool:
    """Return whether the path changes the ECN field of packets before the bottleneck."""
    return cell.factors.get("path.ecn", "pass") != "pass" or any(
        "path.ecn" in event.changes for event in cell.events
    )


def left_out(found: Mapping[str, tuple[Fault, ...]], flows: Sequence[FlowResult]) -> frozenset[str]:
    """Return the flows with faults that are so few in their group that the trial can do without them."""
    group_of = {flow.run.flow: flow.run.group for flow in flows}
    faulty, all_flows = Counter(group_of[name] for name in found), Counter(group_of.values())
    few = {group for group, number in faulty.items() if number <= MOST_LEFT_OUT * all_flows[group]}
    return frozenset(name for name in found if group_of[name] in few)


def limited_at_start(trial: EndedTrial) -> bool:
    """Return True if a flow of a valid trial was limited by its host as long as only its start may be."""
    sockets = _Sockets(lambda: socket_rows(trial.programs, trial.raw), trial.cell)
    try:
        flows = (flow for flow in read_flows(trial.programs, trial.raw) if flow.run.send == "bulk")
        shares = [_limited(flow, sockets) or [] for flow in flows]
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
        return False  # the tables that need these raw files report them
    return any(share > HOST_LIMITED for own in shares for _, share, _ in own)


def may_leave_out(flows: Sequence[FlowResult]) -> bool:
    """Return whether some group has so many flows that a trial can do without one."""
    return any(number * MOST_LEFT_OUT >= 1 for number in Counter(flow.run.group for flow in flows).values())


class _Sockets:
    """Samples of sockets, read when first needed, when the warm-up ended, and how long a flow's start is."""

    def __init__(self, read: Callable[[], pl.DataFrame], cell: Cell) -> None:
        self._read = read
        self.warmup_ms = cell.warmup.ms
        rtts = (cell.rtt, *(group.rtt for group in cell.groups))
        self.start_ms = max(START_MS, *(START_RTTS * rtt.ms for rtt in rtts if rtt is not None))

    @cached_property
    def samples(self) -> pl.DataFrame:
        return self._read()

    def _of(self, flow: str, side: str) -> pl.DataFrame:
        return self.samples.filter((pl.col("flow") == flow) & (pl.col("side") == side))

    def last(self, flow: str, side: str, until_ms: float = math.inf) -> dict[str, object]:
        """Return the last sample of a flow's socket up to a time; empty when there is none."""
        own = self._of(flow, side).filter(pl.col("t_ms") <= until_ms)
        return own.row(-1, named=True) if own.height else {}

    def first_ms(self, flow: str) -> float:
        """Return the time of the first sample of a flow's sender; 0 without samples."""
        own = self._of(flow, "sender")
        return float(own["t_ms"][0]) if own.height else 0.0


def _of(flow: FlowResult, group: Group, sockets: _Sockets) -> Iterator[Fault]:
    yield from flow.faults
    if flow.sender is None or flow.received is None:
        return
    yield from _time(flow)
    if flow.run.send != "bulk":
        yield from _of_other_kind(flow, group)
        return
    if flow.sender.cc is not None and flow.sender.cc != flow.run.cc:
        yield Fault.of(FaultKind.CC, flow.run.flow, shown=flow.sender.cc, wanted=flow.run.cc)
    yield from _ecn(flow, sockets)
    yield from _host_limited(flow, sockets)


def _of_other_kind(flow: FlowResult, group: Group) -> Iterator[Fault]:
    """Report what is wrong with traffic that is not one connection at full speed."""
    name, sender = flow.run.flow, flow.sender
    if sender is None:
        return
    if flow.run.ecn and sender.ecn is not None and sender.ecn != NEGOTIATED[flow.run.ecn]:
        wanted = NEGOTIATED[flow.run.ecn]
        yield Fault.of(FaultKind.ECN, name, side="sender", shown=sender.ecn, wanted=wanted)
    if sender.connections is not None and sender.unopened > OFF_RATE * sender.connections:
        facts = {"unopened": sender.unopened, "connections": sender.connections}
        yield Fault.of(FaultKind.NO_PORT, name, **facts)
    if sender.codepoints is not None and group.codepoint is not None:
        packets = sum(sender.codepoints.values())
        others = packets - sender.codepoints[group.codepoint] - sender.codepoints["ce"]
        if others > OFF_RATE * packets:
            most = max(
                (name for name in sender.codepoints if name != "ce"), key=sender.codepoints.__getitem__
            )
            share = others / packets
            yield Fault.of(FaultKind.CODEPOINT, name, share=share, wanted=group.codepoint, shown=most)
    if sender.frames_mbps is not None and group.rate is not None:
        off = abs(sender.frames_mbps / group.rate.mbps - 1)
        # a packet is sent or not: one more or less is no error of the rate
        if off > OFF_RATE and off * group.rate.mbps * 1e6 * sender.seconds > 2 * 8 * MOST_FRAME_BYTES:
            rates = {"mbps": sender.frames_mbps, "wanted_mbps": group.rate.mbps}
            yield Fault.of(FaultKind.RATE, name, **rates)


def _time(flow: FlowResult) -> Iterator[Fault]:
    if flow.sender is not None and flow.sender.completed_s is not None:
        return
    asked = flow.run.seconds
    least = asked - max(SHORT_BY * asked, SHORT_BY_S)
    for side, result in (("sender", flow.sender), ("receiver", flow.received)):
        if result is None:
            continue
        ran = min(result.seconds, result.intervals[-1].end_s) if result.intervals else result.seconds
        if ran < least:
            yield Fault.of(FaultKind.ENDED_EARLY, flow.run.flow, side=side, ran_s=ran, asked_s=asked)
    if flow.received is not None and not (flow.received.bytes or flow.received.delivered):
        yield Fault.of(FaultKind.NO_DATA, flow.run.flow)


def _ecn(flow: FlowResult, sockets: _Sockets) -> Iterator[Fault]:
    wanted = NEGOTIATED[flow.run.ecn]
    for side, result in (("sender", flow.sender), ("receiver", flow.receiver)):
        shown = (result.ecn if result else None) or sockets.last(flow.run.flow, side).get("ecn")
        if shown is None:
            if side == "sender":
                yield Fault.of(FaultKind.ECN_UNKNOWN, flow.run.flow)
        elif shown != wanted and not (shown == "on" and wanted != "off"):
            yield Fault.of(FaultKind.ECN, flow.run.flow, side=side, shown=str(shown), wanted=wanted)


def _host_limited(flow: FlowResult, sockets: _Sockets) -> Iterator[Fault]:
    limited = _limited(flow, sockets)
    if limited is None:
        yield Fault.of(FaultKind.LIMITS_UNKNOWN, flow.run.flow)
        return
    for by, share, later in limited:
        if share > START_LIMITED or (share > HOST_LIMITED and later > HOST_LIMITED):
            yield Fault.of(FaultKind.LIMITED, flow.run.flow, by=by, share=share)


def _limited(flow: FlowResult, sockets: _Sockets) -> list[tuple[str, float, float]] | None:
    """Return what limited a flow's sender, for which share of its busy time, and for which after its start.

    Both are of the measured time, after the warm-up, where samples of the socket have its counters then. None
    if no file has them.
    """
    name, sender = flow.run.flow, flow.sender
    if sender is not None and sender.busy_ms is not None:
        ends = (sender.busy_ms, sender.rwnd_limited_ms or 0.0, sender.sndbuf_limited_ms or 0.0)
    else:
        ends = _counters(sockets.last(name, "sender"))
    if not ends[0]:
        return None
    warm = _counters(sockets.last(name, "sender", sockets.warmup_ms))
    if not sockets.warmup_ms or warm[0] >= ends[0]:
        warm = (0.0, 0.0, 0.0)
    until_ms = max(sockets.warmup_ms, sockets.first_ms(name) + sockets.start_ms)
    started = _counters(sockets.last(name, "sender", until_ms))
    if not sockets.samples.height or started[0] >= ends[0]:
        started = warm

    def share(number: int, since: tuple[float, float, float]) -> float:
        return (ends[number] - since[number]) / (ends[0] - since[0])

    limits = ("its receiver's window", "its send buffer")
    return [(by, share(number, warm), share(number, started)) for number, by in enumerate(limits, start=1)]


def _counters(sample: Mapping[str, object]) -> tuple[float, float, float]:
    busy, rwnd, sndbuf = (
        _number(sample.get(name)) or 0.0 for name in ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms")
    )
    return busy, rwnd, sndbuf


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
