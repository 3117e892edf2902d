# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: losses, and losses that were none."""

from pathlib import Path
from typing import Any

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Outcome
from tests.lab.prague.experiment import Experiment, delay, sender_samples

pytestmark = pytest.mark.lab

OPEN, RECOVERY = 0, 3  # TCP_CA_*


def recoveries(outcome: Outcome) -> list[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Each recovery in samples 1 ms apart: the sample before it, its first one, and all from then on."""
    samples = sender_samples(outcome)
    return [
        (samples[n - 1], samples[n], samples[n:])
        for n in range(1, len(samples))
        if samples[n]["ca_state"] == RECOVERY != samples[n - 1]["ca_state"]
    ]


def test_a_loss_halves_the_window_once(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(rate="20mbit", queue="bfifo limit 60000")
    this.flow(12)
    this.start()
    this.sample(12, 1)
    found = [r for r in recoveries(this.end(lab, tmp_path)) if 1500 < r[0]["t_ms"] < 11_000]
    assert len(found) >= 2
    for before, first, after in found:
        assert first["snd_ssthresh"] == pytest.approx(before["snd_cwnd"] / 2, abs=1)
        assert after[150]["snd_cwnd"] == pytest.approx(before["snd_cwnd"] / 2, abs=5)


@pytest.mark.parametrize("mode", ["prague_cwnd_mode=0", "prague_cwnd_mode=1"], ids=["window", "rate"])
@pytest.mark.parametrize(
    "late_ms",
    [
        pytest.param(30, id="the late packets come first, as timestamps tell"),
        pytest.param(60, id="the retransmissions come first, as D-SACK tells"),
    ],
)
def test_what_was_only_late_is_undone(lab: Lab, tmp_path: Path, late_ms: int, mode: str) -> None:
    """For 3 ms packets go a way that is longer by `late_ms`; 20 ms later they are taken for lost."""
    this = Experiment(rtt_ms=10, params=mode)
    queue, late = delay(10), delay(10 + late_ms)
    marking = f"{queue} loss random 5% ecn"
    this.script.batch("mid", "tc", "qdisc del dev rx root", f"qdisc add dev rx root handle 5: {marking}")
    this.flow(2)
    this.start()
    this.sample(2, 1)
    for at_ms, way in ((500, f"{queue} loss random 0%"), (1000, late), (1003, queue)):
        this.at("mid", at_ms, *f"tc qdisc change dev rx root handle 5: {way}".split())
    ((before, first, after),) = recoveries(this.end(lab, tmp_path))
    undone = next(sample for sample in after if sample["ca_state"] == OPEN)
    settled = next(sample for sample in after if sample["t_ms"] >= undone["t_ms"] + 40)
    assert 1020 <= first["t_ms"] <= 1030
    assert undone["total_retrans"] > 3
    assert first["snd_ssthresh"] == pytest.approx(before["snd_cwnd"] / 2, abs=1)
    if mode.endswith("1"):
        assert first["pacing_rate"] == pytest.approx(before["pacing_rate"] / 2, rel=0.1)
    # and goes on from there; rate mode paces 3 % above and 3 % below its rate in turn
    for key in ("snd_cwnd", "pacing_rate"):
        assert 0.97 / 1.03 - 0.01 < settled[key] / before[key] < 1.25, key
