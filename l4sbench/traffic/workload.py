# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workloads: TCP connections whose sizes and arrivals are drawn from published distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import Problem
from l4sbench.text.units import Percent
from l4sbench.traffic.send import INPUT, Send, factor, slow_start_rounds
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.disk.workloads import Workload
    from l4sbench.traffic.send import Asked, Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class Connections(Send):
    """TCP connections of many sizes, at random instants."""

    name = "workload"
    about = "connections of many sizes"
    by_tcp = True

    workload: str = factor(
        "str", "send: workload: sizes and arrivals of its connections, by name.", refers="workload"
    )
    load: Percent = factor(
        "percent",
        "send: workload: payload that arrives for each of its flows, of the rate of the bottleneck.",
        positive=True,
        maximum=Percent(10**10),
    )

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        return lean(flow, ("request", "--schedule", INPUT, "--cc", flow.kernel_cc), ("answer",))

    def round_trips(self, payload_bytes: int, mss_bytes: int) -> int:
        """Return one for the handshake, and those of the payload."""
        return 1 + slow_start_rounds(payload_bytes, mss_bytes)

    def input(self, flow: Flow) -> str:
        """Return its connections, one per line: when it is opened (ns), and its payload (bytes)."""
        drawn = self._distributions().schedule(self.load, flow.bottleneck, flow.length, flow.draw)
        return "".join(f"{at_ns} {size}\n" for at_ns, size in drawn)

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the problem of too many connections."""
        from l4sbench.disk.workloads import MOST_FLOWS

        path = f"{asked.group}.workload"
        gap_s = self._distributions(path).mean_gap_s(self.load, asked.bottleneck)
        flows = asked.count * asked.lasts.s / gap_s
        if flows > MOST_FLOWS:
            message = (
                f"{asked.group} would have about {flows:.2g} connections; at most {MOST_FLOWS} are possible"
            )
            yield Problem("", f"{asked.group}.load", message, "make the load or the duration less")

    def _distributions(self, path: str = "workload") -> Workload:
        from l4sbench.disk.workloads import workload  # slow to import, and few cells need it

        return workload(self.workload, path)
