# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quick variants of studies on booted nodes: the matrices that the lab runs, on the wall clock.

A busy machine may make a trial invalid, and nothing else may; figures come from samples, which such trials
have, too.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from reports.result.load import RunTables
from tests.lab.nodes.hosts import booted, check_only_busy

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture(autouse=True)
def quiet(able: None) -> None:
    """Skip on a busy machine: a node that waits for its turn may miss the start of a trial."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        pytest.skip(f"{cores} cores have a load of {load:.0f}: a node that waits for its turn starts late")


def ran(folder: Path, topology: str, matrix: str, *filters: str) -> RunTables:
    """Run cells of the quick variant of a matrix that ships on nodes of its topology."""
    with booted(f"test-{matrix}-{os.getpid()}", topology=topology) as up:
        ended = api.run(matrix, *filters, on=f"ssh:{up.inventory}", runs=folder, quick=True)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    found = api.load(ended)
    check_only_busy(found.trials)
    return found


def sent_mbps(found: RunTables, kind: str, first_s: int, last_s: int) -> float:
    """Return the rate at which bytes left the queue in this time."""
    within = pl.col("t_ms").is_between(first_s * 1000, last_s * 1000)
    own = found.queues.filter((pl.col("kind") == kind) & within)
    first, last = own.sort("t_ms")[0], own.sort("t_ms")[-1]
    taken_ms = last["t_ms"].item() - first["t_ms"].item()
    return float((last["sent_bytes"].item() - first["sent_bytes"].item()) * 8 / 1000 / taken_ms)


def test_a_step_of_the_rate(tmp_path: Path) -> None:
    """stress25: CUBIC on FQ-CoDel from 25 to 100 Mbit/s; nodes on two cores need not carry all of it."""
    found = ran(tmp_path, "line6", "stress25-steps", "rate=25mbit", "flow.cc=cubic")
    (event,) = found.events.iter_rows(named=True)
    assert (event["event"], event["factor"], event["value"]) == ("step", "rate", "100mbit")
    assert event["t_ms"] >= 20_000
    before, after = (sent_mbps(found, "fq_codel", *part) for part in ((5, 19), (30, 39)))
    assert 10 < before < 25.5
    assert after > 1.3 * before


def test_segment_sizes_on_a_throttled_link(tmp_path: Path) -> None:
    """segsize26, on the study's seven machines: full packets, and smaller ones by the rate alone."""
    filters = ("rate=400kbit", "rtt=80ms", "l4s.segsize=fixed,log")
    found = ran(tmp_path, "segsize7", "segsize26", *filters)
    schemes = found.trials.select("cell", "l4s.segsize")
    senders = found.sockets.filter((pl.col("side") == "sender") & (pl.col("t_ms") > 10_000))
    sockets = senders.join(schemes, on="cell")
    sizes = dict(sockets.group_by("l4s.segsize").agg(pl.col("mss_bytes").median()).iter_rows())
    assert sizes["fixed"] > 1400
    assert sizes["log"] < 0.9 * sizes["fixed"]
    # a quarter of the round trip at each of four ports
    assert sockets["min_rtt_ms"].min() >= 80  # type: ignore[operator]
    assert set(found.queues.filter(pl.col("kind") == "dualpi2")["network"]) == {"net-right"}
