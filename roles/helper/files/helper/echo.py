# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Round-trip times of a node's paths, by echo requests of ICMP: hosts answer these in the kernel.

The program `ping` does the same, but not every host has one that prints fractions of a millisecond.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import time
from typing import Mapping, Sequence

FILE = "rtt.json"
"""Raw file with the shortest round-trip time to each address, in ms (`l4sbench.program.data`)."""
REQUESTS = 20
_EVERY_S = 0.02
_PATIENCE_S = 2.0
"""Time for the last answer: longer than any path on Earth takes."""
_HEADER = struct.Struct("!BBHHH")
_KINDS: Mapping[socket.AddressFamily, tuple[int, int, int]] = {
    socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0),
    socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129),
}
"""Protocol, and types of request and answer: RFC 792 and RFC 4443."""


def round_trips(addresses: Sequence[str], until_s: float = float("inf")) -> dict[str, float | None]:
    """Return the shortest round-trip time to each address in ms; None where nothing answered.

    Args:
        addresses: The addresses.
        until_s: Instant of the monotonic clock by which to stop.
    """
    return {address: _shortest_ms(address, until_s) for address in addresses}


def _shortest_ms(address: str, until_s: float) -> float | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    protocol, request, answer = _KINDS[family]
    mark = secrets.token_bytes(8)
    sent = 0
    waiting: dict[int, int] = {}
    shortest_ns: list[int] = []
    with socket.socket(family, socket.SOCK_RAW, protocol) as own:
        own.connect((address, 0))
        own.setblocking(False)
        next_s = last_s = time.monotonic()
        while sent < REQUESTS or waiting:
            now_s = time.monotonic()
            if now_s >= until_s or (sent == REQUESTS and now_s >= last_s):
                break
            if sent < REQUESTS and now_s >= next_s:
                sent += 1
                packet = _packet(request, sent, mark)
                waiting[sent] = time.monotonic_ns()
                if not _send(own, packet):
                    return None
                next_s, last_s = now_s + _EVERY_S, now_s + _PATIENCE_S
            due_s = min(until_s, next_s if sent < REQUESTS else last_s)
            if select.select([own], [], [], max(0.0, due_s - now_s))[0]:
                heard_ns = time.monotonic_ns()
                if (sent_ns := waiting.pop(_answered(own, family, answer, mark), None)) is not None:
                    shortest_ns.append(heard_ns - sent_ns)
    return round(min(shortest_ns) / 1e6, 4) if shortest_ns else None


def _send(own: socket.socket, packet: bytes) -> bool:
    try:
        own.send(packet)
    except OSError:  # there is no way to the address
        return False
    return True


def _packet(kind: int, number: int, mark: bytes) -> bytes:
    """Return an echo request. The kernel computes the checksum of ICMPv6 (RFC 3542, 3.1), but not of ICMP."""
    fields = (os.getpid() & 0xFFFF, number)
    bare = _HEADER.pack(kind, 0, 0, *fields) + mark
    return _HEADER.pack(kind, 0, _checksum(bare), *fields) + mark


def _checksum(data: bytes) -> int:
    """Return the checksum of the internet (RFC 1071) of data of even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _answered(own: socket.socket, family: socket.AddressFamily, kind: int, mark: bytes) -> int:
    """Return the number of the request that a received packet answers; 0 if it is no answer of ours."""
    try:
        packet = own.recv(2048)
    except OSError:
        return 0
    if family == socket.AF_INET and packet:  # which comes with its IP header
        packet = packet[4 * (packet[0] & 15) :]
    if len(packet) < _HEADER.size or packet[0] != kind or packet[_HEADER.size :] != mark:
        return 0
    number: int = _HEADER.unpack_from(packet)[4]
    return number
