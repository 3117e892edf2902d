# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Paced flows: UDP packets at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.errors import Problem
from l4sbench.traffic.send import CODEPOINT, CODEPOINTS, RATE, SIZE, Ready, Send, shared
from l4sbench.traffic.tools import IPERF3, iperf3, lean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.text.units import Rate, Size
    from l4sbench.traffic.family import Family
    from l4sbench.traffic.send import Asked, Flow, FlowCommands

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
        payload, code = self._payload_bytes(flow.family), str(CODEPOINTS.index(self.codepoint))
        frame_bytes = payload + flow.family.udp_headers_bytes
        if tool == IPERF3:
            bits = round(self.rate.bits_per_s * payload / frame_bytes)
            tos = code  # the ECN field is its two lowest bits
            paced = ("-u", "-b", str(bits), "-l", str(payload), "-S", tos)
            return iperf3(flow, *paced, "--pacing-timer", str(PACING_TIMER_US))
        size = ("--size", str(payload))
        # the exact rate is a fraction: frames, and the nanoseconds in which they leave
        frames = ("--frames", f"{self.rate.bits_per_s}/{frame_bytes * 8}", "--codepoint", code)
        return lean(flow, ("pace", *size, *frames), ("count", *size), Ready.COUNTS)

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the problem of packets that would leave in fragments, of which the rate would not be that."""
        most = asked.family.most_udp_bytes
        if self._payload_bytes(asked.family) > most:
            message = f"a packet of {asked.family.words} has at most {most}B, not {self.size}"
            yield Problem("", f"{asked.group}.size", message)

    def _payload_bytes(self, family: Family) -> int:
        return self.size.bytes if self.size else family.most_udp_bytes
