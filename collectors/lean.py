# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of lab-traffic, the lean traffic tool of the virtual testbed (docs/guest.md)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypedDict, cast

from collectors.result import Interval, Result, ecn_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Ecn(TypedDict):
    mode: str


class _Interval(TypedDict, total=False):
    """Counters are totals so far."""

    end_s: float
    bytes_acked: int
    bytes_received: int
    retransmits: int
    delivered: int
    delivered_ce: int
    rtt_us: int
    cwnd: int


class _Lean(TypedDict, total=False):
    role: str
    cc: str
    mss: int
    seconds: float
    bytes_acked: int
    bytes_received: int
    retransmits: int
    delivered: int
    delivered_ce: int
    ecn: _Ecn
    busy_us: int
    rwnd_limited_us: int
    sndbuf_limited_us: int
    intervals: list[_Interval]


def parse_lean(plain: Mapping[str, object]) -> Result:
    """One side of a flow. Raises KeyError or TypeError for what is missing or of another type."""
    raw = cast("_Lean", plain)
    ecn = ecn_name(raw["ecn"]["mode"]) if "ecn" in raw else None
    if raw["role"] == "receiver":
        return Result(
            tool="lean",
            seconds=float(raw["seconds"]),
            bytes=int(raw["bytes_received"]),
            intervals=_intervals(raw, sender=False),
            ecn=ecn,
        )
    return Result(
        tool="lean",
        seconds=float(raw["seconds"]),
        bytes=int(raw["bytes_acked"]),
        intervals=_intervals(raw, sender=True),
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


def _intervals(raw: _Lean, *, sender: bool) -> tuple[Interval, ...]:
    zero: _Interval = {"end_s": 0.0, "bytes_acked": 0, "bytes_received": 0, "retransmits": 0}
    zero |= {"delivered": 0, "delivered_ce": 0}
    found = []
    for before, now in pairwise([zero, *raw["intervals"]]):
        start_s, end_s = float(before["end_s"]), float(now["end_s"])
        if not sender:
            found.append(Interval(start_s, end_s, now["bytes_received"] - before["bytes_received"]))
            continue
        found.append(
            Interval(
                start_s,
                end_s,
                now["bytes_acked"] - before["bytes_acked"],
                srtt_ms=now["rtt_us"] / 1e3,
                cwnd_packets=float(now["cwnd"]),
                retransmits=now["retransmits"] - before["retransmits"],
                delivered=now["delivered"] - before["delivered"],
                delivered_ce=now["delivered_ce"] - before["delivered_ce"],
            )
        )
    return tuple(found)
