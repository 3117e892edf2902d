# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Memory of a trial whose nodes share one kernel: both ends of all connections draw on it."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell

_PER_BYTE: Final = 8
"""Bytes of memory for each byte under way.

Senders queue two to three windows (tcp_sndbuf_expand() in Linux 7.3), receivers up to one, and the kernel
counts 1.6 times a packet's size.
"""
_LEAST_TCP_MB: Final = 192
_FLOOD_TCP_MB: Final = 768
"""Beside a flood of connections: each end of 58,000 that are open draws at least a page of 4 KiB."""
_STEP_MB: Final = 256
_FLOWS: Final = 400
"""Flows whose processes fit into the least memory of a guest, 512 MiB, beside TCP's part of it."""
_PER_FLOW_MB: Final = 0.5
"""Memory of a flow's two processes: 2,228 processes filled a guest of 512 MiB."""


def tcp_mb(cell: Cell) -> int:
    """Return the memory that TCP may take in a trial of a cell (net.ipv4.tcp_mem, tcp(7)), in MiB.

    With less, the kernel would shrink windows, and hosts rather than the path would limit flows.
    """
    if any(kind.many_open for kind in cell.kinds):
        return _FLOOD_TCP_MB
    held_bytes = cell.highest_rate.bits_per_s / 8 * cell.longest_rtt.ns / 1e9 * (1 + cell.buffer_bdp)
    return max(_LEAST_TCP_MB, round(_PER_BYTE * held_bytes / 2**20))


def guest_mb(cell: Cell, least_mb: int) -> int:
    """Return the memory of a guest for a trial of a cell, of at least `least_mb`, in MiB."""
    of_tcp_mb = tcp_mb(cell)
    # not by `groups`, which take 50 µs a cell, and a matrix may have a million of these
    counts = (cell.get(f"{name}.count") for name in cell.group_names)
    flows = sum(count for count in counts if isinstance(count, int))
    more_mb = max(0.0, flows - _FLOWS) * _PER_FLOW_MB
    if of_tcp_mb > _LEAST_TCP_MB:
        more_mb += max(0, of_tcp_mb + least_mb // 2 - least_mb)
    return least_mb + ceil(more_mb / _STEP_MB) * _STEP_MB
