# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Floods of SYNs, judged by their rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.kinds.paced import off_rate
from collectors.reader import Reader
from l4sbench.traffic.syn_flood import SynFlood

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectors.reader import FlowResult, TrialView
    from l4sbench.faults import Fault
    from l4sbench.groups import Group


class SynFloodReader(Reader):
    """Reads floods of SYNs, and judges their rate."""

    send = SynFlood.name

    def faults(self, flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
        """Yield another rate than asked for."""
        yield from super().faults(flow, group, trial)
        if isinstance(group.sends, SynFlood):
            yield from off_rate(flow, group.sends.rate)
