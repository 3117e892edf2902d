# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures of tcpdump in a guest, read independently of the project's collectors."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ECN = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
_FIN, _SYN, _RST = 1, 2, 4


@dataclass(frozen=True)
class Segment:
    """A captured TCP segment; with segmentation offload it may stand for several on the wire.

    Attributes:
        time_s: When it was captured.
        to_server: Whether it goes towards the port that was given.
        kind: SYN, data, retransmission, ACK or FIN.
        ecn: One of `ECN`.
        payload_bytes: TCP payload.
        ip_bytes: From the IP header on.
    """

    time_s: float
    to_server: bool
    kind: str
    ecn: str
    payload_bytes: int
    ip_bytes: int


def segments(capture: Path, server_port: int) -> Iterator[Segment]:
    """Read a pcap file (Ethernet, no IP options, microseconds)."""
    data, at, sent = capture.read_bytes(), 24, dict[tuple[bytes, int], int]()
    while at < len(data):
        seconds, micros, kept, length = struct.unpack_from("<IIII", data, at)
        frame, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        if frame[12:14] == b"\x08\x00":
            ecn, tcp, addresses = frame[15] & 3, 34, frame[26:34]
        else:
            ecn, tcp, addresses = frame[15] >> 4 & 3, 54, frame[22:54]
        source, target, sequence, _, flags = struct.unpack_from("!HHIIH", frame, tcp)
        payload = length - tcp - (flags >> 12) * 4
        flow, end = (addresses, source), sequence + payload
        if flags & _SYN:
            kind = "SYN"
        elif flags & _FIN:
            kind = "FIN"
        elif payload:
            fresh = 0 < (end - sent.get(flow, sequence) & 0xFFFFFFFF) < 1 << 31
            kind = "data" if fresh else "retransmission"
            sent[flow] = end if fresh else sent[flow]
        else:
            kind = "ACK"
        if not flags & _RST:
            time_s = seconds + micros / 1e6
            yield Segment(time_s, target == server_port, kind, ECN[ecn], payload, length - 14)


@dataclass(frozen=True)
class Burst:
    """Segments that left at once."""

    time_s: float
    packets: int
    ip_bytes: int


def bursts(sent: list[Segment], mss: int, apart_s: float = 5e-6) -> list[Burst]:
    """Join what was sent without a pause; a captured segment may stand for several packets of `mss`."""
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(sent), 1) if b.time_s - a.time_s > apart_s)]
    found = []
    for first, end in pairwise([*starts, len(sent)]):
        packets = sum(-(-s.payload_bytes // mss) for s in sent[first:end])
        headers = sent[first].ip_bytes - sent[first].payload_bytes
        payload = sum(s.payload_bytes for s in sent[first:end])
        found.append(Burst(sent[first].time_s, packets, payload + packets * headers))
    return found
