# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Start and end of the flows of a group, and checks of what a cell says about them and what they send.

A flow starts at its group's `start`, later by `every` for each flow before it, and by the random delay of its
trial. It lasts for its group's `lifetime`, which is warm-up and measured time unless stated, but not beyond
`stop`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from l4sbench.errors import Problem
from l4sbench.facts.factors import name_of
from l4sbench.text.parameters import DAY
from l4sbench.text.units import Duration
from l4sbench.traffic import OF_SEND, SENDS, Asked, Send, Sender
from l4sbench.traffic.tools import IPERF3, LEAN, whole_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group

SHORTEST: Final = Duration(100_000_000)
"""A flow must have at least this long between its latest start and its group's `stop`."""
MEASURED: Final = Duration(1_000_000_000)
"""The same after a warm-up: intervals are of 1 s, and iperf3 runs for whole seconds, rounded down."""
NOT_BY_IPERF3: Final = "iperf3 cannot do this, or does not report what came of it"
_FACTORS: Final = frozenset({"every", "lifetime", "stop", "rtt", "send", *OF_SEND})


def nominal_start(group: Group, index: int) -> Duration:
    """Return when a flow starts after the start instant, without its random delay."""
    return Duration(group.start.ns + index * (group.every.ns if group.every else 0))


def length(cell: Cell, group: Group, start: Duration) -> Duration:
    """Return how long a flow that starts at `start` lasts at most."""
    lifetime = group.lifetime or cell.length
    if group.stop is None:
        return lifetime
    return Duration(max(0, min(lifetime.ns, group.stop.ns - start.ns)))


def problems(cell: Cell) -> tuple[Problem, ...]:
    """Return what is wrong with what the flow groups of a cell send, and when."""
    if not _concerns(cell.given):
        return ()
    parts = (_of_send, _of_times, _of_kind)
    found = [one for group in cell.groups for part in parts for one in part(cell, group)]
    if cell.traffic_tool == IPERF3:
        found += [Problem("", path, NOT_BY_IPERF3, "use traffic.tool: lean") for path in _not_sent(cell)]
    return tuple(found)


@lru_cache(maxsize=1024)
def _concerns(given: frozenset[str]) -> bool:
    return any(name_of(name).group and name_of(name).key in _FACTORS for name in given)


def tools(cell: Cell, default: str) -> tuple[str, ...]:
    """Return the traffic tools of a cell's flows, each once; `default` is that of `traffic.tool: auto`."""
    if not _concerns(cell.given):
        return (_tool(cell, default, lean_only=False),)
    return tuple(sorted({tool(cell, group, default) for group in cell.groups}))


def tool(cell: Cell, group: Group, default: str) -> str:
    """Return the traffic tool of a group's flows; `default` is that of `traffic.tool: auto`.

    `auto` on hosts is iperf3 for what it can send, lean for other kinds of traffic, and lean for all flows of
    a cell that has bulk or paced flows which iperf3 cannot end: those of one kind have one tool.
    """
    return group.kind.own_tool or _tool(cell, default, lean_only=_lean_only(group))


def _tool(cell: Cell, default: str, *, lean_only: bool) -> str:
    if cell.traffic_tool != "auto":
        return cell.traffic_tool
    if default == IPERF3 and (lean_only or _exact(cell)):
        return LEAN
    return default


def _exact(cell: Cell) -> bool:
    """Return True if flows end at instants, or with bytes, that iperf3 cannot end them at."""
    if not whole_seconds(cell.length):
        return True
    if not _concerns(cell.given):
        return False
    others = (group for group in cell.groups if group.kind.by_iperf3)
    lifetimes = (group.lifetime for group in others)
    fractions = any(lasts is not None and not whole_seconds(lasts) for lasts in lifetimes)
    return fractions or bool(_ends(cell))


def _not_sent(cell: Cell) -> tuple[str, ...]:
    """Return the factors of what iperf3 cannot send."""
    return (*(f"{group.name}.send" for group in cell.groups if _lean_only(group)), *_ends(cell))


def _lean_only(group: Group) -> bool:
    """Return True if of the tools for the lab and for hosts only the lab's own can send it."""
    return not (group.kind.by_iperf3 or group.kind.own_tool)


def _ends(cell: Cell) -> tuple[str, ...]:
    """Return the factors that give flows an end other than their time."""
    return tuple(f"{group.name}.bytes" for group in cell.groups if group.complete and group.sends.limit)


def _of_send(cell: Cell, group: Group) -> Iterator[Problem]:
    kind, send = group.kind, f"{group.name}.send: {group.send}"
    for name in kind.needs():
        if name not in group.of_send:
            yield Problem("", f"{group.name}.{name}", f"is missing; {send} needs it")
    for name in OF_SEND:
        path = f"{group.name}.{name}"
        if path in cell.given and name not in (*kind.needs(), *kind.takes()):
            kinds: tuple[type[Send], ...] = (*SENDS.values(), Sender)
            having = ", ".join(one.name or "senders" for one in kinds if name in (*one.needs(), *one.takes()))
            hint = f"it applies to {having}; an axis of maps can set {group.name}.send and it together"
            yield Problem("", path, f"does not apply to {send}", hint)


def _of_kind(cell: Cell, group: Group) -> Iterator[Problem]:
    if not group.complete:
        return
    lasts, captured = length(cell, group, group.start), cell.capture != "off"
    asked = Asked(group.name, group.count, lasts, cell.rate, captured, cell.family)
    yield from group.sends.problems(asked)


def _of_times(cell: Cell, group: Group) -> Iterator[Problem]:
    last = nominal_start(group, group.count - 1)
    if last > DAY:
        message = f"flow {group.count} of {group.name} would start {last} after the trial's start"
        yield Problem("", f"{group.name}.every", f"{message}; at most 24h are possible")
    lifetime = group.lifetime or cell.length
    if group.stop is not None:
        latest_ns = last.ns + group.start_within.ns
        warmup = cell.warmup
        least = Duration(latest_ns + (warmup.ns + MEASURED.ns if warmup.ns else SHORTEST.ns))
        natural = Duration(latest_ns + lifetime.ns)
        if group.stop < least:
            message = f"the last flow of {group.name} starts at {last}, or up to {group.start_within} later"
            message += f", and warms up for {warmup}" if warmup.ns else ""
            yield Problem("", f"{group.name}.stop", message, f"make it at least {least}")
        elif group.stop > natural:
            message = f"all flows of {group.name} have ended {natural} after the trial's start by themselves"
            yield Problem("", f"{group.name}.stop", message, "leave it out, or make it sooner")
    if group.lifetime is not None and lifetime <= cell.warmup:
        message = (
            f"flows that last {lifetime} end within the warm-up of {cell.warmup}, so nothing is measured"
        )
        yield Problem("", f"{group.name}.lifetime", message)
    if cell.traffic_tool == IPERF3 and group.lifetime is not None and not whole_seconds(lifetime):
        message = f"iperf3 runs for whole seconds, not for {lifetime}"
        yield Problem("", f"{group.name}.lifetime", message, "use traffic.tool: lean")
    if group.rtt is not None and group.rtt < cell.rtt:
        message = f"{group.rtt} is less than the path's own round-trip time of {cell.rtt}"
        yield Problem(
            "", f"{group.name}.rtt", message, "state the shortest as rtt and the longer ones per group"
        )
