# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of iperf3 -J, client and server, versions 3.1 to 3.22.

The receiver's figures count: a sender counts what it handed to its socket. With several streams the sums are
taken; the RTT is the first stream's, as published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

from collectors.collector import BadRawError
from collectors.result import Interval, Result

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Sum(TypedDict, total=False):
    start: float
    end: float
    seconds: float
    bytes: int
    bits_per_second: float
    retransmits: int
    omitted: bool


class _Stream(_Sum, total=False):
    snd_cwnd: int
    rtt: int
    sender: bool


class _Interval(TypedDict):
    streams: list[_Stream]
    sum: _Sum


class _Connected(TypedDict):
    local_port: int
    remote_port: int


class _Start(TypedDict, total=False):
    connected: list[_Connected]
    tcp_mss_default: int
    connecting_to: Mapping[str, object]
    version: str


class _End(TypedDict, total=False):
    sum_sent: _Sum
    sum_received: _Sum
    sender_tcp_congestion: str


class _Iperf3(TypedDict, total=False):
    start: _Start
    intervals: list[_Interval]
    end: _End
    error: str


_ZERO_BYTES_TAIL_S = 0.1
"""A closing interval this short, without bytes, is what iperf3 adds between its last tick and its end."""


def parse_iperf3(plain: Mapping[str, object]) -> Result:
    """One side of a flow.

    Raises:
        BadRawError: iperf3 reports an error, or ended before it could sum up.
        KeyError: a field of every result is missing.
    """
    raw = cast("_Iperf3", plain)
    if "error" in raw:
        raise BadRawError(f"iperf3: {raw['error']}")
    if "sum_received" not in raw["end"]:
        raise BadRawError("iperf3 ended without a sum")
    start, end = raw["start"], raw["end"]
    intervals = _intervals(raw["intervals"], start.get("tcp_mss_default", 0))
    received = _whole(end["sum_received"], ())
    if "connecting_to" not in start:
        return _whole(end["sum_received"], intervals)
    sent = end["sum_sent"]
    return Result(
        tool="iperf3",
        seconds=float(sent["seconds"]),
        bytes=int(sent["bytes"]),
        intervals=intervals,
        far=received if received.bytes else None,
        cc=end.get("sender_tcp_congestion"),
        mss_bytes=start.get("tcp_mss_default") or None,
        retransmits=sent.get("retransmits"),
    )


def _whole(total: _Sum, intervals: tuple[Interval, ...]) -> Result:
    return Result(
        tool="iperf3", seconds=float(total["seconds"]), bytes=int(total["bytes"]), intervals=intervals
    )


def _intervals(listed: list[_Interval], mss_bytes: int) -> tuple[Interval, ...]:
    found = []
    for interval in listed:
        total = interval["sum"]
        if total.get("omitted"):
            continue
        start_s, end_s = float(total["start"]), float(total["end"])
        if not total["bytes"] and end_s - start_s < _ZERO_BYTES_TAIL_S:
            continue
        first = interval["streams"][0]
        cwnd = first.get("snd_cwnd")
        rtt = first.get("rtt")
        found.append(
            Interval(
                start_s,
                end_s,
                int(total["bytes"]),
                srtt_ms=rtt / 1e3 if rtt else None,
                cwnd_packets=cwnd / mss_bytes if cwnd and mss_bytes else None,
                retransmits=total.get("retransmits"),
            )
        )
    return tuple(found)
