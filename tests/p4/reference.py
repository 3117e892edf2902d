# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""NCF in plain Python: what a switch or router answers to a packet, with time and queue depth as inputs.

Source: "Network-Assisted Congestion Feedback" (IEEE TNSM 2026), Algorithm 1 and section IV; p4/ncf/README.md
lists what the paper leaves open. Data planes are compared with this.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

TCP, UDP = 6, 17
FIN, RST, ACK = 0x01, 0x04, 0x10
OPTION = struct.Struct("!BBHBBHII")
"""Kind, length, experiment, version and flags, bottleneck, flows, capacity in kbit/s, queue in bytes."""
KIND, EXID, VERSION, MICE_CROWDED = 253, 0x4E43, 1, 0x1
TICK_NS = 1 << 16


@dataclass(frozen=True)
class Settings:
    """The parameters of one bottleneck.

    Attributes:
        rho: A flow with more packets in the current and the two windows before is an elephant.
        window_bit: A window lasts 2^window_bit ns.
        gap: Signals of one flow are more than so many units of 65,536 ns apart.
        mice_bytes: A mice's queue that is deeper is crowded.
        elephants_bytes: A deeper elephants' queue makes a signal.
        capacity_kbps: The link's capacity, as signals state it.
        queue_bytes: Size of the elephants' queue, as signals state it.
        bottleneck: Number of the bottleneck, as signals state it.
    """

    rho: int = 12
    window_bit: int = 25
    gap: int = 16
    mice_bytes: int = 25_000
    elephants_bytes: int = 150_000
    capacity_kbps: int = 200_000
    queue_bytes: int = 200_000
    bottleneck: int = 1


@dataclass(frozen=True)
class Sent:
    """A packet that leaves by a port."""

    port: int
    packet: bytes


@dataclass(frozen=True)
class Outcome:
    """The queue that a packet joins (None if it is dropped), and everything that leaves."""

    queue: str | None
    sent: tuple[Sent, ...]


@dataclass(frozen=True)
class Flow:
    """The five-tuple of a packet, and what else of it counts.

    Attributes:
        tuple: Addresses, protocol and ports.
        protocol: TCP or UDP.
        ends: It has FIN or RST.
        bare: It is a TCP packet without payload.
    """

    tuple: bytes
    protocol: int
    ends: bool
    bare: bool = False

    @property
    def id(self) -> int:
        """The flow's slot: CRC-16/ARC of source, destination, protocol and ports."""
        crc = 0
        for byte in self.tuple:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ 0xA001 * (crc & 1)
        return crc

    @classmethod
    def of(cls, frame: bytes) -> Flow | None:
        """Return the flow of an Ethernet frame: TCP or UDP over IPv4 without options, not fragmented."""
        if len(frame) < 38 or frame[12:15] != b"\x08\x00\x45":
            return None
        (fragment,) = struct.unpack_from("!H", frame, 20)
        protocol = frame[23]
        if fragment & 0x3FFF or protocol not in (TCP, UDP):
            return None
        ends = protocol == TCP and bool(frame[47] & (FIN | RST))
        bare = protocol == TCP and int.from_bytes(frame[16:18]) == 20 + 4 * (frame[46] >> 4)
        return cls(frame[26:34] + bytes([protocol]) + frame[34:38], protocol, ends, bare)


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = total % 0x10000 + total // 0x10000
    return 0xFFFF - total


def signal_to(frame: bytes, flows: int, flags: int, settings: Settings) -> bytes:
    """Return the signal to the sender of a TCP packet: its headers turned round, with the option."""
    ip, tcp = bytearray(frame[14:34]), bytearray(frame[34:54])
    ip[1] = 0
    ip[2:4] = (56).to_bytes(2)
    ip[8] = 64
    ip[10:12] = bytes(2)
    ip[12:16], ip[16:20] = ip[16:20], ip[12:16]
    ip[10:12] = internet_checksum(bytes(ip)).to_bytes(2)
    tcp[0:2], tcp[2:4] = tcp[2:4], tcp[0:2]
    tcp[12], tcp[13] = 9 << 4, ACK
    tcp[16:20] = bytes(4)
    option = OPTION.pack(
        *(KIND, OPTION.size, EXID, VERSION << 4 | flags, settings.bottleneck),
        *(flows, settings.capacity_kbps, settings.queue_bytes),
    )
    pseudo = bytes(ip[12:20]) + struct.pack("!BBH", 0, TCP, len(tcp) + len(option))
    tcp[16:18] = internet_checksum(pseudo + bytes(tcp) + option).to_bytes(2)
    return frame[6:12] + frame[0:6] + frame[12:14] + bytes(ip) + bytes(tcp) + option


