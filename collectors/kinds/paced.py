# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Paced flows: packets at a rate, counted by their receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.reader import OFF_RATE, Reader
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.traffic.paced import Paced
from l4sbench.traffic.syn_flood import SynFlood

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectors.reader import FlowResult, TrialView
    from l4sbench.facts.groups import Group

MOST_FRAME_BYTES: Final = 65_549
"""Length of the longest frame that a paced flow may consist of."""


class PacedReader(Reader):
    """Reads paced flows, and judges their rate."""

    send = Paced.name
    receiver_counts = True

    def faults(self, flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
        """Yield another rate than asked for."""
        yield from super().faults(flow, group, trial)
        sender, sends = flow.sender, group.sends
        if sender is None or sender.frames_mbps is None or not isinstance(sends, Paced | SynFlood):
            return
        wanted_mbps = sends.rate.mbps
        off = abs(sender.frames_mbps / wanted_mbps - 1)
        # a packet is sent or not: one more or less is no error of the rate
        if off > OFF_RATE and off * wanted_mbps * 1e6 * sender.seconds > 2 * 8 * MOST_FRAME_BYTES:
            yield Fault.of(FaultKind.RATE, flow.run.flow, mbps=sender.frames_mbps, wanted_mbps=wanted_mbps)
