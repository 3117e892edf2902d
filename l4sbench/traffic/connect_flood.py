# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Floods of connections: each is opened, carries a small payload, and is closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.traffic.send import RATE, SIZE, Send, shared
from l4sbench.traffic.tools import MSS_BYTES, lean

if TYPE_CHECKING:
    from l4sbench.text.units import Rate, Size
    from l4sbench.traffic.send import Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class ConnectFlood(Send):
    """Short TCP connections, at a rate of the frames that their openers send."""

    name = "connect-flood"
    about = "short connections"
    by_tcp = True
    many_open = True
    each_mbit = 1.0

    rate: Rate = shared(RATE)
    size: Size = shared(SIZE)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        size = ("--size", str(self.size.bytes))
        every_ns = max(1, round(self.connection_bytes * 8e9 / self.rate.bits_per_s))
        every = ("--every-ns", str(every_ns), "--cc", flow.kernel_cc)
        return lean(flow, ("request", *size, *every), ("answer", *size))

    @property
    def connection_bytes(self) -> int:
        """Length of all frames that the opener of a connection sends without loss.

        SYN, ACK, payload in full segments, FIN, and the ACK of the other FIN, with timestamps.
        """
        payload = self.size.bytes
        return 74 + 66 + payload + 66 * -(-payload // MSS_BYTES) + 66 + 66

    @property
    def each_per_s(self) -> float:
        """Number of connections in a second."""
        return self.rate.bits_per_s / (8 * self.connection_bytes)
