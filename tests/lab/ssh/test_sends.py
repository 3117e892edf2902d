# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Every kind of traffic on booted nodes: by lab-traffic, by iperf3, and by flent where it is at hand.

Figures are read from raw files, which are there of a trial that a busy machine made invalid, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.kinds.flent import read_test
from l4sbench.app import api
from l4sbench.errors import L4sbenchError
from l4sbench.testbeds.nodes import NodesStatus
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.udp import OWN, udp_l4s
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

HEAD = """\
matrix: sends
rate: 10mbit
rtt: 20ms
duration: {duration}
trials: 1
aqm: fifo
rule: none
expect.bottleneck: false
sample.interval: 200ms
flows:
"""


def ran(hosts: NodesStatus, folder: Path, duration: str, groups: str) -> Path:
    """Run one trial on the hosts; return its raw folder."""
    path = folder / "sends.yaml"
    path.write_text(HEAD.format(duration=duration) + groups)
    ended = api.run(path, on=f"ssh:{hosts.inventory}", runs=folder)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    (raw,) = ended.path.glob("cells/*/*/raw")
    return raw


def ends(raw: Path, flow: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what both ends of a flow reported."""
    (sender,) = raw.glob(f"*/flow-{flow}.sender.json")
    (receiver,) = raw.glob(f"*/flow-{flow}.receiver.json")
    return json.loads(sender.read_text()), json.loads(receiver.read_text())


SHORT = """\
  short:  {cc: cubic, bytes: 300kB}
  mice:   {send: requests, cc: reno, period: 200ms, size: 50B}
  page:   {send: pages, cc: reno, period: 1s, size: 2kB, objects: 6, connections: 3, from: tx-l4s, to: rx-l4s}
  flood:  {send: syn-flood, rate: 500kbit, codepoint: ect1, from: tx-l4s, to: rx-l4s}
  crowd:  {send: connect-flood, cc: reno, rate: 200kbit, size: 50B, from: tx-classic, to: rx-classic}
  many:   {send: workload, cc: reno, workload: facebook-hadoop, load: 20%, from: tx-classic, to: rx-classic}
  udp:    {send: paced, rate: 800kbit, size: 958B, codepoint: ect0, from: tx-l4s, to: rx-l4s}
"""


@pytest.mark.long
def test_lab_traffic_sends_on_hosts(hosts: NodesStatus, tmp_path: Path) -> None:
    """Senders send as planned; a busy machine may drop what it has no time for, or take it after the end."""
    raw = ran(hosts, tmp_path, "4s", SHORT)
    short, arrived = ends(raw, "short-0")
    assert arrived["bytes_received"] == short["bytes_acked"] == 300_000
    assert 0.24 < (arrived["completed_ns"] - arrived["start_ns"]) / 1e9 < 4
    mice, answered = ends(raw, "mice-0")
    assert mice["opened"] == pytest.approx(20, abs=1)
    assert 0 < answered["accepted"] <= mice["opened"]
    assert min(request[1] for request in mice["requests"] if request[1] > 0) > 20e6  # a round trip
    page, loaded = ends(raw, "page-0")
    assert page["opened"] == pytest.approx(4 * 3, abs=3)
    assert len(page["requests"]) == page["opened"] / 3
    assert 0 < loaded["bytes_received"] <= 12_000 * len(page["requests"])
    flood, counted = ends(raw, "flood-0")
    assert flood["packets_sent"] == pytest.approx(4 * 500e3 / 8 / 54, rel=0.01)
    assert 0.3 * flood["packets_sent"] < counted["packets_received"]["ect1"] <= flood["packets_sent"]
    assert sum(counted["packets_received"].values()) == counted["packets_received"]["ect1"]
    crowd, accepted = ends(raw, "crowd-0")
    assert crowd["opened"] == pytest.approx(4 * 200e3 / 8 / 388, abs=2)
    assert 0.3 * 50 * crowd["opened"] < accepted["bytes_received"] <= 50 * crowd["opened"]
    many, served = ends(raw, "many-0")
    assert len(many["requests"]) == many["opened"] > 1
    assert 0 < served["accepted"] <= many["opened"]
    udp, taken = ends(raw, "udp-0")
    assert udp["packets_sent"] == 400
    assert 0.3 * 400 < taken["packets_received"]["ect0"] <= 400
    trial = json.loads((raw.parent / "trial.json").read_text())
    assert trial["status"] in {"ok", "invalid"}
    assert on(hosts, "tx-l4s", "ls /var/lib/l4sbench/bin").split() == ["lab-traffic"]


@pytest.mark.long
def test_groups_have_their_own_round_trip_times_and_rates(hosts: NodesStatus, tmp_path: Path) -> None:
    """iperf3 sends these; a group's `rtt` is a delay at its sender."""
    groups = """\
  near: {cc: cubic, stop: 5s}
  far:  {cc: cubic, rtt: 60ms, stop: 5s}
  udp:  {send: paced, rate: 1mbit, size: 958B, codepoint: ect1, from: tx-l4s, to: rx-l4s}
"""
    raw = ran(hosts, tmp_path, "5s", groups)
    samples = [json.loads(line) for line in (raw / "sockets.jsonl").read_text().splitlines()]
    lowest = {
        node: min(
            one["min_rtt"] for one in samples if one["node"] == node and one.get("data_segs_out", 0) > 10
        )
        for node in ("tx-l4s", "tx-classic")
    }
    # a path of four nodes adds 0.5 ms and more to the nominal round trip
    assert 20e3 < lowest["tx-l4s"] < 45e3
    assert 40e3 < lowest["tx-classic"] - lowest["tx-l4s"] + 5e3 < 65e3
    sent, arrived = ends(raw, "udp-0")
    assert sent["start"]["test_start"]["protocol"] == "UDP"
    assert sent["end"]["sum_sent"]["bytes"] * 8 / 5e6 == pytest.approx(0.958, rel=0.03)
    assert arrived["end"]["sum_received"]["bytes"] == pytest.approx(sent["end"]["sum_sent"]["bytes"], rel=0.1)


PINGED = "  bulk: {cc: cubic}\n  probe: {send: flent, test: ping, from: tx-l4s, to: rx-l4s}\n"


@pytest.fixture
def with_flent(hosts: NodesStatus, tmp_path: Path) -> NodesStatus:
    """Nodes that have flent; skip where this machine has none to copy."""
    own = Path(os.environ.get("L4SBENCH_FLENT", Path(sys.prefix) / "flent")) / "flent"
    irtt = shutil.which("irtt")
    if not own.is_dir() or irtt is None:
        pytest.skip("no flent (make env-flent installs it), or no irtt (a package of Debian)")
    put_flent(hosts, own, Path(irtt), tmp_path)
    return hosts


def check_pings(raw: Path) -> None:
    """Check that flent's ping saw the queue of a bulk flow."""
    test = read_test(raw / "tx-l4s", "probe-0")
    pings = [value for series, _, value in test.points if series == "Ping (ms) ICMP"]
    assert len(pings) > 10
    assert 20 <= min(pings) < max(pings)


@pytest.mark.long
def test_flent_s_ping_by_ipv6(with_flent: NodesStatus, tmp_path: Path) -> None:
    check_pings(ran(with_flent, tmp_path, "6s", f"{PINGED}family: ipv6\n"))


@pytest.mark.long
def test_flent_s_ping_beside_a_flow(with_flent: NodesStatus, tmp_path: Path) -> None:
    """The queue of a bulk flow is what a third party's ping sees."""
    hosts = with_flent
    check_pings(ran(hosts, tmp_path, "6s", PINGED))
    (tmp_path / "rrul").mkdir()
    with pytest.raises(L4sbenchError, match="netperf is missing"):
        ran(hosts, tmp_path / "rrul", "6s", "  bulk: {cc: cubic}\n  probe: {send: flent, test: rrul}\n")


@pytest.mark.long
def test_programs_of_one_s_own_send_on_hosts(
    hosts: NodesStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are copied there, run as they are, and leave their JSON; without consent nothing is copied."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    udp_l4s(tmp_path)
    path = tmp_path / "sends.yaml"
    groups = f"  own: {{{OWN}}}\ncapture: headers\n"
    path.write_text(HEAD.format(duration="5s").replace("10mbit", "3mbit") + groups)
    where = f"ssh:{hosts.inventory}"
    with pytest.raises(L4sbenchError, match="is a program that was not trusted yet"):
        api.run(path, on=where, runs=tmp_path)
    ended = api.run(path, on=where, runs=tmp_path, trust=True)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    (raw,) = ended.path.glob("cells/*/*/raw")
    (sender,) = raw.glob("*/flow-own-0.sender.json")
    (receiver,) = raw.glob("*/flow-own-0.receiver.json")
    sent, arrived = json.loads(sender.read_text()), json.loads(receiver.read_text())["packets_received"]
    assert 20 <= sent["rtt_ms"]["least"] < 100
    assert 50 < arrived["ect1"] + arrived["ce"] <= sent["packets_sent"]
    assert arrived["not_ect"] == 0
    assert "udp-l4s-" in on(hosts, sender.parent.name, "ls", "/var/lib/l4sbench/bin")


def put_flent(hosts: NodesStatus, own: Path, irtt: Path, folder: Path) -> None:
    """Copy flent's own files and irtt to every node: no packages are to be had there."""
    shutil.copy(irtt, folder / "irtt")
    start = folder / "start"
    start.write_text('#!/bin/sh\nPYTHONPATH=/opt/flent exec python3 -m flent "$@"\n')
    shutil.copytree(own, folder / "packed" / "flent", ignore=shutil.ignore_patterns("__pycache__", "ui"))
    packed = folder / "flent.tar"
    what = ("-C", folder / "packed", "flent", "-C", folder, "start", "irtt")
    subprocess.run(["tar", "-cf", packed, *what], check=True, timeout=PATIENCE_S)
    steps = (
        "sudo mkdir -p /opt/flent",
        "sudo tar -xf - -C /opt/flent",
        "sudo install -m 755 /opt/flent/start /usr/bin/flent",
        "sudo install -m 755 /opt/flent/irtt /usr/bin/irtt",
    )
    for node in hosts.nodes:
        with packed.open("rb") as archive:
            subprocess.run(
                ["ssh", "-F", str(hosts.ssh_config), node.name, " && ".join(steps)],
                stdin=archive,
                check=True,
                timeout=PATIENCE_S,
            )
