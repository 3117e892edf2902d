# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bulk transfers: each flow is one TCP connection that sends as fast as it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.text.units import Size
from l4sbench.traffic.send import Send, factor
from l4sbench.traffic.tools import IPERF3, iperf3, lean

if TYPE_CHECKING:
    from l4sbench.traffic.send import Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class Bulk(Send):
    """One TCP connection for each flow, as fast as it can, until its time is over or all data arrived."""

    name = "bulk"
    about = "one TCP connection as fast as it can"
    by_tcp = True
    one_connection = True
    by_iperf3 = True

    bytes: Size | None = factor(
        "size",
        "Payload after whose delivery a flow of send: bulk ends, if it has not ended before.",
        optional=True,
        positive=True,
        maximum=Size(10**15),
        unit="MB",
    )

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        if tool == IPERF3:
            return iperf3(flow, "-C", flow.kernel_cc)
        ends = ("--bytes", str(self.bytes.bytes)) if self.bytes else ()
        return lean(flow, ("send", "--cc", flow.kernel_cc, *ends), ("receive", *ends))

    @property
    def limit(self) -> Size | None:
        """Payload after whose delivery a flow ends; None: it ends by its time."""
        return self.bytes

    @property
    def greedy(self) -> bool:
        """True if its flows do not end with their data."""
        return self.bytes is None
