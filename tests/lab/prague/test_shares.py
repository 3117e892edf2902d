# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague on a DualPI2 queue: how it uses and shares the link."""

from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.experiment import Experiment, rate_mbps

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    "mbps", [pytest.param(10, marks=pytest.mark.long), 50, pytest.param(100, marks=pytest.mark.long)]
)
def test_alone_it_fills_the_link_and_not_the_queue(lab: Lab, tmp_path: Path, mbps: int) -> None:
    this = Experiment(rate=f"{mbps}mbit")
    this.flow(10)
    this.start()
    sender = this.end(lab, tmp_path).json("tx.json")
    assert rate_mbps(sender["intervals"][2:]) > 0.96 * mbps * 1500 / 1514
    assert max(sender["rtt_samples_us"][2:]) < 23_000
    assert sender["retransmits"] == 0


RTT_DEPENDENT = "prague_rtt_transition=4294967295"


@pytest.mark.parametrize(
    ("rtts_ms", "params", "least", "most"),
    [
        ((2, 10, 25), "-", 1, 1.5),  # 1.28 to 1.41 for six other starts
        ((2, 25), "-", 1, 1.25),
        ((2, 25), RTT_DEPENDENT, 5, 25),
        pytest.param((2, 10), "-", 1, 1.25, marks=pytest.mark.long),
        pytest.param((10, 25), "-", 1, 1.25, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_flows_share_evenly_whatever_their_rtt(
    lab: Lab, tmp_path: Path, rtts_ms: tuple[float, ...], params: str, least: float, most: float
) -> None:
    """The largest of the rates over the smallest; without RTT independence, for comparison, far from even."""
    nodes = {f"tx{rtt_ms}": rtt_ms for rtt_ms in rtts_ms}
    this = Experiment(rtts_ms=nodes, params=params)
    for number, node in enumerate(nodes):
        this.flow(40, node=node, start_ms=37 * number)
    this.start()
    outcome = this.end(lab, tmp_path)
    senders = {node: outcome.json(f"{node}.json") for node in nodes}
    for node, rtt_ms in nodes.items():  # that they are as far away as they should be
        assert rtt_ms < max(senders[node]["rtt_samples_us"][9:]) / 1000 < rtt_ms + 5
    rates = [rate_mbps(sender["intervals"][9:]) for sender in senders.values()]
    assert sum(rates) > 0.95 * 100 * 1500 / 1514
    assert least <= max(rates) / min(rates) < most, rates