@dataclass
class Ncf:
    """A bridge with NCF at some of its ports.

    Attributes:
        hosts: Port of each MAC address.
        bottlenecks: Settings by port.
        windows: Packets by flow, in four registers that take turns.
        flows: Number of elephants by port: the N of the paper.
        states: By flow the port that it is counted at, or None if it ended.
    """

    hosts: Mapping[bytes, int]
    bottlenecks: Mapping[int, Settings]
    windows: tuple[dict[int, int], ...] = field(default_factory=lambda: ({}, {}, {}, {}))
    flows: dict[int, int] = field(default_factory=dict)
    states: dict[int, int | None] = field(default_factory=dict)
    crowded: dict[int, bool] = field(default_factory=dict)
    signalled: dict[int, int] = field(default_factory=dict)
    settings: Settings = Settings()

    def window(self, time_ns: int) -> int:
        """Return the number of the window of a time."""
        return time_ns >> self.settings.window_bit

    def clear(self, window: int) -> None:
        """Do the controller's work in a window: empty the register that counts in the next."""
        self.windows[(window + 1) % 4].clear()

    def packet(self, time_ns: int, port: int, frame: bytes, depth_bytes: int) -> Outcome:
        """Return what becomes of a packet that finds its queue so deep."""
        out = self.hosts.get(frame[0:6])
        if out is None:
            return Outcome(None, ())
        flow = Flow.of(frame)
        elephant = flow is not None and self._count(time_ns, flow.id) > self.settings.rho
        moved = flow is not None and self._follow(out, flow, elephant)
        sent = [Sent(out, frame)]
        limits = self.bottlenecks.get(out)
        if limits is not None and not elephant:
            self.crowded[out] = depth_bytes > limits.mice_bytes
        elif limits is None or flow is None or moved:
            pass
        elif self._signals(time_ns, flow, depth_bytes, limits):
            flags = MICE_CROWDED if self.crowded.get(out) else 0
            sent.append(Sent(port, signal_to(frame, self.flows.get(out, 0), flags, limits)))
        return Outcome("elephants" if elephant else "mice", tuple(sent))

    def _count(self, time_ns: int, flow: int) -> int:
        """Count a packet, and return those of this and the two windows before; counters stop at 255."""
        now = self.window(time_ns)
        current = self.windows[now % 4]
        current[flow] = min(current.get(flow, 0) + 1, 255)
        return sum(self.windows[(now - age) % 4].get(flow, 0) for age in range(3))

    def _follow(self, port: int, flow: Flow, elephant: bool) -> bool:
        """Keep the number of elephants; report whether the flow was counted at another port until now.

        A flow that ended is not counted again before it was a mouse, and one that only acknowledges never is.
        One that is counted at another port leaves that number with this packet, and joins this with the next.
        """
        before = self.states.get(flow.id)
        gone = flow.ends or not elephant
        moved = before not in (None, port) and not gone and not flow.bare
        if flow.ends:
            self.states[flow.id] = None
        elif not elephant or moved:
            self.states.pop(flow.id, None)
        elif flow.id not in self.states and not flow.bare:
            self.states[flow.id] = port
            self.flows[port] = min(self.flows.get(port, 0) + 1, 0xFFFF)
        if before is not None and (gone or moved):
            self.flows[before] = max(self.flows.get(before, 0) - 1, 0)
        return moved

    def _signals(self, time_ns: int, flow: Flow, depth_bytes: int, limits: Settings) -> bool:
        """Report whether an elephant's packet makes a signal: not if the flow's last was just before."""
        if depth_bytes <= limits.elephants_bytes or flow.protocol != TCP or flow.ends or flow.bare:
            return False
        now = time_ns // TICK_NS % (1 << 32)
        if (now - self.signalled.get(flow.id, 0)) % (1 << 32) <= self.settings.gap:
            return False
        self.signalled[flow.id] = now
        return True
