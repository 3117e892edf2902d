# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The flows that begin or end at a node: their senders with start and length, and their receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem
from l4sbench.program.data import Conditions, FlowRun, Server
from l4sbench.program.timing import NOT_BY_IPERF3, length, nominal_start, tool
from l4sbench.program.trial import draw_unit
from l4sbench.text.units import Duration
from l4sbench.traffic import Flow
from l4sbench.traffic.tools import IPERF3, SECOND_NS, whole_seconds

if TYPE_CHECKING:
    from l4sbench.program.placement import Placed, Placement


def flows_of(
    placement: Placement, node: str, conditions: Conditions
) -> tuple[tuple[FlowRun, ...], tuple[Server, ...]]:
    """Return the senders and receivers that run on a node."""
    runs: list[FlowRun] = []
    servers: list[Server] = []
    for placed, index, port in placement.flows:
        if node not in placed.pair:
            continue
        pair = placed.pair
        by = tool(placement.cell, placed.group, conditions.traffic)
        flow, start = _flow(placement, placed, index, port, conditions, by)
        sends = placed.group.sends
        if by == IPERF3 and (not sends.by_iperf3 or sends.limit):
            lean = "use traffic.tool: lean"
            raise InputError([Problem("", f"{placed.group.name}.send", NOT_BY_IPERF3, lean)])
        both = sends.commands(flow, by)
        if pair.receiver == node and both.receiver:
            output = f"flow-{flow.id}.receiver.{sends.output}"
            servers.append(Server(flow.id, both.receiver, output, both.ready))
        if pair.sender == node:
            group = placed.group
            runs.append(
                FlowRun(
                    flow=flow.id,
                    group=group.name,
                    index=index,
                    argv=both.sender,
                    output=f"flow-{flow.id}.sender.{sends.output}",
                    start=start,
                    seconds=flow.length.s,
                    receiver=pair.receiver,
                    port=port,
                    cc=flow.kernel_cc,
                    ecn=group.negotiates or "",
                    send=group.send,
                    bytes=sends.limit.bytes if sends.limit else None,
                    sampled=sends.one_connection,
                    close_s=sends.close_s,
                    input=sends.input(flow),
                )
            )
    return tuple(runs), tuple(servers)


def _flow(
    placement: Placement, placed: Placed, index: int, port: int, conditions: Conditions, by: str
) -> tuple[Flow, Duration]:
    """Return a flow as the traffic tool `by` takes it, and its start."""
    group, pair, nodes = placed.group, placed.pair, placement.topology.by_name
    name = f"{group.name}-{index}"
    later = conditions.start_offsets.get(name, Duration(0))
    start = Duration(nominal_start(group, index).ns + later.ns)
    lasts = length(placement.cell, group, start)
    if by == IPERF3 and group.stop is not None and not whole_seconds(lasts):
        lasts = Duration(max(1, lasts.ns // SECOND_NS) * SECOND_NS)

    def draw(purpose: str, number: int) -> float:
        return draw_unit(conditions.workload_seed, name, purpose, number)

    return Flow(
        id=name,
        address=nodes[pair.receiver].addresses[0].ip,
        port=port,
        kernel_cc=placed.cc.kernel_name if placed.cc else "",
        length=lasts,
        index=index,
        family=placement.cell.family,
        bottleneck=placement.setting.rate,
        networks=(nodes[pair.sender].addresses[0].network, nodes[pair.receiver].addresses[0].network),
        sender=group.send if group.kind.has_controls else "",
        own_cc=placement.own_cc(group),
        has_qlog=placement.has_qlog(group),
        handle=lambda program: placement.catalog.executable(program).handle,
        draw=draw,
    ), start
