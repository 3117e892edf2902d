# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""BBR: beginning and end of modules and connections, codepoints, what ss shows."""

from collections import Counter
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.bbr.experiment import MODULES, experiment
from tests.lab.prague.captures import segments
from tests.lab.prague.experiment import PORT, RX, RX6
from tests.lab.prague.life import (
    check_codepoints_of_a_socket_that_becomes_ipv4,
    check_connections_leave_nothing,
    check_unloading,
    connections,  # noqa: F401  (a fixture)
)

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("target", [RX, RX6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(
    ("cc", "ecn", "codepoints"),
    [
        ("bbr2", 0, {"Not-ECT"}),
        ("bbr2", 1, {"ECT(0)", "Not-ECT"}),
        ("bbr2_l4s", 3, {"ECT(1)"}),
        ("bbr2_l4s", 1, {"ECT(0)", "Not-ECT"}),
        ("bbr3", 1, {"ECT(0)", "Not-ECT"}),
        ("bbr3_ect1", 1, {"ECT(1)"}),
    ],
)
def test_codepoints(lab: Lab, tmp_path: Path, cc: str, ecn: int, codepoints: set[str], target: str) -> None:
    """Of all packets but the SYN, with losses; ss shows BBR's record."""
    this = experiment(cc, ecn=ecn, queue="netem loss random 1% limit 60000")
    this.set("tx", "net/ipv4/tcp_congestion_control", cc)
    this.capture("tx")
    this.script.line("daemon", "rx", "-", "-", "iperf3", "-s", "-1", "-p", PORT)
    this.start()
    this.at("tx", 0, "iperf3", "-c", target, "-p", PORT, "-t", 1)
    this.at("tx", 500, "ss", "-tin", out="ss.out")
    outcome = this.end(lab, tmp_path)
    captured = list(segments(outcome.folder / "tx.pcap", PORT))
    # what follows is sent by no socket: answers of TIME_WAIT
    end_s = max(s.time_s for s in captured if s.to_server and s.kind in {"data", "FIN"})
    sent = [s for s in captured if s.to_server and s.kind != "SYN" and s.time_s <= end_s]
    seen = Counter((s.kind, s.ecn) for s in sent)
    assert {ecn for _, ecn in seen} == codepoints, seen
    assert {kind for kind, _ in seen} >= {"data", "retransmission", "ACK"}
    shown = (outcome.folder / "ss.out").read_text()
    assert f" {cc} " in shown
    assert "bbr:(bw:" in shown
    assert "pacing_gain:" in shown


@pytest.mark.parametrize("cc", ["bbr2_l4s", "bbr3_ect1"])
def test_a_socket_that_becomes_ipv4_goes_on(
    lab: Lab,
    tmp_path: Path,
    connections: Path,  # noqa: F811
    cc: str,
) -> None:
    this = experiment(cc, ecn=3, rtt_ms=20)
    this.programs.append(connections)
    check_codepoints_of_a_socket_that_becomes_ipv4(this, cc, lab, tmp_path)


@pytest.mark.parametrize("name", ["tcp_bbr2", "tcp_bbr3"])
def test_unloading(lab: Lab, tmp_path: Path, name: str) -> None:
    """Refused while a flow runs; afterwards clean, and the module can be loaded again."""
    cc = name.removeprefix("tcp_")
    this = experiment(cc)
    this.flow(2, cc=cc)
    check_unloading(this, name, lab, tmp_path)


@pytest.mark.parametrize("cc", ["bbr2_l4s", "bbr3"])
def test_connections_leave_nothing_behind(lab: Lab, tmp_path: Path, connections: Path, cc: str) -> None:  # noqa: F811
    """BBR at both ends, hence 20,000 sockets with a record of 1 KiB each: one leaked in a hundred shows."""
    this = experiment(cc, ecn=3, rtt_ms=1)
    this.programs.append(connections)
    check_connections_leave_nothing(this, cc, MODULES[cc], lab, tmp_path)
