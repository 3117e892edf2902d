# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: the size of its bursts."""

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.guest import EPOCH_NS
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.captures import bursts
from tests.lab.prague.experiment import Experiment, sender_samples, sent_segments

pytestmark = pytest.mark.lab

MSS, MTU = 1448, 1500
UNPACED = 10  # segments that the core sends without pacing, at the start of any connection


@pytest.mark.parametrize(
    ("mbps", "largest"), [(1, 1), (10, 1), (100, 2), pytest.param(350, 7, marks=pytest.mark.long)]
)
def test_bursts_are_of_one_packet_or_a_quarter_of_a_millisecond(
    lab: Lab, tmp_path: Path, mbps: int, largest: int
) -> None:
    """With segmentation offload at the sender; `largest` in packets, when slow start is over."""
    this = Experiment(rate=f"{mbps}mbit")
    this.script.run("tx", "ethtool", "-K", "tx", "tso", "on", "gso", "on")
    this.capture("tx")
    this.flow(3)
    this.start()
    this.sample(3, 1)
    outcome = this.end(lab, tmp_path)
    started_s = (EPOCH_NS + outcome.end["t0_ns"]) / 1e9
    samples = sender_samples(outcome)
    times_s = [started_s + sample["t_ms"] / 1000 for sample in samples]

    def pacing(time_s: float) -> float:
        """B/s of IP packets: the highest rate of the samples around this time."""
        at = bisect_right(times_s, time_s)
        return float(max(s["pacing_rate"] for s in samples[max(0, at - 1) : at + 1]) * MTU / MSS)

    found = bursts([s for s in sent_segments(outcome) if s.payload_bytes][UNPACED:], MSS)
    assert len(found) > 100
    too_large = [b for b in found if b.ip_bytes > max(MTU, 250e-6 * pacing(b.time_s))]
    assert not too_large, too_large[0]
    steady = [b for b in found if b.time_s > started_s + 1.5]
    assert max(b.packets for b in steady) <= largest
    # Pacing keeps them apart; what is late may make up for it with the half of a gap
    assert all(b.time_s - a.time_s > 0.4 * a.ip_bytes * 8 / (mbps * 1e6) for a, b in pairwise(steady))
