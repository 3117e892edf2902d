# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Versions of IP, and the lengths of headers that follow from them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_ETHERNET: Final = 14
_FULL_PACKET: Final = 1500
_TCP: Final = 20
_TIMESTAMPS: Final = 12
_UDP: Final = 8


class Family(StrEnum):
    """Versions of IP: the values of the factor `family`. Frames are those of Ethernet without checksum."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"

    @property
    def words(self) -> str:
        """Its name in sentences."""
        return "IPv6" if self is Family.IPV6 else "IPv4"

    @property
    def header_bytes(self) -> int:
        """Length of the IP header, without options."""
        return 40 if self is Family.IPV6 else 20

    @property
    def udp_headers_bytes(self) -> int:
        """Length of the headers of a frame with UDP; the queue at the bottleneck counts all of them."""
        return _ETHERNET + self.header_bytes + _UDP

    @property
    def most_udp_bytes(self) -> int:
        """Payload of a full UDP packet."""
        return _FULL_PACKET - self.header_bytes - _UDP

    @property
    def segment_headers_bytes(self) -> int:
        """Length of the headers of a frame with a TCP segment with timestamps."""
        return self.syn_bytes + _TIMESTAMPS

    @property
    def mss_bytes(self) -> int:
        """Payload of a full TCP segment with timestamps."""
        return _FULL_PACKET + _ETHERNET - self.segment_headers_bytes

    @property
    def syn_bytes(self) -> int:
        """Length of a frame with a SYN without options, as of hping3."""
        return _ETHERNET + self.header_bytes + _TCP
