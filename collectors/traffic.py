# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of traffic tools -> tables `flows`, `intervals` and `requests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from collectors.collector import SEPARATOR, Rows
from collectors.faults import faults, left_out, may_leave_out
from collectors.flows import read_flows
from collectors.kinds import reader_of
from collectors.result import Interval, Result, goodput_mbps
from collectors.sockets import socket_rows
from l4sbench.facts.faults import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collectors.reader import FlowResult
    from l4sbench.facts.cell import Cell
    from l4sbench.program.trial import EndedTrial

QUANTILES: Final[Mapping[str, float]] = {
    "srtt_p50_ms": 0.5,
    "srtt_p90_ms": 0.9,
    "srtt_p95_ms": 0.95,
    "srtt_p99_ms": 0.99,
}


def parse_flows(trial: EndedTrial) -> Rows | None:
    """Return table `flows`. A flow without results has a row of nulls, so that the gap is visible."""
    flows = read_flows(trial.programs, trial.raw)
    if not flows:
        return None
    samples = socket_rows(trial.programs, trial.raw)
    found = faults(flows, trial.cell, lambda: samples) if may_leave_out(flows) else {}
    without = {name: SEPARATOR.join(texts(found[name])) for name in left_out(found, flows)}
    senders = _senders(samples)
    return [
        _flow_row(trial, flow, senders.get(flow.run.flow, _NO_SAMPLES))
        | {"left_out": without.get(flow.run.flow)}
        for flow in flows
    ]


@dataclass
class _Samples:
    """Samples of one sender's socket: the smoothed RTT by time, and the place of the last among all."""

    srtt_ms: list[tuple[int, float | None]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)


_NO_SAMPLES: Final = _Samples()


def _senders(samples: pl.DataFrame) -> dict[str, _Samples]:
    """Return the samples of senders by flow; in Python, as queries cost more than a trial's few samples."""
    found: dict[str, _Samples] = {}
    last: dict[str, int] = {}
    columns = (samples[name].to_list() for name in ("side", "flow", "t_ms", "srtt_ms"))
    for number, (side, flow, t_ms, srtt_ms) in enumerate(zip(*columns, strict=True)):
        if side == "sender":
            found.setdefault(flow, _Samples()).srtt_ms.append((t_ms, srtt_ms))
            last[flow] = number
    for flow, number in last.items():
        found[flow].last = samples.row(number, named=True)
    return found


def _flow_row(trial: EndedTrial, flow: FlowResult, samples: _Samples) -> dict[str, object]:
    run, sender, received = flow.run, flow.sender, flow.received
    warmup_s = trial.cell.warmup.s
    last = samples.last
    start_ms = run.start.ms
    group = next((group for group in trial.cell.groups if group.name == run.group), None)
    base = (group and group.rtt) or trial.cell.rtt
    row: dict[str, object] = {
        "flow": run.flow,
        "group": run.group,
        "send": run.send,
        "cc": group.cc if group else run.cc or None,
        "sender": flow.sender_node,
        "receiver": run.receiver,
        "start_ms": start_ms,
        "seconds": sender.seconds if sender else None,
        "goodput_whole_mbps": received.whole_mbps if received else None,
        "goodput_mbps": _measured_mbps(received, warmup_s),
        "srtt_minus_base_ms": _srtt_minus_base_ms(sender, warmup_s, base.ms),
        "completed_ms": _completed_ms(flow),
        "offered_mbps": sender.frames_mbps if sender else None,
        "arrived_mbps": received.frames_mbps if received else None,
        "connections": sender.connections if sender else None,
        "sent_bytes": last.get("acked_bytes"),
        "received_bytes": received.bytes if received else None,
        "mss_bytes": last.get("mss_bytes"),
        "ecn": last.get("ecn"),
    }
    for name in ("retransmits_packets", "delivered_packets", "delivered_ce_packets"):
        row[name] = last.get(name)
    for name in ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms"):
        row[name] = last.get(name)
    row |= _reported(sender) if sender else {}
    if not _counts_bytes(sender):
        row["sent_bytes"] = None
    if received is not None and reader_of(run.send).receiver_counts:
        row |= {"delivered_packets": received.delivered, "delivered_ce_packets": received.delivered_ce}
    first_ms, last_ms = start_ms + warmup_s * 1e3, start_ms + run.seconds * 1e3
    measured = (srtt_ms for t_ms, srtt_ms in samples.srtt_ms if first_ms <= t_ms <= last_ms)
    return row | _srtt_quantiles([srtt_ms for srtt_ms in measured if srtt_ms is not None])


def _counts_bytes(sender: Result | None) -> bool:
    """Return False for a sender of many connections, whose tool counts these alone."""
    return sender is None or sender.connections is None


