# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of the traffic of a trial, flow by flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.kinds import reader_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from collectors.reader import FlowResult
    from l4sbench.program import Program


def read_flows(programs: Mapping[str, Program], raw: Path) -> tuple[FlowResult, ...]:
    """Read the results of all flows of a trial, sorted by name. Never raises for what is in the files."""
    found = [
        reader_of(run.send).read(programs, raw, run, node)
        for node, program in programs.items()
        for run in program.flows
    ]
    return tuple(sorted(found, key=lambda flow: flow.run.flow))
