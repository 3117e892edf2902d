# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of the traffic tools of a trial, flow by flow."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from collectors.collector import BadRawError, ToolError
from collectors.execs import results_of
from collectors.flentfile import read_test
from collectors.iperf3 import parse_iperf3
from collectors.lean import parse_lean
from l4sbench.faults import Fault, FaultKind
from l4sbench.plain import is_plain, plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from collectors.result import Result
    from l4sbench.program import FlowRun, Program


@dataclass(frozen=True)
class FlowResult:
    """One flow of a trial with the results of both its sides.

    A side whose file is missing or unreadable is None; `faults` has the reasons.
    """

    run: FlowRun
    sender_node: str
    sender: Result | None
    receiver: Result | None
    faults: tuple[Fault, ...]

    @property
    def received(self) -> Result | None:
        """The receiver's result: its own file, or else what the sender got from it."""
        return self.receiver or (self.sender.far if self.sender else None)


def read_flows(programs: Mapping[str, Program], raw: Path) -> tuple[FlowResult, ...]:
    """Read the results of all flows of a trial, sorted by name. Never raises for what is in the files."""
    found = []
    for node, program in programs.items():
        for run in program.flows:
            if run.send == "flent":
                found.append(_of_flent(run, node, raw))
                continue
            if run.send == "exec":
                found.append(_of_exec(programs, run, node, raw))
                continue
            sender, faults = _read(raw / node / run.output, run.flow, "sender")
            output = _receiver_output(programs, run)
            receiver = None
            if output is not None:
                path = raw / run.receiver / output
                reported = sender is not None and sender.far is not None
                if not reported or is_plain(path):
                    receiver, more = _read(path, run.flow, "receiver")
                    faults += more
            found.append(FlowResult(run, node, sender, receiver, faults))
    return tuple(sorted(found, key=lambda flow: flow.run.flow))


def _of_flent(run: FlowRun, node: str, raw: Path) -> FlowResult:
    """Return how long a test of flent ran; it has no receiver whose figures count."""
    try:
        return FlowResult(run, node, read_test(raw / node, run.flow).result, None, ())
    except BadRawError as error:
        return FlowResult(run, node, None, None, (replace(error.fault, at=run.flow),))


def _of_exec(programs: Mapping[str, Program], run: FlowRun, node: str, raw: Path) -> FlowResult:
    """Return what the packets of a program of the user's own amount to."""
    try:
        sender, receiver, found = results_of(programs, raw, run, node)
    except BadRawError as error:
        return FlowResult(run, node, None, None, (replace(error.fault, at=run.flow),))
    return FlowResult(run, node, sender, receiver, found)


def _receiver_output(programs: Mapping[str, Program], run: FlowRun) -> str | None:
    servers = programs[run.receiver].servers if run.receiver in programs else ()
    return next((server.output for server in servers if server.id == run.flow), None)


def _read(path: Path, flow: str, side: str) -> tuple[Result | None, tuple[Fault, ...]]:
    kind = FaultKind.RESULT
    if not is_plain(path):
        problem = "is missing"
    else:
        try:
            return parse_result(plain_text(path)), ()
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
        except BadRawError as error:
            problem = str(error)
            kind = FaultKind.TOOL if isinstance(error, ToolError) else kind
    return None, (Fault.of(kind, flow, side=side, problem=problem),)


@lru_cache(maxsize=16)  # several tables are made from one result
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
