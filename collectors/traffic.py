# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of traffic tools -> tables `flows` and `intervals`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError
from collectors.iperf3 import parse_iperf3
from collectors.lean import parse_lean
from collectors.result import Interval, Result, goodput_mbps
from collectors.sockets import socket_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from l4sbench.program import FlowRun, Program
    from l4sbench.program.trial import EndedTrial

QUANTILES: Final[Mapping[str, float]] = {
    "srtt_p50_ms": 0.5,
    "srtt_p90_ms": 0.9,
    "srtt_p95_ms": 0.95,
    "srtt_p99_ms": 0.99,
}


@dataclass(frozen=True)
class FlowResult:
    """One flow of a trial with the results of both its sides.

    A side whose file is missing or unreadable is None; `problems` has the reasons.
    """

    run: FlowRun
    sender_node: str
    sender: Result | None
    receiver: Result | None
    problems: tuple[str, ...]

    @property
    def received(self) -> Result | None:
        """The receiver's result: its own file, or else what the sender got from it."""
        return self.receiver or (self.sender.far if self.sender else None)


def read_flows(programs: Mapping[str, Program], raw: Path) -> tuple[FlowResult, ...]:
    """Read the results of all flows of a trial, sorted by name. Never raises for what is in the files."""
    found = []
    for node, program in programs.items():
        for run in program.flows:
            problems: list[str] = []
            sender = _read(raw / node / run.output, f"{run.flow}: the sender's result", problems)
            output = _receiver_output(programs, run)
            receiver = None
            if output is not None:
                path = raw / run.receiver / output
                reported = sender is not None and sender.far is not None
                if not reported or path.is_file():
                    receiver = _read(path, f"{run.flow}: the receiver's result", problems)
            found.append(FlowResult(run, node, sender, receiver, tuple(problems)))
    return tuple(sorted(found, key=lambda flow: flow.run.flow))


def _receiver_output(programs: Mapping[str, Program], run: FlowRun) -> str | None:
    servers = programs[run.receiver].servers if run.receiver in programs else ()
    return next((server.output for server in servers if server.id == run.flow), None)


def _read(path: Path, what: str, problems: list[str]) -> Result | None:
    if not path.is_file():
        problems.append(f"{what} is missing")
        return None
    try:
        return parse_result(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        problems.append(f"{what} cannot be read: {error.strerror}")
    except BadRawError as error:
        problems.append(f"{what} {error}")
    return None


def parse_result(text: str) -> Result:
    """Parse a traffic tool's JSON; its keys show which tool wrote it.

    Raises:
        BadRawError: not JSON, cut short, from an unknown tool, or the tool's own error message.
    """
    if not text.strip():
        raise BadRawError("is empty")
    try:
        plain = json.loads(text)
    except json.JSONDecodeError as error:
        where = "is cut short" if error.pos >= len(text.rstrip()) - 1 else f"is not JSON at byte {error.pos}"
        raise BadRawError(where) from error
    keys = plain.keys() if isinstance(plain, dict) else set[str]()
    if "role" in keys:
        parse = parse_lean
    elif "error" in keys or {"start", "intervals", "end"} <= keys:
        parse = parse_iperf3
    else:
        raise BadRawError("is not from a known traffic tool")
    try:
        return parse(plain)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadRawError(f"lacks a field of every result: {type(error).__name__} {error}") from error


def parse_flows(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `flows`. A flow without results has a row of nulls, so that the gap is visible."""
    flows = read_flows(trial.programs, trial.raw)
    if not flows:
        return None
    samples = socket_rows(trial.programs, trial.raw)
    return pl.DataFrame([_flow_row(trial, flow, samples) for flow in flows], infer_schema_length=None)


def _flow_row(trial: EndedTrial, flow: FlowResult, samples: pl.DataFrame) -> dict[str, object]:
    run, sender, received = flow.run, flow.sender, flow.received
    warmup_s = trial.cell.warmup.s
    own = samples.filter((pl.col("flow") == run.flow) & (pl.col("side") == "sender"))
    last = own.row(-1, named=True) if own.height else {}
    start_ms = run.start.ms
    row: dict[str, object] = {
        "flow": run.flow,
        "group": run.group,
        "cc": next((group.cc for group in trial.cell.groups if group.name == run.group), run.cc),
        "sender": flow.sender_node,
        "receiver": run.receiver,
        "start_ms": start_ms,
        "seconds": sender.seconds if sender else None,
        "goodput_whole_mbps": received.whole_mbps if received else None,
        "goodput_mbps": _measured_mbps(received, warmup_s),
        "srtt_minus_base_ms": _srtt_minus_base_ms(sender, warmup_s, trial.cell.rtt.ms),
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
    measured = pl.col("t_ms").is_between(start_ms + warmup_s * 1e3, start_ms + run.seconds * 1e3)
    return row | _srtt_quantiles(own.filter(measured)["srtt_ms"])


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


def _measured_mbps(received: Result | None, warmup_s: float) -> float | None:
    """Goodput after the warm-up; without a warm-up, of the whole flow, even where no intervals are known."""
    if received is None:
        return None
    return goodput_mbps(received.after(warmup_s)) if warmup_s > 0 else received.whole_mbps


def _srtt_minus_base_ms(sender: Result | None, warmup_s: float, base_rtt_ms: float) -> float | None:
    samples = [i.srtt_ms for i in sender.after(warmup_s) if i.srtt_ms is not None] if sender else []
    return sum(samples) / len(samples) - base_rtt_ms if samples else None


def _srtt_quantiles(samples: pl.Series) -> dict[str, object]:
    """Quantiles of the samples; None for a quantile q with fewer than 10/(1-q) samples."""
    samples = samples.drop_nulls()
    count = samples.len()
    row: dict[str, object] = {"srtt_samples": count, "srtt_min_ms": samples.min()}
    for name, q in QUANTILES.items():
        enough = count >= round(10 / (1 - q))
        row[name] = samples.quantile(q, "linear") if enough else None
    return row


def parse_intervals(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `intervals`: interval n of the sender and interval n of the receiver make one row."""
    flows = read_flows(trial.programs, trial.raw)
    rows: list[dict[str, object]] = []
    for flow in flows:
        sent = flow.sender.intervals if flow.sender else ()
        received = flow.receiver.intervals if flow.receiver else ()
        for number in range(max(len(sent), len(received))):
            there = received[number] if number < len(received) else None
            here = sent[number] if number < len(sent) else None
            rows.append(_interval_row(flow, here, there, trial.cell.warmup.s))
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None


def _interval_row(
    flow: FlowResult, sent: Interval | None, received: Interval | None, warmup_s: float
) -> dict[str, object]:
    interval = received or sent
    assert interval is not None  # noqa: S101  (the caller passes at least one)
    return {
        "flow": flow.run.flow,
        "t_ms": round(interval.end_s * 1e3),
        "group": flow.run.group,
        "seconds": interval.end_s - interval.start_s,
        "goodput_mbps": received.mbps if received else None,
        "sent_mbps": sent.mbps if sent else None,
        "srtt_ms": sent.srtt_ms if sent else None,
        "cwnd_packets": sent.cwnd_packets if sent else None,
        "retransmits_packets": sent.retransmits if sent else None,
        "delivered_packets": sent.delivered if sent else None,
        "delivered_ce_packets": sent.delivered_ce if sent else None,
        "warmup": (interval.start_s + interval.end_s) / 2 < warmup_s,
    }
