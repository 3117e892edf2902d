# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Faults for which trials do not count: kinds, their texts, and advice on each.

`FaultKind` is the one table of them; docs/troubleshooting.md has a section for each piece of advice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

PAGE_NAME: Final = "troubleshooting"
PAGE: Final = f"docs/{PAGE_NAME}.md"

Fact: TypeAlias = str | int | float


class Remedy(Enum):
    """Advice on faults; `section` is its heading in `PAGE`, as in links."""

    LIMITED = (
        "limited-by-its-host",
        "keep the start out of the measured time with a warmup of 50 RTTs (2 s at least), or measure longer",
    )
    ECN = (
        "another-ecn-than-asked",
        "the path clears ECN, or a host's net.ipv4.tcp_ecn was changed; if few trials have it, try --sure",
    )
    BUSY = (
        "host-too-busy",
        "run fewer trials at once with --jobs 1, and nothing else on these machines",
    )
    DROPS = (
        "drops-elsewhere",
        "something else was slower than the bottleneck: lower the rate",
    )
    IDLE = (
        "no-queue-at-the-bottleneck",
        "measure longer, add flows, or allow it with expect.bottleneck: false",
    )
    CAPTURE = (
        "incomplete-captures",
        "lower the rate, or leave out capture",
    )
    EVENT = (
        "an-event-that-came-late",
        "a change of the path came late: use --jobs 1, and run nothing else on these machines",
    )
    RATE = (
        "another-rate-than-asked",
        "the sender could not send what the cell asks for: lower the group's rate, or give it larger packets",
    )
    SET_UP = (
        "not-set-up-as-asked",
        "the node was not set up as the cell asks: see its commands in the trial's folder",
    )
    ENDED = (
        "a-flow-that-ended-early",
        "a flow ended early or never began: see its node's files in the trial's folder, then --retry invalid",
    )
    RAW = (
        "raw-files-missing-or-damaged",
        "raw files are missing or damaged: repeat the trials with --retry invalid",
    )
    OTHER = (
        "other-reasons",
        "see the trial's folder, then repeat it with --retry invalid",
    )
    FAILED = (
        "a-trial-that-failed",
        "these broke: see the trial's folder, remove the cause, then run again; --retry failed after 3 tries",
    )

    def __init__(self, section: str, hint: str) -> None:
        self.section = section
        self.hint = hint

    @property
    def place(self) -> str:
        """The section of the documents that says more."""
        return f"{PAGE}#{self.section}"

    @property
    def text(self) -> str:
        """The hint with the command that says more."""
        return f"{self.hint} (l4sbench docs {PAGE_NAME} {self.section})"


