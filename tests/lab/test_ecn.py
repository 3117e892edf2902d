# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""ECN in the kernel: what the two sides of a connection agree on, and where a queue puts each codepoint."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from reports.published.claims import measures
from tests.lab.test_sends import ran

pytestmark = pytest.mark.lab


def test_connections_use_the_lesser_ecn_of_both_sides(lab: Lab, tmp_path: Path) -> None:
    """Without AccECN Prague leaves the window to Reno, and sends without ECN."""
    found, _ = ran(
        tmp_path,
        "duration: 3s\naqm: codel\ncapture: headers\nflows: {l4s: {cc: prague}, classic: {cc: cubic}}\n"
        "axes:\n  l4s.receiver_ecn: ['off', classic, accecn]\n  classic.ecn: [classic]\n"
        "  classic.receiver_ecn: [accecn]\n",
    )
    offered = pl.col("l4s.receiver_ecn")
    flows = found.flows.join(found.trials.select("cell", offered), on="cell")
    own = flows.filter(group="l4s")
    assert dict(own.select(offered, "ecn").iter_rows()) == {
        "off": "off",
        "classic": "off",
        "accecn": "accecn",
    }
    assert flows.filter(group="classic")["ecn"].unique().to_list() == ["classic"]
    sent = measures(found, "l4s", ["ect1_packets"]).select(offered, "ect1_packets")
    packets = dict(sent.iter_rows())
    assert packets["off"] == packets["classic"] == 0 < packets["accecn"]


def test_a_dual_queue_takes_marked_packets_for_l4s(lab: Lab, tmp_path: Path) -> None:
    found, _ = ran(
        tmp_path,
        "duration: 6s\nwarmup: 2s\naqm: dualpi2\ntopology: dumbbell\ncapture: headers\n"
        "flows: {udp: {send: paced, rate: 500kbit, size: 100B}, classic: {cc: cubic, count: 2}}\n"
        "axes: {udp.codepoint: [not-ect, ect0, ect1, ce]}\n",
    )
    waited = dict(measures(found, "udp").select("udp.codepoint", "sojourn_p50_ms").iter_rows())
    for classic in ("not-ect", "ect0"):
        assert max(waited["ect1"], waited["ce"]) < waited[classic] / 3
    before = found.codepoints.filter(group="udp", direction="forward", place="before")
    marked = before.join(found.trials.select("cell", "udp.codepoint"), on="cell").filter(
        pl.col("ce_packets") > 0
    )
    assert marked["udp.codepoint"].to_list() == ["ce"]


def test_an_outage_is_survived_by_a_few_repetitions(lab: Lab, tmp_path: Path) -> None:
    found, _ = ran(
        tmp_path,
        "duration: 12s\naqm: fifo\nflows: {l4s: {cc: reno}}\n"
        "events: {begin: {at: 4s, path.loss: 100%}, end: {at: 8s, path.loss: 0%}}\n",
    )
    (again,) = measures(found, "l4s", ["outage_retransmits_packets"])["outage_retransmits_packets"]
    assert 3 <= again <= 8  # after 0.2, 0.6, 1.4 and 3 s, and a probe
