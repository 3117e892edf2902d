# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of lab-traffic, the lean traffic tool of the virtual testbed; docs/guest.md has its format."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from collectors.result import Interval, Result, ecn_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parse_lean(raw: Mapping[str, Any]) -> Result:
    """Parse the result of one side of a flow.

    Raises:
        KeyError, TypeError: a field is missing or has another type.
    """
    ecn = ecn_name(raw["ecn"]["mode"]) if "ecn" in raw else None
    seconds = float(raw["seconds"])
    if raw["role"] == "receiver":
        intervals = tuple(_received(raw["intervals"]))
        return Result("lean", seconds, int(raw["bytes_received"]), intervals, ecn=ecn)
    return Result(
        tool="lean",
        seconds=seconds,
        bytes=int(raw["bytes_acked"]),
        intervals=tuple(_sent(raw["intervals"])),
        cc=raw["cc"],
        ecn=ecn,
        mss_bytes=raw["mss"],
        retransmits=raw["retransmits"],
        delivered=raw.get("delivered"),
        delivered_ce=raw.get("delivered_ce"),
        busy_ms=raw["busy_us"] / 1e3,
        rwnd_limited_ms=raw["rwnd_limited_us"] / 1e3,
        sndbuf_limited_ms=raw["sndbuf_limited_us"] / 1e3,
    )


def _steps(listed: list[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each interval after the one before it, as the counters are totals since the start of the flow."""
    return pairwise([defaultdict(int), *listed])


def _received(listed: list[Mapping[str, Any]]) -> Iterator[Interval]:
    for last, now in _steps(listed):
        received = now["bytes_received"] - last["bytes_received"]
        yield Interval(float(last["end_s"]), float(now["end_s"]), received)


def _sent(listed: list[Mapping[str, Any]]) -> Iterator[Interval]:
    for last, now in _steps(listed):
        yield Interval(
            float(last["end_s"]),
            float(now["end_s"]),
            now["bytes_acked"] - last["bytes_acked"],
            srtt_ms=now["rtt_us"] / 1e3,
            cwnd_packets=float(now["cwnd"]),
            retransmits=now["retransmits"] - last["retransmits"],
            delivered=now["delivered"] - last["delivered"],
            delivered_ce=now["delivered_ce"] - last["delivered_ce"],
        )
