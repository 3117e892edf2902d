# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Validity: did the apparatus of a trial do what its cell asks for? If not, the trial is invalid.

Low utilisation alone is a result. The programs state what a queue, a link or a flow must show, so this module
has no code for any particular queue.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.changes import read_taken
from collectors.collector import BadRawError, unreadable
from collectors.exported import mark_counters
from collectors.hostinfo import (
    is_qdisc,
    parse_offloads,
    parse_qdiscs,
    parse_sysctls,
    port_of,
    read_kernel,
    read_output,
)
from collectors.lateness import read_lateness
from collectors.pcap import find_capture
from collectors.queues import queue_rows
from collectors.sockets import socket_rows
from collectors.traffic import FlowResult, read_flows
from l4sbench.events import Status
from l4sbench.program import DROPS, differences
from l4sbench.program.trial import Judgement
from l4sbench.traits import LATE_MS, MOST_LATE

if TYPE_CHECKING:
    from l4sbench.program import Expected, Program
    from l4sbench.program.trial import EndedTrial, TrialSpec

HOST_LIMITED: Final = 0.01
"""Share of its busy time, after the warm-up, in which a flow may be limited by its host's buffers."""

START_MS: Final = 1000.0
START_LIMITED: Final = 0.02
"""A flow may also be limited in its first second for this share of its busy time, while the receiver's window
grows: with the whole link for that time its share of the link would be at most two points higher."""

SHORT_BY: Final = 0.01
SHORT_BY_S: Final = 0.1
"""A flow may end early by this share of its time or by this many seconds, as iperf3's clock is coarse."""

EVENT_LATE_MS: Final = 100.0
"""An event may take effect this much after its instant."""

QUEUED_PACKETS: Final = 2
"""A backlog of this many packets is a queue; a single packet is the one being sent."""

NEGOTIATED: Final[Mapping[str, str]] = {
    "off": "off",
    "classic": "classic",
    "accecn": "accecn",
    "dctcp": "classic",
}
"""The ECN that each `ecn` of a flow group must negotiate. DCTCP's own echo is negotiated as classic ECN."""


def judge(spec: TrialSpec, raw: Path) -> Judgement:
    """Return `ok`, or `invalid` with every reason, from a trial's raw files."""
    evidence = _Evidence(spec.programs, raw, spec.cell.warmup.ms)
    try:
        reasons = (
            *_hosts(evidence),
            *_flows(evidence),
            *_readbacks(evidence),
            *_events(evidence),
            *_captures(evidence),
            *_late(evidence),
            *_drops_elsewhere(evidence, _queues(spec)),
            *(_no_bottleneck(evidence, *spec.topology.bottleneck) if spec.cell.expect_bottleneck else ()),
        )
    except BadRawError as error:
        reasons = (str(error),)
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001
        # raw files come from elsewhere: one that makes a parser fail costs its trial, not the run
        reasons = (str(unreadable("the raw files", error)),)
    return Judgement(Status.INVALID, tuple(dict.fromkeys(reasons))) if reasons else Judgement(Status.OK)


class _Evidence:
    """The raw files of a trial, each read when it is first needed."""

    def __init__(self, programs: Mapping[str, Program], raw: Path, warmup_ms: float) -> None:
        self.programs = programs
        self.raw = raw
        self.warmup_ms = warmup_ms

    @cached_property
    def flows(self) -> tuple[FlowResult, ...]:
        return read_flows(self.programs, self.raw)

    @cached_property
    def sockets(self) -> pl.DataFrame:
        return socket_rows(self.programs, self.raw)

    @cached_property
    def queues(self) -> pl.DataFrame:
        return queue_rows(self.programs, self.raw)

    @cached_property
    def qdiscs(self) -> Mapping[tuple[str, str], list[dict[str, object]]]:
        """Port -> its qdiscs with their counters after the trial."""
        found: dict[tuple[str, str], list[dict[str, object]]] = {}
        for node, program in self.programs.items():
            for reading in program.readback:
                text = read_output(self.raw, node, reading.output)
                if text is None or not is_qdisc(reading):
                    continue
                try:
                    found[node, port_of(reading) or ""] = parse_qdiscs(text)
                except BadRawError as error:
                    raise BadRawError(f"{node}: {reading.output} {error}") from error
        return found

    @property
    def wire_drops(self) -> Iterator[tuple[str, str, int]]:
        """Node, network and number of packets that a wire of the lab dropped."""
        for node, program in self.programs.items():
            for reading in program.readback:
                text = read_output(self.raw, node, reading.output) if reading.argv[0] == "sysctl" else None
                for name, value in parse_sysctls(text or "").items():
                    *root, network, what = name.split(".")
                    if root == ["net", "wire"] and what == DROPS and value != "0":
                        yield node, network, int(value)

    def last_sample(self, flow: str, side: str, until_ms: float = math.inf) -> dict[str, object]:
        """Return the last sample of a flow's socket up to a time; empty when there is none."""
        own = self.sockets.filter((pl.col("flow") == flow) & (pl.col("side") == side))
        own = own.filter(pl.col("t_ms") <= until_ms)
        return own.row(-1, named=True) if own.height else {}

    def first_ms(self, flow: str) -> float:
        """Return the time of the first sample of a flow's sender; 0 without samples."""
        own = self.sockets.filter((pl.col("flow") == flow) & (pl.col("side") == "sender"))
        return float(own["t_ms"][0]) if own.height else 0.0


