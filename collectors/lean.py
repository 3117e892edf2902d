# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of lab-traffic, the lean traffic tool of the virtual testbed; docs/guest.md has its format."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from collectors.result import Interval, Request, Result, rate_mbps
from l4sbench.traffic.family import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_ECN: Final = {"off": "off", "rfc3168": "classic", "accecn": "accecn", "pending": "pending", "ecn": "on"}


def parse_lean(raw: Mapping[str, Any]) -> Result:
    """Parse the result of one side of a flow.

    Raises:
        KeyError, TypeError: a field is missing or has another type.
    """
    parse = {
        "receiver": _receiver,
        "pacer": _pacer,
        "counter": _counter,
        "requester": _requester,
        "answerer": _answerer,
    }
    return parse.get(raw["role"], _sender)(raw)


def _ecn(raw: Mapping[str, Any]) -> str | None:
    """Return our word for the negotiated ECN; None for a mode that is not known."""
    return _ECN.get(str(raw["ecn"]["mode"])) if "ecn" in raw else None


def _completed_s(raw: Mapping[str, Any]) -> float | None:
    return (raw["completed_ns"] - raw["start_ns"]) / 1e9 if "completed_ns" in raw else None


def _receiver(raw: Mapping[str, Any]) -> Result:
    return Result(
        "lean",
        float(raw["seconds"]),
        int(raw["bytes_received"]),
        tuple(_steps_of(raw["intervals"], itemgetter("bytes_received"))),
        ecn=_ecn(raw),
        completed_s=_completed_s(raw),
    )


def _sender(raw: Mapping[str, Any]) -> Result:
    seconds = float(raw["seconds"])
    return Result(
        tool="lean",
        seconds=seconds,
        bytes=int(raw["bytes_acked"]),
        intervals=tuple(_sent(raw["intervals"])),
        cc=raw["cc"],
        ecn=_ecn(raw),
        mss_bytes=raw["mss"],
        retransmits=raw["retransmits"],
        delivered=raw.get("delivered"),
        delivered_ce=raw.get("delivered_ce"),
        busy_ms=raw["busy_us"] / 1e3,
        rwnd_limited_ms=raw["rwnd_limited_us"] / 1e3,
        sndbuf_limited_ms=raw["sndbuf_limited_us"] / 1e3,
        completed_s=_completed_s(raw),
    )


def _pacer(raw: Mapping[str, Any]) -> Result:
    payload, sent = int(raw["payload"]), int(raw["packets_sent"])
    intervals = tuple(_steps_of(raw["intervals"], lambda now: now["packets_sent"] * payload))
    seconds = float(raw["seconds"])
    return Result(
        "lean", seconds, sent * payload, intervals, frames_mbps=_frames_mbps(raw, sent, payload, seconds)
    )


def _counter(raw: Mapping[str, Any]) -> Result:
    payload, seconds = int(raw["payload"]), float(raw["seconds"])
    packets = sum(raw["packets_received"].values())
    return Result(
        "lean",
        seconds,
        packets * payload,
        tuple(_steps_of(raw["intervals"], lambda now: sum(now["packets_received"].values()) * payload)),
        delivered=packets,
        delivered_ce=raw["packets_received"]["ce"],
        frames_mbps=_frames_mbps(raw, packets, payload, seconds),
    )


def _frames_mbps(raw: Mapping[str, Any], packets: int, payload: int, seconds: float) -> float | None:
    """Return the rate of frames: UDP with this payload, or SYNs, which have none."""
    family = Family.IPV6 if raw.get("ipv6") else Family.IPV4
    frame_bytes = payload + family.udp_headers_bytes if payload else family.syn_bytes
    return rate_mbps(packets * frame_bytes, seconds)


def _requester(raw: Mapping[str, Any]) -> Result:
    requests = tuple(
        Request(begun / 1e9, _ms(handshake), _ms(response), size)
        for begun, handshake, response, size in raw.get("requests", ())
    )
    intervals = tuple(_steps_of(raw["intervals"], lambda _: 0))
    opened = int(raw["opened"])
    return Result(
        "lean",
        float(raw["seconds"]),
        0,
        intervals,
        cc=raw["cc"],
        ecn=_ecn(raw),
        connections=opened,
        unopened=raw["unopened"],
        requests=requests,
    )


def _ms(ns: int) -> float | None:
    return ns / 1e6 if ns >= 0 else None


def _answerer(raw: Mapping[str, Any]) -> Result:
    intervals = tuple(_steps_of(raw["intervals"], itemgetter("bytes_received")))
    accepted = int(raw["accepted"])
    return Result("lean", float(raw["seconds"]), int(raw["bytes_received"]), intervals, connections=accepted)


def _steps_of(
    listed: list[Mapping[str, Any]], total: Callable[[Mapping[str, Any]], int]
) -> Iterator[Interval]:
    """Yield the intervals of a side; `total` gives its bytes so far."""
    before_s, before = 0.0, 0
    for now in listed:
        end_s, amount = float(now["end_s"]), total(now)
        yield Interval(before_s, end_s, amount - before)
        before_s, before = end_s, amount


def _steps(listed: list[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each interval after the one before it, as the counters are totals since the start of the flow."""
    return pairwise([defaultdict(int), *listed])


def _sent(listed: list[Mapping[str, Any]]) -> Iterator[Interval]:
    for last, now in _steps(listed):
        yield Interval(
            float(last["end_s"]),
            float(now["end_s"]),
            now["bytes_acked"] - last["bytes_acked"],
            srtt_ms=now["rtt_us"] / 1e3 if now["rtt_us"] else None,  # tcpi_rtt is 0 until a first sample
            cwnd_packets=float(now["cwnd"]),
            retransmits=now["retransmits"] - last["retransmits"],
            delivered=now["delivered"] - last["delivered"],
            delivered_ce=now["delivered_ce"] - last["delivered_ce"],
        )
