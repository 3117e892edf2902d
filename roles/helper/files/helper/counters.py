# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Counters of kinds of queues that tc does not know, such as our own, read by netlink (rtnetlink).

The kernel returns a kind's statistics as a structure, and a program describes its members. What tc prints
itself is left as it is: a patched tc may know another structure of the same kind.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, Callable, Mapping, Sequence

from netlink import Netlink, attributes

Layout = Sequence[Sequence[str]]
"""Pairs of name and type, in the structure's order."""

_NETLINK_ROUTE = 0
_RTM_GETQDISC = 38
_TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_KIND, _STATS2, _STATS_APP = 1, 7, 4

_FORMATS = {"u8": "B", "u16": "H", "u32": "I", "s32": "i", "u64": "Q", "s64": "q"}
_FORMATS.update(share32="I", share64="Q")
_SHARES = {"share32": 2**32 - 1, "share64": 2**64 - 1}


def completed(
    sample: Callable[[float], str], interface: str, layouts: Mapping[str, Layout]
) -> Callable[[float], str]:
    """Return a sample of `tc -s -j qdisc` with the counters that tc does not print."""
    if not layouts:
        return sample

    def complete(at_ms: float) -> str:
        time, _, text = sample(at_ms).partition("\n")
        try:
            shown = json.loads(text)
            lacking = [q for q in shown if q.get("kind") in layouts and not _prints(q, layouts[q["kind"]])]
            if not lacking:
                return f"{time}\n{text}" if text else ""
            known = _statistics(interface)
        except (OSError, ValueError, AttributeError):
            return f"{time}\n{text}" if text else ""
        for queue in lacking:
            queue.update(decode(layouts[queue["kind"]], known.get((queue["kind"], queue["handle"]), b"")))
        return f"{time}\n{json.dumps(shown)}\n"

    return complete


def _prints(queue: Mapping[str, Any], layout: Layout) -> bool:
    return any(name in queue for name, _ in layout)


def _statistics(interface: str) -> dict[tuple[str, str], bytes]:
    """Return the statistics of an interface's queues as the kernel has them, by kind and handle."""
    index = socket.if_nametoindex(interface)
    netlink = Netlink(_NETLINK_ROUTE)
    found = {}
    try:
        for message in netlink.dump(_RTM_GETQDISC, _TCMSG.pack(socket.AF_UNSPEC, index, 0, 0, 0)):
            _, where, handle, _, _ = _TCMSG.unpack_from(message)
            given = attributes(message, _TCMSG.size)
            if where == index and _KIND in given:
                kind = given[_KIND].rstrip(b"\0").decode()
                found[kind, f"{handle >> 16:x}:"] = attributes(given.get(_STATS2, b"")).get(_STATS_APP, b"")
    finally:
        netlink.close()
    return found


def decode(layout: Layout, data: bytes) -> dict[str, float]:
    """Return the members of a structure of C by name; those beyond the end of `data` are absent."""
    found: dict[str, float] = {}
    formats = "@"
    for name, kind in layout:
        formats += _FORMATS[kind]
        if struct.calcsize(formats) > len(data):
            break
        value = struct.unpack_from(formats, data)[-1]
        found[name] = value / _SHARES[kind] if kind in _SHARES else value
    return found
