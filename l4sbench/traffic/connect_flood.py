# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Floods of connections: each is opened, carries a small payload, and is closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.traffic.family import Family
from l4sbench.traffic.send import RATE, SIZE, Send, shared
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from l4sbench.text.units import Rate, Size
    from l4sbench.traffic.send import Flow, FlowCommands

_SYN_OPTIONS_BYTES: Final = 8
"""Length of the options of a SYN besides the timestamps: segment size, SACK, window scale."""


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
        every_ns = max(1, round(self._connection_bytes(flow.family) * 8e9 / self.rate.bits_per_s))
        every = ("--every-ns", str(every_ns), "--cc", flow.kernel_cc)
        return lean(flow, ("request", *size, *every), ("answer", *size))

    def _connection_bytes(self, family: Family) -> int:
        """Return the length of all frames that the opener of a connection sends without loss.

        SYN, ACK, payload in full segments, FIN, and the ACK of the other FIN, with timestamps.
        """
        payload, headers = self.size.bytes, family.segment_headers_bytes
        segments = -(-payload // family.mss_bytes)
        return headers + _SYN_OPTIONS_BYTES + payload + headers * (segments + 3)

    @property
    def each_per_s(self) -> float:
        """Number of connections in a second, of IPv4."""
        return self.rate.bits_per_s / (8 * self._connection_bytes(Family.IPV4))
