# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Events: the path changes in place while flows run."""

import json
from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from reports.result.load import RunTables
from tests.lab.wires import tables

pytestmark = pytest.mark.lab

STEP_MS = 6000


def backlog(found: RunTables, first_ms: int, last_ms: int) -> pl.DataFrame:
    """Return the samples of the queue in this time."""
    return found.queues.filter(pl.col("t_ms").is_between(first_ms, last_ms)).sort("t_ms")


def goodput_mbps(found: RunTables, first_ms: int, last_ms: int) -> float:
    """Return the mean goodput of all flows in this time, of the intervals within it."""
    own = found.intervals.filter(pl.col("t_ms").is_between(first_ms + 1000, last_ms))
    return float(own.group_by("t_ms").agg(pl.col("goodput_mbps").sum())["goodput_mbps"].mean())  # type: ignore[arg-type]


def test_the_rate_changes_and_the_queue_keeps_its_packets(lab: Lab, tmp_path: Path) -> None:
    more = "buffer_bdp: 4\nsample.interval: 10ms\nevents: {slower: {at: 6s, rate: 5mbit}}\n"
    found = tables(tmp_path, more)
    before, after = backlog(found, STEP_MS - 10, STEP_MS)[-1], backlog(found, STEP_MS + 1, STEP_MS + 10)[0]
    assert before["backlog_packets"].item() > 20
    # 10 ms at 20 Mbit/s are 17 packets, at 5 Mbit/s 4; what the queue counted goes on
    assert abs(after["backlog_packets"].item() - before["backlog_packets"].item()) <= 17
    assert after["sent_packets"].item() >= before["sent_packets"].item() > 1000
    assert goodput_mbps(found, 2000, 5000) == pytest.approx(19.1, abs=0.5)
    assert goodput_mbps(found, 7000, 10_000) == pytest.approx(4.8, abs=0.2)
    (event,) = found.events.iter_rows(named=True)
    assert event["t_ms"] == pytest.approx(STEP_MS, abs=1)
    assert json.loads(event["shown"])["rate"] == 5_000_000 // 8


@pytest.mark.parametrize("aqm", ["fq-codel", "dualpi2"])
def test_a_faster_link_is_filled(lab: Lab, tmp_path: Path, aqm: str) -> None:
    found = tables(tmp_path, "events.up.at: 3s\nevents.up.rate: 30mbit\n", aqm=aqm)
    assert goodput_mbps(found, 500, 2000) < 22
    assert goodput_mbps(found, 7000, 10_000) > 26


def test_the_round_trip_time_changes_without_overtaking(lab: Lab, tmp_path: Path) -> None:
    more = "events: {near: {at: 4s, rtt: 6ms}, far: {at: 7s, rtt: 50ms}}\n"
    found = tables(tmp_path, more, aqm="dualpi2")
    sockets = found.sockets.filter((pl.col("side") == "sender") & (pl.col("group") == "l4s"))

    def least_ms(first_ms: int, last_ms: int) -> float:
        own = sockets.filter(pl.col("t_ms").is_between(first_ms, last_ms))
        return float(own["srtt_ms"].min())  # type: ignore[arg-type]

    assert least_ms(2000, 4000) >= 20
    assert 6 <= least_ms(4500, 7000) < 10
    assert least_ms(7500, 10_000) >= 50
    assert found.events["factor"].to_list() == ["rtt", "rtt"]


def test_a_rate_that_alternates(lab: Lab, tmp_path: Path) -> None:
    """Each change is made at its instant, and flows get no more than the mean of both rates."""
    low, high = "{at: 2s, every: 200ms, rate: 2mbit}", "{at: 2100ms, every: 200ms, rate: 10mbit}"
    more = f"expect.bottleneck: false\nevents: {{low: {low}, high: {high}}}\n"
    found = tables(tmp_path, more)
    changes = found.events.sort("at_ms")
    assert changes["event"].to_list()[:4] == ["low", "high", "low.2", "high.2"]
    assert changes["at_ms"].diff().drop_nulls().unique().to_list() == [100]
    assert changes["value"].to_list()[:2] == ["2mbit", "10mbit"]
    assert (changes["t_ms"] - changes["at_ms"]).is_between(0, 5).all()
    assert 2 < goodput_mbps(found, 3000, 10_000) < 6
