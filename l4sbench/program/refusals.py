# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Factors of the path that hosts do not have, and what to choose instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.catalog.template import write
from l4sbench.errors import Problem
from l4sbench.facts.factors import DEFAULT_LAB, EVENTS
from l4sbench.program.netem import LONGEST_JITTER
from l4sbench.program.wires import air_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.facts.cell import Cell
    from l4sbench.text.units import Value

_VIRTUAL: Final = "or use --on virtual"


def refusals(cell: Cell) -> Iterator[Problem]:
    """Yield why hosts cannot run a cell, however they are equipped."""
    given = cell.given
    yield from _of_jitter(cell)
    if "path.pause" in given and cell.path_pause.ns:
        message = "hosts pause by themselves, and not when they are asked to"
        yield Problem("", "path.pause", message, f"leave it out, {_VIRTUAL}")
    if cell.wifi_mcs is not None:
        yield _of_wifi("path.wifi_mcs", "rate", cell.wifi_mcs)
    for event in cell.events:
        if (mcs := event.changes.get("path.wifi_mcs")) is not None:
            path = f"{EVENTS}.{event.name}"
            yield _of_wifi(f"{path}.path.wifi_mcs", f"{path}.rate", mcs)
    if cell.packet_cost.ns:
        message = "hosts take the time for a packet that they need"
        yield Problem("", "host.packet_cost", message, f"leave it out, {_VIRTUAL}")
    if cell.lab != DEFAULT_LAB:
        yield Problem("", "lab", "hosts run kernels of their own", f"leave it out, {_VIRTUAL}")


def _of_jitter(cell: Cell) -> Iterator[Problem]:
    if not cell.path_jitter.ns:
        return
    if cell.path_jitter_model == "walk":
        where = "path.jitter_model" if "path.jitter_model" in cell.given else "path.jitter"
        message = "netem has no random walk of the delay"
        yield Problem("", where, message, f"choose path.jitter_model: uniform or normal, {_VIRTUAL}")
    if cell.path_jitter.ns > LONGEST_JITTER.ns:
        message = f"{cell.path_jitter} is more than netem can do, {LONGEST_JITTER}"
        yield Problem("", "path.jitter", message, f"make it smaller, {_VIRTUAL}")


def _of_wifi(factor: str, instead: str, mcs: Value) -> Problem:
    rate = write(air_rate(int(mcs)))  # type: ignore[arg-type]
    message = "Linux has no queuing discipline that aggregates frames as Wi-Fi does"
    return Problem("", factor, message, f"choose {instead}: {rate}, its mean for full packets, {_VIRTUAL}")
