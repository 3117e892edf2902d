# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""NCF on hosts by ssh: its queue, its sender, and tc's part of the queue, which a host lacks at first."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.testbeds.nodes import NodesStatus
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.ssh.test_ssh import written

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: ncf-on-hosts
topology: line6
rate: 25mbit
rtt: 20ms
duration: 4s
trials: 1
rule: none
sample.interval: 100ms
aqm: ncf
flows:
  elephants: {cc: ncf}
  mice: {send: requests, cc: cubic, period: 100ms, size: 1kB}
"""


def with_part_of_tc(hosts: NodesStatus, part: Path, folder: Path) -> Path:
    """Write the nodes' inventory, with tc's part of the queue for the router."""
    plain: Any = YAML(typ="safe").load(hosts.inventory)
    plain["all"]["children"]["nodes"]["hosts"]["router"]["l4sbench_tc"] = {"ncf": str(part)}
    path = folder / "hosts.yml"
    YAML().dump(plain, path)
    return path


def test_a_trial_of_ncf(hosts: NodesStatus, lab: Lab, tmp_path: Path) -> None:
    wanted = tmp_path / "ncf-on-hosts.yaml"
    wanted.write_text(MATRIX, encoding="utf-8")
    (part,) = lab.rootfs.glob("usr/lib/**/tc/q_ncf.so")
    place = f"/{part.relative_to(lab.rootfs)}"
    assert "mice_share" in on(
        hosts, "router", "/usr/sbin/tc", "qdisc", "add", "ncf", "help", "2>&1", check=False
    )
    # as on a host that has the module from elsewhere, and no compiler
    on(hosts, "router", "sudo", "rm", place)
    ended = api.run(wanted, on=f"ssh:{with_part_of_tc(hosts, part, tmp_path)}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(written(ended.path, "trials"))
    queue = written(ended.path, "queues").filter(kind="ncf").sort("t_ms")
    assert queue["flows"].max() == 1
    assert queue["ncf_signals_packets"].max() > 0  # type: ignore[operator]
    assert queue["ncf_elephants_packets"].max() > queue["ncf_mice_packets"].max() > 0  # type: ignore[operator]
    told = written(ended.path, "sockets").filter(group="elephants", side="sender")
    assert told["ncf_signals"].max() > 0  # type: ignore[operator]
    assert told["ncf_capacity_mbps"].max() == 25
    loaded = written(ended.path, "hosts").filter(kind="module")
    assert set(loaded.filter(name="sch_ncf")["node"]) == {"router"}
    assert set(loaded.filter(name="tcp_ncf")["node"]) == {"tx-l4s", "rx-l4s"}
