# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The qlog of a QUIC sender: its events, binned by time.

A file is a sequence of JSON texts, each behind a record separator (RFC 7464, as
draft-ietf-quic-qlog-main-schema has it) or in a line of its own. Of its events those of congestion control
count: `metrics_updated`, `packet_lost`, and the ECN counts of ACK frames in `packet_received`
(draft-ietf-quic-qlog-quic-events), whatever a version of the drafts puts before their names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.collector import BadRawError

SLACK_MS: Final = 10_000.0
"""An event later than this after the flow's planned end shows that times are not what they should be."""

_SEPARATOR: Final = b"\x1e"
_OF_USE: Final = (b"metrics_updated", b"packet_lost", b"packet_received")
_DELTA: Final = frozenset({"delta", "relative_to_previous_event"})
_LONG_AGO_MS: Final = 1e11
"""No trial lasts three years: times beyond are since an epoch."""
_MOST: Final = 2.0**53

_METRICS: Final[Mapping[str, tuple[str, Callable[[float], float]]]] = {
    "smoothed_rtt": ("srtt_ms", float),
    "rtt_variance": ("rttvar_ms", float),
    "min_rtt": ("min_rtt_ms", float),
    "congestion_window": ("cwnd_bytes", round),
    "ssthresh": ("ssthresh_bytes", round),
    "bytes_in_flight": ("inflight_bytes", round),
    "pacing_rate": ("pacing_mbps", lambda bits_per_s: bits_per_s / 1e6),
}
"""Field of `metrics_updated` -> column, and what makes the column's value."""
_COUNTS: Final[Mapping[str, str]] = {"ect0": "ect0_packets", "ect1": "ect1_packets", "ce": "ce_packets"}
"""Field of an ACK frame -> column."""
_HANDSHAKE: Final = frozenset({"initial", "handshake"})
"""Types of packets whose ECN counts are not those of data (RFC 9000 section 13.4.1)."""


@dataclass(frozen=True)
class QlogSample:
    """The state of a sender at the end of an interval in which its qlog has an event.

    Attributes:
        at_ms: End of the interval, from the instant from which `read_qlog` counts.
        values: Newest values by column of table `qlog`.
    """

    at_ms: int
    values: Mapping[str, float]


def read_qlog(
    content: bytes, *, start_ms: float, lasts_ms: float, interval_ms: int, least_rtt_ms: float
) -> Iterator[QlogSample]:
    """Yield the state of a sender by its qlog. A last record that is cut short is ignored.

    Args:
        content: The file.
        start_ms: Start of the flow, at which the log's times begin.
        lasts_ms: How long the flow was to last.
        interval_ms: Width of an interval.
        least_rtt_ms: No smoothed RTT can be smaller.

    Raises:
        BadRawError: it is not such a log, or its numbers cannot be true. The message lacks the file.
    """
    state = _State(least_rtt_ms)
    end_ms: int | None = None
    for at_ms, name, data, where in _events(content):
        if not 0 <= at_ms <= lasts_ms + SLACK_MS:
            raise BadRawError(f"has an event at {at_ms / 1e3:g} s of a flow of {lasts_ms / 1e3:g} s, {where}")
        own = math.ceil((start_ms + at_ms) / interval_ms) * interval_ms
        if end_ms is not None and own > end_ms and state.values:
            yield QlogSample(end_ms, dict(state.values))
        end_ms = own if end_ms is None else max(own, end_ms)  # events of several threads may be out of order
        state.take(name, data, where)
    if end_ms is not None and state.values:
        yield QlogSample(end_ms, dict(state.values))


@dataclass
class _State:
    """State of a sender by its events so far, by column."""

    least_rtt_ms: float
    values: dict[str, float] = field(default_factory=dict)

    def take(self, name: str, data: Mapping[str, Any], where: str) -> None:
        """Take up an event."""
        if name.endswith("metrics_updated"):
            for key, (column, converted) in _METRICS.items():
                if data.get(key) is not None:
                    self.values[column] = converted(_number(data[key], key, where))
            srtt_ms = data.get("smoothed_rtt") or self.least_rtt_ms  # it may be 0 until a first ACK
            if srtt_ms < self.least_rtt_ms:
                path = f"the path alone takes {self.least_rtt_ms:g} ms"
                raise BadRawError(f"has a smoothed RTT of {srtt_ms:g} ms, and {path}, {where}")
        elif name.endswith("packet_lost"):
            self.values["lost_packets"] = self.values.get("lost_packets", 0) + 1
        elif name.endswith("packet_received"):
            header, frames = data.get("header"), data.get("frames")
            if isinstance(header, dict) and header.get("packet_type") in _HANDSHAKE:
                return
            for frame in frames if isinstance(frames, list) else ():
                if isinstance(frame, dict) and frame.get("frame_type") == "ack":
                    for key, column in _COUNTS.items():
                        if key in frame:
                            count = round(_number(frame[key], key, where))
                            self.values[column] = max(count, self.values.get(column, 0))


def _events(content: bytes) -> Iterator[tuple[float, str, Mapping[str, Any], str]]:
    """Yield the time of each event, its name, its data, and a place in words."""
    number, by_delta, now_ms, epoch_ms = 0, False, 0.0, None
    for number, (text, is_last) in enumerate(_records(content), 1):
        where, is_first = f"record {number}", number == 1
        # absolute times begin at the first event, whatever it is
        if not (epoch_ms is None or by_delta or any(name in text for name in _OF_USE)):
            continue
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            if is_last and not is_first:
                return
            raise BadRawError(f"is not JSON, {where}") from None
        if not isinstance(plain, dict):
            raise BadRawError(f"is not a sequence of objects, {where}")
        if is_first:
            if not plain.keys() & {"qlog_version", "file_schema"}:
                raise BadRawError("is not a qlog: its first record states no version")
            by_delta = _time_format(plain) in _DELTA
            continue
        time_ms, name, data = _number(plain.get("time"), "time", where), plain.get("name"), plain.get("data")
        now_ms = now_ms + time_ms if by_delta else time_ms
        if epoch_ms is None:
            epoch_ms = now_ms if now_ms > _LONG_AGO_MS else 0.0
        if isinstance(name, str) and isinstance(data, dict):
            yield now_ms - epoch_ms, name, data, where
    if not number:
        raise BadRawError("is empty")


def _records(content: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield each record, and whether the file ends in it. They are never all in memory: each may be tiny."""
    by = _SEPARATOR if content.startswith(_SEPARATOR) else b"\n"
    begin = 0
    while begin < len(content):
        end = content.find(by, begin)
        end = len(content) if end < 0 else end
        if (text := content[begin:end]).strip():
            yield text, end == len(content)
        begin = end + 1


def _time_format(first: Mapping[str, Any]) -> object:
    """Return the format of times that the first record states."""
    trace = first.get("trace")
    common = trace.get("common_fields") if isinstance(trace, dict) else None
    return common.get("time_format") if isinstance(common, dict) else None


def _number(value: object, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise BadRawError(f"has a {name} that is not a valid number, {where}")
    return float(value)
