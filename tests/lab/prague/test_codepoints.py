# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: the ECN codepoint of every kind of packet, as captured at the sender."""

from collections import Counter
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.captures import Segment, segments
from tests.lab.prague.experiment import PORT, RX, RX6, Experiment

pytestmark = pytest.mark.lab

SENT = {"SYN", "data", "retransmission", "ACK", "FIN"}
ANSWERED = {"SYN", "ACK", "FIN"}


def iperf3(
    lab: Lab, folder: Path, target: str, *, rx_ecn: int = 3, rx_cc: str = "prague", tx_ecn: int = 3
) -> list[Segment]:
    """A second of Prague over a queue that loses 1 %."""
    this = Experiment(queue="netem loss random 1% limit 60000")
    for node, ecn, control in (("tx", tx_ecn, "prague"), ("rx", rx_ecn, rx_cc)):
        this.set(node, "net/ipv4/tcp_ecn", ecn)
        this.set(node, "net/ipv4/tcp_congestion_control", control)
    this.capture("tx")
    this.script.line("daemon", "rx", "-", "-", "iperf3", "-s", "-1", "-p", PORT)
    this.start()
    this.at("tx", 0, "iperf3", "-c", target, "-p", PORT, "-t", 1)
    this.at("tx", 500, "ss", "-tin", out="ss.out")
    outcome = this.end(lab, folder)
    return list(segments(outcome.folder / "tx.pcap", PORT))


@pytest.mark.parametrize("target", [RX, RX6, f"::ffff:{RX}"], ids=["IPv4", "IPv6", "IPv4-mapped"])
def test_every_packet_is_ect1(lab: Lab, tmp_path: Path, target: str) -> None:
    seen = Counter((s.to_server, s.kind, s.ecn) for s in iperf3(lab, tmp_path, target))
    assert {ecn for _, _, ecn in seen} == {"ECT(1)"}, seen
    assert {kind for to_server, kind, _ in seen if to_server} == SENT
    assert {kind for to_server, kind, _ in seen if not to_server} >= ANSWERED


@pytest.mark.parametrize("target", [RX, RX6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("rx_ecn", [0, 1, 2], ids=["no-ecn", "classic-ecn", "classic-ecn-if-asked"])
def test_a_peer_without_accecn_gets_a_reno_without_ecn(
    lab: Lab, tmp_path: Path, target: str, rx_ecn: int
) -> None:
    sent = [s for s in iperf3(lab, tmp_path, target, rx_ecn=rx_ecn, rx_cc="cubic") if s.to_server]
    assert {s.kind for s in sent} == SENT
    assert {s.ecn for s in sent if s.kind == "SYN"} == {"ECT(1)"}
    assert {s.ecn for s in sent if s.kind != "SYN"} == {"Not-ECT"}
    assert " prague-reno " in (tmp_path / "trial" / "ss.out").read_text()
