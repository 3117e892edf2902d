# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Validity: did the apparatus of a trial do what its cell asks for? If not, the trial is invalid.

Low utilisation alone is a result. The programs state what a queue, a link or a flow must show, so this module
has no code for any particular queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.changes import read_taken
from collectors.collector import BadRawError, unreadable
from collectors.exported import mark_counters
from collectors.faults import faults, left_out
from collectors.flows import read_flows
from collectors.hostinfo import (
    parse_offloads,
    parse_qdiscs,
    parse_sysctls,
    read_kernel,
    read_output,
)
from collectors.lateness import read_lateness
from collectors.pcap import find_capture
from collectors.queues import queue_rows
from collectors.sockets import socket_rows
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.facts.traits import LATE_MS, MOST_LATE
from l4sbench.program import DROPS, ReadKind, differences
from l4sbench.program.trial import Judgement
from l4sbench.traffic import Ready

if TYPE_CHECKING:
    from collectors.reader import FlowResult
    from l4sbench.facts.cell import Cell
    from l4sbench.program import Expected, Program
    from l4sbench.program.trial import TrialSpec

EVENT_LATE_MS: Final = 100.0
"""An event may take effect this much after its instant."""

QUEUED_PACKETS: Final = 2
"""A backlog of this many packets is a queue; a single packet is the one being sent."""
QUEUED_BYTES: Final = QUEUED_PACKETS * 1500
"""The same for queues that count no packets, such as a switch's."""


def judge(spec: TrialSpec, raw: Path) -> Judgement:
    """Return `ok`, or `invalid` with every fault, from a trial's raw files."""
    evidence = _Evidence(spec.programs, raw)
    try:
        found = (
            *_hosts(evidence),
            *_flows(evidence, spec.cell),
            *_readbacks(evidence),
            *_events(evidence),
            *_captures(evidence),
            *_late(evidence),
            *_drops_elsewhere(evidence, _queues(spec)),
            *(_no_bottlenecks(evidence, spec) if spec.cell.expect_bottleneck else ()),
        )
    except BadRawError as error:
        found = (error.fault,)
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001
        # raw files come from elsewhere: one that makes a parser fail costs its trial, not the run
        found = (unreadable("the raw files", error).fault,)
    return Judgement(Status.INVALID, tuple(dict.fromkeys(found))) if found else Judgement(Status.OK)


class _Evidence:
    """The raw files of a trial, each read when it is first needed."""

    def __init__(self, programs: Mapping[str, Program], raw: Path) -> None:
        self.programs = programs
        self.raw = raw

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
                if text is None or reading.kind is not ReadKind.QDISCS:
                    continue
                try:
                    found[node, reading.network] = parse_qdiscs(text)
                except BadRawError as error:
                    raise BadRawError(f"{node}: {reading.output} {error}") from error
        return found

    @property
    def wire_drops(self) -> Iterator[tuple[str, str, int]]:
        """Node, network and number of packets that a wire of the lab dropped."""
        for node, program in self.programs.items():
            for reading in program.readback:
                if reading.kind is not ReadKind.SYSCTLS:
                    continue
                text = read_output(self.raw, node, reading.output)
                for name, value in parse_sysctls(text or "").items():
                    *root, network, what = name.split(".")
                    if root == ["net", "wire"] and what == DROPS and value != "0":
                        yield node, network, int(value)


def _hosts(evidence: _Evidence) -> Iterator[Fault]:
    """Report descriptions of hosts that cannot be read: what the trial ran on is not known."""
    for node in evidence.programs:
        try:
            read_kernel(evidence.raw, node)
        except BadRawError as error:
            yield error.fault


def _flows(evidence: _Evidence, cell: Cell) -> Iterator[Fault]:
    """Report faults of flows, but not of the few that a group can do without."""
    found = faults(evidence.flows, cell, lambda: evidence.sockets)
    without = left_out(found, evidence.flows)
    for name, own in found.items():
        if name not in without:
            yield from own


def _readbacks(evidence: _Evidence) -> Iterator[Fault]:
    """Queues, offloads and sysctls that differ from the program."""
    for node, program in evidence.programs.items():
        yield from _expected(evidence, node, program.expected_at_end)
        asked = {link.network: dict(link.offloads) for link in program.links}
        for reading in program.readback:
            text = read_output(evidence.raw, node, reading.output)
            if text is None:
                continue
            if reading.kind is ReadKind.OFFLOADS:
                network = reading.network
                for name, on in parse_offloads(text).items():
                    if asked.get(network, {}).get(name, on) != on:
                        shown = "on" if on else "off"
                        yield Fault.of(FaultKind.OFFLOAD, node, name=name, shown=shown, network=network)
            elif reading.kind is ReadKind.SYSCTLS:
                found = parse_sysctls(text)
                for name, value in program.sysctls_at_end.items():
                    if name in found and found[name] != value:
                        yield Fault.of(FaultKind.SYSCTL, node, name=name, shown=found[name], wanted=value)


def _expected(evidence: _Evidence, node: str, what: Iterable[Expected], **after: str) -> Iterator[Fault]:
    for expected in what:
        text = read_output(evidence.raw, node, expected.output)
        if text is None:
            yield Fault.of(FaultKind.NOT_READ_BACK, node, what=expected.what, **after)
        else:
            for difference in differences(expected, text):
                yield Fault.of(FaultKind.DIFFERS, node, difference=difference, **after)


