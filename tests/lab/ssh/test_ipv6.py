# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells of IPv6 on booted nodes, whose management is IPv4, and what is left on the nodes afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from collectors.pcap import find_capture, read_capture
from l4sbench.app import api
from l4sbench.testbeds.nodes import NodesStatus
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.playbooks import play
from tests.lab.ssh.test_ssh import on_fewer_hosts

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: six
rate: 10mbit
rtt: 20ms
duration: 4s
trials: 1
aqm: fifo
family: ipv6
capture: headers
rule: none
expect.bottleneck: false
sample.interval: 200ms
flows:
  l4s: {cc: prague, bytes: 1MB}
  classic: {cc: cubic}
  mice: {send: requests, cc: cubic, period: 200ms, size: 50B, from: tx-classic, to: rx-classic}
  udp: {send: paced, rate: 800kbit, size: 938B, codepoint: ect1, from: tx-l4s, to: rx-l4s}
  flood: {send: syn-flood, rate: 500kbit, codepoint: ect0, from: tx-l4s, to: rx-l4s}
"""

STATE = (
    "sudo sysctl net.ipv6.conf | grep -E '(forwarding|accept_ra|disable_ipv6) ='; "
    "ip -o -6 address | grep -v fe80; ip -6 route | grep -v fe80"
)


def state_of(hosts: NodesStatus) -> dict[str, str]:
    """Return the settings of IPv6 of each node."""
    return {node.name: on(hosts, node.name, STATE, check=False) for node in hosts.nodes}


@pytest.mark.long
def test_hosts_run_cells_of_ipv6_and_are_as_before(hosts: NodesStatus, tmp_path: Path) -> None:
    assert hosts.inventory is not None
    untouched = state_of(hosts)
    wanted = tmp_path / "six.yaml"
    wanted.write_text(MATRIX)
    ended = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    (raw,) = ended.path.glob("cells/*/*/raw")
    routes = json.loads((raw / "tx-l4s" / "routes.json").read_text())
    assert "fd4c:3453:46::a00:2" in {route.get("gateway") for route in routes}
    (arrived,) = raw.glob("*/flow-l4s-0.receiver.json")
    # on a busy machine the trial may end before the transfer
    assert 0 < json.loads(arrived.read_text())["bytes_received"] <= 1_000_000
    for flow, codepoint in (("udp-0", "ect1"), ("flood-0", "ect0")):
        (counted,) = raw.glob(f"*/flow-{flow}.receiver.json")
        by_codepoint = json.loads(counted.read_text())["packets_received"]
        assert {name for name, packets in by_codepoint.items() if packets} == {codepoint}
    capture = find_capture(raw / "router", "net-mid.pcap")
    assert capture is not None
    of_flows = read_capture(capture).filter(pl.col("dst_port").is_between(5001, 5005))
    seen = of_flows.group_by("dst_port").agg(pl.col("ecn").unique())
    assert {port: set(ecn) for port, ecn in seen.iter_rows()} == {
        5001: {1},
        5002: {0},
        5003: {0},
        5004: {1},
        5005: {2},
    }
    play(Path("playbooks/teardown.yml").resolve(), hosts.inventory)
    assert state_of(hosts) == untouched


@pytest.mark.long
def test_several_nodes_on_a_host_have_addresses_of_their_own(hosts: NodesStatus, tmp_path: Path) -> None:
    wanted = tmp_path / "six.yaml"
    wanted.write_text(MATRIX)
    few = on_fewer_hosts(hosts, tmp_path)
    ended = api.run(wanted, on=f"ssh:{few}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    (arrived,) = ended.path.glob("cells/*/*/raw/*/flow-l4s-0.receiver.json")
    # on a busy machine the trial may end before the transfer
    assert 0 < json.loads(arrived.read_text())["bytes_received"] <= 1_000_000
    assert "fd4c:3453:46::a00:65/120" in on(hosts, "tx-l4s", "sudo ip -n l4sb-tx-classic -6 address")
    play(Path("playbooks/teardown.yml").resolve(), few)
