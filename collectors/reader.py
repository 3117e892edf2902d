# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The form of a reader: how the flows of a kind of traffic are read from raw files, and judged."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl

from collectors.collector import BadRawError, Collector, ToolError, raw_text
from collectors.iperf3 import parse_iperf3
from collectors.lean import parse_lean
from l4sbench.disk.plain import is_plain
from l4sbench.facts.faults import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from collectors.result import Result
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.program import FlowRun, Program, Server

HOST_LIMITED: Final = 0.01
"""Share of its busy time, after the warm-up, in which a flow may be limited by its host's buffers."""

OFF_RATE: Final = 0.01
"""Share by which the rate of a paced flow or a flood may differ from the one asked for, and share of the
connections that may lack a port, and of the packets of `send: exec` with another codepoint."""

NEGOTIATED: Final[Mapping[str, str]] = {
    "off": "off",
    "classic": "classic",
    "accecn": "accecn",
    "dctcp": "classic",
}
"""The ECN that each `ecn` of a flow group must negotiate. DCTCP's own echo is negotiated as classic ECN."""


def negotiated(shown: object, wanted: str) -> bool:
    """Return True if the ECN that a kernel shows may be the one wanted; `on` may be any kind."""
    return shown == wanted or (shown == "on" and wanted != "off")


START_RTTS: Final = 50
START_MS: Final = 1000.0
"""The start of a flow: so many base RTTs, at least this time. Slow start and the receiver's autotuning take a
number of RTTs, and in a full queue each is several base RTTs."""


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


class TrialView:
    """A trial as its flows are judged by it.

    Attributes:
        samples: Samples of sockets, read when first needed.
        warmup_ms: How long the warm-up of each flow is.
        start_ms: How long the start of a flow is.
        ecn_rewritten: True if the path changes the ECN field of packets before the bottleneck.
    """

    def __init__(self, read: Callable[[], pl.DataFrame], cell: Cell) -> None:
        self._read = read
        self.warmup_ms = cell.warmup.ms
        rtts = (cell.rtt, *(group.rtt for group in cell.groups))
        self.start_ms = max(START_MS, *(START_RTTS * rtt.ms for rtt in rtts if rtt is not None))
        changed = any("path.ecn" in event.changes for event in cell.events)
        self.ecn_rewritten = changed or cell.factors.get("path.ecn", "pass") != "pass"

    @cached_property
    def samples(self) -> pl.DataFrame:
        """Samples of sockets."""
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


@dataclass(frozen=True)
class Limit:
    """One way in which a host limited a flow.

    Attributes:
        by: What limited it.
        share: For which share of its busy time.
        later: For which share of that after its start.
    """

    by: str
    share: float
    later: float


class Reader:
    """Reader and judge of flows by what their traffic tools report; subclasses are of kinds that differ.

    Attributes:
        send: The kind's name.
        receiver_counts: True if its receiver, not its sender, knows how many packets were delivered.
        collectors: Collectors of tables that only this kind has.
    """

    send: ClassVar[str] = ""
    receiver_counts: ClassVar[bool] = False
    collectors: ClassVar[tuple[Collector, ...]] = ()

    def read(self, programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> FlowResult:
        """Return the results of a flow that `node` sends. Never raises for what is in the files."""
        sender, faults = _read(raw / node / run.output, run.flow, "sender")
        server, receiver = receiver_of(programs, run), None
        if server is not None:
            path = raw / run.receiver / server.output
            reported = sender is not None and sender.far is not None
            if not reported or is_plain(path):
                receiver, more = _read(path, run.flow, "receiver")
                faults += more
        return FlowResult(run, node, sender, receiver, faults)

    def faults(self, flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
        """Yield what is wrong with a flow both of whose results are there, beyond the time that it ran."""
        del group, trial
        run, sender = flow.run, flow.sender
        if sender is None:
            return
        wanted = NEGOTIATED[run.ecn] if run.ecn else None
        if wanted is not None and sender.ecn is not None and not negotiated(sender.ecn, wanted):
            yield Fault.of(FaultKind.ECN, run.flow, side="sender", shown=sender.ecn, wanted=wanted)
        if sender.connections is not None and sender.unopened > OFF_RATE * sender.connections:
            facts = {"unopened": sender.unopened, "connections": sender.connections}
            yield Fault.of(FaultKind.NO_PORT, run.flow, **facts)

    def limits(self, flow: FlowResult, trial: TrialView) -> list[Limit] | None:
        """Return how long a flow's hosts limited it; None if no file has it."""
        del flow, trial
        return []


def receiver_of(programs: Mapping[str, Program], run: FlowRun) -> Server | None:
    """Return the receiver of a flow; None if it has none."""
    servers = programs[run.receiver].servers if run.receiver in programs else ()
    return next((server for server in servers if server.id == run.flow), None)


def _read(path: Path, flow: str, side: str) -> tuple[Result | None, tuple[Fault, ...]]:
    kind = FaultKind.RESULT
    if not is_plain(path):
        problem = "is missing"
    else:
        try:
            return parse_result(raw_text(path, f"({path.name})")), ()
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
    except RecursionError:
        raise BadRawError("is nested too deeply") from None
    except ValueError:
        raise BadRawError("has a whole number of thousands of digits") from None
    keys = plain.keys() if isinstance(plain, dict) else set[str]()
    if "role" in keys:
        parse = parse_lean
    elif "error" in keys or {"start", "intervals", "end"} <= keys:
        parse = parse_iperf3
    else:
        raise BadRawError("is not from a known traffic tool")
    try:
        return parse(plain)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise BadRawError(f"lacks a field of every result: {type(error).__name__} {error}") from error
