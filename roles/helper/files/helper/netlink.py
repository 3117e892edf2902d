# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requests to the kernel by netlink: dumps, and the attributes of what they return."""

from __future__ import annotations

import os
import socket
import struct
from typing import Iterator

_REQUEST, _DUMP = 1, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_CODE = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF


class Netlink:
    """A netlink socket of one protocol in the network namespace that this process is in."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.settimeout(2)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Yield the payload of every message of a dump.

        Raises:
            OSError: the kernel refuses the request, as without the module that answers it.
        """
        head = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _DUMP, 0, 0)
        self._socket.send(head + body)
        while True:
            data = self._socket.recv(1 << 18)
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind, _, _, _ = _HEADER.unpack_from(data, at)
                if kind in {_DONE, _ERROR} and length >= _HEADER.size + _CODE.size:
                    (code,) = _CODE.unpack_from(data, at + _HEADER.size)
                    if code < 0:
                        raise OSError(-code, os.strerror(-code))
                if kind in {_DONE, _ERROR} or length < _HEADER.size:
                    return
                yield data[at + _HEADER.size : at + length]
                at += (length + 3) & ~3


def attributes(message: bytes, at: int = 0) -> dict[int, bytes]:
    """Return the attributes in a message from offset `at` on, by type."""
    found = {}
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _TYPE_MASK] = message[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found
