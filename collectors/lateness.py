# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Did nodes have a CPU when they needed one? `lateness.json` of every node -> table `lateness`.

roles/helper writes these files: how late a timer every 50 ms fired on a node, and how its CPUs spent their
time meanwhile. Trials in virtual time have none, as nothing can be late there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.collector import BadRawError, Rows, raw_bytes
from l4sbench.disk.plain import is_plain
from l4sbench.facts.traits import late_share

if TYPE_CHECKING:
    from l4sbench.program.trial import EndedTrial

FILE: Final = "lateness.json"

REMARKABLE: Final = 0.02
"""Share above which a valid trial is flagged."""


@dataclass(frozen=True)
class NodeLateness:
    """NodeLateness of a node's timers, and how its CPUs spent their time meanwhile (shares, 0 to 1).

    `late_ms` is sorted. `busy`, `stolen` (taken by the hypervisor) and `waited` (some task waited for a CPU)
    are None where the kernel does not report them.
    """

    late_ms: Sequence[float]
    busy: float | None = None
    stolen: float | None = None
    waited: float | None = None

    @property
    def late(self) -> float:
        """Share of instants that were late."""
        return late_share(self.late_ms)

    def quantile(self, q: float) -> float | None:
        """Return quantile q in milliseconds; None with fewer than 10/(1-q) instants."""
        if len(self.late_ms) < round(10 / (1 - q)):
            return None
        return self.late_ms[math.ceil(q * len(self.late_ms)) - 1]


def read_lateness(raw: Path, node: str) -> NodeLateness | None:
    """Read the file of a node; None when it is missing or has no instants. Raises BadRawError."""
    path = raw / node / FILE
    if not is_plain(path):
        return None
    try:
        plain = json.loads(raw_bytes(path, f"{node}/{FILE}"))
        late_ms = sorted(float(late) for late in plain["late_ms"])
        return NodeLateness(late_ms, *_shares(plain["cpus"], float(plain["seconds"]))) if late_ms else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRawError(f"{node}/{FILE}: {type(error).__name__} {error}") from error


def _shares(cpus: Mapping[str, float], seconds: float) -> tuple[float | None, float | None, float | None]:
    spent = {name: time for name, time in cpus.items() if name != "pressure"}
    total = sum(spent.values())
    waited = min(1.0, cpus["pressure"] / seconds) if "pressure" in cpus and seconds > 0 else None
    if total <= 0:
        return None, None, waited
    idle = spent.get("idle", 0.0) + spent.get("iowait", 0.0)
    return 1 - idle / total, spent.get("steal", 0.0) / total, waited


def parse_lateness(trial: EndedTrial) -> Rows | None:
    """Return table `lateness`: one row per node."""
    rows: Rows = [
        {
            "node": node,
            "instants": len(found.late_ms),
            "late_share": found.late,
            "late_p50_ms": found.quantile(0.5),
            "late_p90_ms": found.quantile(0.9),
            "late_p99_ms": found.quantile(0.99),
            "late_max_ms": found.late_ms[-1],
            "busy_share": found.busy,
            "stolen_share": found.stolen,
            "waited_share": found.waited,
        }
        for node in trial.programs
        if (found := read_lateness(trial.raw, node)) is not None
    ]
    return rows or None
