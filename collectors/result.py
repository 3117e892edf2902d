# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The result of one side of a flow, in one form for all traffic tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EARLY: Final = 0.1
"""Share of its length that an interval may begin before the warm-up's end: iperf3 does not begin intervals at
whole seconds, but milliseconds beside them."""


@dataclass(frozen=True)
class Interval:
    """One interval. Times count from the flow's own start; `bytes` and all counts are of this interval alone.

    `bytes` is payload: received, or at a sender acknowledged (iperf3: written). `srtt_ms` and `cwnd_packets`
    are values at the interval's end. None: this side or this tool does not report it.
    """

    start_s: float
    end_s: float
    bytes: int
    srtt_ms: float | None = None
    cwnd_packets: float | None = None
    retransmits: int | None = None
    delivered: int | None = None
    delivered_ce: int | None = None

    @property
    def mbps(self) -> float | None:
        """Payload rate, 10^6 bit/s; None for an interval of no length."""
        return rate_mbps(self.bytes, self.end_s - self.start_s)

    @property
    def end_ms(self) -> int:
        """End in whole milliseconds, by which tables tell the intervals of a flow apart."""
        return round(self.end_s * 1e3)

    def with_next(self, later: Interval) -> Interval:
        """Return this interval and the one after it as one."""
        return replace(
            later,
            start_s=self.start_s,
            bytes=self.bytes + later.bytes,
            retransmits=_sum(self.retransmits, later.retransmits),
            delivered=_sum(self.delivered, later.delivered),
            delivered_ce=_sum(self.delivered_ce, later.delivered_ce),
        )

    def in_warmup(self, warmup_s: float) -> bool:
        """Return True if the interval began in the warm-up."""
        return self.start_s < warmup_s - EARLY * (self.end_s - self.start_s)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


@dataclass(frozen=True)
class Request:
    """One connection of `send: requests`; times from its opening, None if it had not come so far.

    Attributes:
        begun_s: When it was opened, from the flow's start.
        handshake_ms: Until it was established: SYN and SYN/ACK.
        response_ms: Until the whole response had arrived.
        bytes: Payload.
    """

    begun_s: float
    handshake_ms: float | None
    response_ms: float | None
    bytes: int


@dataclass(frozen=True)
class Result:
    """One side of one flow, over the whole flow.

    Attributes:
        tool: `lean` or `iperf3`.
        seconds: How long it ran by its own clock.
        bytes: Payload received, or at a sender acknowledged (iperf3: written).
        intervals: In order of time, without gaps.
        far: The receiver's result as sent to the sender (iperf3), for when the receiver left no file.
        cc: Kernel name of the congestion control.
        ecn: As negotiated: `off`, `classic`, `accecn`, `pending`, or `on` when the kind is not known.
        completed_s: When all data of a flow of a given size had arrived, from its planned start.
        frames_mbps: Rate of the frames of a flow at a given rate: sent, or at a receiver arrived.
        connections: Connections that were opened, of a side of many; as a sender it counts no bytes.
        unopened: Of these, how many had no free port to start from.
        requests: Of `send: requests`, each of them.
        codepoints: Of `send: exec`, packets with each codepoint.
    """

    tool: str
    seconds: float
    bytes: int
    intervals: tuple[Interval, ...]
    far: Result | None = None
    cc: str | None = None
    ecn: str | None = None
    mss_bytes: int | None = None
    retransmits: int | None = None
    delivered: int | None = None
    delivered_ce: int | None = None
    busy_ms: float | None = None
    rwnd_limited_ms: float | None = None
    sndbuf_limited_ms: float | None = None
    completed_s: float | None = None
    frames_mbps: float | None = None
    connections: int | None = None
    unopened: int = 0
    requests: tuple[Request, ...] = ()
    codepoints: Mapping[str, int] | None = None

    @property
    def whole_mbps(self) -> float | None:
        """Payload rate over the whole flow, 10^6 bit/s."""
        return rate_mbps(self.bytes, self.seconds)

    def after(self, warmup_s: float) -> tuple[Interval, ...]:
        """Return the intervals that began after the warm-up."""
        return tuple(i for i in self.intervals if not i.in_warmup(warmup_s))


def rate_mbps(amount_bytes: int, seconds: float) -> float | None:
    """Return 10^6 bit/s; None when no time passed."""
    return amount_bytes * 8 / seconds / 1e6 if seconds > 0 else None


def goodput_mbps(intervals: Sequence[Interval]) -> float | None:
    """Return the payload rate over consecutive intervals; None without any."""
    if not intervals:
        return None
    return rate_mbps(sum(i.bytes for i in intervals), intervals[-1].end_s - intervals[0].start_s)
