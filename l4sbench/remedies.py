# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Advice on trials that do not count: one hint per reason; docs/troubleshooting.md has a section for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

PAGE_NAME: Final = "troubleshooting"
PAGE: Final = f"docs/{PAGE_NAME}.md"


@dataclass(frozen=True)
class Remedy:
    """Advice on the reasons that a pattern matches; `section` is its heading in `PAGE`, as in links."""

    pattern: str
    hint: str
    section: str

    @property
    def place(self) -> str:
        """The section of the documents that says more."""
        return f"{PAGE}#{self.section}"

    @property
    def text(self) -> str:
        """The hint with the command that says more."""
        return f"{self.hint} (l4sbench docs {PAGE_NAME} {self.section})"


REMEDIES: Final = (
    Remedy(
        r"limited by its (receiver's window|send buffer)",
        "keep the start out of the measured time with a warmup of 50 RTTs (2 s at least), or measure longer",
        "limited-by-its-host",
    ),
    Remedy(
        r"negotiated ECN ",
        "the first packet was lost and TCP asked again without ECN: add trials with --trials N or --sure",
        "another-ecn-than-asked",
    ),
    Remedy(
        r"host was too busy",
        "run fewer trials at once with --jobs 1, and nothing else on these machines",
        "host-too-busy",
    ),
    Remedy(
        r"packets? dropped at .* not the bottleneck",
        "something else was slower than the bottleneck: lower the rate",
        "drops-elsewhere",
    ),
    Remedy(
        r"never queued, marked or dropped",
        "measure longer, add flows, or allow it with expect.bottleneck: false",
        "no-queue-at-the-bottleneck",
    ),
    Remedy(
        r"was not captured|packets are missing from|dropped by kernel",
        "lower the rate, or leave out capture",
        "incomplete-captures",
    ),
    Remedy(
        r" did not change$| changed \d+ ms late$",
        "a change of the path came late or not at all: run fewer trials at once with --jobs 1",
        "an-event-that-came-late",
    ),
    Remedy(
        r": sent .* Mbit/s, not | found no free port$",
        "the sender could not send what the cell asks for: lower the group's rate, or give it larger packets",
        "another-rate-than-asked",
    ),
    Remedy(
        r": ran .*, not | is .*, not | is (on|off) at | is (not )?set and should|: missing; found |"
        r" is missing, expected | was not read back$",
        "the node was not set up as the cell asks: see its commands in the trial's folder",
        "not-set-up-as-asked",
    ),
    Remedy(
        r"the (sender|receiver) ran .* s of |no data arrived|result iperf3",
        "a flow ended early or never began: see its node's files in the trial's folder, then --retry invalid",
        "a-flow-that-ended-early",
    ),
    Remedy(
        r"no file has |cannot be read|the (sender|receiver)'s result |is not a regular file|host\.json"
        r"|[\w/]+\.(jsonl?|txt|pcap|gz)\b|on one side of the queue only|not JSON",
        "raw files are missing or damaged: repeat the trials with --retry invalid",
        "raw-files-missing-or-damaged",
    ),
    Remedy(
        r"",
        "see the trial's folder, then repeat it with --retry invalid",
        "other-reasons",
    ),
)
"""The first whose pattern is in a reason of an invalid trial counts."""

OF_FAILED: Final = Remedy(
    r"",
    "these broke: see the trial's folder, remove the cause, then run with --retry failed",
    "a-trial-that-failed",
)


def remedy(reason: str) -> Remedy:
    """Return the advice on a reason for which a trial is invalid."""
    return next(found for found in REMEDIES if re.search(found.pattern, reason))


def advice(trials: Iterable[tuple[str, str]]) -> Mapping[Remedy, int]:
    """Return the advice on trials that do not count, with the number of trials of each.

    A trial is its status and its reasons, joined by `; `.
    """
    found: Counter[Remedy] = Counter()
    for status, reasons in trials:
        found.update({OF_FAILED} if status == "failed" else {remedy(one) for one in reasons.split("; ")})
    return found
