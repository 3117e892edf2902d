# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flows that did not do what their cell asks for, and which of them their trial can do without.

A fault counts only if it can move the trial's result. One flow of many cannot: its share of its group is
below what trials differ by. So where at most `MOST_LEFT_OUT` of a group's flows have faults, they are named
and left out of the group's figures, and the trial is valid; where more have, the trial is invalid.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.flows import read_flows
from collectors.kinds import reader_of
from collectors.reader import HOST_LIMITED, TrialView
from collectors.sockets import socket_rows
from l4sbench.facts.faults import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from collectors.reader import FlowResult
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.program.trial import EndedTrial

MOST_LEFT_OUT: Final = 0.05
"""Share of a group's flows that may have faults: one of 20. It is also the most by which leaving them out can
change the group's goodput, if they would have had none at all."""

SHORT_BY: Final = 0.01
SHORT_BY_S: Final = 0.1
"""A flow may end early by this share of its time or by this many seconds, as iperf3's clock is coarse."""


def faults(
    flows: Sequence[FlowResult], cell: Cell, samples: Callable[[], pl.DataFrame]
) -> dict[str, tuple[Fault, ...]]:
    """Return the flows of a trial that have faults, with all of these.

    Args:
        flows: The results of the traffic tools.
        cell: The trial's cell.
        samples: Gives the samples of sockets, when first needed.
    """
    groups = {group.name: group for group in cell.groups}
    trial = TrialView(samples, cell)
    found = {flow.run.flow: tuple(_of(flow, groups[flow.run.group], trial)) for flow in flows}
    return {name: own for name, own in found.items() if own}


def left_out(found: Mapping[str, tuple[Fault, ...]], flows: Sequence[FlowResult]) -> frozenset[str]:
    """Return the flows with faults that are so few in their group that the trial can do without them."""
    group_of = {flow.run.flow: flow.run.group for flow in flows}
    faulty, all_flows = Counter(group_of[name] for name in found), Counter(group_of.values())
    few = {group for group, number in faulty.items() if number <= MOST_LEFT_OUT * all_flows[group]}
    return frozenset(name for name in found if group_of[name] in few)


def limited_at_start(trial: EndedTrial) -> bool:
    """Return True if a flow of a valid trial was limited by its host as long as only its start may be."""
    view = TrialView(lambda: socket_rows(trial.programs, trial.raw), trial.cell)
    try:
        flows = read_flows(trial.programs, trial.raw)
        limits = [one for flow in flows for one in reader_of(flow.run.send).limits(flow, view) or ()]
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
        return False  # the tables that need these raw files report them
    return any(one.share > HOST_LIMITED for one in limits)


def may_leave_out(flows: Sequence[FlowResult]) -> bool:
    """Return whether some group has so many flows that a trial can do without one."""
    return any(number * MOST_LEFT_OUT >= 1 for number in Counter(flow.run.group for flow in flows).values())


def _of(flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
    yield from flow.faults
    if flow.sender is None or flow.received is None:
        return
    yield from _time(flow)
    yield from reader_of(flow.run.send).faults(flow, group, trial)


def _time(flow: FlowResult) -> Iterator[Fault]:
    if flow.sender is not None and flow.sender.completed_s is not None:
        return
    asked = flow.run.seconds
    least = asked - max(SHORT_BY * asked, SHORT_BY_S)
    for side, result in (("sender", flow.sender), ("receiver", flow.received)):
        if result is None:
            continue
        ran = min(result.seconds, result.intervals[-1].end_s) if result.intervals else result.seconds
        if ran < least:
            yield Fault.of(FaultKind.ENDED_EARLY, flow.run.flow, side=side, ran_s=ran, asked_s=asked)
    nothing_to_send = flow.sender is not None and flow.sender.connections == 0  # a workload may be empty
    nothing_came = flow.received is not None and not (flow.received.bytes or flow.received.delivered)
    if nothing_came and not nothing_to_send:
        yield Fault.of(FaultKind.NO_DATA, flow.run.flow)
