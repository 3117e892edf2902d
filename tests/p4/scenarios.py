# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The events of the vectors: one function each, whose name is that of the file.

Depths are multiples of 80 bytes, Tofino's cell, so that data planes with other units see the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from tests.p4.packets import (
    ALICE,
    BOB,
    CAROL,
    Tcp,
    arp,
    fragment_of,
    ipv6,
    tagged,
    udp,
    with_ip_options,
)
from tests.p4.reference import TCP, Flow, Settings, internet_checksum, signal_to
from tests.p4.vectors import Arrival, Event, Preset

MS = 1_000_000
WINDOW = 1 << Settings().window_bit
TICK = 1 << 16
START = 32 * WINDOW
"""The begin of a window whose counter is register 0."""
DEEP = 160_000
"""A depth that makes signals."""
DATA = Tcp()
OTHER = Tcp(port=40_001)
FIN_ACK, RST, ACK = 0x11, 0x04, 0x10


@dataclass(frozen=True)
class Scenario:
    """Events, and what they are to show."""

    about: str
    events: tuple[Event, ...]
    cleared: bool = True


def at(window: int, ms: float = 0) -> int:
    """Return a time: windows after the start, and milliseconds."""
    return START + window * WINDOW + int(ms * MS)


def burst(segment: Tcp, count: int, time_ns: int, every_ns: int = 10_000, depth: int = 0) -> list[Event]:
    """Return packets of a flow, one after another."""
    return [Arrival(time_ns + n * every_ns, segment.source.port, segment.frame, depth) for n in range(count)]


def scenario(about: str, *parts: Iterable[Event], cleared: bool = True) -> Scenario:
    """Return a scenario of several parts."""
    return Scenario(about, tuple(event for part in parts for event in part), cleared)


def frames(frame: bytes, count: int, time_ns: int, depth: int = 0) -> list[Event]:
    """Return equal frames from the first host."""
    return [Arrival(time_ns + n * 10_000, ALICE.port, frame, depth) for n in range(count)]


@cache
def twin() -> Tcp:
    """Return a flow from another host whose identifier is that of DATA's."""
    # a CRC maps the values of 16 neighbouring bits to all identifiers: one port of another host fits
    data = Flow.of(DATA.frame)
    assert data is not None
    wanted = data.id
    end = bytes([TCP]) + b"%b" + DATA.to_port.to_bytes(2)
    for port in range(65536):
        of = CAROL.ip + BOB.ip + end % port.to_bytes(2)
        if Flow(of, TCP, ends=False).id == wanted:
            return Tcp(CAROL, port=port)
    raise AssertionError("no port gives this identifier")


# ---- classification
def rho() -> Scenario:
    return scenario(
        "Twelve packets of a flow join the mice, the thirteenth the elephants.", burst(DATA, 14, at(0, 1))
    )


def windows_roll() -> Scenario:
    return scenario(
        "Packets of this and the two windows before count: 5 + 5 + 2 is a mouse, one more an elephant; "
        "when the first five are out of sight the flow is a mouse again.",
        burst(DATA, 5, at(0, 1)),
        burst(DATA, 5, at(1, 1)),
        burst(DATA, 4, at(2, 1)),
        burst(DATA, 4, at(3, 1)),
        burst(DATA, 9, at(4, 1)),
        burst(DATA, 3, at(6, 1)),
        burst(DATA, 3, at(7, 1)),
    )


def window_boundary() -> Scenario:
    return scenario(
        "The last nanosecond of a window counts there; three windows later it is forgotten, not one before.",
        burst(DATA, 6, at(1) - 6, 1),
        burst(DATA, 6, at(1), 1),
        burst(DATA, 1, at(3) - 1, 1),
        burst(DATA, 6, at(3), 1),
        burst(DATA, 1, at(3) + 6, 1),
    )


def counters_cleared() -> Scenario:
    return scenario(
        "A register that counts again four windows later begins at 0.",
        burst(DATA, 10, at(0, 1)),
        burst(DATA, 4, at(4, 1)),
    )


def counters_not_cleared() -> Scenario:
    return scenario(
        "Without the controller a mouse is taken for an elephant: ten packets of four windows ago count.",
        burst(DATA, 10, at(0, 1)),
        burst(DATA, 4, at(4, 1)),
        cleared=False,
    )


def counters_saturate() -> Scenario:
    return scenario(
        "Counters and their sums stop at 255: with 8 bits that wrap, packets 256 to 268 of a window, and the "
        "first thirteen of the windows after, would join the mice.",
        burst(DATA, 270, at(0, 1)),
        burst(DATA, 14, at(1, 1)),
        burst(DATA, 14, at(2, 1)),
    )


def hash_collision() -> Scenario:
    return scenario(
        "Flows whose five-tuples have one CRC-16 are one flow: seven packets of each make an elephant.",
        burst(DATA, 7, at(0, 1)),
        burst(twin(), 7, at(0, 2)),
        burst(DATA, 1, at(0, 3), depth=DEEP),
        burst(twin(), 1, at(0, 3.5), depth=DEEP),
    )


