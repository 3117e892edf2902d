# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of the course of a trial, as one row: the queue, and what an event did to queue and flows."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Final

import polars as pl

from reports.result.queues import fullest, rate_changes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.load import RunTables

SETTLE_WITHIN: Final = 0.1
"""Share by which a second's goodput may differ from its final mean once a flow has settled."""
FINAL_S: Final = 5.0
"""Seconds at the end of a trial whose mean goodput is the final one."""
LEAST_S: Final = 0.5
"""A shorter interval is the rest of a flow after its last whole second. iperf3 counts in blocks of 128 KiB,
one of which in 20 ms is 52 Mbit/s."""
FIRST_S: Final = 5.0
"""Seconds of slow start that do not count before an event."""
PEAK_S: Final = 1.0
"""Seconds after an event within which its backlog peaks."""
DRAINED_MS: Final = 5.0
DRAINED_S: Final = 0.1
"""A queue has drained once it stays this short for this long."""
CDF_PERCENT: Final = (5, 25, 50, 75, 95, 99)
"""Shares of samples at which the distribution of the queue is given, in percent."""

COURSES: Final[Mapping[str, str]] = {
    "queue_mean_ms": "mean queue, ms",
    **{f"queue_p{percent:02}_ms": f"queue, {percent} % of samples, ms" for percent in CDF_PERCENT},
    "queue_drops_packets": "packets dropped by the queue",
    "before_mbps": "goodput before the event, Mbit/s",
    "after_mbps": "goodput from the event on, Mbit/s",
    "queue_before_ms": "mean queue before the event, ms",
    "queue_after_ms": "mean queue from the event on, ms",
    "settle_ms": "time from the event until goodput has settled, ms",
    "drain_ms": "time from the event until its backlog has drained, ms",
    "peak_ms": "longest queue within 5 s of the event, ms",
}
"""Measures of the course of a trial, with their names in tables."""

_Samples = list[tuple[float, float, float, float | None]]
_Rates = list[tuple[float, float]]


@dataclass(frozen=True)
class _Course:
    """A trial's samples, in seconds from its start instant.

    Attributes:
        seconds: End of each second, and the group's goodput in it (Mbit/s).
        queue: Instant, bytes in the queue, bytes that have left it, and packets dropped so far.
        warmup_s: Length of the warm-up.
        event_s: When its first event took effect; None without one.
        rates: Instants and rates of the link from then on, Mbit/s; None where it has none, as Wi-Fi.
    """

    seconds: list[tuple[float, float]]
    queue: _Samples
    warmup_s: float
    event_s: float | None
    rates: _Rates | None


def courses(tables: RunTables, group: str) -> pl.DataFrame:
    """Return a row per valid trial: `cell`, `trial` and the columns `COURSES`, null where they do not apply.

    A queue in ms is its bytes at the link's rate at that time, or, where the link has no rate of its own, at
    the rate at which bytes left the queue in that time (Little's law). Where a trial has no event,
    `queue_p05_ms` and the like are its distribution after the warm-up, at the shares `CDF_PERCENT`. The event
    is the first one of each trial. `settle_ms` is when goodput per second last leaves the band of
    `SETTLE_WITHIN` around its mean over the last `FINAL_S`; `drain_ms` when the queue, after its peak in the
    first `PEAK_S`, first stays below `DRAINED_MS` for `DRAINED_S`; without an event, and with a queue that
    never drains, both are null. Group `all` is all flows.
    """
    key = ["cell", "trial"]
    flows = tables.flows.select(*key, "flow", "start_ms")
    intervals = tables.intervals if group == "all" else tables.intervals.filter(pl.col("group") == group)
    start_s = pl.col("start_ms") / 1000
    # by number: ends are off by milliseconds, so that a flow may have two in one second and none in the next
    number = pl.col("t_ms").rank("ordinal").over(*key, "flow")
    ended = (
        intervals.filter(pl.col("seconds") > LEAST_S)
        .join(flows, on=[*key, "flow"])
        .with_columns(
            (start_s + pl.col("t_ms") / 1000).alias("end_s"), (start_s + number).floor().alias("second")
        )
    )
    seconds = (
        ended.group_by(*key, "second")
        .agg(pl.col("end_s").mean(), pl.col("goodput_mbps").sum())
        .sort(*key, "end_s")
    )
    frames = {
        "seconds": seconds,
        "queues": fullest(tables.queues, key).sort(*key, "t_ms"),
        "events": tables.events.sort(*key, "t_ms"),
        "rates": rate_changes(tables.events),
    }
    parts = {name: frame.partition_by(key, as_dict=True) for name, frame in frames.items()}
    rows = []
    for trial in tables.valid.iter_rows(named=True):
        own = {name: part.get((trial["cell"], trial["trial"])) for name, part in parts.items()}
        rows.append({name: trial[name] for name in key} | _measured(_course(trial, own)))
    schema = {name: tables.valid.schema[name] for name in key} | dict.fromkeys(COURSES, pl.Float64)
    return pl.DataFrame(rows, schema=schema)


