# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Factors of the path that hosts do not have, or the lab, and what to choose instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.errors import Problem
from l4sbench.facts.factors import DEFAULT_LAB, EVENTS, PAUSING
from l4sbench.program.netem import LONGEST_JITTER, SHORTEST_PAUSE, SHORTEST_STEP, pauses_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.facts.cell import Cell

_VIRTUAL: Final = "or use --on virtual"


def refusals(cell: Cell) -> Iterator[Problem]:
    """Yield why hosts cannot run a cell, however they are equipped."""
    yield from _of_jitter(cell)
    if cell.has_own_delay:
        yield from _of_own_delay(cell)
    if pauses_hosts(cell):
        yield from _of_pauses(cell)
    if cell.packet_cost.ns:
        message = "hosts take the time for a packet that they need; netem could add some at one port only"
        yield Problem("", "host.packet_cost", message, f"leave it out, {_VIRTUAL}")
    if cell.path_mark.ppb:
        message = "hosts have no marks at a fixed probability"
        yield Problem("", "path.mark", message, f"leave it out, {_VIRTUAL}")
    if cell.path_ack_thinning > 1:
        yield Problem("", "path.ack_thinning", "hosts forward all ACKs", f"leave it out, {_VIRTUAL}")
    if cell.lab != DEFAULT_LAB:
        yield Problem("", "lab", "hosts run kernels of their own", f"leave it out, {_VIRTUAL}")


def _of_own_delay(cell: Cell) -> Iterator[Problem]:
    hint = "write path.delay: added, and the rtt as a duration"
    if cell.path_jitter.ns:
        yield Problem("", "path.jitter", "a path of its own delay has none that could differ", hint)
    for event in cell.events:
        if "rtt" in event.changes:
            path = f"{EVENTS}.{event.name}.rtt"
            yield Problem("", path, "a path of its own delay has none that could change", hint)


def lab_refusals(cell: Cell) -> Iterator[Problem]:
    """Yield why the lab cannot run a cell."""
    if cell.has_own_delay:
        message = "the lab's networks have no delay of their own"
        yield Problem("", "path.delay", message, "state rtt as a duration, or use --on ssh or --on fabric")


def _of_pauses(cell: Cell) -> Iterator[Problem]:
    if "router" in PAUSING[cell.path_pause_at]:
        message = "a router cannot be held without holding packets outside of the queue under test"
        yield Problem("", "path.pause_at", message, f"choose others, {_VIRTUAL}")
    if cell.path_pause.ns < SHORTEST_PAUSE.ns:
        message = f"hosts cannot time pauses shorter than {SHORTEST_PAUSE}"
        yield Problem("", "path.pause", message, f"make it longer, {_VIRTUAL}")


def _of_jitter(cell: Cell) -> Iterator[Problem]:
    if not cell.path_jitter.ns:
        return
    if cell.path_jitter_model == "walk":
        yield from _of_walk(cell)
    if cell.path_jitter.ns > LONGEST_JITTER.ns:
        message = f"{cell.path_jitter} is more than netem can do, {LONGEST_JITTER}"
        yield Problem("", "path.jitter", message, f"make it smaller, {_VIRTUAL}")


def _of_walk(cell: Cell) -> Iterator[Problem]:
    if cell.path_jitter_every.ns < SHORTEST_STEP.ns:
        message = f"hosts cannot step more often than every {SHORTEST_STEP}"
        yield Problem("", "path.jitter_every", message, f"make it longer, {_VIRTUAL}")
    for event in cell.events:
        for factor in ("rtt", "path.loss"):
            if factor in event.changes:
                path = f"{EVENTS}.{event.name}.{factor}"
                message = "a walk of the delay sets netem anew, without what an event changes"
                hint = f"choose path.jitter_model: uniform or normal, {_VIRTUAL}"
                yield Problem("", path, message, hint)