# ---- number of elephants
def _ended(flags: int, about: str) -> Scenario:
    return scenario(
        about,
        burst(OTHER, 14, at(0, 1)),
        burst(DATA, 14, at(0, 2)),
        burst(OTHER, 1, at(0, 4), depth=DEEP),
        burst(DATA.but(flags=flags, payload=b""), 1, at(0, 5), depth=DEEP),
        burst(OTHER, 1, at(0, 6), depth=DEEP),
        burst(DATA.but(flags=ACK, payload=b"", seq=1_001), 1, at(0, 7)),
        burst(OTHER, 1, at(0, 8), depth=DEEP),
        burst(DATA.but(flags=flags, payload=b""), 1, at(0, 9)),
        burst(OTHER, 1, at(0, 10), depth=DEEP),
    )


def fin() -> Scenario:
    return _ended(
        FIN_ACK,
        "A FIN takes its flow out of the count (2, then 1), once; the ACK after it does not bring it back. "
        "A FIN makes no signal.",
    )


def rst() -> Scenario:
    return _ended(RST, "A RST takes its flow out of the count like a FIN.")


def reused_after_fin() -> Scenario:
    return scenario(
        "A new connection with the five-tuple of one that ended counts again once it was a mouse.",
        burst(DATA, 14, at(0, 1)),
        burst(DATA.but(flags=FIN_ACK, payload=b""), 1, at(0, 2)),
        burst(DATA, 12, at(4, 1)),
        burst(DATA, 2, at(4, 3), depth=DEEP),
    )


def fin_of_a_mouse() -> Scenario:
    return scenario(
        "A flow that was never counted leaves the count as it is when it ends.",
        burst(OTHER, 14, at(0, 1)),
        burst(DATA, 3, at(0, 2)),
        burst(DATA.but(flags=FIN_ACK, payload=b""), 1, at(0, 3)),
        burst(OTHER, 1, at(0, 4), depth=DEEP),
    )


def idle_elephant() -> Scenario:
    return scenario(
        "An elephant that was silent for two windows is a mouse with its next packet, and no longer counted.",
        burst(DATA, 14, at(0, 1)),
        burst(OTHER, 14, at(0, 2)),
        burst(OTHER, 1, at(0, 4), depth=DEEP),
        burst(OTHER, 13, at(2, 1)),
        burst(OTHER, 1, at(3, 1), depth=DEEP),
        burst(DATA, 1, at(3, 2)),
        burst(OTHER, 1, at(3, 3), depth=DEEP),
    )


def number_saturates() -> Scenario:
    return scenario(
        "The number of elephants stops at 65,535.",
        [Preset(BOB.port, 65_534)],
        burst(DATA, 14, at(0, 1), depth=DEEP),
        burst(OTHER, 14, at(0, 2), depth=DEEP),
    )


def number_stops_at_0() -> Scenario:
    return scenario(
        "A flow that ends while the count is 0 leaves it at 0.",
        burst(DATA, 14, at(0, 1)),
        burst(OTHER, 13, at(0, 2)),
        [Preset(BOB.port, 0)],
        burst(DATA.but(flags=FIN_ACK, payload=b""), 1, at(0, 3)),
        burst(OTHER, 1, at(0, 4), depth=DEEP),
    )


def acknowledgements() -> Scenario:
    bare = DATA.but(flags=ACK, payload=b"")
    timestamps = bare.but(options=b"\1\1\x08\x0a" + struct.pack("!II", 7, 9))
    most = bare.but(options=b"\1" * 40)
    return scenario(
        "A flow that only acknowledges is an elephant, but is not counted and gets no signal, whatever "
        "options it has: the other's state 1. One byte of payload and it is counted, and gets a signal that "
        "states 2. It stays so while it acknowledges again, without signals, until it is a mouse.",
        burst(OTHER, 14, at(0, 1)),
        burst(bare, 14, at(0, 2)),
        *(burst(one, 1, at(0, 4 + 2 * n), depth=DEEP) for n, one in enumerate((bare, timestamps, most))),
        burst(OTHER, 1, at(0, 10), depth=DEEP),
        burst(timestamps.but(payload=b"1"), 1, at(0, 12), depth=DEEP),
        burst(bare, 1, at(0, 14), depth=DEEP),
        burst(OTHER, 1, at(0, 16), depth=DEEP),
        burst(OTHER, 14, at(3, 1)),
        burst(bare, 1, at(3, 3)),
        burst(OTHER, 1, at(3, 5), depth=DEEP),
    )


# ---- signals
def elephants_threshold() -> Scenario:
    return scenario(
        "At its threshold the elephants' queue makes no signal, one cell above it does.",
        burst(DATA, 13, at(0, 1)),
        burst(DATA, 1, at(0, 3), depth=149_920),
        burst(DATA, 1, at(0, 5), depth=150_000),
        burst(DATA, 1, at(0, 7), depth=150_080),
    )


def mice_make_no_signal() -> Scenario:
    return scenario(
        "However deep the mice's queue, mice get no signal.", burst(DATA, 12, at(0, 1), depth=49_920)
    )


