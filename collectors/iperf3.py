# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of iperf3 -J, client and server, versions 3.1 to 3.22.

The receiver's figures count, because a sender counts what it handed to its socket. With several streams the
sums are used; the RTT is the first stream's, as in the published experiments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collectors.collector import ToolError
from collectors.result import Interval, Result, rate_mbps
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ZERO_BYTES_TAIL_S = 0.1
"""A closing interval this short, without bytes, is what iperf3 adds between its last tick and its end."""


def parse_iperf3(raw: Mapping[str, Any]) -> Result:
    """Parse the result of one side of a flow.

    Raises:
        ToolError: iperf3 reports an error, or ended before it wrote its sums.
        KeyError: a field that every result has is missing.
    """
    if "error" in raw:
        raise ToolError(f"iperf3: {raw['error']}")
    if "sum_received" not in raw["end"]:
        raise ToolError("iperf3 ended without a sum")
    start, end = raw["start"], raw["end"]
    intervals = tuple(_intervals(raw["intervals"], start.get("tcp_mss_default", 0)))
    family = _family(start)
    if "connecting_to" not in start:  # only a client connects: this is the receiver
        return _whole(end["sum_received"], family, intervals)
    sent, received = end["sum_sent"], _whole(end["sum_received"], family)
    return Result(
        tool="iperf3",
        seconds=float(sent["seconds"]),
        bytes=int(sent["bytes"]),
        intervals=intervals,
        far=received if received.bytes else None,
        cc=end.get("sender_tcp_congestion"),
        mss_bytes=start.get("tcp_mss_default") or None,
        retransmits=sent.get("retransmits"),
        frames_mbps=_frames_mbps(sent, family),
    )


def _family(start: Mapping[str, Any]) -> Family:
    """Return the version of IP of the connections; a server of both has IPv4 as addresses of IPv6."""
    connected = start.get("connected")
    host = str(connected[0]["remote_host"]) if connected else ""
    return Family.IPV6 if ":" in host.removeprefix("::ffff:") else Family.IPV4


def _whole(total: Mapping[str, Any], family: Family, intervals: tuple[Interval, ...] = ()) -> Result:
    seconds, amount = float(total["seconds"]), int(total["bytes"])
    return Result("iperf3", seconds, amount, intervals, frames_mbps=_frames_mbps(total, family))


def _frames_mbps(total: Mapping[str, Any], family: Family) -> float | None:
    """Return the rate of the Ethernet frames of UDP; None of TCP, whose packets iperf3 does not count.

    A receiver's `packets` include those that it missed.
    """
    if "packets" not in total:
        return None
    packets = total["packets"] - (0 if total.get("sender") else total["lost_packets"])
    return rate_mbps(int(total["bytes"]) + packets * family.udp_headers_bytes, float(total["seconds"]))


def _intervals(listed: list[Mapping[str, Any]], mss_bytes: int) -> Iterator[Interval]:
    for interval in listed:
        total = interval["sum"]
        start_s, end_s = float(total["start"]), float(total["end"])
        if total.get("omitted") or (not total["bytes"] and end_s - start_s < _ZERO_BYTES_TAIL_S):
            continue
        first = interval["streams"][0]
        rtt_us, cwnd_bytes = first.get("rtt"), first.get("snd_cwnd")
        yield Interval(
            start_s,
            end_s,
            int(total["bytes"]),
            srtt_ms=rtt_us / 1e3 if rtt_us else None,
            cwnd_packets=cwnd_bytes / mss_bytes if cwnd_bytes and mss_bytes else None,
            retransmits=total.get("retransmits"),
        )
