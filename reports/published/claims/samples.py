# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures from a trial's samples, as one row: its first segments, fairness over time, two windows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from reports.published.claims.selections import FLOW, KEY, of_group, parts_asked
from reports.result.connections import begun, responsiveness, slowdowns
from reports.result.load import COUNTED
from reports.result.stats import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from reports.result.load import RunTables

FIRST_SEGMENTS: Final = 20_000
"""Segments of a flow whose download is measured."""
BIN_MS: Final = 80.0
"""Length of a bin of Jain's index over time."""
FARTHEST_MS: Final = BIN_MS / 2
"""Samples that are farther apart than this do not say what a flow got in a bin."""

_FIRST: Final[Mapping[str, str]] = {
    "first_segments_ms": "time to deliver a flow's first 20,000 segments, ms",
    "first_segments_retransmits_packets": "packets sent again until then",
}
_FAIRNESS: Final[Mapping[str, str]] = {
    "jain_80ms_mean": "Jain's index per 80 ms, mean",
    "jain_80ms_p05": "Jain's index per 80 ms, exceeded by 95 % of bins",
    "jain_80ms_p50": "Jain's index per 80 ms, median",
}
_MARKS: Final[Mapping[str, str]] = {"marks_per_rtt": "CE marks of a flow in a smoothed RTT"}
_SMOOTHED: Final[Mapping[str, str]] = {"srtt_p95_ms": "smoothed RTT, 95 % of samples, ms"}
_ALPHA: Final[Mapping[str, str]] = {"alpha_by_window_packets": "alpha times the window, packets"}
_OUTAGE: Final[Mapping[str, str]] = {
    "outage_retransmits_packets": "packets sent again from the first event to the second"
}
_COMPLETED: Final[Mapping[str, tuple[int, int, str]]] = {
    "completed_to_100B_ms": (0, 100, "completion time of connections of at most 100 bytes, median, ms"),
    "completed_to_1500B_ms": (100, 1_500, "the same, of 100 to 1,500 bytes, ms"),
    "completed_to_15kB_ms": (1_500, 15_000, "the same, of 1,500 to 15,000 bytes, ms"),
    "completed_to_150kB_ms": (15_000, 150_000, "the same, of 15,000 to 150,000 bytes, ms"),
    "completed_to_1500kB_ms": (150_000, 1_500_000, "the same, of 150,000 to 1,500,000 bytes, ms"),
}
"""Measures of short connections: more than the first, and at most the second number of bytes."""
_CONNECTIONS: Final[Mapping[str, str]] = {
    "handshake_p50_ms": "RTT of new connections, median, ms",
    **{name: words for name, (_, _, words) in _COMPLETED.items()},
}

_RESPONSIVENESS: Final[Mapping[str, str]] = {"rpm": "round trips per minute of requests under load (RPM)"}

_SLOWDOWN: Final[Mapping[str, str]] = {
    "slowdown": "completion time by that with an equal share of the link and no queue, median"
}

_GOODPUTS: Final[Mapping[str, str]] = {
    "first_window_mbps": "goodput in the first window, Mbit/s",
    "second_window_mbps": "goodput in the second window, Mbit/s",
    "harm_percent": "goodput lost from the first window to the second, %",
}
_LOST: Final[Mapping[str, str]] = {
    "first_window_lost_percent": "packets that the queue drops in the first window, %",
    "second_window_lost_percent": "packets that the queue drops in the second window, %",
}
OF_WINDOWS: Final[Mapping[str, str]] = {**_GOODPUTS, **_LOST}
"""Measures that need the study's `windows`, with their names in tables."""

SAMPLES: Final[Mapping[str, str]] = {
    **_FIRST,
    **_FAIRNESS,
    **_SMOOTHED,
    **_MARKS,
    **_ALPHA,
    **_OUTAGE,
    **_CONNECTIONS,
    **_RESPONSIVENESS,
    **_SLOWDOWN,
    **OF_WINDOWS,
}
"""Measures from the samples of a trial, with their names in tables."""


@dataclass(frozen=True)
class Window:
    """A part of a trial, in seconds from its start instant."""

    from_s: float
    to_s: float


