# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The files that programs of the user leave: numbers as JSON, and qlogs. Packets check those on frames."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from collectors.collector import BadRawError, Rows
from collectors.qlog import read_qlog
from collectors.reader import receiver_of
from l4sbench.disk.plain import read_plain
from l4sbench.disk.userfiles import short
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.traffic import FOLDER
from l4sbench.traffic.exec import EXEC, json_file, qlog_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from l4sbench.program import FlowRun, Program
    from l4sbench.program.trial import EndedTrial

FREEZE_MS: Final = 200.0
"""A picture that stays for longer than this is frozen."""

LEAST_RTT: Final = 0.5
"""Part of the path's round-trip time below which no RTT of a qlog can be, however packets were timed."""

_OF_FRAMES: Final = tuple(
    f"frames.{name}"
    for name in ("whole", "bytes", "freezes", "delay_ms.p50", "delay_ms.p95", "delay_ms.most")
)
"""Numbers by which a receiver of media reports its frames (docs/exec.md)."""

_MOST_BYTES: Final = 64 << 20
_MOST_NUMBERS: Final = 200_000
_MOST_KEY: Final = 300


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


def wrong_json(programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> Iterator[Fault]:
    """Yield the files that a flow's commands promise and that cannot be read."""
    for side, path in _promised(programs, raw, run, node):
        try:
            _read(path)
        except BadRawError as error:
            yield Fault.of(FaultKind.REPORT, run.flow, side=side, problem=str(error))


def contradicted(
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
