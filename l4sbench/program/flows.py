# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The flows that begin or end at a node: their senders with start and length, and their receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from l4sbench.executables import command_of
from l4sbench.program.data import Conditions, FlowRun, Server
from l4sbench.program.timing import EXEC_TOOL, FLENT, length, nominal_start, tool, whole_seconds
from l4sbench.program.traffic import Flow, OwnProgram, OwnPrograms, commands
from l4sbench.program.trial import draw_unit
from l4sbench.units import Duration
from l4sbench.workloads import workload

if TYPE_CHECKING:
    from l4sbench.program.placement import Placed, Placement

_SECOND_NS = 1_000_000_000


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
        both = commands(by, flow)
        if pair.receiver == node and both.receiver:
            servers.append(Server(flow.id, both.receiver, f"flow-{flow.id}.receiver.{_kind_of_output(by)}"))
        if pair.sender == node:
            group = placed.group
            runs.append(
                FlowRun(
                    flow=flow.id,
                    group=group.name,
                    index=index,
                    argv=both.sender,
                    output=f"flow-{flow.id}.sender.{_kind_of_output(by)}",
                    start=start,
                    seconds=flow.length.s,
                    receiver=pair.receiver,
                    port=port,
                    cc=flow.kernel_cc,
                    ecn=group.ecn or "",
                    send=group.send,
                    bytes=group.bytes.bytes if group.bytes else None,
                    input=_schedule(placement, flow, conditions.workload_seed),
                )
            )
    return tuple(runs), tuple(servers)


def _kind_of_output(tool: str) -> str:
    return "txt" if tool in {FLENT, EXEC_TOOL} else "json"


def _schedule(placement: Placement, flow: Flow, seed: int) -> str:
    """Return the connections of a workload, one per line: when it is opened (ns), and its payload (bytes)."""
    group = flow.group
    if group.workload is None or group.load is None:
        return ""

    def draw(purpose: str, number: int) -> float:
        return draw_unit(seed, flow.id, purpose, number)

    drawn = workload(group.workload).schedule(group.load, placement.setting.rate, flow.length, draw)
    return "".join(f"{at_ns} {size}\n" for at_ns, size in drawn)


def _flow(
    placement: Placement, placed: Placed, index: int, port: int, conditions: Conditions, by: str
) -> tuple[Flow, Duration]:
    """Return a flow as the traffic tool `by` takes it, and its start."""
    group = placed.group
    name = f"{group.name}-{index}"
    later = conditions.start_offsets.get(name, Duration(0))
    start = Duration(nominal_start(group, index).ns + later.ns)
    lasts = length(placement.cell, group, start)
    if by == "iperf3" and group.stop is not None and not whole_seconds(lasts):
        lasts = Duration(max(1, lasts.ns // _SECOND_NS) * _SECOND_NS)
    address = placement.topology.by_name[placed.pair.receiver].addresses[0].ip
    kernel_cc = placed.cc.kernel_name if placed.cc else ""
    return Flow(name, address, port, kernel_cc, lasts, group, index, _own(placement, placed)), start


def _own(placement: Placement, placed: Placed) -> OwnPrograms | None:
    """Return the programs of `send: exec`, and the networks where they run."""
    group, nodes = placed.group, placement.topology.by_name
    if group.send != EXEC_TOOL:
        return None
    sender, receiver = (
        OwnProgram(
            command_of(text),
            placement.executables[command_of(text).program].handle,
            nodes[node].addresses[0].network,
        )
        if text is not None
        else None
        for text, node in (
            (group.exec_sender, placed.pair.sender),
            (group.exec_receiver, placed.pair.receiver),
        )
    )
    return OwnPrograms(sender, receiver)
