# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Settings of the lab's wires: delay, noise, jitter, losses, Wi-Fi and pauses, and the cost of packets.

They are sysctls of `kernels/lab/wire`, below `net.wire` of a node (docs/guest.md), and are read back as such.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

from l4sbench.facts.factors import PAUSING
from l4sbench.program.data import Readback, ReadKind
from l4sbench.text.units import Duration, Packets, Percent, Rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.facts.cell import Cell
    from l4sbench.program.placement import Placement
    from l4sbench.text.units import Value
    from l4sbench.topology import Port, Topology

WIRE_PACKET_BYTES: Final = 1514
"""A full-size packet with its Ethernet header."""
DROPS: Final = "drops"
"""Last part of the name of a counter of packets that a wire dropped."""
_ROOT: Final = "net.wire"
_MODELS: Final = {"walk": "0", "uniform": "1", "normal": "2"}
_ECN: Final = {"pass": "0", "bleach": "1", "ect0": "2"}
_WHOLE: Final = 10**9

_AIR_BPS: Final = {2: 25_808_824, 4: 51_617_647, 7: 86_029_412, 9: 114_705_882}
"""Data rate of each MCS: IEEE 802.11ax, 20 MHz (234 data subcarriers), one stream, 13.6 us a symbol."""
_AIR: Final = {
    "air_most_ns": 2_332_000,
    "air_header_bytes": 30,
    "air_frame_ns": 20_000,
    "air_access_ns": 467_500,
    "air_backoff_ns": 135_000,
}
"""An access to the air; docs/results/stress.md, "Wi-Fi", says where its values come from."""


def settings(placement: Placement, node: str, seed: int) -> tuple[tuple[str, str], ...]:
    """Return the sysctls of a node's wires.

    Args:
        placement: The cell on its topology.
        node: The node.
        seed: Seed of noise, jitter, losses and pauses; each node and port draws from a seed of its own.
    """
    parts = (
        _delays(placement, node),
        _own_rtt(placement, node),
        _noise(placement, node, seed),
        _path(placement, node, seed),
        _back(placement, node, seed),
        _wifi(placement, node, seed),
        _host(placement, node, seed),
    )
    return tuple(dict(setting for part in parts for setting in part).items())


def readback(placement: Placement, node: str, set_to: tuple[tuple[str, str], ...]) -> Readback:
    """Return the command that reads these settings back, with the counters of what wires did."""
    networks = [address.network for address in placement.topology.by_name[node].addresses]
    counters = [*(f"{_ROOT}.{network}.{DROPS}" for network in networks), f"{_ROOT}.pauses"]
    for data in _data_ports(placement, node) if impaired(placement.cell) else ():
        counters += [f"{_ROOT}.{data.network}.{name}" for name in ("lost", "rewritten", "marked")]
    counters += [f"{_ROOT}.{port.network}.thinned" for port in _thinning(placement, node)]
    air = placement.topology.bottleneck_of(node)
    if air is not None and placement.cell.wifi_mcs is not None:
        counters += [f"{_ROOT}.{air.network}.{name}" for name in ("air_accesses", "air_again")]
    argv = ("sysctl", *(key for key, _ in set_to), *counters)
    return Readback("wires", argv, "wires.txt", kind=ReadKind.SYSCTLS)


