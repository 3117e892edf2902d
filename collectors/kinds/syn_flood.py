# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Floods of SYNs, judged by their rate."""

from __future__ import annotations

from collectors.kinds.paced import PacedReader
from l4sbench.traffic.syn_flood import SynFlood


class SynFloodReader(PacedReader):
    """Reads floods of SYNs, and judges their rate."""

    send = SynFlood.name
    receiver_counts = False
