# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Events of a cell -> what each node changes at their instants, in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from l4sbench.errors import Problem
from l4sbench.facts.cell import MOST_REPETITIONS
from l4sbench.facts.factors import EVENT_AT, EVENT_EVERY, EVENTS
from l4sbench.program import netem, rewriting
from l4sbench.program.data import Change, Readback, ReadKind
from l4sbench.program.shapers import Shaper, new_rate
from l4sbench.program.wires import air_rate, changed
from l4sbench.text.parameters import plain

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell, PathEvent
    from l4sbench.program.placement import Placement
    from l4sbench.text.units import Rate

APART_MS: Final = 10
"""Least time between two changes of one factor: what the first has set is read back before the second."""


def changes(placement: Placement, node: str, *, wires: bool) -> tuple[Change, ...]:
    """Return what a node changes during the trial, in the order of the instants.

    With `wires` the networks are those of the lab, whose settings are sysctls; else netem and nft have them.
    """
    return tuple(
        change
        for event in placement.cell.events
        for factor in event.changes
        for change in _of_factor(placement, node, event, factor, wires=wires)
    )


def _of_factor(
    placement: Placement, node: str, event: PathEvent, factor: str, *, wires: bool
) -> Iterator[Change]:
    value = event.changes[factor]
    bottleneck = placement.topology.bottleneck_of(node)
    if factor == "rate":
        if bottleneck is not None:
            network = bottleneck.network
            yield _by_command(
                event, factor, new_rate(network, cast("Rate", value), _file(event, factor, network))
            )
    elif factor == "path.wifi_mcs" and not wires:
        if bottleneck is not None:
            rate = air_rate(placement.cell, cast("int", value))
            network = bottleneck.network
            yield _by_command(event, factor, new_rate(network, rate, _file(event, factor, network)))
    elif wires:
        if sysctls := changed(placement, node, factor, value):
            yield _by_sysctl(event, factor, sysctls)
    elif factor == "path.ecn":
        for network in rewriting.networks(placement, node):
            shaper = rewriting.changed(network, str(value), _file(event, factor, network))
            yield _by_command(event, factor, shaper)
    else:
        for network in netem.changed(placement, node, factor):
            shaper = netem.after(placement, node, network, event, _file(event, factor, network))
            yield _by_command(event, factor, shaper)


def _by_command(event: PathEvent, factor: str, shaper: Shaper) -> Change:
    return Change(
        event=event.id,
        factor=factor,
        value=str(plain(event.changes[factor])),
        at=event.at,
        commands=shaper.commands,
        readback=shaper.readback[0],
        expected=shaper.expected,
    )


def _by_sysctl(event: PathEvent, factor: str, sysctls: tuple[tuple[str, str], ...]) -> Change:
    what = f"{event.id} {factor}"
    return Change(
        event=event.id,
        factor=factor,
        value=str(plain(event.changes[factor])),
        at=event.at,
        commands=(("sysctl", "-w", *(f"{name}={value}" for name, value in sysctls)),),
        readback=Readback(
            what,
            ("sysctl", *(name for name, _ in sysctls)),
            _file(event, factor, "", "txt"),
            kind=ReadKind.SYSCTLS,
        ),
        sysctls=sysctls,
    )


def _file(event: PathEvent, factor: str, network: str, kind: str = "json") -> str:
    return ".".join(("-".join(filter(None, ("event", event.id, factor.replace(".", "-"), network))), kind))


def problems(cell: Cell) -> Iterator[Problem]:
    """Yield why events of a cell cannot take place: after its end, or two that change the same at once."""
    last: dict[str, PathEvent] = {}
    too_near = set()
    for event in cell.events:
        path = f"{EVENTS}.{event.name}.{EVENT_AT}"
        if event.repetition == MOST_REPETITIONS:
            message = f"{event.name} would take effect more than {MOST_REPETITIONS} times"
            yield Problem("", f"{EVENTS}.{event.name}.{EVENT_EVERY}", message, "make it longer")
        if event.at.ns >= cell.length.ns:
            message = f"{event.at} is not within the trial: warmup and duration add up to"
            yield Problem("", path, f"{message} {cell.length}")
        for factor in event.changes:
            before = last.get(factor)
            pair = before and (before.name, event.name, factor)
            if before and event.at.ns - before.at.ns < APART_MS * 1_000_000 and pair not in too_near:
                too_near.add(pair)
                message = f"{before.name} changes {factor} less than {APART_MS} ms before"
                yield Problem("", path, message, "put them further apart, or into one event")
            last[factor] = event
