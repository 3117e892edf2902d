# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requests: a new TCP connection for each of them, opened at a constant rate, with a response as long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.text.parameters import HOUR
from l4sbench.text.units import Duration, Size
from l4sbench.traffic.send import SIZE, Send, factor, shared
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from l4sbench.traffic.send import Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class Requests(Send):
    """A TCP connection for each request, whose response has the same length."""

    name = "requests"
    about = "a TCP connection for each"
    by_tcp = True

    period: Duration = factor(
        "duration",
        "send: requests: time from one request to the next.",
        minimum=Duration(100_000),
        maximum=HOUR,
    )
    size: Size = shared(SIZE)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        size = ("--size", str(self.size.bytes))
        every = ("--every-ns", str(self.period.ns), "--cc", flow.kernel_cc)
        return lean(flow, ("request", *size, *every, "--answer"), ("answer", *size, "--answer"))
