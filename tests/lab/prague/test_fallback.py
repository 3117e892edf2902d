# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: the score of a classic queue on RTTs of several kinds, and the effect of a high one."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Outcome
from tests.lab.prague.experiment import Experiment, delay, random_marking, sender_samples

pytestmark = pytest.mark.lab

MOST = 17
JITTER = "netem delay 20ms slot 20ms 20ms limit 60000"
"""ACKs wait for the next of slots that come every 20 ms: RTTs between 20 and 40 ms, in no other order."""


def ways(queue: str, *, back: str, later: str | None = None, params: str, seconds: int = 5) -> Experiment:
    """A flow through a queue, with what is done to its ACKs at first and from the middle on."""
    this = Experiment(rate="40mbit", queue=queue, params=params)
    this.script.batch("mid", "tc", "qdisc del dev tx root", f"qdisc add dev tx root handle 7: {back}")
    this.flow(seconds)
    this.start()
    if later:
        this.at("mid", seconds * 500, *f"tc qdisc replace dev tx root handle 8: {later}".split())
    this.sample(seconds, 5)
    return this


def step(sample: dict[str, Any]) -> float:
    """Return what an update of alpha adds to the score (arXiv 1911.00710), with references 750 us, 2 ms."""
    variation = math.log2(max(sample["prague_mdev_us"], 1)) - math.log2(750)
    depth_us = sample["prague_rtt_us"] - sample["min_rtt"]
    depth = math.log2(max(depth_us, 1)) - math.log2(2000)
    return variation / 2 + (max(0, depth / 2) if depth_us > 0 else 0)


def scores(samples: list[dict[str, Any]]) -> list[float]:
    return [s.get("prague_score", 0) for s in samples]


@pytest.mark.parametrize(
    ("queue", "back", "later", "half", "end"),
    [
        pytest.param(random_marking(0.05), delay(20), None, 0, 0, id="constant"),
        pytest.param(random_marking(0.05), JITTER, delay(20), MOST, 0, id="jittered, then constant"),
        pytest.param(random_marking(0.05), delay(20), JITTER, 0, MOST, id="constant, then jittered"),
        pytest.param(
            "codel limit 1000 target 15ms interval 100ms ecn", delay(20), None, MOST, MOST, id="deep"
        ),
        pytest.param("dualpi2", delay(20), None, 0, 0, id="dualpi2"),
    ],
)
def test_score(
    lab: Lab, tmp_path: Path, queue: str, back: str, later: str | None, half: int, end: int
) -> None:
    this = ways(queue, back=back, later=later, params="prague_ecn_fallback=detect", seconds=12)
    samples = sender_samples(this.end(lab, tmp_path))
    found = scores(samples)
    assert found[len(found) // 2 - 10] == half
    assert found[-1] == end
    changes = 0
    for before, after in pairwise(samples):
        change = after.get("prague_score", 0) - before.get("prague_score", 0)
        if change and 0 < after["prague_score"] < MOST:  # where it is not cut off
            terms = sorted((step(before), step(after)))
            assert terms[0] - 0.1 < change < terms[1] + 0.1
            changes += 1
    assert changes > 2 or end == half == 0


@pytest.mark.parametrize("queue", [random_marking(0.05), "dualpi2"], ids=["constant", "dualpi2"])
def test_the_published_scaling_takes_any_queue_for_classic(lab: Lab, tmp_path: Path, queue: str) -> None:
    """RTTs that vary by more than 1.5 us are enough."""
    params = "prague_ecn_fallback=detect prague_fallback_scaling=published"
    samples = sender_samples(ways(queue, back=delay(20), params=params).end(lab, tmp_path))
    assert max(scores(samples)) == MOST


def reductions(outcome: Outcome) -> list[float]:
    """How much of the window was left, wherever it got smaller within one sample's time."""
    samples = [s for s in sender_samples(outcome) if s["t_ms"] > 1500]
    shares = [after["prague_cwnd"] / before["prague_cwnd"] for before, after in pairwise(samples)]
    return [share for share in shares if share < 0.99]


@pytest.mark.parametrize(
    ("fallback", "marking", "least", "most"),
    [
        pytest.param("on", 0.005, 1 - 0.625 / 2 - 0.01, 1 - 0.625 / 2 + 0.05, id="falls back"),
        pytest.param("detect", 0.03, 0.95, 1, id="detects only, and goes by alpha"),
    ],
)
def test_a_classic_queue_is_answered_with_larger_reductions(
    lab: Lab, tmp_path: Path, fallback: str, marking: float, least: float, most: float
) -> None:
    params = f"prague_ecn_fallback={fallback}"
    outcome = ways(random_marking(marking), back=JITTER, params=params, seconds=10).end(lab, tmp_path)
    assert sender_samples(outcome)[-1]["prague_score"] == MOST
    found = reductions(outcome)
    assert len(found) > 5
    assert least < min(found) <= max(found) < most


def test_detection_alone_changes_nothing(lab: Lab, tmp_path: Path) -> None:
    """To the byte and the nanosecond, as the lab is deterministic."""
    reports = []
    for fallback in ("off", "detect"):
        (tmp_path / fallback).mkdir()
        this = ways("codel limit 1000 ecn", back=delay(20), params=f"prague_ecn_fallback={fallback}")
        reports.append((this.end(lab, tmp_path / fallback).folder / "tx.json").read_bytes())
    assert reports[0] == reports[1]
