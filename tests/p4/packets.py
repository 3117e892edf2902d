# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Frames for tests of NCF's data planes, and the hosts that send them."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace

from tests.p4.reference import TCP, UDP, internet_checksum


@dataclass(frozen=True)
class Host:
    """A host at a port of the switch."""

    port: int
    mac: bytes
    ip: bytes


def _host(port: int, ip: str) -> Host:
    return Host(port, bytes([2, 0, 0, 0, 0, port]), socket.inet_aton(ip))


ALICE = _host(1, "10.1.0.1")
BOB = _host(2, "10.2.0.2")
CAROL = _host(3, "10.1.0.3")
HOSTS = (ALICE, BOB, CAROL)


@dataclass(frozen=True)
class Tcp:
    """A TCP segment from one host to another; `options` are whole words."""

    source: Host = ALICE
    to: Host = BOB
    port: int = 40_000
    to_port: int = 5_201
    seq: int = 1_000
    ack: int = 2_000
    flags: int = 0x18
    options: bytes = b""
    payload: bytes = b"a payload of an even number of bytes!!"
    id: int = 1
    tos: int = 0
    reserved: int = 0
    urgent: int = 0

    def but(self, **changes: object) -> Tcp:
        """Return the segment with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def frame(self) -> bytes:
        """The Ethernet frame, with right checksums."""
        head = struct.pack(
            "!HHIIBBHHH",
            *(self.port, self.to_port, self.seq, self.ack),
            *((20 + len(self.options)) // 4 << 4 | self.reserved, self.flags, 501, 0, self.urgent),
        )
        body = head + self.options + self.payload
        pseudo = self.source.ip + self.to.ip + struct.pack("!BBH", 0, TCP, len(body))
        padded = body + bytes(len(body) % 2)
        body = body[:16] + internet_checksum(pseudo + padded).to_bytes(2) + body[18:]
        return ethernet(self.source, self.to, 0x0800, ipv4(self, TCP, body))


def ipv4(segment: Tcp, protocol: int, body: bytes, *, options: bytes = b"", fragment: int = 0x4000) -> bytes:
    """Return an IPv4 packet between the hosts of a segment."""
    head = struct.pack(
        "!BBHHHBBH4s4s",
        *(0x45 + len(options) // 4, segment.tos, 20 + len(options) + len(body), segment.id, fragment),
        *(64, protocol, 0, segment.source.ip, segment.to.ip),
    )
    head += options
    return head[:10] + internet_checksum(head).to_bytes(2) + head[12:] + body


def ethernet(source: Host, to: Host, kind: int, body: bytes) -> bytes:
    """Return an Ethernet frame of at least 60 bytes."""
    return (to.mac + source.mac + kind.to_bytes(2) + body).ljust(60, b"\0")


def udp(segment: Tcp) -> bytes:
    """Return a UDP datagram with the addresses, ports and payload of a segment."""
    body = struct.pack("!HHHH", segment.port, segment.to_port, 8 + len(segment.payload), 0)
    return ethernet(segment.source, segment.to, 0x0800, ipv4(segment, UDP, body + segment.payload))


def with_ip_options(segment: Tcp) -> bytes:
    """Return a TCP segment whose IP header has an option (no operation, four times)."""
    body = segment.frame[34:54] + segment.payload
    return ethernet(segment.source, segment.to, 0x0800, ipv4(segment, TCP, body, options=b"\1\1\1\1"))


def fragment_of(segment: Tcp, field: int) -> bytes:
    """Return a fragment; `field` is flags and offset as the header has them."""
    body = segment.frame[34:54] + segment.payload
    return ethernet(segment.source, segment.to, 0x0800, ipv4(segment, TCP, body, fragment=field))


def ipv6(segment: Tcp) -> bytes:
    """Return an IPv6 packet with the segment inside."""
    body = segment.frame[34:54] + segment.payload
    head = struct.pack("!IHBB", 6 << 28, len(body), TCP, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
    return ethernet(segment.source, segment.to, 0x86DD, head + body)


def arp(segment: Tcp) -> bytes:
    """Return an ARP reply from one host to the other."""
    head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2)
    body = head + segment.source.mac + segment.source.ip + segment.to.mac + segment.to.ip
    return ethernet(segment.source, segment.to, 0x0806, body)


def tagged(segment: Tcp) -> bytes:
    """Return the segment in a VLAN."""
    return ethernet(segment.source, segment.to, 0x8100, b"\0\x07" + segment.frame[12:])
