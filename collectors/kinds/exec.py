# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flows of senders and of `send: exec`: results from the packets, and the JSON and qlog that programs leave.

Nothing is known of such a program, so its flow is what its packets to the flow's port are: the sender's
result has those that came to the queue, the receiver's those that left it.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from collectors.collector import BadRawError, Collector, Rows
from collectors.packets import read_packets
from collectors.qlog import read_qlog
from collectors.reader import OFF_RATE, FlowResult, Reader, receiver_of
from collectors.result import Interval, Result, rate_mbps
from l4sbench.disk.plain import open_plain, read_plain
from l4sbench.disk.userfiles import short
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.traffic import CODEPOINTS, FOLDER, Sender
from l4sbench.traffic.exec import EXEC, Exec, json_file, qlog_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from collectors.reader import TrialView
    from l4sbench.facts.groups import Group
    from l4sbench.program import FlowRun, Program
    from l4sbench.program.trial import EndedTrial

EARLY: Final = 0.01
EARLY_S: Final = 0.1
"""Packets may stop this share of the flow's time, or this long, before its end, beside its longest pause."""

FREEZE_MS: Final = 200.0
"""A picture that stays for longer than this is frozen."""

LEAST_RTT: Final = 0.5
"""Part of the path's round-trip time below which no RTT of a qlog can be, however packets were timed."""

_OF_FRAMES: Final = tuple(
    f"frames.{name}"
    for name in ("whole", "bytes", "freezes", "delay_ms.p50", "delay_ms.p95", "delay_ms.most")
)
"""Numbers by which a receiver of media reports its frames (docs/exec.md)."""

_ETHERNET_BYTES: Final = 14
_CE: Final = 3
_MOST_BYTES: Final = 64 << 20
_MOST_NUMBERS: Final = 200_000
_MOST_KEY: Final = 300
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
    faults = tuple(_wrong_json(programs, raw, run, node))
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
    faults += tuple(_contradicted(programs, raw, run, node, own))
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


# ---- JSON
def parse_exec(trial: EndedTrial) -> Rows | None:
    """Return table `exec`: the numbers that programs reported; None in trials without any."""
    rows: Rows = []
    for node, program in trial.programs.items():
        for run in program.flows:
            for side, path in _promised(trial.programs, trial.raw, run, node):
                for key, item, value in _numbers(_read(path)):
                    rows.append(
                        {
                            "flow": run.flow,
                            "side": side,
                            "key": key,
                            "item": item,
                            "group": run.group,
                            "value": value,
                        }
                    )
    return rows or None