Windows = tuple[Window, Window]


def samples(
    tables: RunTables, group: str, asked: Collection[str], windows: Windows | None = None
) -> pl.DataFrame:
    """Return a row per valid trial: `cell`, `trial` and the columns `SAMPLES` of parts that are `asked` for.

    Null are those for which a trial has no samples; those of windows need `windows`. Group `all` is all
    flows. They are

    - `first_segments_ms`: from a flow's start until its sender had `FIRST_SEGMENTS` segments delivered, and
      the segments that it had sent again by then; between two samples both grow evenly. Means over the flows;
      null if any flow delivered fewer.
    - `jain_80ms_*`: Jain's index, (sum x)^2 / (n sum x^2), of what the receivers of the n flows that were
      there got in each bin of `BIN_MS` after the warm-up, where n is at least 2. Receivers are sampled; null
      where samples are farther apart than `FARTHEST_MS` (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    - `srtt_p95_ms`: mean over the flows of the 95 % quantile of the samples of the smoothed RTT.
    - `marks_per_rtt`: mean over the flows of the packets per second that were delivered with a CE mark after
      the warm-up, by the mean of the smoothed RTT; null where the traffic tool does not count them.
    - `alpha_by_window_packets`: mean over the flows of the mean over the samples after the warm-up; null for
      senders without alpha.
    - `outage_retransmits_packets`: what the group's senders sent again between the instants of the first two
      events, as the last samples of their sockets before each have it; null with fewer events.
    - `handshake_p50_ms`: median over the connections of `requests` and `workload` that began after the
      warm-up.
    - `completed_to_*`: median over those of them that ended, of their completion times, by their payload.
    - `rpm`, `slowdown`: as `reports.result.connections` has them; of one group only.
    - `harm_percent`: (first - second) / first of the group's goodput in the two windows (Ware, Mukerjee,
      Seshan and Sherry, HotNets 2019, with the trial's earlier window in place of a trial alone).
    - `first_window_lost_percent`, `second_window_lost_percent`: of the packets that arrive in a window; null
      without captures.
    """
    parts = (
        (_FIRST, _first_segments),
        (_FAIRNESS, _fairness),
        (_SMOOTHED, _smoothed),
        (_MARKS, _marks),
        (_ALPHA, _alpha),
        (_OUTAGE, _outage),
        (_CONNECTIONS, _connections),
        (_RESPONSIVENESS, _per_group(responsiveness)),
        (_SLOWDOWN, _per_group(slowdowns)),
    )
    found = parts_asked(parts, asked, tables, group, tables.warmups())
    if windows is None:
        return found
    of_windows = parts_asked(((_GOODPUTS, _windows), (_LOST, _lost)), asked, tables, group, windows)
    return found.join(of_windows, on=KEY)


def _schema(trials: pl.DataFrame, names: Collection[str]) -> dict[str, pl.DataType]:
    return {name: trials.schema[name] for name in KEY} | dict.fromkeys(names, pl.Float64())


