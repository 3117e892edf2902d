# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures at both sides of the bottleneck's queue -> tables `packets` and `packet_flows`.

A packet that entered the queue and one that left it are the same packet when flow, IP identification,
sequence number and length agree; Linux gives every packet of a connection, retransmissions included, its own
identification. The time between the two is the packet's sojourn. It includes the time for which the shaper
above the queue holds a packet back, but not the packet's own time on the link.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from collectors.collector import BadRawError
from collectors.pcap import find_capture, read_capture
from collectors.sockets import socket_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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

START_FILE: Final = "start.json"

_CE: Final = 3
_ECN: Final[Mapping[int, str]] = {0: "not-ect", 1: "ect1", 2: "ect0", _CE: "ce"}
_SYN_FIN_RST: Final = 0x007
_SAME: Final = ("dst_port", "src_port", "packet_key", "copy")
"""Columns that identify a packet on both sides of the queue; `packet_key` has sequence, IP id and length."""


class _Capture(NamedTuple):
    """The packets of a trial: data packets that arrived, each with the time it left, and returning ACKs."""

    data: pl.DataFrame
    acks: pl.DataFrame


def parse_packets(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `packets`: every data packet that arrived at the bottleneck; None without captures."""
    capture = _capture(trial)
    if capture is None:
        return None
    left = pl.col("ecn_out")
    return capture.data.select(
        "flow",
        "packet",
        "group",
        pl.col("t_ms").round(4),
        pl.col("sojourn_ms").round(4),
        pl.col("ip_bytes").cast(pl.Int64),
        pl.col("payload_bytes").cast(pl.Int64),
        "retransmit",
        "lost",
        pl.col("ecn").replace_strict(_ECN, return_dtype=pl.String),
        ((left == _CE) & (pl.col("ecn") != _CE)).alias("marked"),
    )


def parse_packet_flows(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `packet_flows`: each flow's packets after the warm-up; None without captures."""
    capture = _capture(trial)
    if capture is None:
        return None
    samples = socket_rows(trial.programs, trial.raw)
    warmup_ms = trial.cell.warmup.ms
    rows = []
    for node, program in trial.programs.items():
        for run in program.flows:
            span = (run.start.ms + warmup_ms, run.start.ms + run.seconds * 1e3)
            of_flow = (pl.col("flow") == run.flow) & pl.col("t_ms").is_between(*span)
            own = (pl.col("node") == node) & (pl.col("side") == "sender")
            rtt_ms = samples.filter(of_flow & own)["srtt_ms"].mean()
            rows.append(
                {"flow": run.flow, "group": run.group}
                | _measures(capture, run.flow, span, rtt_ms if isinstance(rtt_ms, float) else None)
            )
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None


def _measures(
    capture: _Capture, flow: str, span: tuple[float, float], rtt_ms: float | None
) -> dict[str, object]:
    """Statistics of the flow's packets from `span[0]` to `span[1]` ms after the start instant."""
    own = capture.data.filter(pl.col("flow") == flow)
    arrived = own.filter(pl.col("t_ms").is_between(*span))
    left = own.filter(pl.col("left_ms").is_between(*span)).sort("left_ms")
    acks = capture.acks.filter((pl.col("flow") == flow) & pl.col("t_ms").is_between(*span)).height
    seconds = (span[1] - span[0]) / 1e3
    rounds = seconds * 1e3 / rtt_ms if rtt_ms else None
    gaps = left["left_ms"].diff().drop_nulls()
    sent_again = int(arrived["retransmit"].sum())
    row: dict[str, object] = {
        "seconds": seconds,
        "data_packets": arrived.height,
        "ack_packets": acks,
        "retransmits_packets": sent_again,
        "retransmits_percent": sent_again / arrived.height * 100 if arrived.height else None,
        "lost_packets": int(arrived["lost"].sum()),
        "ce_packets": int((left["ecn_out"] == _CE).sum()),
        "length_mean_bytes": arrived["ip_bytes"].mean(),
        "length_sd_bytes": arrived["ip_bytes"].cast(pl.Float64).std(ddof=0),
        "gap_mean_ms": gaps.mean(),
        "gap_sd_ms": gaps.std(ddof=0),
        "rtt_mean_ms": rtt_ms,
        "packets_per_rtt": arrived.height / rounds if rounds else None,
        "acks_per_rtt": acks / rounds if rounds else None,
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


def _capture(trial: EndedTrial) -> _Capture | None:
    """Return the trial's packets; None when it has no captures. Raises BadRawError."""
    sides = _sides(trial)
    if sides is None:
        return None
    flows = tuple(
        (run.port, run.flow, run.group, run.start.ms)
        for program in trial.programs.values()
        for run in program.flows
    )
    return _join(*sides, flows, _start_ns(trial.raw))


def _sides(trial: EndedTrial) -> tuple[tuple[Path, ...], Path] | None:
    """Return the captures before and after the queue; None when the trial has none."""
    for node, program in trial.programs.items():
        behind = [sampler.network for sampler in program.samplers if sampler.kind == "queues"]
        there = {
            link.network: path
            for link in program.links
            if (path := find_capture(trial.raw / node, f"{link.network}.pcap")) is not None
        }
        if not there or not behind:
            continue
        out = there.pop(str(behind[0]), None)
        if out is None or not there:
            raise BadRawError(f"{node}: packets were captured on one side of the queue only")
        return tuple(there.values()), out
    return None


def _start_ns(raw: Path) -> int | None:
    """Return the start instant in nanoseconds since the epoch; None without `start.json`."""
    path = raw / START_FILE
    if not path.is_file():
        return None
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["t0_ns"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadRawError(f"{START_FILE}: {error}") from error


@lru_cache(maxsize=1)  # two tables are made from one trial's captures
def _join(
    before: tuple[Path, ...], behind: Path, flows: tuple[tuple[int, str, str, float], ...], t0_ns: int | None
) -> _Capture:
    """One row per packet, joined from the captures before and after the queue.

    Args:
        before: Captures where flows arrive.
        behind: The capture where they leave and ACKs arrive.
        flows: Port, id, group and start (ms) of every flow.
        t0_ns: The start instant; None: take it from the first packet.
    """
    schema = {"port": pl.UInt16, "flow": pl.String, "group": pl.String, "start_ms": pl.Float64}
    names = pl.DataFrame(flows, schema=schema, orient="row")
    out = read_capture(behind)
    arrived, left = (
        side.join(names, left_on="dst_port", right_on="port", how="inner", maintain_order="left")
        for side in (pl.concat(map(read_capture, before)), out)
    )
    connections = _connections(arrived)
    arrived, left = (
        side.join(connections, on=["flow", "src_port"], how="semi", maintain_order="left")
        for side in (arrived, left)
    )
    since = (pl.col("time_ns") - (_first_ns(arrived) if t0_ns is None else t0_ns)) / 1e6
    gone = _data(left).select(*_SAME, since.alias("left_ms"), pl.col("ecn").alias("ecn_out"))
    joined = (
        _data(arrived)
        .with_columns(since.alias("t_ms"))
        .join(gone, on=_SAME, how="left", maintain_order="left")
        .with_columns((pl.col("left_ms") - pl.col("t_ms")).alias("sojourn_ms"))
    )
    data = pl.concat([_of_flow(joined.filter(pl.col("flow") == flow)) for _, flow, *_ in sorted(flows)])
    answers = out.join(names, left_on="src_port", right_on="port", how="inner").join(
        connections, left_on=["flow", "dst_port"], right_on=["flow", "src_port"], how="semi"
    )
    pure = (pl.col("payload_bytes") == 0) & (pl.col("flags") & _SYN_FIN_RST == 0)
    return _Capture(data, answers.filter(pure).select("flow", since.alias("t_ms")))


def _connections(arrived: pl.DataFrame) -> pl.DataFrame:
    """Return the connection with most payload of every flow, as tools may open another for control."""
    return (
        arrived.group_by("flow", "src_port")
        .agg(pl.col("payload_bytes").cast(pl.Int64).sum())
        .sort("payload_bytes", "src_port", descending=True)
        .unique("flow", keep="first", maintain_order=True)
        .select("flow", "src_port")
    )


def _first_ns(arrived: pl.DataFrame) -> int:
    """Return the start instant from the packets: the first flow's first packet minus its planned start."""
    starts = (pl.col("time_ns") - (pl.col("start_ms") * 1e6).cast(pl.Int64)).min()
    first = arrived.select(starts).item() if arrived.height else 0
    return int(first)


def _data(side: pl.DataFrame) -> pl.DataFrame:
    """Return the packets with payload; `copy` numbers packets that are otherwise identical."""
    key = (
        pl.col("seq").cast(pl.UInt64) * 2**32
        + pl.col("ip_id").cast(pl.UInt64) * 2**16
        + pl.col("payload_bytes")
    )
    # one number instead of three columns: comparing packets is most of the work
    data = side.filter(pl.col("payload_bytes") > 0).with_columns(packet_key=key)
    if data["packet_key"].n_unique() == data.height:  # the usual case, and much faster to find out
        return data.with_columns(pl.lit(0, pl.Int64).alias("copy"))
    same = [name for name in _SAME if name != "copy"]
    return data.with_columns(pl.int_range(pl.len()).over(same).alias("copy"))


def _of_flow(own: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of one flow, in order, with the columns that depend on the order.

    A packet is a retransmission when it begins before the highest byte seen so far. It is lost when it never
    left the queue although a later packet did.
    """
    sequence = own["seq"].to_numpy()
    # sequence numbers wrap at 2^32; no packet is 2^31 bytes from the one before
    steps = np.diff(sequence, prepend=sequence[:1]).view(np.int32).astype(np.int64)
    begin = np.cumsum(steps)
    end = begin + own["payload_bytes"].to_numpy()
    highest = np.maximum.accumulate(end) if len(end) else end
    again = np.concatenate([[False], begin[1:] < highest[:-1]])[: len(begin)]
    staying = pl.col("left_ms").is_null()
    left_later = (~staying).cast(pl.Int64).reverse().cum_sum().reverse() > 0
    return own.with_columns(
        pl.Series("retransmit", again, pl.Boolean),
        (staying & left_later).alias("lost"),
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("packet"),
    )
