# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Changes that events made during a trial -> table `events`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.collector import BadRawError, Rows
from collectors.hostinfo import parse_sysctls, read_output
from l4sbench.program import CHANGES_FILE, found_values

if TYPE_CHECKING:
    from l4sbench.program import Change
    from l4sbench.program.trial import EndedTrial


def read_taken(raw: Path, node: str) -> Mapping[tuple[str, str], float]:
    """Read when changes took effect at a node: event and factor -> ms after the start instant.

    Raises:
        BadRawError: the file exists and cannot be read.
    """
    text = read_output(raw, node, CHANGES_FILE)
    if text is None:
        return {}
    try:
        return {(str(one["event"]), str(one["factor"])): float(one["t_ms"]) for one in json.loads(text)}
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadRawError(f"{node}/{CHANGES_FILE}: {type(error).__name__} {error}") from error


def parse_events(trial: EndedTrial) -> Rows | None:
    """Return table `events`; None when nothing changes in the trial."""
    rows: Rows = []
    for node, program in trial.programs.items():
        taken = read_taken(trial.raw, node) if program.changes else {}
        rows += [
            {
                "event": change.event,
                "factor": change.factor,
                "node": node,
                "port": change.readback.network,
                "at_ms": change.at.ms,
                "t_ms": taken.get((change.event, change.factor)),
                "value": change.value,
                "shown": _shown(trial.raw, node, change),
            }
            for change in program.changes
        ]
    return rows or None


def _shown(raw: Path, node: str, change: Change) -> str | None:
    """Return what was read back just after a change, as JSON; None if nothing was."""
    text = read_output(raw, node, change.readback.output)
    if text is None:
        return None
    if change.sysctls:
        shown = parse_sysctls(text)
        return json.dumps({name: shown.get(name) for name, _ in change.sysctls})
    found: dict[str, object] = {}
    for expected in change.expected:
        found |= found_values(expected, text)
    return json.dumps(found)
