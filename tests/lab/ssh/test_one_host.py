# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One host suffices for a lab: all nodes are network namespaces of it, and it needs no interface for them."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.matrix import Matrix
from l4sbench.testbeds.nodes import NodesStatus
from l4sbench.topology import topology
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.ssh.test_ssh import matrix, written

LINE6 = topology("line6")

pytestmark = pytest.mark.lab


def alone(hosts: NodesStatus, folder: Path) -> Path:
    """Return an inventory with one of the hosts, which holds all nodes."""
    plain = YAML(typ="safe").load(hosts.inventory)["all"]
    own = plain["children"]["nodes"]["hosts"]["router"]
    kept = {name: value for name, value in own.items() if name not in {"l4sbench_node", "l4sbench_ports"}}
    path = folder / "one.json"
    one = {**kept, "l4sbench_nodes": "all"}
    path.write_text(json.dumps({"all": {"vars": plain["vars"], "hosts": {"router": one}}}))
    return path


def test_one_host_does(hosts: NodesStatus, tmp_path: Path) -> None:
    """A trial of one host is as valid as of six, and the queue under test fills to its limit.

    It would not if TCP took packets in that queue for packets in its own host's queue: it keeps a millisecond
    of those (TCP small queues).
    """
    wanted = matrix(tmp_path, "fifo", "5s")
    wanted.write_text(wanted.read_text().replace("rtt: 10ms\n", "rtt: 10ms\nbuffer_bdp: 8\n"))
    inventory = alone(hosts, tmp_path)
    ended = api.run(wanted, on=f"ssh:{inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    trials = written(ended.path, "trials")
    check_only_busy(trials)  # which is no fault of the layout
    assert set(written(ended.path, "lateness")["node"]) == set(LINE6.by_name)
    spaces = on(hosts, "router", "ip", "netns").split()
    assert {f"l4sb-{node}" for node in LINE6.by_name} <= set(spaces)
    if trials["status"].to_list() == ["ok"]:
        assert written(ended.path, "flows")["goodput_mbps"].min() > 0.5  # type: ignore[operator]
        (cell,) = Matrix.load(wanted).cells
        bdp_bytes = cell.rate.bits_per_s * cell.rtt.ns // 8_000_000_000
        queues = written(ended.path, "queues")
        assert queues["backlog_bytes"].max() > 4 * bdp_bytes  # type: ignore[operator]
        assert queues["drops_packets"].max() > 0  # type: ignore[operator]


@pytest.mark.long
def test_a_topology_after_another(hosts: NodesStatus, tmp_path: Path) -> None:
    """Links of one topology are not in the way of another's, whose networks have other nodes."""
    wanted = matrix(tmp_path, "fifo", "2s", "both")
    text = wanted.read_text().replace("topology: line6\n", "")
    wanted.write_text(f"{text}  topology: [line6, segsize7]\n")
    ended = api.run(wanted, on=f"ssh:{alone(hosts, tmp_path)}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(written(ended.path, "trials"))
    expected = {*LINE6.by_name, *topology("segsize7").by_name}
    assert set(written(ended.path, "lateness")["node"]) == expected
