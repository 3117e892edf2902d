# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP flows of Linux as qlogs, to lay a QUIC stack's own beside Prague's or BBR's.

A file is one flow of one valid trial: the samples of its sender's socket as events `metrics_updated`, each
with `packet_lost` for every segment that was sent again since the one before, and an ACK frame with the
number of marks that were reported so far. Windows in segments become bytes by the segments' size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from reports.result.load import file_name, valid_trials

if TYPE_CHECKING:
    from reports.result.load import RunTables

SUFFIX: Final = ".sqlog"
MARK: Final = b'"title": "l4sbench, '
"""Bytes near the beginning of every such file."""

_MOST_LOST: Final = 100_000
"""A sample has no more losses than this; tables that somebody else made may claim anything."""

_Row = Mapping[str, Any]

_METRICS: Final[Mapping[str, Callable[[_Row], float | None]]] = {
    "smoothed_rtt": lambda row: row["srtt_ms"] or None,  # it is 0 until a first ACK
    "rtt_variance": lambda row: row["rttvar_ms"],
    "min_rtt": lambda row: row["min_rtt_ms"],
    "congestion_window": lambda row: _bytes(row, "cwnd_packets"),
    "ssthresh": lambda row: _bytes(row, "ssthresh_packets"),
    "bytes_in_flight": lambda row: _bytes(row, "inflight_packets"),
    "packets_in_flight": lambda row: row["inflight_packets"],
    "pacing_rate": lambda row: round(mbps * 1e6) if (mbps := row["pacing_mbps"]) else None,
}
"""Field of `metrics_updated` -> its value by a row of table `sockets`."""


@dataclass(frozen=True)
class QlogFile:
    """A qlog: its name, and its content."""

    name: str
    content: bytes


def qlog_files(tables: RunTables, version: str) -> Iterator[QlogFile]:
    """Yield a file for every sampled flow of every valid trial, in order; equal tables give equal files."""
    for trial in valid_trials(tables):
        of_trial = (pl.col("cell") == trial["cell"]) & (pl.col("trial") == trial["trial"])
        sampled = tables.scan("sockets").filter(of_trial & (pl.col("side") == "sender")).collect()
        flows = tables.flows.filter(of_trial).sort("flow").select("flow", "cc", "start_ms")
        for flow, cc, start_ms in flows.iter_rows():
            own = sampled.filter((pl.col("flow") == flow) & (pl.col("t_ms") >= start_ms)).sort("t_ms")
            if own.height:
                records = [_head(trial, flow, cc, version), *_events(own, start_ms)]
                text = "".join(f"\x1e{json.dumps(one, allow_nan=False)}\n" for one in records)
                yield QlogFile(_name_of(trial, flow), text.encode())


def qlog_names(tables: RunTables) -> Iterator[str]:
    """Yield the names of these files, and of flows that were not sampled."""
    flows = tables.flows.select("cell", "trial", "flow")
    return (_name_of(row, row["flow"]) for row in flows.iter_rows(named=True))


def _name_of(trial: _Row, flow: str) -> str:
    return file_name(f"{trial['cell']}-trial-{trial['trial']}-{flow}", SUFFIX)


def _head(trial: _Row, flow: str, cc: str | None, version: str) -> dict[str, object]:
    return {
        "title": f"l4sbench, {trial['cell']}, trial {trial['trial']}, {flow}",
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "qlog_format": "JSON-SEQ",
        "qlog_version": "0.3",
        "code_version": f"l4sbench {version}",
        "trace": {
            "title": f"{flow}: {cc or 'unknown congestion control'} of Linux",
            "vantage_point": {"type": "client"},
            "event_schemas": ["urn:ietf:params:qlog:events:quic-14"],
            "common_fields": {"time_format": "relative_to_epoch"},
        },
    }


def _events(samples: pl.DataFrame, start_ms: float) -> Iterator[dict[str, object]]:
    """Yield the events of a flow, whose times are relative to its start."""
    sent_again = marks = 0
    for row in samples.iter_rows(named=True):
        time_ms = round(row["t_ms"] - start_ms, 3)
        own = {name: value for name, of in _METRICS.items() if (value := of(row)) is not None}
        yield {"time": time_ms, "name": "recovery:metrics_updated", "data": own}
        more = (row["retransmits_packets"] or 0) - sent_again
        for _ in range(min(more, _MOST_LOST)):
            yield {"time": time_ms, "name": "recovery:packet_lost", "data": {}}
        sent_again += max(more, 0)
        if (row["delivered_ce_packets"] or 0) > marks:
            marks = row["delivered_ce_packets"]
            frame = {"frame_type": "ack", "ce": marks}
            data = {"header": {"packet_type": "1RTT"}, "frames": [frame]}
            yield {"time": time_ms, "name": "transport:packet_received", "data": data}


def _bytes(row: _Row, column: str) -> int | None:
    packets, mss_bytes = row[column], row["mss_bytes"]
    return None if packets is None or not mss_bytes else packets * mss_bytes