def mice_crowded() -> Scenario:
    return scenario(
        "Signals state whether the mice's queue was above its threshold when a packet last came there.",
        burst(DATA, 13, at(0, 1)),
        burst(DATA, 1, at(0, 3), depth=DEEP),
        burst(OTHER, 1, at(0, 4), depth=25_040),
        burst(DATA, 1, at(0, 5), depth=DEEP),
        frames(arp(DATA), 1, at(0, 6), depth=24_960),
        burst(DATA, 1, at(0, 7), depth=DEEP),
    )


def damping() -> Scenario:
    first = (at(0, 2) // TICK + 1) * TICK
    return scenario(
        "Signals of one flow are more than 16 units of 65,536 ns apart; another flow's are not held up.",
        burst(DATA, 13, at(0, 1)),
        burst(OTHER, 13, at(0, 1.5)),
        burst(DATA, 1, first, depth=DEEP),
        burst(DATA, 1, first + 1, depth=DEEP),
        burst(OTHER, 1, first + 2, depth=DEEP),
        burst(DATA, 1, first + 17 * TICK - 1, depth=DEEP),
        burst(DATA, 1, first + 17 * TICK, depth=DEEP),
    )


def addresses_turn_round() -> Scenario:
    segment = Tcp(CAROL, port=1, to_port=65_535, seq=0xFEDCBA98, ack=0x01234567, flags=0xF8, id=0xBEEF)
    segment = segment.but(tos=0xBB, reserved=0xF, urgent=7)
    return scenario(
        "A signal goes to the port its packet came by, with MAC and IP addresses and ports turned round; "
        "sequence and acknowledgement numbers, window and identification stay, TOS, reserved bits, urgent "
        "pointer and all flags but ACK are 0.",
        burst(segment, 13, at(0, 1)),
        burst(segment, 1, at(0, 3), depth=DEEP),
        burst(Tcp(BOB, ALICE), 13, at(0, 4)),
        burst(Tcp(BOB, ALICE), 1, at(0, 6), depth=DEEP),
    )


def tcp_options() -> Scenario:
    timestamps = b"\1\1\x08\x0a" + struct.pack("!II", 7, 9)
    segment = DATA.but(options=timestamps)
    return scenario(
        "The options and the payload of the packet do not come back.",
        burst(segment, 13, at(0, 1)),
        burst(segment, 1, at(0, 3), depth=DEEP),
        burst(segment.but(payload=b"1"), 1, at(0, 5), depth=DEEP),
    )


def checksums() -> Scenario:
    def tcp_checksum(segment: Tcp) -> int:
        return int.from_bytes(signal_to(segment.frame, 1, 0, Settings())[50:52])

    def ip_checksum(segment: Tcp) -> int:
        return int.from_bytes(signal_to(segment.frame, 1, 0, Settings())[24:26])

    zero = DATA.but(seq=0, id=0)
    zero = zero.but(seq=tcp_checksum(zero), id=ip_checksum(zero))
    assert tcp_checksum(zero) == ip_checksum(zero) == 0
    assert internet_checksum(b"\xff\xff") == 0
    more = zero.but(seq=zero.seq + 1, id=zero.id + 1)
    return scenario(
        "Checksums of 0x0000 and, with one more in the sum, 0xFFFE.",
        burst(DATA, 13, at(0, 1)),
        burst(zero, 1, at(0, 3), depth=DEEP),
        burst(more, 1, at(0, 5), depth=DEEP),
    )


# ---- what is not TCP
def ip_options_pass() -> Scenario:
    return scenario(
        "Packets with IP options join the mice, however many.",
        frames(with_ip_options(DATA), 14, at(0, 1), DEEP),
    )


def fragments_pass() -> Scenario:
    return scenario(
        "Fragments join the mice, the first of a packet like the others.",
        *(
            frames(fragment_of(DATA, field), 14, at(0, ms), DEEP)
            for ms, field in ((1, 0x2000), (2, 0x2001), (3, 0x0002))
        ),
    )


def udp_is_classified() -> Scenario:
    return scenario(
        "UDP flows are classified and counted; no signal goes to their senders.",
        frames(udp(DATA), 14, at(0, 1), DEEP),
        burst(DATA, 13, at(0, 3)),
        burst(DATA, 1, at(0, 5), depth=DEEP),
    )


def others_pass() -> Scenario:
    return scenario(
        "IPv6, ARP and packets of a VLAN join the mice.",
        frames(ipv6(DATA), 14, at(0, 1), DEEP),
        frames(arp(DATA), 14, at(0, 2), DEEP),
        frames(tagged(DATA), 14, at(0, 3), DEEP),
    )


SCENARIOS: tuple[Callable[[], Scenario], ...] = (
    *(rho, windows_roll, window_boundary, counters_cleared, counters_not_cleared, counters_saturate),
    *(hash_collision, fin, rst, reused_after_fin, fin_of_a_mouse, idle_elephant, acknowledgements),
    *(number_saturates, number_stops_at_0, elephants_threshold, mice_make_no_signal, mice_crowded),
    *(damping, addresses_turn_round, tcp_options, checksums),
    *(ip_options_pass, fragments_pass, udp_is_classified, others_pass),
)