class FaultKind(Enum):
    """A kind of fault: its code in files, its text, and the advice on it.

    `text` is a template for the facts. `more` is appended where the fact that it begins with is known.
    """

    # of a flow
    LIMITED = ("limited", "limited by {by} for {share:.1%} of its busy time", Remedy.LIMITED)
    LIMITS_UNKNOWN = ("limits-unknown", "no file has the time for which it was limited", Remedy.RAW)
    ECN = ("ecn", "the {side} negotiated ECN {shown}, not {wanted}", Remedy.ECN)
    ECN_UNKNOWN = ("ecn-unknown", "no file has the negotiated ECN", Remedy.RAW)
    CC = ("cc", "ran {shown}, not {wanted}", Remedy.SET_UP)
    CODEPOINT = (
        "codepoint",
        "{share:.0%} of its packets are not {wanted}; most are {shown}",
        Remedy.SET_UP,
    )
    RATE = ("rate", "sent {mbps:.4g} Mbit/s, not {wanted_mbps:.4g}", Remedy.RATE)
    NO_PORT = ("no-port", "{unopened} of {connections} connections found no free port", Remedy.RATE)
    ENDED_EARLY = ("ended-early", "the {side} ran {ran_s:.3g} s of {asked_s:g} s", Remedy.ENDED)
    SILENT_EARLY = (
        "silent-early",
        "its last packet came to the bottleneck after {lasted_s:.3g} s of {asked_s:g} s",
        Remedy.ENDED,
        ("stderr", "; its sender's stderr: {stderr}"),
    )
    NO_DATA = ("no-data", "no data arrived", Remedy.ENDED)
    NO_PACKET = (
        "no-packet",
        "no packet of it with payload came to the bottleneck (UDP or TCP to port {port})",
        Remedy.ENDED,
        ("stderr", "; its sender's stderr: {stderr}"),
    )
    NOT_CAPTURED = ("not-captured", "its packets were not captured", Remedy.CAPTURE)
    TOOL = ("tool", "the {side}'s result {problem}", Remedy.ENDED)
    RESULT = ("result", "the {side}'s result {problem}", Remedy.RAW)
    REPORT = ("report", "the {side}'s JSON {problem}", Remedy.RAW)
    # of a node
    OFFLOAD = ("offload", "{name} is {shown} at {network}", Remedy.SET_UP)
    SYSCTL = ("sysctl", "{name} is {shown}, not {wanted}", Remedy.SET_UP)
    DIFFERS = ("differs", "{difference}", Remedy.SET_UP, ("event", " (after {event})"))
    NOT_READ_BACK = (
        "not-read-back",
        "{what} was not read back",
        Remedy.SET_UP,
        ("event", " (after {event})"),
    )
    EVENT_SYSCTL = ("event-sysctl", "{event}: {factor}: {name} is {shown}, not {wanted}", Remedy.SET_UP)
    NO_EVENT = ("no-event", "{event}: {factor} did not change", Remedy.EVENT)
    LATE_EVENT = ("late-event", "{event}: {factor} changed {late_ms:.0f} ms late", Remedy.EVENT)
    NO_CAPTURE = ("no-capture", "{output} was not captured", Remedy.CAPTURE)
    PACKETS_MISSING = ("packets-missing", "{packets} packets are missing from {output}", Remedy.CAPTURE)
    BUSY = (
        "busy",
        (
            "its host was too busy: {late:.0%} of all instants were more than {limit_ms:g} ms late, "
            "{most_ms:.0f} ms at most"
        ),
        Remedy.BUSY,
        ("stolen", ", {stolen:.0%} of its CPU time was stolen"),
    )
    DROPS = ("drops", "{packets} packets dropped at {network}, which is not the bottleneck", Remedy.DROPS)
    QUEUE_UNREAD = ("queue-unread", "no file has figures of the queue at {network}", Remedy.RAW)
    IDLE_QUEUE = ("idle-queue", "the queue at {network} never queued, marked or dropped", Remedy.IDLE)
    # of either, or of the trial
    RAW = ("raw", "{problem}", Remedy.RAW)
    FAILED = ("failed", "{problem}", Remedy.FAILED)
    OTHER = ("other", "{problem}", Remedy.OTHER)
    """A fault that another version of l4sbench found, of which only the text is known."""

    def __init__(self, code: str, text: str, remedy: Remedy, more: tuple[str, str] | None = None) -> None:
        self.code = code
        self.text = text
        self.remedy = remedy
        self.more = more


_BY_CODE: Final = {kind.code: kind for kind in FaultKind}


@dataclass(frozen=True)
class Fault:
    """One reason why a trial does not count.

    Attributes:
        kind: its kind.
        at: the flow or the node that has it; empty for the trial as a whole.
        facts: name and value of each fact that the kind's text states.
    """

    kind: FaultKind
    at: str
    facts: tuple[tuple[str, Fact], ...] = ()

    @classmethod
    def of(cls, kind: FaultKind, at: str = "", /, **facts: Fact) -> Fault:
        """Return a fault with these facts."""
        return cls(kind, at, tuple(facts.items()))

    @property
    def text(self) -> str:
        """The fault in words, in one line.

        Raises:
            LookupError, ValueError: a fact is missing, or is no number; only in a damaged file.
        """
        facts = dict(self.facts)
        text = self.kind.text.format_map(facts)
        if self.kind.more is not None and self.kind.more[0] in facts:
            text += self.kind.more[1].format_map(facts)
        return f"{self.at}: {text}" if self.at else text

    def to_json(self) -> dict[str, object]:
        """Return the fault as it is stored; a number that JSON does not have is a text."""
        facts = {
            name: str(fact) if isinstance(fact, float) and not math.isfinite(fact) else fact
            for name, fact in self.facts
        }
        return {"kind": self.kind.code, "at": self.at, "facts": facts}


def texts(faults: Iterable[Fault]) -> tuple[str, ...]:
    """Return faults in words."""
    return tuple(fault.text for fault in faults)


def stored_fault(reason: str, code: str = "", at: str = "", facts: Mapping[str, Fact] | None = None) -> Fault:
    """Return a fault of a file: its text, and its parts as far as the version that wrote it states them."""
    kind = _BY_CODE.get(code)
    if kind is not None:
        found = Fault.of(kind, at, **(facts or {}))
        try:
            if found.text:
                return found
        except (LookupError, ValueError, AttributeError):
            pass  # a version with other facts wrote it
    return Fault.of(FaultKind.OTHER, problem=reason)


def advice(trials: Iterable[tuple[str, Sequence[str]]]) -> Mapping[Remedy, int]:
    """Return the advice on trials that do not count, with the number of trials of each.

    A trial is its status and the codes of its faults. A trial that failed has one piece of advice.
    """
    found: Counter[Remedy] = Counter()
    for status, codes in trials:
        kinds = {_BY_CODE.get(code, FaultKind.OTHER) for code in codes or ("other",)}
        found.update({Remedy.FAILED} if status == "failed" else {kind.remedy for kind in kinds})
    return found