def _wrong_json(programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> Iterator[Fault]:
    for side, path in _promised(programs, raw, run, node):
        try:
            _read(path)
        except BadRawError as error:
            yield Fault.of(FaultKind.REPORT, run.flow, side=side, problem=str(error))


def _contradicted(
    programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str, own: pl.DataFrame
) -> Iterator[Fault]:
    """Yield what a receiver of frames reports and its packets, `own`, disprove; nothing else can check it."""
    for side, path in _promised(programs, raw, run, node):
        try:
            found = list(_numbers(_read(path)))
        except BadRawError:
            continue  # reported already
        frames = {key: value for key, _, value in found if key in _OF_FRAMES}
        if side != "receiver" or not frames:
            continue
        listed = next((key for key, item, _ in found if key in _OF_FRAMES and item > 1), None)
        left = own.filter(pl.col("left_ms").is_not_null()).sort("left_ms")
        problem = f"has several values of {listed}" if listed else _disproved(frames, left)
        if problem is not None:
            yield Fault.of(FaultKind.REPORT, run.flow, side=side, problem=f"({path.name}) {problem}")


def _disproved(frames: Mapping[str, float], left: pl.DataFrame) -> str | None:
    """Return what is wrong with the numbers of frames, given the packets that left the bottleneck."""
    if lacking := [name for name in _OF_FRAMES if name not in frames]:
        return f"lacks {lacking[0]}"
    if negative := [name for name, value in frames.items() if value < 0]:
        return f"has a negative {negative[0]}"
    whole, size, freezes, p50, p95, most = (frames[name] for name in _OF_FRAMES)
    if not p50 <= p95 <= most:
        return f"has delays of frames that cannot be: {p50:g}, {p95:g} and {most:g} ms"
    payload = int(left["payload_bytes"].cast(pl.Int64).sum())
    if size > payload or whole > left.height:
        claimed = f"{whole:.0f} frames of {size:.0f} bytes"
        return f"has {claimed}, and {left.height} packets of {payload} bytes left the bottleneck"
    waited_ms = float((left["left_ms"] - left["t_ms"]).median() or 0.0)  # type: ignore[arg-type]
    if most < waited_ms:
        return f"has frames of at most {most:g} ms, and half of the packets queued for {waited_ms:g} ms"
    pauses = left["left_ms"].diff().drop_nulls()
    long = int((pauses > 2 * FREEZE_MS).sum())
    if freezes < long:
        return f"has {freezes:.0f} freezes, and packets paused {long} times for {2 * FREEZE_MS:g} ms"
    return None


def _promised(
    programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str
) -> Iterator[tuple[str, Path]]:
    """Yield the sides of a flow whose commands have {json}, with the files that should be there."""
    if run.kind.own_tool != EXEC:
        return
    server = receiver_of(programs, run)
    receiver = () if server is None else server.argv
    for side, at, argv in (("sender", node, run.argv), ("receiver", run.receiver, receiver)):
        name = json_file(run.flow, side)
        if any(f"{FOLDER}/{name}" in word for word in argv):
            yield side, raw / at / name


def _content(path: Path) -> bytes:
    """Return what a program left. Raises BadRawError, without the path, if it cannot be read."""
    try:
        content = read_plain(path, _MOST_BYTES + 1)
    except FileNotFoundError:
        raise BadRawError(f"({path.name}) is missing") from None
    except OSError as error:
        raise BadRawError(f"({path.name}) cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise BadRawError(f"({path.name}) is larger than {_MOST_BYTES >> 20} MB")
    return content


def _read(path: Path) -> Any:
    """Read what a program left. Raises BadRawError, without the path, if it is not JSON."""
    content = _content(path)
    try:
        return json.loads(content)
    except RecursionError:
        raise BadRawError(f"({path.name}) is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise BadRawError(f"({path.name}) is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        if not content.strip():
            raise BadRawError(f"({path.name}) is empty") from None
        where = f"line {error.lineno}, column {error.colno}"
        raise BadRawError(f"({path.name}) is not JSON at {where}: {error.msg}") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise BadRawError(f"({path.name}) cannot be read: {short(str(error))}") from None


def _numbers(plain: Any) -> Iterator[tuple[str, int, float]]:
    """Yield the numbers of a JSON value: dotted key, number within that key from 1, value."""
    seen: dict[str, int] = {}
    count = 0
    waiting: list[tuple[str, Any]] = [("", plain)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            inside = [(f"{key}.{name}" if key else str(name), item) for name, item in value.items()]
            waiting += reversed(inside)
        elif isinstance(value, list):
            waiting += ((key, item) for item in reversed(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = _finite(value)
            if number is None or len(key) > _MOST_KEY:
                continue
            count += 1
            if count > _MOST_NUMBERS:
                return
            seen[key] = seen.get(key, 0) + 1
            yield key, seen[key], number


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# ---- qlog
def parse_qlog(trial: EndedTrial) -> Rows | None:
    """Return table `qlog`: the state of senders over time by their qlogs; None in trials without any."""
    cell, rows = trial.cell, []
    for node, program in trial.programs.items():
        for run in program.flows:
            name = qlog_file(run.flow)
            if run.kind.own_tool != EXEC or not any(f"{FOLDER}/{name}" in word for word in run.argv):
                continue
            try:
                samples = read_qlog(
                    _content(trial.raw / node / name),
                    start_ms=run.start.ms,
                    lasts_ms=run.seconds * 1e3,
                    interval_ms=round(cell.sample_interval.ms),
                    least_rtt_ms=LEAST_RTT * cell.shortest_rtt.ms,
                )
                rows += [
                    {"flow": run.flow, "t_ms": one.at_ms, "group": run.group, **one.values} for one in samples
                ]
            except BadRawError as error:
                raise BadRawError(f"the qlog of {run.flow} {error}") from error
    return rows or None


ExecReader.collectors = (Collector("exec", "exec", parse_exec), Collector("qlog", "qlog", parse_qlog))
