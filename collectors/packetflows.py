# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures at both sides of the bottleneck's queue -> table `packet_flows`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from collectors.flows import read_flows
from collectors.packets import CE, read_packets
from collectors.sockets import socket_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collectors.packets import Capture
    from collectors.reader import FlowResult
    from l4sbench.program.trial import EndedTrial

QUANTILES: Final[Mapping[str, float]] = {
    "sojourn_p50_ms": 0.5,
    "sojourn_p95_ms": 0.95,
    "sojourn_p99_ms": 0.99,
    "sojourn_p999_ms": 0.999,
}
"""Columns of quantiles; quantile q is null for a flow with fewer than 10/(1-q) packets."""

BIN_S: Final = 0.05
"""Length of the bins from which the variation of throughput is computed."""


def parse_packet_flows(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `packet_flows`: each flow's packets after the warm-up; None without captures."""
    capture = read_packets(trial.programs, trial.raw)
    if capture is None:
        return None
    samples = socket_rows(trial.programs, trial.raw)
    warmup_ms = trial.cell.warmup.ms
    rows = []
    for flow in read_flows(trial.programs, trial.raw):
        run = flow.run
        lasted_ms = _lasted_s(flow) * 1e3
        if lasted_ms <= warmup_ms:
            continue
        span = (run.start.ms + warmup_ms, run.start.ms + lasted_ms)
        of_flow = (pl.col("flow") == run.flow) & pl.col("t_ms").is_between(*span)
        own = (pl.col("node") == flow.sender_node) & (pl.col("side") == "sender")
        rtt_ms = samples.filter(of_flow & own)["srtt_ms"].mean()
        rows.append(
            {"flow": run.flow, "group": run.group}
            | _measures(capture, run.flow, span, rtt_ms if isinstance(rtt_ms, float) else None)
        )
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None


def _lasted_s(flow: FlowResult) -> float:
    """Return how long a flow sent: as planned, or until its last byte had been delivered."""
    planned_s = flow.run.seconds
    if flow.run.bytes is None or flow.sender is None:
        return planned_s
    return min(flow.sender.seconds, planned_s)


def _measures(
    capture: Capture, flow: str, span: tuple[float, float], rtt_ms: float | None
) -> dict[str, object]:
    """Statistics of the flow's packets from `span[0]` to `span[1]` ms after the start instant."""
    own = capture.data.filter(pl.col("flow") == flow)
    arrived = own.filter(pl.col("t_ms").is_between(*span))
    left = own.filter(pl.col("left_ms").is_between(*span)).sort("left_ms")
    acks = capture.acks.filter((pl.col("flow") == flow) & pl.col("t_ms").is_between(*span))["t_ms"]
    seconds = (span[1] - span[0]) / 1e3
    rounds = seconds * 1e3 / rtt_ms if rtt_ms else None
    gaps, ack_gaps = left["left_ms"].diff().drop_nulls(), acks.diff().drop_nulls()
    sent_again = int(arrived["retransmit"].sum())
    row: dict[str, object] = {
        "seconds": seconds,
        "data_packets": arrived.height,
        "ack_packets": acks.len(),
        "retransmits_packets": sent_again,
        "retransmits_percent": sent_again / arrived.height * 100 if arrived.height else None,
        "lost_packets": int(arrived["lost"].sum()),
        "ce_packets": int((left["ecn_out"] == CE).sum()),
        "length_mean_bytes": arrived["ip_bytes"].mean(),
        "length_sd_bytes": arrived["ip_bytes"].cast(pl.Float64).std(ddof=0),
        "gap_mean_ms": gaps.mean(),
        "gap_sd_ms": gaps.std(ddof=0),
        "ack_gap_mean_ms": ack_gaps.mean(),
        "ack_gap_sd_ms": ack_gaps.std(ddof=0),
        "rtt_mean_ms": rtt_ms,
        "packets_per_rtt": arrived.height / rounds if rounds else None,
        "acks_per_rtt": acks.len() / rounds if rounds else None,
        "throughput_mbps": float(left["ip_bytes"].cast(pl.Int64).sum()) * 8e-6 / seconds,
        "throughput_cv": _variation(left, span),
        "sojourn_samples": arrived["sojourn_ms"].count(),
        "sojourn_mean_ms": arrived["sojourn_ms"].mean(),
    }
    for name, q in QUANTILES.items():
        enough = arrived["sojourn_ms"].count() >= round(10 / (1 - q))
        row[name] = arrived["sojourn_ms"].quantile(q, "linear") if enough else None
    return row


def _variation(left: pl.DataFrame, span: tuple[float, float]) -> float | None:
    """Coefficient of variation, standard deviation over mean, of bytes per whole bin of `span`."""
    count = int((span[1] - span[0]) / 1e3 / BIN_S + 1e-9)
    if count < 2:
        return None
    place = ((left["left_ms"].to_numpy() - span[0]) / 1e3 / BIN_S).astype(np.int64)
    held = place < count
    filled = np.bincount(place[held], left["ip_bytes"].to_numpy()[held], count)
    mean = float(filled.mean())
    return float(filled.std()) / mean if mean else None
