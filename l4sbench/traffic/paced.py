# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Paced flows: UDP packets at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.traffic.send import CODEPOINT, CODEPOINTS, RATE, SIZE, Ready, Send, shared
from l4sbench.traffic.tools import IPERF3, UDP_HEADERS, iperf3, lean

if TYPE_CHECKING:
    from l4sbench.text.units import Rate, Size
    from l4sbench.traffic.send import Flow, FlowCommands

MOST_UDP_BYTES: Final = 1472
"""Payload of a full UDP packet of 1500 bytes."""
PACING_TIMER_US: Final = 100
"""Time between two looks of iperf3 whether a packet is due; its default of 1,000 makes bursts of them."""


@dataclass(frozen=True, kw_only=True)
class Paced(Send):
    """UDP packets of one size at a rate, whatever happens to them."""

    name = "paced"
    about = "UDP at a rate"
    transports = ("udp",)
    by_iperf3 = True

    rate: Rate = shared(RATE)
    codepoint: str = shared(CODEPOINT)
    size: Size | None = shared(SIZE, optional=True)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        payload, code = self.payload_bytes, str(CODEPOINTS.index(self.codepoint))
        if tool == IPERF3:
            bits = round(self.rate.bits_per_s * payload / self.frame_bytes)
            tos = code  # the ECN field is its two lowest bits
            paced = ("-u", "-b", str(bits), "-l", str(payload), "-S", tos)
            return iperf3(flow, *paced, "--pacing-timer", str(PACING_TIMER_US))
        size = ("--size", str(payload))
        # the exact rate is a fraction: frames, and the nanoseconds in which they leave
        frames = ("--frames", f"{self.rate.bits_per_s}/{self.frame_bytes * 8}", "--codepoint", code)
        return lean(flow, ("pace", *size, *frames), ("count", *size), Ready.COUNTS)

    @property
    def payload_bytes(self) -> int:
        """Payload of a packet."""
        return self.size.bytes if self.size else MOST_UDP_BYTES

    @property
    def frame_bytes(self) -> int:
        """Length of a frame."""
        return self.payload_bytes + UDP_HEADERS