def _flows(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    """Return start, end and warm-up of the group's flows that count, in ms from the start instant."""
    starts = tables.flows.filter(COUNTED, of_group(group)).join(trials, on=KEY)
    return starts.select(
        *FLOW,
        "start_ms",
        (pl.col("start_ms") + pl.col("seconds") * 1000).alias("end_ms"),
        "warmup_ms",
    )


def _sampled(tables: RunTables, side: str, flows: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return the samples of one side of these flows that have all of the columns, in order."""
    return (
        tables.scan("sockets")
        .filter(pl.col("side") == side)
        .select(*FLOW, "t_ms", *columns)
        .drop_nulls()
        .join(flows.lazy(), on=FLOW)
        .sort(*FLOW, "t_ms")
        .collect()
    )


def _first_segments(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    flows = _flows(tables, group, trials)
    sampled = _sampled(tables, "sender", flows, "delivered_packets", "retransmits_packets")
    rows = []
    for key, own in sampled.partition_by(FLOW, as_dict=True).items():
        start_ms = own["start_ms"][0]
        at = _reached(start_ms, own.select("t_ms", "delivered_packets", "retransmits_packets").rows())
        rows.append((*key[:2], at and at[0] - start_ms, at and at[1]))
    each = pl.DataFrame(rows, schema=_schema(trials, _FIRST), orient="row")
    expected = flows.group_by(KEY).agg(pl.len().alias("flows"))
    whole = pl.col("first_segments_ms").count() == pl.col("flows").first()
    return each.join(expected, on=KEY).group_by(KEY).agg(pl.when(whole).then(pl.col(*_FIRST).mean()))


def _reached(start_ms: float, counts: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return when the first segments had been delivered, and the packets sent again by then."""
    before = (start_ms, 0.0, 0.0)
    for now in counts:
        if now[1] >= FIRST_SEGMENTS:
            share = (FIRST_SEGMENTS - before[1]) / (now[1] - before[1])
            return before[0] + share * (now[0] - before[0]), before[2] + share * (now[2] - before[2])
        before = now
    return None


def _fairness(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    sampled = _sampled(tables, "receiver", _flows(tables, group, trials), "received_bytes")
    rows: list[tuple[object, ...]] = []
    for key, own in sampled.partition_by(KEY, as_dict=True).items():
        indexes = _indexes(own.partition_by(FLOW))
        low = float(np.quantile(indexes, 0.05)) if indexes.size >= needed(0.95) else None
        middle = float(np.median(indexes)) if indexes.size >= needed(0.5) else None
        rows.append((*key, float(indexes.mean()) if indexes.size else None, low, middle))
    return pl.DataFrame(rows, schema=_schema(trials, _FAIRNESS), orient="row")


def _indexes(flows: Sequence[pl.DataFrame]) -> np.ndarray:
    """Return Jain's index of every bin after the warm-up in which two or more flows were there throughout."""
    gaps = [gap for flow in flows for gap in flow["t_ms"].diff().drop_nulls()]
    if not gaps or median(gaps) > FARTHEST_MS:
        return np.empty(0)
    last_ms = max(float(flow["t_ms"][-1]) for flow in flows)
    edges = np.arange(float(flows[0]["warmup_ms"][0]), last_ms, BIN_MS)
    if edges.size < 2:
        return np.empty(0)
    got = np.vstack([_got(flow, edges) for flow in flows])
    there = ~np.isnan(got)
    count = there.sum(axis=0)
    total, squares = np.nansum(got, axis=0), np.nansum(got**2, axis=0)
    shared = (count >= 2) & (total > 0)
    result: np.ndarray = total[shared] ** 2 / (count[shared] * squares[shared])
    return result


def _got(flow: pl.DataFrame, edges: np.ndarray) -> np.ndarray:
    """Return the bytes that a flow's receiver got in each bin; NaN where the flow was not there."""
    start_ms, end_ms = float(flow["start_ms"][0]), float(flow["end_ms"][0])
    times = np.concatenate([[start_ms], flow["t_ms"].to_numpy().astype(float)])
    received = np.concatenate([[0.0], flow["received_bytes"].to_numpy().astype(float)])
    got = np.diff(np.interp(edges, times, received))
    there = (edges[:-1] >= start_ms) & (edges[1:] <= min(end_ms, float(times[-1])))
    return np.where(there, got, np.nan)


def _smoothed(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    flows = tables.flows.filter(COUNTED, of_group(group)).join(trials, on=KEY, how="semi")
    return flows.group_by(KEY).agg(pl.col("srtt_p95_ms").mean())


def _marks(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    marks = pl.col("delivered_ce_packets")
    known = marks.is_not_null()  # iperf3 does not report them
    per_s = pl.when(known.any()).then(marks.sum() / pl.col("seconds").filter(known).sum())
    each = (
        tables.intervals.filter(of_group(group) & ~pl.col("warmup"))
        .join(trials, on=KEY)
        .join(tables.flows_left_out, on=FLOW, how="anti")
        .group_by(FLOW)
        .agg((per_s * pl.col("srtt_ms").mean() / 1000).alias("marks_per_rtt"))
    )
    return each.group_by(KEY).agg(pl.col("marks_per_rtt").mean())


def _alpha(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    sampled = _sampled(tables, "sender", _flows(tables, group, trials), "alpha", "cwnd_packets")
    first_ms = pl.col("start_ms") + pl.col("warmup_ms")
    # a socket may outlive its flow, as it sends what is left
    settled = sampled.filter(pl.col("t_ms").is_between(first_ms, pl.col("end_ms")))
    product = (pl.col("alpha") * pl.col("cwnd_packets")).mean().alias("alpha_by_window_packets")
    each = settled.group_by(FLOW).agg(product)
    return each.group_by(KEY).agg(pl.col("alpha_by_window_packets").mean())


def _outage(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    instants = pl.col("at_ms").unique().sort()
    events = tables.events.group_by(KEY).agg(
        instants.get(0).alias("begin_ms"), instants.get(1, null_on_oob=True).alias("again_ms")
    )
    flows = _flows(tables, group, trials).join(events.drop_nulls(), on=KEY)
    sampled = _sampled(tables, "sender", flows.select(*FLOW, "begin_ms", "again_ms"), "retransmits_packets")
    before = [
        pl.col("retransmits_packets").filter(pl.col("t_ms") <= pl.col(end)).last().fill_null(0)
        for end in ("again_ms", "begin_ms")
    ]
    return (
        sampled.group_by(FLOW)
        .agg((before[0] - before[1]).cast(pl.Float64).alias("outage_retransmits_packets"))
        .group_by(KEY)
        .agg(pl.col("outage_retransmits_packets").sum())
    )


def _connections(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
    own = begun(tables).filter(of_group(group)).join(trials, on=KEY)
    payload, took = pl.col("payload_bytes"), pl.col("response_ms")
    return own.group_by(KEY).agg(
        pl.col("handshake_ms").median().alias("handshake_p50_ms"),
        *[
            took.filter((payload > above) & (payload <= most)).median().alias(name)
            for name, (above, most, _) in _COMPLETED.items()
        ],
    )


def _per_group(measured: Callable[[RunTables], pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    def measure(tables: RunTables, group: str, trials: pl.DataFrame) -> pl.DataFrame:
        own = measured(tables).filter(of_group(group)).drop("group")
        return trials.select(KEY).join(own, on=KEY)

    return measure


def _windows(tables: RunTables, group: str, windows: Windows) -> pl.DataFrame:
    """Return the group's goodput over the intervals that lie within each window, and the harm.

    An interval counts for as long as it is: what is left of a flow at its end may be a few milliseconds.
    """
    starts = tables.flows.select(*FLOW, "start_ms")
    seconds = (
        tables.intervals.filter(of_group(group))
        .join(starts, on=FLOW)
        .with_columns(((pl.col("start_ms") + pl.col("t_ms")) / 1000).alias("end_s"))
        .with_columns((pl.col("end_s") - pl.col("seconds")).alias("begin_s"))
        .drop_nulls("goodput_mbps")
    )
    mbps = (pl.col("goodput_mbps") * pl.col("seconds")).sum() / pl.col("seconds").sum()
    found = tables.trials.select(KEY)
    for name, window in zip(("first_window_mbps", "second_window_mbps"), windows, strict=True):
        within = (pl.col("begin_s") >= window.from_s) & (pl.col("end_s") <= window.to_s)
        each = seconds.filter(within).group_by(FLOW).agg(mbps.alias("goodput_mbps"))
        found = found.join(
            each.group_by(KEY).agg(pl.col("goodput_mbps").sum().alias(name)), on=KEY, how="left"
        )
    first, second = pl.col("first_window_mbps"), pl.col("second_window_mbps")
    return found.with_columns(pl.when(first > 0).then((first - second) / first * 100).alias("harm_percent"))


def _lost(tables: RunTables, group: str, windows: Windows) -> pl.DataFrame:
    """Return the share of the group's packets that the queue drops in each window."""
    arrived = tables.scan("packets").filter(of_group(group))
    at_s, shares = pl.col("t_ms") / 1000, []
    for name, window in zip(_LOST, windows, strict=True):
        within = (at_s >= window.from_s) & (at_s < window.to_s)
        shares.append((pl.col("lost").filter(within).mean() * 100).alias(name))
    return arrived.group_by(KEY).agg(shares).collect()
