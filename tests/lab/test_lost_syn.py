# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""SYNs that are lost: the flow goes on asking for ECN, so that its trial is what its cell says.

A kernel that may fall back stops asking for classic ECN with the second SYN, for AccECN with the third.
"""

from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import GUEST_MODULES, Lab
from tests.lab.guests import Script, boot

pytestmark = pytest.mark.lab

MS = 1_000_000
LOST_MS = 3500
"""How long all SYNs are lost: four of them, sent 1 s apart (tcp_syn_linear_timeouts)."""
SECONDS = 6
ECN = {"cubic": "classic", "prague": "accecn"}
NEGOTIATED = {"cubic": "rfc3168", "prague": "accecn"}
MATRIX = """\
matrix: m
rate: 10mbit
rtt: 10ms
duration: 3s
aqm: fifo
flows:
  one: {{cc: {cc}, ecn: {ecn}}}
"""


def negotiated(lab: Lab, folder: Path, cc: str, fallback: str | None = None) -> str:
    """Return the ECN of a flow whose first SYNs are lost; its hosts are set as a cell's program says."""
    matrix = folder / "m.yaml"
    matrix.write_text(MATRIX.format(cc=cc, ecn=ECN[cc]))
    _, topology, programs = api.programs_of(matrix, [])
    script = Script()
    if cc == "prague":
        script.line("module", GUEST_MODULES / "tcp_prague.ko", "-")
    script.pair()
    for node, own in zip(("tx", "rx"), topology.pairs[0], strict=True):
        for key, value in programs[own].sysctls:
            if not key.startswith("net.wire"):
                script.line("sysctl", node, key.replace(".", "/"), value)
        if fallback is not None:
            script.line("sysctl", node, "net/ipv4/tcp_ecn_fallback", fallback)
        script.line("sysctl", node, "net/ipv4/tcp_congestion_control", cc)
    script.run("tx", "busybox", "ping", "-c", 1, "10.0.0.2")  # the neighbour is known: only SYNs are lost
    script.batch("tx", "tc", "qdisc add dev left root netem loss 100%")
    common = ("--port", 5001, "--seconds", SECONDS)
    script.line("daemon", "rx", "receiver.json", "-", "lab-traffic", "receive", *common)
    script.line("start", 100)
    sender = ("lab-traffic", "send", "--to", "10.0.0.2", "--cc", cc, *common)
    script.line("at", "tx", 0, "sender.json", "-", *sender)
    script.line("at", "tx", LOST_MS * MS, "-", "-", "tc", "qdisc", "del", "dev", "left", "root")
    script.line("wait", 20_000 * MS)
    outcome = boot(lab, script, folder / "trial")
    assert outcome.end["ok"], outcome.end
    sent, received = outcome.json("sender.json"), outcome.json("receiver.json")
    assert sent["established_ns"] - sent["connect_ns"] > LOST_MS * MS, "no SYN was lost"
    assert sent["ecn"]["mode"] == received["ecn"]["mode"]
    return str(sent["ecn"]["mode"])


@pytest.mark.parametrize("cc", ECN)
def test_a_flow_whose_syns_are_lost_has_the_ecn_of_its_cell(lab: Lab, tmp_path: Path, cc: str) -> None:
    assert negotiated(lab, tmp_path, cc) == NEGOTIATED[cc]


@pytest.mark.parametrize("cc", ECN)
def test_with_the_fallback_of_rfc_3168_it_would_have_none(lab: Lab, tmp_path: Path, cc: str) -> None:
    assert negotiated(lab, tmp_path, cc, fallback="1") == "off"