def part_of_rtt(placement: Placement, rtt: Duration) -> Duration:
    """Return the delay of each port of a delay node for a round-trip time."""
    return Duration(rtt.ns // placement.topology.parts)


def _data_ports(placement: Placement, node: str) -> tuple[Port, ...]:
    """Return the ports of a node that have the jitter and the losses of the path."""
    return tuple(port for port in placement.topology.data_ports if port.node == node)


def changed(placement: Placement, node: str, factor: str, value: Value) -> tuple[tuple[str, str], ...]:
    """Return the sysctls of a node's wires for a factor's new value; none if it does not concern them."""
    ports = [port for port in placement.topology.delay_ports if port.node == node]
    air = placement.topology.bottleneck_of(node)
    match factor, value:
        case "rtt", Duration():
            part = part_of_rtt(placement, value)
            return tuple((f"{_ROOT}.{port.network}.delay_ns", str(part.ns)) for port in ports)
        case "path.loss", Percent():
            found = _loss(value, placement.cell.path_loss_burst)
        case "path.ecn", str():
            found = (("ecn", _ECN[value]),)
        case "path.wifi_mcs", int():
            return () if air is None else ((f"{_ROOT}.{air.network}.air_rate_bps", str(_AIR_BPS[value])),)
        case _:
            return ()
    data = _data_ports(placement, node)
    return tuple((f"{_ROOT}.{port.network}.{name}", set_to) for port in data for name, set_to in found)


def jittered(placement: Placement, node: str) -> tuple[Port, ...]:
    """Return the ports of a node that delay by more or less than the mean."""
    topology, cell = placement.topology, placement.cell
    back = topology.return_ports if cell.path_jitter_direction == "both" else ()
    ports = dict.fromkeys((*topology.data_ports, *back)) if cell.path_jitter.ns else ()
    return tuple(port for port in ports if port.node == node)


def _thinning(placement: Placement, node: str) -> Iterator[Port]:
    """Yield the ports of a node that let only some ACKs of receivers pass."""
    if placement.cell.path_ack_thinning > 1:
        yield from (port for port in placement.topology.return_ports if port.node == node)


def _back(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the jitter of what receivers send, and the thinning of their ACKs."""
    for port in _thinning(placement, node):
        yield f"{_ROOT}.{port.network}.thin", str(placement.cell.path_ack_thinning)
    for port in jittered(placement, node):
        if port not in placement.topology.data_ports:
            yield f"{_ROOT}.{port.network}.seed", seed_of(seed, node, "path", "back", port.network)
            yield from _jitter(placement.cell, f"{_ROOT}.{port.network}")


def _jitter(cell: Cell, port: str) -> Iterator[tuple[str, str]]:
    if cell.path_jitter.ns:
        yield f"{port}.spread_model", _MODELS[cell.path_jitter_model]
        yield f"{port}.spread_every_ns", str(cell.path_jitter_every.ns)
        yield f"{port}.overtake", str(int(cell.path_jitter_order == "free"))
        yield f"{port}.spread_ns", str(cell.path_jitter.ns)


def _path(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield jitter, losses and ECN of the path towards the receivers, at the delay before the bottleneck."""
    cell, ports = placement.cell, _data_ports(placement, node)
    if not ports or not impaired(cell):
        return
    for number, data in enumerate(ports):
        port = f"{_ROOT}.{data.network}"
        yield f"{port}.seed", seed_of(seed, node, "path", *([data.network] if number else []))
        yield from _jitter(cell, port)
    if cell.path_loss.ppb:
        yield from changed(placement, node, "path.loss", cell.path_loss)
    if cell.path_ecn != "pass":
        yield from changed(placement, node, "path.ecn", cell.path_ecn)
    if cell.path_mark.ppb:
        yield from ((f"{_ROOT}.{data.network}.mark_ppb", str(cell.path_mark.ppb)) for data in ports)


def air_rate(cell: Cell, mcs: int) -> Rate:
    """Return the mean rate of full-size packets by the cell's Wi-Fi while some always wait, to 100 kbit/s.

    A frame that is lost takes as long as one that arrives.
    """
    frame_ns = (WIRE_PACKET_BYTES + _AIR["air_header_bytes"]) * 8 * _WHOLE // _AIR_BPS[mcs]
    packets = _AIR["air_most_ns"] // frame_ns
    access_ns = _AIR["air_access_ns"] + _AIR["air_backoff_ns"] // 2
    bits_per_s = (
        packets * WIRE_PACKET_BYTES * 8 * _WHOLE // (access_ns + packets * (frame_ns + _AIR["air_frame_ns"]))
    )
    arrived = bits_per_s * (_WHOLE - cell.path_wifi_loss.ppb) // _WHOLE
    return Rate(round(arrived, -5))


def air_rates(cell: Cell) -> frozenset[Rate]:
    """Return the mean rates of a cell's Wi-Fi during a trial; none of a cell without it."""
    if cell.wifi_mcs is None:
        return frozenset()
    changes = (event.changes.get("path.wifi_mcs", cell.wifi_mcs) for event in cell.events)
    return frozenset(air_rate(cell, cast("int", mcs)) for mcs in (cell.wifi_mcs, *changes))


def _wifi(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the air that packets take from the bottleneck, if they take it and it is at this node."""
    cell, air = placement.cell, placement.topology.bottleneck_of(node)
    if air is None or cell.wifi_mcs is None:
        return
    port = f"{_ROOT}.{air.network}"
    yield f"{port}.seed", seed_of(seed, node, "air")
    yield from ((f"{port}.{name}", str(value)) for name, value in _AIR.items())
    if cell.path_wifi_loss.ppb:
        yield f"{port}.air_loss_ppb", str(cell.path_wifi_loss.ppb)
    yield from changed(placement, node, "path.wifi_mcs", cell.wifi_mcs)


def impaired(cell: Cell) -> bool:
    """Return True if the path of a cell, at any time, has jitter or losses, or changes or marks packets."""
    later = {factor for event in cell.events for factor in event.changes}
    return bool(
        cell.path_jitter.ns
        or cell.path_loss.ppb
        or cell.path_ecn != "pass"
        or cell.path_mark.ppb
        or not later.isdisjoint({"path.loss", "path.ecn"})
    )


def _loss(loss: Percent, burst: Packets) -> tuple[tuple[str, str], ...]:
    """Return the probabilities, in parts per 10^9, that losses begin and end before a packet.

    The model of Gilbert ("Capacity of a burst-noise channel", Bell System Technical Journal 39, 1960) with
    every packet lost in the bad state: bursts have the mean length 1 / leave, and the share of lost packets
    is enter / (enter + leave). With enter = share and leave = 1 - share losses are independent.
    """
    enter, leave = loss_chances(loss, burst)
    return ("loss_enter_ppb", str(round(enter * _WHOLE))), ("loss_leave_ppb", str(round(leave * _WHOLE)))


def loss_chances(loss: Percent, burst: Packets) -> tuple[Fraction, Fraction]:
    """Return the exact probabilities that losses begin and end; the first is above 1 if they cannot."""
    share = Fraction(loss.ppb, _WHOLE)
    if not burst.count or share == 1:
        return share, 1 - share
    leave = Fraction(1, burst.count)
    return leave * share / (1 - share), leave


def _delays(placement: Placement, node: str) -> Iterator[tuple[str, str]]:
    """Yield the round-trip time in equal parts on all ports of delay nodes."""
    part = part_of_rtt(placement, placement.setting.rtt)
    for port in placement.topology.delay_ports:
        if port.node == node:
            yield f"{_ROOT}.{port.network}.delay_ns", str(part.ns)
            yield f"{_ROOT}.{port.network}.limit", str(placement.path_packets)


def _own_rtt(placement: Placement, node: str) -> Iterator[tuple[str, str]]:
    """Yield the delay of a sender whose groups have a longer round-trip time than the path."""
    extra = placement.extra_delay(node)
    if extra.ns:
        port = f"{_ROOT}.{placement.topology.sender_networks[node]}"
        yield f"{port}.delay_ns", str(extra.ns)
        yield f"{port}.limit", str(placement.path_packets)


def _noise(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield order-preserving jitter of a sender, 0 to `path.noise` packet times of the bottleneck."""
    if all(placed.pair.sender != node for placed in placement.groups):
        return
    packet_ns = WIRE_PACKET_BYTES * 8_000_000_000 / placement.setting.rate.bits_per_s
    most_ns = int(placement.cell.path_noise * packet_ns)
    if most_ns:
        port = f"{_ROOT}.{placement.topology.sender_networks[node]}"
        yield f"{port}.jitter_ns", str(most_ns)
        yield f"{port}.seed", seed_of(seed, node)
        yield f"{port}.limit", str(placement.path_packets)


def pauses(placement: Placement, node: str) -> bool:
    """Return True if a node pauses now and then."""
    return bool(placement.cell.path_pause.ns) and node in pausing(placement.cell, placement.topology)


def pausing(cell: Cell, topology: Topology) -> tuple[str, ...]:
    """Return the nodes that pause where a cell states pauses."""
    nodes = {
        "senders": topology.senders,
        "delay": topology.delays,
        "router": tuple(port.node for port in topology.bottlenecks),
        "receivers": topology.receivers,
    }
    return tuple(node for kind in PAUSING[cell.path_pause_at] for node in nodes[kind])


def _host(placement: Placement, node: str, seed: int) -> Iterator[tuple[str, str]]:
    cell = placement.cell
    if pauses(placement, node):
        yield f"{_ROOT}.pause_seed", seed_of(seed, node, "pauses")
        yield f"{_ROOT}.pause_every_ns", str(cell.path_pause_every.ns)
        yield f"{_ROOT}.pause_ns", str(cell.path_pause.ns)
    if cell.packet_cost.ns:
        yield f"{_ROOT}.packet_cost_ns", str(cell.packet_cost.ns)


def seed_of(seed: int, *names: str) -> str:
    """Return a seed of its own for what `names` state."""
    drawn = hashlib.sha256(" ".join((str(seed), *names)).encode()).digest()
    return str(int.from_bytes(drawn[:8], "big"))
