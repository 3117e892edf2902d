# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: its reaction to marks."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.experiment import (
    Experiment,
    marked_share,
    random_marking,
    rate_mbps,
    sender_samples,
    sent_segments,
)

pytestmark = pytest.mark.lab

UNIT_MBPS = 1500 * 8 / 25e3
"""One packet of 1500 B in a virtual RTT of 25 ms."""


def test_what_was_marked_is_counted(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(queue=random_marking(0.05))
    this.capture("rx")
    this.flow(5)
    this.start()
    outcome = this.end(lab, tmp_path)
    data = [s.ecn for s in sent_segments(outcome, "rx") if s.kind == "data"]
    assert set(data) == {"ECT(1)", "CE"}
    last = outcome.json("tx.json")["intervals"][-1]
    acknowledged = data[: last["delivered"] - 1]  # `delivered` counts the SYN
    assert len(acknowledged) > 5_000
    assert acknowledged.count("CE") == last["delivered_ce"]


@pytest.mark.parametrize(("mode", "alpha"), [(0, 0), (1, 1024)])
def test_where_alpha_starts(lab: Lab, tmp_path: Path, mode: int, alpha: int) -> None:
    this = Experiment(queue="netem limit 60000", params=f"prague_alpha_mode={mode}")
    this.flow(1)
    this.start()
    this.sample(1, 100)
    samples = sender_samples(this.end(lab, tmp_path))
    assert {s["alpha"] for s in samples} == {alpha}


@pytest.mark.parametrize("mode", [0, 1])
def test_the_first_mark_halves(lab: Lab, tmp_path: Path, mode: int) -> None:
    this = Experiment(rate="10gbit", queue=random_marking(0.01), params=f"prague_alpha_mode={mode}")
    this.flow(1)
    this.start()
    this.sample(1, 1)
    samples = sender_samples(this.end(lab, tmp_path))
    before, after = next((b, a) for b, a in pairwise(samples) if a["delivered_ce"])
    assert before["snd_ssthresh"] == 0x7FFFFFFF  # slow start
    # The window goes down by one packet per ACK, so it takes a round trip; other marks wait for 25 ms
    settled = next(s for s in samples if s["t_ms"] >= after["t_ms"] + 25)
    assert settled["snd_cwnd"] == pytest.approx(before["snd_cwnd"] / 2, rel=0.15)


def claimed_mbps(p: float) -> float:
    """The authors' claim, which takes a reduction in every 25 ms for granted."""
    return 1 / p - 1


def balanced_mbps(p: float, short_packets: float = 0) -> float:
    """Return the rate at which increase and reductions balance, if a reduction waits for a mark (README.md).

    `short_packets`: how far pacing and delayed ACKs keep what is in flight below the window.
    """
    d = p * short_packets
    marks = 1 - p - d + math.sqrt((1 - p - d) ** 2 + 2 * (1 - p) - d**2)  # in 25 ms
    return UNIT_MBPS * marks / p


@pytest.mark.parametrize(
    ("rtt_ms", "claim", "seconds", "answer"),
    [
        (25, 1, 200, claimed_mbps),
        (25, 2, 200, lambda p: balanced_mbps(p, 1.3)),
        (25, 5, 100, lambda p: balanced_mbps(p, 1.3)),
        (25, 10, 100, lambda p: balanced_mbps(p, 1.3)),
        (25, 20, 60, balanced_mbps),
        pytest.param(25, 50, 60, balanced_mbps, marks=pytest.mark.long),
        pytest.param(25, 75, 60, balanced_mbps, marks=pytest.mark.long),
        pytest.param(10, 10, 100, balanced_mbps, marks=pytest.mark.long),
        (10, 20, 60, balanced_mbps),
        pytest.param(10, 50, 60, balanced_mbps, marks=pytest.mark.long),
        pytest.param(5, 20, 100, balanced_mbps, marks=pytest.mark.long),
        pytest.param(5, 50, 60, balanced_mbps, marks=pytest.mark.long),
    ],
)
def test_rate_under_random_marking(
    lab: Lab, tmp_path: Path, rtt_ms: int, claim: int, seconds: int, answer: Callable[[float], float]
) -> None:
    """`claim` is the rate in Mbit/s that the authors' formula gives for what is marked."""
    marking = 1 / (1 + claim)
    this = Experiment(rate="10gbit", queue=random_marking(marking), rtt_ms=rtt_ms)
    this.flow(seconds)
    this.start()
    intervals = this.end(lab, tmp_path).json("tx.json")["intervals"][9:]
    p = marked_share(intervals)
    assert p == pytest.approx(marking, rel=0.1)
    assert rate_mbps(intervals) == pytest.approx(answer(p), rel=0.1)


@pytest.mark.parametrize(
    ("rtt_ms", "claim"),
    [(25, 5), (25, 10), (25, 20), (25, 50), (25, 100), (10, 5), (10, 20), (10, 100), (5, 20), (5, 50)],
)
def test_rate_with_reductions_at_the_end_of_rounds(lab: Lab, tmp_path: Path, rtt_ms: int, claim: int) -> None:
    """Then the authors' formula holds, for what it says of the rate and for what it leaves out, the RTT."""
    params = "prague_reduction=round"
    this = Experiment(rate="10gbit", queue=random_marking(1 / (1 + claim)), rtt_ms=rtt_ms, params=params)
    this.flow(60)
    this.start()
    intervals = this.end(lab, tmp_path).json("tx.json")["intervals"][9:]
    assert rate_mbps(intervals) == pytest.approx(claimed_mbps(marked_share(intervals)), rel=0.1)


@pytest.mark.parametrize(("transition", "factor"), [(4, 1), (4_294_967_295, 5)])
def test_rtt_independence(lab: Lab, tmp_path: Path, transition: int, factor: int) -> None:
    """A flow of 5 ms gets what one of 25 ms gets; before the transition five times as much."""
    params = f"prague_rtt_transition={transition}"
    this = Experiment(rate="10gbit", queue=random_marking(0.05), rtt_ms=5, params=params)
    this.flow(20)
    this.start()
    intervals = this.end(lab, tmp_path).json("tx.json")["intervals"][4:]
    assert rate_mbps(intervals) == pytest.approx(factor * balanced_mbps(marked_share(intervals)), rel=0.2)
