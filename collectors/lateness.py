# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Whether nodes had a CPU when they needed one: `lateness.json` of every node -> table `lateness`.

roles/helper writes it: how late a node answered instants 50 ms apart, and what its kernel says of its CPUs
meanwhile. Trials in virtual time have no such files, as nothing can be late there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError

if TYPE_CHECKING:
    from l4sbench.program.trial import EndedTrial

FILE: Final = "lateness.json"

LATE_MS: Final = 5.0
"""An instant that is answered so much later counts as late: five steps of DualPI2, half an RTT of 10 ms."""

MOST_LATE: Final = 0.1
"""Share of late instants on any node above which a trial is invalid; docs/nodes.md has what it rests on."""

REMARKABLE: Final = 0.02
"""Share above which a valid trial is flagged."""


@dataclass(frozen=True)
class Lateness:
    """How late a node answered, and what its CPUs did meanwhile (shares of their time, 0 to 1).

    `late_ms` is sorted. `busy`, `stolen` (taken by the machine below) and `waited` (some task waited for a
    CPU) are None where the kernel does not tell.
    """

    late_ms: Sequence[float]
    busy: float | None = None
    stolen: float | None = None
    waited: float | None = None

    @property
    def late(self) -> float:
        """The share of instants that came late."""
        return sum(late > LATE_MS for late in self.late_ms) / len(self.late_ms)

    def quantile(self, q: float) -> float | None:
        """Milliseconds; None with fewer than 10/(1-q) instants."""
        if len(self.late_ms) < round(10 / (1 - q)):
            return None
        return self.late_ms[math.ceil(q * len(self.late_ms)) - 1]


def read_lateness(raw: Path, node: str) -> Lateness | None:
    """What a node left; None when it left nothing, or no instant came. Raises BadRawError."""
    path = raw / node / FILE
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        late_ms = sorted(float(late) for late in plain["late_ms"])
        return Lateness(late_ms, *_shares(plain["cpus"], float(plain["seconds"]))) if late_ms else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRawError(f"{node}/{FILE}: {type(error).__name__} {error}") from error


def _shares(cpus: Mapping[str, float], seconds: float) -> tuple[float | None, float | None, float | None]:
    did = {name: spent for name, spent in cpus.items() if name != "pressure"}
    total = sum(did.values())
    waited = min(1.0, cpus["pressure"] / seconds) if "pressure" in cpus and seconds > 0 else None
    if total <= 0:
        return None, None, waited
    idle = did.get("idle", 0.0) + did.get("iowait", 0.0)
    return 1 - idle / total, did.get("steal", 0.0) / total, waited


def parse_lateness(trial: EndedTrial) -> pl.DataFrame | None:
    """Table `lateness`: one row per node."""
    found = {node: read_lateness(trial.raw, node) for node in trial.programs}
    rows = [
        {
            "node": node,
            "instants": len(told.late_ms),
            "late_share": told.late,
            "late_p50_ms": told.quantile(0.5),
            "late_p90_ms": told.quantile(0.9),
            "late_p99_ms": told.quantile(0.99),
            "late_max_ms": told.late_ms[-1],
            "busy_share": told.busy,
            "stolen_share": told.stolen,
            "waited_share": told.waited,
        }
        for node, told in found.items()
        if told is not None
    ]
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None
