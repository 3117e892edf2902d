# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The path on a stock Debian 13 as it is installed: its kernel has nf_tables and netem, as the lab's has not.

One emulated machine holds all nodes and keeps its kernel, so a run installs tools alone. Its clock counts
instructions (emulated.py). It takes a quarter of an hour on two quiet cores.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.pcap import UDP, find_capture, read_capture
from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.topology import topology
from tests.lab.debian.emulated import Machines, machines
from tests.lab.nodes.hosts import check_only_busy
from tests.lab.ssh.test_ssh import written

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: path
rate: 5mbit
rtt: 20ms
duration: 6s
trials: 1
aqm: fifo
rule: none
family: {family}
sample.interval: 1s
capture: headers
expect.bottleneck: false
path.ecn: bleach
path.loss: 2%
events:
  changed: {{at: 2s, path.ecn: ect0}}
  passed: {{at: 4s, path.ecn: pass}}
flows:
  udp: {{send: paced, rate: 200kbit, size: 938B, codepoint: ect1}}
  back: {{cc: cubic, ecn: classic}}
"""
SLOWDOWN = 100
"""A generous limit: on a quiet core a second of the machine takes five."""
NOT_ECT, ECT1, ECT0 = range(3)


@pytest.fixture(scope="module")
def vms(lab: Lab, able_to_emulate: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("path")
    with machines({"one": tuple(topology("line6").by_name)}, folder / "vms", counted=True) as made:
        plain = json.loads(made.inventory.read_text())
        plain["all"]["vars"]["l4sbench_slowdown"] = SLOWDOWN
        made.inventory.write_text(json.dumps(plain))
        yield made


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_ecn_field_is_changed_and_packets_are_lost(vms: Machines, tmp_path: Path, family: str) -> None:
    """Every packet has the codepoint of its time; rules that are left behind would fail the read-back."""
    (path := tmp_path / "path.yaml").write_text(MATRIX.format(family=family))
    ended = api.run(path, on=f"ssh:{vms.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(written(ended.path, "trials"))
    (raw,) = ended.path.glob("cells/*/*/raw")
    capture = find_capture(raw / "router", "net-mid.pcap")
    assert capture is not None
    # iperf3 has a connection to the same port
    packets = read_capture(capture).filter(dst_port=5001, protocol=UDP).sort("time_ns")
    order = packets["ecn"].to_list()
    kept = [one for one, before in zip(order, [None, *order], strict=False) if one != before]
    assert kept == [NOT_ECT, ECT0, ECT1]
    facts = written(ended.path, "hosts")
    assert set(facts.filter(kind="rule")["node"]) == {"delay"}
    assert "loss-random" in " ".join(facts.filter(kind="qdisc", node="delay")["value"])
