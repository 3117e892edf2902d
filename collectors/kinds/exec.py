# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flows of senders and of `send: exec`: results from the packets.

Nothing is known of such a program, so its flow is what its packets to the flow's port are: the sender's
result has those that came to the queue, the receiver's those that left it.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError, Collector
from collectors.packets import read_packets
from collectors.programfiles import contradicted, parse_exec, parse_qlog, wrong_json
from collectors.reader import OFF_RATE, FlowResult, Reader
from collectors.result import Interval, Result, rate_mbps
from l4sbench.disk.plain import open_plain
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.traffic import CODEPOINTS, Sender
from l4sbench.traffic.exec import Exec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from collectors.reader import TrialView
    from l4sbench.facts.groups import Group
    from l4sbench.program import FlowRun, Program

EARLY: Final = 0.01
EARLY_S: Final = 0.1
"""Packets may stop this share of the flow's time, or this long, before its end, beside its longest pause."""

_ETHERNET_BYTES: Final = 14
_CE: Final = 3
_SAID: Final = 300


class ExecReader(Reader):
    """Reads flows of the user's own programs, and judges their codepoints."""

    send = Exec.name
    receiver_counts = True

    def read(self, programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> FlowResult:
        """Return what the packets of a program of the user's own amount to."""
        try:
            sender, receiver, found = _results(programs, raw, run, node)
        except BadRawError as error:
            return FlowResult(run, node, None, None, (replace(error.fault, at=run.flow),))
        return FlowResult(run, node, sender, receiver, found)

    def faults(self, flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
        """Yield another codepoint than asked for, unless the path rewrites it."""
        counts = flow.sender.codepoints if flow.sender is not None else None
        wanted = group.sends.codepoint if isinstance(group.sends, Exec | Sender) else None
        if counts is None or wanted is None or trial.ecn_rewritten:
            return
        packets = sum(counts.values())
        others = packets - counts[wanted] - counts["ce"]
        if others > OFF_RATE * packets:
            most = max((name for name in counts if name != "ce"), key=counts.__getitem__)
            yield Fault.of(
                FaultKind.CODEPOINT, flow.run.flow, share=others / packets, wanted=wanted, shown=most
            )


def _results(
    programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str
) -> tuple[Result | None, Result | None, tuple[Fault, ...]]:
    """Return the results of a flow's sender and receiver by its packets, and the flow's faults.

    Raises:
        BadRawError: the captures cannot be read.
    """
    faults = tuple(wrong_json(programs, raw, run, node))
    capture = read_packets(programs, raw)
    if capture is None:
        return None, None, (*faults, Fault.of(FaultKind.NOT_CAPTURED, run.flow))
    own = capture.data.filter(pl.col("flow") == run.flow)
    ends_ms = run.start.ms + run.seconds * 1e3
    arrived = own.filter(pl.col("t_ms").is_between(run.start.ms, ends_ms))
    if not arrived.height:
        said = _said(raw, node, run.output)
        return None, None, (*faults, Fault.of(FaultKind.NO_PACKET, run.flow, port=run.port, **said))
    left = own.filter(pl.col("left_ms").is_between(run.start.ms, ends_ms)).sort("left_ms")
    times = arrived["t_ms"]
    faults += tuple(contradicted(programs, raw, run, node, own))
    lasted_s = (float(times[-1]) - run.start.ms) / 1e3
    pause_s = float(times.diff().max() or 0.0) / 1e3  # type: ignore[arg-type]
    if lasted_s + pause_s < run.seconds - max(EARLY * run.seconds, EARLY_S):
        times_s = {"lasted_s": lasted_s, "asked_s": run.seconds}
        said = _said(raw, node, run.output)
        faults += (Fault.of(FaultKind.SILENT_EARLY, run.flow, **times_s, **said),)
    sender = _side(arrived, "t_ms", "ecn", run)
    return sender, _side(left, "left_ms", "ecn_out", run), faults


def _side(packets: pl.DataFrame, time: str, codepoint: str, run: FlowRun) -> Result:
    """Return what packets on one side of the queue amount to."""
    payload = packets["payload_bytes"].cast(pl.Int64)
    frames_bytes = int(packets["ip_bytes"].cast(pl.Int64).sum()) + _ETHERNET_BYTES * packets.height
    counts = dict(packets.group_by(codepoint).len().iter_rows())
    return Result(
        "exec",
        run.seconds,
        int(payload.sum()),
        tuple(_intervals(packets[time].to_list(), payload.to_list(), run)),
        delivered=packets.height,
        delivered_ce=int(counts.get(_CE, 0)),
        frames_mbps=rate_mbps(frames_bytes, run.seconds),
        codepoints={name: int(counts.get(code, 0)) for code, name in enumerate(CODEPOINTS)},
    )


def _intervals(times_ms: Sequence[float], payload: Sequence[int], run: FlowRun) -> Iterator[Interval]:
    """Yield the payload of each second from the flow's start to its planned end."""
    whole = max(1, math.ceil(run.seconds - 1e-9))
    sums = [0] * whole
    for t_ms, size in zip(times_ms, payload, strict=True):
        sums[min(whole - 1, max(0, int((t_ms - run.start.ms) / 1e3)))] += size
    for second, amount in enumerate(sums):
        yield Interval(float(second), min(second + 1.0, run.seconds), amount)


def _said(raw: Path, node: str, output: str) -> dict[str, str]:
    """Return the last words of a program's stderr as a fact; empty if there are none."""
    try:
        with open_plain(raw / node / f"{output}.stderr") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _SAID))
            text = file.read().decode(errors="replace")
    except OSError:
        return {}
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return {"stderr": words} if words else {}


ExecReader.collectors = (Collector("exec", "exec", parse_exec), Collector("qlog", "qlog", parse_qlog))
