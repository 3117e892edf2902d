# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two machines suffice for a lab: senders and receivers on one, delay and router on the other."""

import os
from pathlib import Path

import polars as pl
import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.testbeds.nodes import lab as nodes_lab
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.topology import Address, Network, Node, NodePair, Port, Topology, topology
from tests.lab.nodes.hosts import booted, check_only_busy, on
from tests.lab.ssh.test_ssh import matrix

LINE6 = topology("line6")

pytestmark = pytest.mark.lab

HELD = {"ends": ["tx-l4s", "tx-classic", "rx-l4s", "rx-classic"], "middle": ["delay", "router"]}
NETWORKS = ("net-tx", "net-rx")


def two() -> Topology:
    """Two machines that two networks join; what they are in an experiment says the inventory."""
    nodes = tuple(
        Node(name, role, tuple(Address(net, f"192.0.2.{16 * n + h}", 28) for n, net in enumerate(NETWORKS)))
        for h, (name, role) in enumerate(zip(HELD, ("sender", "router"), strict=True), 1)
    )
    return Topology(
        name="two",
        nodes=nodes,
        networks=tuple(Network(net, f"192.0.2.{16 * n}/28", tuple(HELD)) for n, net in enumerate(NETWORKS)),
        pairs=(NodePair("ends", "ends"),),
        bottlenecks=(Port("middle", "net-rx"),),
    )


@pytest.mark.long
def test_two_machines_do(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [check for check in node_checks(2) if not check.ok]
    if missing:
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing))
    monkeypatch.setattr(nodes_lab, "find_topology", lambda _: two())
    with booted(f"test-two-{os.getpid()}") as machines:
        assert machines.inventory
        plain = YAML(typ="safe").load(machines.inventory)["all"]
        hosts = plain["children"]["nodes"]["hosts"]
        for name, held in HELD.items():
            hosts[name] = {**hosts[name], "l4sbench_nodes": held}
            del hosts[name]["l4sbench_node"]
        inventory = tmp_path / "hosts.yml"
        YAML().dump({"all": {"vars": plain["vars"], "hosts": hosts}}, inventory)
        ended = api.run(matrix(tmp_path, "codel"), on=f"ssh:{inventory}", runs=tmp_path)
        trials = pl.read_parquet(ended.path / "tables/trials.parquet")
        check_only_busy(trials)  # which is no fault of the wiring
        lateness = pl.read_parquet(ended.path / "tables/lateness.parquet")
        assert set(lateness["node"]) == set(LINE6.by_name)
        spaces = on(machines, "middle", "ip", "netns").split()
        assert {"l4sb-delay", "l4sb-router"} <= set(spaces)
        shown = on(machines, "middle", "sudo", "ip", "netns", "exec", "l4sb-delay", "tc", "qdisc")
        assert shown.count("netem") == 2