def _events(evidence: _Evidence) -> Iterator[Fault]:
    """Report events that did not take place, came late, or changed something else."""
    for node, program in evidence.programs.items():
        taken = read_taken(evidence.raw, node) if program.changes else {}
        for change in program.changes:
            about = {"event": change.event, "factor": change.factor}
            t_ms = taken.get((change.event, change.factor))
            if t_ms is None:
                yield Fault.of(FaultKind.NO_EVENT, node, **about)
            elif t_ms - change.at.ms > EVENT_LATE_MS:
                yield Fault.of(FaultKind.LATE_EVENT, node, **about, late_ms=t_ms - change.at.ms)
            text = read_output(evidence.raw, node, change.readback.output)
            shown = parse_sysctls(text or "")
            for name, value in change.sysctls:
                if shown.get(name) != value:
                    facts = {"name": name, "shown": shown.get(name, "not read back"), "wanted": value}
                    yield Fault.of(FaultKind.EVENT_SYSCTL, node, **about, **facts)
            yield from _expected(evidence, node, change.expected, event=change.event)


def _captures(evidence: _Evidence) -> Iterator[Fault]:
    """Report captures of the program that are missing or incomplete."""
    for node, program in evidence.programs.items():
        for server in program.servers:
            if server.ready is not Ready.CAPTURES:
                continue
            path = find_capture(evidence.raw / node, server.output)
            if path is None or not path.stat().st_size:
                yield Fault.of(FaultKind.NO_CAPTURE, node, output=server.output)
            stderr = read_output(evidence.raw, node, f"{server.output}.stderr") or ""
            missed = re.search(r"^([1-9]\d*) packets? dropped by kernel", stderr, re.MULTILINE)
            if missed:
                packets = int(missed[1])
                yield Fault.of(FaultKind.PACKETS_MISSING, node, packets=packets, output=server.output)


def _late(evidence: _Evidence) -> Iterator[Fault]:
    """Nodes whose host had no CPU time for them: delays there are not the queue's."""
    for node in evidence.programs:
        found = read_lateness(evidence.raw, node)
        if found is not None and found.late > MOST_LATE:
            facts = {"late": found.late, "limit_ms": LATE_MS, "most_ms": found.late_ms[-1]}
            stolen = {"stolen": found.stolen} if found.stolen else {}
            yield Fault.of(FaultKind.BUSY, node, **facts, **stolen)


def _queues(spec: TrialSpec) -> frozenset[tuple[str, ...]]:
    """Return the ports whose queues may drop packets; netem counts the losses of a path as drops."""
    topology, cell = spec.topology, spec.cell
    backwards = topology.reverse_ports if cell.reverse_rate is not None else ()
    losing = topology.data_ports if cell.has_losses else ()
    return frozenset(tuple(port) for port in (*topology.bottlenecks, *backwards, *losing))


def _drops_elsewhere(evidence: _Evidence, queues: frozenset[tuple[str, ...]]) -> Iterator[Fault]:
    for port, qdiscs in evidence.qdiscs.items():
        drops = max((_count(qdisc, "drops") for qdisc in qdiscs), default=0)
        if port not in queues and drops:
            yield Fault.of(FaultKind.DROPS, port[0], packets=drops, network=port[1])
    for node, network, drops in evidence.wire_drops:
        yield Fault.of(FaultKind.DROPS, node, packets=drops, network=network)


def _no_bottlenecks(evidence: _Evidence, spec: TrialSpec) -> Iterator[Fault]:
    """Report the bottlenecks of groups whose flows were limited by none of them.

    Flows that pass several need not wait at each: the first one limits what arrives at the next.
    """
    idle = {port: tuple(_no_bottleneck(evidence, *port)) for port in spec.topology.bottlenecks}
    for pair in spec.topology.place(spec.cell.nodes).values():
        passed = spec.topology.passed_by(pair)
        if all(idle[port] for port in passed):
            yield from (fault for port in passed for fault in idle[port])


def _no_bottleneck(evidence: _Evidence, node: str, network: str) -> Iterator[Fault]:
    """Report a queue under test that never queued, marked or dropped: the bottleneck was elsewhere."""
    qdiscs = evidence.qdiscs.get((node, network), [])
    marks = mark_counters(evidence.programs)
    if any(_count(qdisc, name) for qdisc in qdiscs for name in ("drops", *marks)):
        return
    samples = evidence.queues.filter((pl.col("node") == node) & (pl.col("network") == network))
    if not qdiscs and not samples.height:
        yield Fault.of(FaultKind.QUEUE_UNREAD, node, network=network)
    elif not samples.filter(
        (pl.col("backlog_packets") >= QUEUED_PACKETS)
        | (pl.col("backlog_packets").is_null() & (pl.col("backlog_bytes") >= QUEUED_BYTES))
        | (pl.col("drops_packets") > 0)
        | (pl.col("marks_packets") > 0)
    ).height:
        yield Fault.of(FaultKind.IDLE_QUEUE, node, network=network)


def _count(qdisc: Mapping[str, object], name: str) -> int:
    value = qdisc.get(name)
    return value if isinstance(value, int) else 0