def _course(trial: Mapping[str, object], own: Mapping[str, pl.DataFrame | None]) -> _Course:
    seconds, queues, events, changes = (own[name] for name in ("seconds", "queues", "events", "rates"))
    rates = [(-math.inf, _number(trial["rate_mbps"]))]
    if changes is not None:
        rates += changes.select(pl.col("t_ms") / 1000, "changed_mbps").rows()
    return _Course(
        seconds=[] if seconds is None else seconds.select("end_s", "goodput_mbps").rows(),
        queue=[]
        if queues is None
        else queues.select(pl.col("t_ms") / 1000, "backlog_bytes", "sent_bytes", "drops_packets")
        .drop_nulls(["t_ms", "backlog_bytes", "sent_bytes"])
        .rows(),
        warmup_s=_number(trial["warmup_s"]),
        event_s=None if events is None else float(events["t_ms"][0]) / 1000,
        rates=None if trial.get("path.wifi_mcs") is not None else rates,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _measured(course: _Course) -> dict[str, float | None]:
    rates = course.rates
    whole = _ms([one for one in course.queue if one[0] > course.warmup_s], rates)
    found: dict[str, float | None] = dict.fromkeys(COURSES)
    found["queue_drops_packets"] = course.queue[-1][3] if course.queue else None
    if course.event_s is None:
        return found | {"queue_mean_ms": _mean(whole)} | _distribution(whole)
    event_s, first_s = course.event_s, max(course.warmup_s, FIRST_S)
    earlier = [one for one in course.queue if first_s < one[0] <= event_s]
    later = [one for one in course.queue if one[0] > event_s]
    shown = _timed_ms(later, rates)
    last = [mbps for end_s, mbps in course.seconds if end_s > event_s + 1]
    return found | {
        "before_mbps": _mean([mbps for end_s, mbps in course.seconds if first_s < end_s <= event_s]),
        "after_mbps": _mean(last),
        "queue_before_ms": _mean(_ms(earlier, rates)),
        "queue_after_ms": _mean([ms for _, ms in shown]),
        "settle_ms": _settle_ms(course.seconds, event_s),
        "drain_ms": _drain_ms(shown, event_s),
        "peak_ms": max((ms for t_s, ms in shown if t_s <= event_s + FIRST_S), default=None),
    }


def _distribution(whole: list[float]) -> dict[str, float]:
    """Return the queue that each share of the samples does not exceed; none without samples."""
    ordered = sorted(whole)
    return {
        f"queue_p{percent:02}_ms": ordered[percent * (len(ordered) - 1) // 100]
        for percent in (CDF_PERCENT if ordered else ())
    }


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _ms(samples: _Samples, rates: _Rates | None) -> list[float]:
    return [ms for _, ms in _timed_ms(samples, rates)]


def _timed_ms(samples: _Samples, rates: _Rates | None) -> list[tuple[float, float]]:
    """Return the instant and the queue in ms of each sample; none where no rate is known."""
    if rates is None:
        if len(samples) < 2:
            return []
        left_mbps = (samples[-1][2] - samples[0][2]) * 8 / 1e6 / (samples[-1][0] - samples[0][0])
        rates = [(-math.inf, left_mbps)]
        if not left_mbps:
            return []
    at = [bisect_right(rates, t_s, key=itemgetter(0)) - 1 for t_s, *_ in samples]
    return [
        (t_s, backlog * 8 / 1000 / rates[place][1])
        for place, (t_s, backlog, *_) in zip(at, samples, strict=True)
    ]


def _settle_ms(seconds: list[tuple[float, float]], event_s: float) -> float | None:
    """Return the end of the last second after the event that is not near the final goodput.

    Seconds that the event divides do not count; a trial that is near from the first whole second has 0.
    """
    later = [(end_s, mbps) for end_s, mbps in seconds if end_s >= event_s + 1]
    if not later:
        return None
    final = fmean(mbps for end_s, mbps in later if end_s > later[-1][0] - FINAL_S)
    away = [end_s for end_s, mbps in later if abs(mbps - final) > SETTLE_WITHIN * final]
    return (max(away) - event_s) * 1000 if away else 0.0


def _drain_ms(queue: list[tuple[float, float]], event_s: float) -> float | None:
    peaks = [(ms, -t_s) for t_s, ms in queue if t_s <= event_s + PEAK_S]
    if not peaks:
        return None
    rest = [(t_s, ms) for t_s, ms in queue if t_s >= -max(peaks)[1]]
    since: float | None = None
    for t_s, ms in rest:
        if ms >= DRAINED_MS:
            since = None
        elif since is None:
            since = t_s
        elif t_s - since >= DRAINED_S:
            return (since - event_s) * 1000
    return None