def _hosts(evidence: _Evidence) -> Iterator[str]:
    """Report descriptions of hosts that cannot be read: what the trial ran on is not known."""
    for node in evidence.programs:
        try:
            read_kernel(evidence.raw, node)
        except BadRawError as error:
            yield str(error)


def _flows(evidence: _Evidence) -> Iterator[str]:
    for flow in evidence.flows:
        yield from flow.problems
        if flow.sender is None or flow.received is None:
            continue
        yield from _time(flow)
        if flow.sender.cc is not None and flow.sender.cc != flow.run.cc:
            yield f"{flow.run.flow}: ran {flow.sender.cc}, not {flow.run.cc}"
        yield from _ecn(evidence, flow)
        yield from _host_limited(evidence, flow)


def _time(flow: FlowResult) -> Iterator[str]:
    asked = flow.run.seconds
    least = asked - max(SHORT_BY * asked, SHORT_BY_S)
    for side, result in (("sender", flow.sender), ("receiver", flow.received)):
        if result is None:
            continue
        ran = min(result.seconds, result.intervals[-1].end_s) if result.intervals else result.seconds
        if ran < least:
            yield f"{flow.run.flow}: the {side} ran {ran:.3g} s of {asked:g} s"
    if flow.received is not None and flow.received.bytes == 0:
        yield f"{flow.run.flow}: no data arrived"


def _ecn(evidence: _Evidence, flow: FlowResult) -> Iterator[str]:
    wanted = NEGOTIATED[flow.run.ecn]
    for side, result in (("sender", flow.sender), ("receiver", flow.receiver)):
        shown = (result.ecn if result else None) or evidence.last_sample(flow.run.flow, side).get("ecn")
        if shown is None:
            if side == "sender":
                yield f"{flow.run.flow}: no file has the negotiated ECN"
        elif shown != wanted and not (shown == "on" and wanted != "off"):
            yield f"{flow.run.flow}: the {side} negotiated ECN {shown}, not {wanted}"


def _host_limited(evidence: _Evidence, flow: FlowResult) -> Iterator[str]:
    limited = _limited(evidence, flow)
    if limited is None:
        yield f"{flow.run.flow}: no file has the time for which it was limited"
        return
    for by, share, later in limited:
        if share > START_LIMITED or (share > HOST_LIMITED and later > HOST_LIMITED):
            yield f"{flow.run.flow}: limited by {by} for {share:.1%} of its busy time"


def limited_at_start(trial: EndedTrial) -> bool:
    """Return True if a flow of a valid trial was limited by its host as long as only its start may be."""
    evidence = _Evidence(trial.programs, trial.raw, trial.cell.warmup.ms)
    try:
        shares = [_limited(evidence, flow) or [] for flow in evidence.flows]
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
        return False  # the tables that need these raw files report them
    return any(share > HOST_LIMITED for own in shares for _, share, _ in own)


def _limited(evidence: _Evidence, flow: FlowResult) -> list[tuple[str, float, float]] | None:
    """Return what limited a flow's sender, for which share of its busy time, and for which after its start.

    Both are of the measured time, after the warm-up, where samples of the socket have its counters then. None
    if no file has them.
    """
    name, sender = flow.run.flow, flow.sender
    if sender is not None and sender.busy_ms is not None:
        ends = (sender.busy_ms, sender.rwnd_limited_ms or 0.0, sender.sndbuf_limited_ms or 0.0)
    else:
        ends = _counters(evidence.last_sample(name, "sender"))
    if not ends[0]:
        return None
    warm = _counters(evidence.last_sample(name, "sender", evidence.warmup_ms))
    if not evidence.warmup_ms or warm[0] >= ends[0]:
        warm = (0.0, 0.0, 0.0)
    start_ms = max(evidence.warmup_ms, evidence.first_ms(name) + START_MS)
    started = _counters(evidence.last_sample(name, "sender", start_ms))
    if not evidence.sockets.height or started[0] >= ends[0]:
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


