# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workloads, of which a trial may have drawn no connection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from collectors.reader import Reader
from l4sbench.traffic.workload import Connections

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from collectors.reader import FlowResult
    from l4sbench.program import FlowRun, Program


class WorkloadReader(Reader):
    """Reads workloads."""

    send = Connections.name

    def read(self, programs: Mapping[str, Program], raw: Path, run: FlowRun, node: str) -> FlowResult:
        """Return the results of a workload; a receiver to which nobody connected has none."""
        found = super().read(programs, raw, run, node)
        if found.receiver is not None or found.sender is None or found.sender.connections != 0:
            return found
        return replace(found, receiver=found.sender, faults=())
