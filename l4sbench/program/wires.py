# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Settings of the lab's wires: the path's delay, noise and pauses, and the time that packets cost a host.

They are sysctls of `kernels/lab/wire`, below `net.wire` of a node (docs/guest.md), and are read back as such.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, cast

from l4sbench.program.data import Readback
from l4sbench.units import Duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.program.placement import Placement
    from l4sbench.units import Value

PATH_LIMIT: Final = 60_000
"""Packets that a delay can hold, as in the published experiments: more than any flow has in flight."""
WIRE_PACKET_BYTES: Final = 1514
"""A full-size packet with its Ethernet header."""
DROPS: Final = "drops"
"""Last part of the name of a counter of packets that a wire dropped."""
_ROOT: Final = "net.wire"


def settings(placement: Placement, node: str, seed: int) -> tuple[tuple[str, str], ...]:
    """Return the sysctls of a node's wires.

    Args:
        placement: The cell on its topology.
        node: The node.
        seed: Seed of noise and pauses; each node and port draws from a seed of its own.
    """
    return (*_delays(placement, node), *_noise(placement, node, seed), *_host(placement, node, seed))


def readback(placement: Placement, node: str, set_to: tuple[tuple[str, str], ...]) -> Readback:
    """Return the command that reads these settings back, with the counters of drops and pauses."""
    networks = [address.network for address in placement.topology.by_name[node].addresses]
    counters = [*(f"{_ROOT}.{network}.{DROPS}" for network in networks), f"{_ROOT}.pauses"]
    return Readback("wires", ("sysctl", *(key for key, _ in set_to), *counters), "wires.txt")


def part_of_rtt(placement: Placement, rtt: Duration) -> Duration:
    """Return the delay of each port of the delay node for a round-trip time."""
    return Duration(rtt.ns // len(placement.topology.delay_ports))


def changed(placement: Placement, node: str, factor: str, value: Value) -> tuple[tuple[str, str], ...]:
    """Return the sysctls of a node's wires for a factor's new value; none if it does not concern them."""
    if factor != "rtt":
        return ()
    part = part_of_rtt(placement, cast("Duration", value))
    return tuple(
        (f"{_ROOT}.{port.network}.delay_ns", str(part.ns))
        for port in placement.topology.delay_ports
        if port.node == node
    )


def _delays(placement: Placement, node: str) -> Iterator[tuple[str, str]]:
    """Yield the round-trip time in equal parts on all ports of the delay node."""
    part = part_of_rtt(placement, placement.setting.rtt)
    for port in placement.topology.delay_ports:
        if port.node == node:
            yield f"{_ROOT}.{port.network}.delay_ns", str(part.ns)
            yield f"{_ROOT}.{port.network}.limit", str(PATH_LIMIT)


def _noise(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield order-preserving jitter of a sender, 0 to `path.noise` packet times of the bottleneck."""
    if all(placed.pair.sender != node for placed in placement.groups):
        return
    packet_ns = WIRE_PACKET_BYTES * 8_000_000_000 / placement.setting.rate.bits_per_s
    most_ns = int(placement.cell.path_noise * packet_ns)
    if most_ns:
        port = f"{_ROOT}.{placement.topology.sender_networks[node]}"
        yield f"{port}.jitter_ns", str(most_ns)
        yield f"{port}.seed", _seed(seed, node)
        yield f"{port}.limit", str(PATH_LIMIT)


def _host(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    cell, topology = placement.cell, placement.topology
    pausing = {"delay": (topology.delay,), "router": (topology.router,), "receivers": topology.receivers}
    if cell.path_pause.ns and node in pausing[cell.path_pause_at]:
        yield f"{_ROOT}.pause_seed", _seed(seed, node, "pauses")
        yield f"{_ROOT}.pause_every_ns", str(cell.path_pause_every.ns)
        yield f"{_ROOT}.pause_ns", str(cell.path_pause.ns)
    if cell.packet_cost.ns:
        yield f"{_ROOT}.packet_cost_ns", str(cell.packet_cost.ns)


def _seed(seed: int, *names: str) -> str:
    drawn = hashlib.sha256(" ".join((str(seed), *names)).encode()).digest()
    return str(int.from_bytes(drawn[:8], "big"))
