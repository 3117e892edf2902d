# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Floods of SYNs: frames that open connections, at a constant rate, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.traffic.family import Family
from l4sbench.traffic.send import CODEPOINT, CODEPOINTS, RATE, Ready, Send, shared
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from l4sbench.text.units import Rate
    from l4sbench.traffic.send import Flow, FlowCommands


@dataclass(frozen=True, kw_only=True)
class SynFlood(Send):
    """SYNs without options at a rate, none of which is answered."""

    name = "syn-flood"
    about = "SYNs at a rate"
    only_syns = True
    each_mbit = 0.06

    rate: Rate = shared(RATE)
    codepoint: str = shared(CODEPOINT)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        frames = ("--frames", f"{self.rate.bits_per_s}/{flow.family.syn_bytes * 8}")
        code = ("--codepoint", str(CODEPOINTS.index(self.codepoint)))
        return lean(flow, ("pace", "--syn", *frames, *code), ("count", "--syn"), Ready.COUNTS)

    @property
    def each_per_s(self) -> float:
        """Number of SYNs in a second, of IPv4."""
        return self.rate.bits_per_s / (8 * Family.IPV4.syn_bytes)