def _readbacks(evidence: _Evidence) -> Iterator[str]:
    """Queues, offloads and sysctls that differ from the program."""
    for node, program in evidence.programs.items():
        yield from _expected(evidence, node, program.expected_at_end)
        asked = {link.network: dict(link.offloads) for link in program.links}
        for reading in program.readback:
            text = read_output(evidence.raw, node, reading.output)
            if text is None:
                continue
            if reading.argv[0] == "ethtool":
                network = port_of(reading) or ""
                for name, on in parse_offloads(text).items():
                    if asked.get(network, {}).get(name, on) != on:
                        yield f"{node}: {name} is {'on' if on else 'off'} at {network}"
            elif reading.argv[0] == "sysctl":
                shown = parse_sysctls(text)
                for name, value in program.sysctls_at_end.items():
                    if name in shown and shown[name] != value:
                        yield f"{node}: {name} is {shown[name]}, not {value}"


def _expected(evidence: _Evidence, node: str, what: Iterable[Expected]) -> Iterator[str]:
    for expected in what:
        text = read_output(evidence.raw, node, expected.output)
        if text is None:
            yield f"{node}: {expected.what} was not read back"
        else:
            yield from (f"{node}: {difference}" for difference in differences(expected, text))


def _events(evidence: _Evidence) -> Iterator[str]:
    """Report events that did not take place, came late, or changed something else."""
    for node, program in evidence.programs.items():
        taken = read_taken(evidence.raw, node) if program.changes else {}
        for change in program.changes:
            about = f"{node}: {change.event}: {change.factor}"
            t_ms = taken.get((change.event, change.factor))
            if t_ms is None:
                yield f"{about} did not change"
            elif t_ms - change.at.ms > EVENT_LATE_MS:
                yield f"{about} changed {t_ms - change.at.ms:.0f} ms late"
            text = read_output(evidence.raw, node, change.readback.output)
            shown = parse_sysctls(text or "")
            for name, value in change.sysctls:
                if shown.get(name) != value:
                    yield f"{about}: {name} is {shown.get(name, 'not read back')}, not {value}"
            for reason in _expected(evidence, node, change.expected):
                yield f"{reason} (after {change.event})"


def _captures(evidence: _Evidence) -> Iterator[str]:
    """Report captures of the program that are missing or incomplete."""
    for node, program in evidence.programs.items():
        for server in program.servers:
            if server.argv[0] != "tcpdump":
                continue
            path = find_capture(evidence.raw / node, server.output)
            if path is None or not path.stat().st_size:
                yield f"{node}: {server.output} was not captured"
            stderr = read_output(evidence.raw, node, f"{server.output}.stderr") or ""
            missed = re.search(r"^([1-9]\d*) packets? dropped by kernel", stderr, re.MULTILINE)
            if missed:
                yield f"{node}: {missed[1]} packets are missing from {server.output}"


def _late(evidence: _Evidence) -> Iterator[str]:
    """Nodes whose host had no CPU time for them: delays there are not the queue's."""
    for node in evidence.programs:
        found = read_lateness(evidence.raw, node)
        if found is not None and found.late > MOST_LATE:
            stolen = f", {found.stolen:.0%} of its CPU time was stolen" if found.stolen else ""
            yield (
                f"{node}: its host was too busy: {found.late:.0%} of all instants were more than "
                f"{LATE_MS:g} ms late, {found.late_ms[-1]:.0f} ms at most{stolen}"
            )


def _queues(spec: TrialSpec) -> frozenset[tuple[str, ...]]:
    """Return the ports whose queues may drop packets."""
    backwards = spec.topology.reverse_ports if spec.cell.reverse_rate is not None else ()
    return frozenset(tuple(port) for port in (spec.topology.bottleneck, *backwards))


def _drops_elsewhere(evidence: _Evidence, queues: frozenset[tuple[str, ...]]) -> Iterator[str]:
    for port, qdiscs in evidence.qdiscs.items():
        drops = max((_count(qdisc, "drops") for qdisc in qdiscs), default=0)
        if port not in queues and drops:
            yield f"{port[0]}: {drops} packets dropped at {port[1]}, which is not the bottleneck"
    for node, network, drops in evidence.wire_drops:
        yield f"{node}: {drops} packets dropped at {network}, which is not the bottleneck"


def _no_bottleneck(evidence: _Evidence, node: str, network: str) -> Iterator[str]:
    """Report a queue under test that never queued, marked or dropped: the bottleneck was elsewhere."""
    qdiscs = evidence.qdiscs.get((node, network), [])
    marks = mark_counters(evidence.programs)
    if any(_count(qdisc, name) for qdisc in qdiscs for name in ("drops", *marks)):
        return
    samples = evidence.queues.filter((pl.col("node") == node) & (pl.col("network") == network))
    if not qdiscs and not samples.height:
        yield f"{node}: no file has figures of the queue at {network}"
    elif not samples.filter(
        (pl.col("backlog_packets") >= QUEUED_PACKETS)
        | (pl.col("drops_packets") > 0)
        | (pl.col("marks_packets") > 0)
    ).height:
        yield f"{node}: the queue at {network} never queued, marked or dropped"


def _count(qdisc: Mapping[str, object], name: str) -> int:
    value = qdisc.get(name)
    return value if isinstance(value, int) else 0
