# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages: many objects on a few TCP connections, one after the other on each, as HTTP/1.1 loads them.

Their numbers are those of RFC 7928 section 7.2, which also has the initial window of ten segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.traffic.send import PERIOD, SIZE, Send, factor, shared, slow_start_rounds
from l4sbench.traffic.tools import lean

if TYPE_CHECKING:
    from l4sbench.text.units import Duration, Size
    from l4sbench.traffic.send import Flow, FlowCommands

OBJECTS: Final = 50
CONNECTIONS: Final = 6
REQUEST_BYTES: Final = 500
"""Payload of the request for the next object."""


@dataclass(frozen=True, kw_only=True)
class Pages(Send):
    """A page every period: its objects are the payload of several connections, opened together."""

    name = "pages"
    about = "objects on several connections"
    by_tcp = True

    period: Duration = shared(PERIOD)
    size: Size = shared(SIZE)
    objects: int | None = factor(
        "int",
        f"send: pages: objects of each page; default: {OBJECTS}.",
        optional=True,
        minimum=1,
        maximum=10_000,
    )
    connections: int | None = factor(
        "int",
        f"send: pages: connections that load a page; default: {CONNECTIONS}.",
        optional=True,
        minimum=1,
        maximum=1_000,
    )

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the argument lists of a flow's ends."""
        del tool
        each = ("--size", str(self.size.bytes), "--reply", str(REQUEST_BYTES))
        page = ("--objects", str(self._objects), "--connections", str(self._connections))
        every = ("--every-ns", str(self.period.ns), "--cc", flow.kernel_cc)
        return lean(flow, ("pages", *each, *page, *every), ("answer", *each))

    def round_trips(self, payload_bytes: int, mss_bytes: int) -> int:
        """Return one for the handshake, those of a connection's first object, and one for each other object.

        The window that carried the first has grown enough for the others, which have its size.
        """
        del payload_bytes
        of_connection = -(-self._objects // self._connections)
        return of_connection + slow_start_rounds(self.size.bytes, mss_bytes)

    @property
    def _objects(self) -> int:
        return self.objects or OBJECTS

    @property
    def _connections(self) -> int:
        return self.connections or CONNECTIONS