def _reported(sender: Result) -> dict[str, object]:
    """Return the figures that the sender's result has: they are closer to the flow's end than any sample."""
    found: dict[str, object] = {
        "mss_bytes": sender.mss_bytes,
        "ecn": sender.ecn,
        "retransmits_packets": sender.retransmits,
        "delivered_packets": sender.delivered,
        "delivered_ce_packets": sender.delivered_ce,
        "busy_ms": sender.busy_ms,
        "rwnd_limited_ms": sender.rwnd_limited_ms,
        "sndbuf_limited_ms": sender.sndbuf_limited_ms,
        "sent_bytes": sender.bytes if sender.tool == "lean" else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _completed_ms(flow: FlowResult) -> float | None:
    """Return when all data had arrived; by the sender's clock where the receiver reports nothing."""
    for side in (flow.receiver, flow.sender):
        if side is not None and side.completed_s is not None:
            return side.completed_s * 1e3
    return None


def parse_requests(trial: EndedTrial) -> Rows | None:
    """Return table `requests`; None in trials without any."""
    rows: Rows = [
        {
            "flow": flow.run.flow,
            "request": number,
            "group": flow.run.group,
            "t_ms": flow.run.start.ms + request.begun_s * 1e3,
            "handshake_ms": request.handshake_ms,
            "response_ms": request.response_ms,
            "payload_bytes": request.bytes,
            "fair_ms": _fair_ms(trial.cell, flow.run.group, request.bytes),
            "warmup": request.begun_s < trial.cell.warmup.s,
        }
        for flow in read_flows(trial.programs, trial.raw)
        if flow.sender is not None
        for number, request in enumerate(flow.sender.requests, start=1)
    ]
    return rows or None


def _fair_ms(cell: Cell, name: str, payload_bytes: int) -> float | None:
    """Return the time of a connection that has an equal share of the link's rate, and meets no queue."""
    group = next((group for group in cell.groups if group.name == name), None)
    if group is None:
        return None
    mss_bytes = cell.family.mss_bytes
    round_trips = group.sends.round_trips(payload_bytes, mss_bytes)
    if round_trips is None:
        return None
    frames_bytes = payload_bytes + -(-payload_bytes // mss_bytes) * cell.family.segment_headers_bytes
    fair_bits_per_s = cell.rate.bits_per_s / sum(one.count for one in cell.groups)
    return round_trips * (group.rtt or cell.rtt).ms + frames_bytes * 8e3 / fair_bits_per_s


def _measured_mbps(received: Result | None, warmup_s: float) -> float | None:
    """Goodput after the warm-up; without a warm-up, of the whole flow, even where no intervals are known."""
    if received is None:
        return None
    return goodput_mbps(received.after(warmup_s)) if warmup_s > 0 else received.whole_mbps


def _srtt_minus_base_ms(sender: Result | None, warmup_s: float, base_rtt_ms: float) -> float | None:
    samples = [i.srtt_ms for i in sender.after(warmup_s) if i.srtt_ms is not None] if sender else []
    return sum(samples) / len(samples) - base_rtt_ms if samples else None


def _srtt_quantiles(found: list[float]) -> dict[str, object]:
    """Quantiles of the samples; None for a quantile q with fewer than 10/(1-q) samples."""
    samples, count = pl.Series(found, dtype=pl.Float64), len(found)
    row: dict[str, object] = {"srtt_samples": count, "srtt_min_ms": min(found, default=None)}
    for name, q in QUANTILES.items():
        enough = count >= round(10 / (1 - q))
        row[name] = samples.quantile(q, "linear") if enough else None
    return row


class _Both(NamedTuple):
    """An interval of the sender and that of the receiver beside it; one of them may be absent."""

    sent: Interval | None
    received: Interval | None

    @property
    def timed(self) -> Interval:
        """The interval whose times count."""
        interval = self.received or self.sent
        assert interval is not None  # noqa: S101  (one of them is there)
        return interval

    def with_next(self, later: _Both) -> _Both:
        """Return these intervals and those after them as one of each side."""
        return _Both(
            *(one.with_next(two) if one and two else one or two for one, two in zip(self, later, strict=True))
        )


def parse_intervals(trial: EndedTrial) -> Rows | None:
    """Return table `intervals`: interval n of the sender and interval n of the receiver make one row."""
    rows: Rows = [
        _interval_row(flow, both, trial.cell.warmup.s)
        for flow in read_flows(trial.programs, trial.raw)
        for both in _intervals(flow)
    ]
    return rows or None


def _intervals(flow: FlowResult) -> list[_Both]:
    """Return the intervals of both sides; those that end in the same millisecond are one.

    A flow that ends just after a whole second has such a last one.
    """
    found: list[_Both] = []
    for sides in zip_longest(*(side.intervals if side else () for side in (flow.sender, flow.receiver))):
        both = _Both(*sides)
        if found and both.timed.end_ms == found[-1].timed.end_ms:
            both = found.pop().with_next(both)
        found.append(both)
    return found


def _interval_row(flow: FlowResult, both: _Both, warmup_s: float) -> dict[str, object]:
    sent, received, interval = both.sent, both.received, both.timed
    return {
        "flow": flow.run.flow,
        "t_ms": interval.end_ms,
        "group": flow.run.group,
        "seconds": interval.end_s - interval.start_s,
        "goodput_mbps": received.mbps if received else None,
        "sent_mbps": sent.mbps if sent and _counts_bytes(flow.sender) else None,
        "srtt_ms": sent.srtt_ms if sent else None,
        "cwnd_packets": sent.cwnd_packets if sent else None,
        "retransmits_packets": sent.retransmits if sent else None,
        "delivered_packets": sent.delivered if sent else None,
        "delivered_ce_packets": sent.delivered_ce if sent else None,
        "warmup": interval.in_warmup(warmup_s),
    }
