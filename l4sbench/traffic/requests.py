# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requests: a new TCP connection for each of them, opened at a constant rate, with a response as long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.traffic.send import PERIOD, SIZE, Send, shared, slow_start_rounds
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from l4sbench.text.units import Duration, Size
    from l4sbench.traffic.send import Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class Requests(Send):
    """A TCP connection for each request, whose response has the same length."""

    name = "requests"
    about = "a TCP connection for each"
    by_tcp = True

    period: Duration = shared(PERIOD)
    size: Size = shared(SIZE)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        size = ("--size", str(self.size.bytes))
        every = ("--every-ns", str(self.period.ns), "--cc", flow.kernel_cc)
        return lean(flow, ("request", *size, *every, "--answer"), ("answer", *size, "--answer"))

    def round_trips(self, payload_bytes: int, mss_bytes: int) -> int:
        """Return one for the handshake, and those of the request and of the response, which share one."""
        return 2 * slow_start_rounds(payload_bytes, mss_bytes)
