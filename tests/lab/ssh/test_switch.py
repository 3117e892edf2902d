# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run through a switch: hosts are booted nodes, the switch is a stand-in.

For the run the router is a switch, whose shell is tests/unit/roles/switch_shell.py. Packets pass a Linux
router with sch_ncf at the same place and with the same addresses, which the test sets up by itself. So
everything on the way of a trial is the real thing, but for the switch.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.testbeds.nodes import NodesStatus
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.ssh.test_ssh import played, written
from tests.patience import ran
from tests.unit.roles.switch_stand_in import StandIn, switch_in

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: through-a-switch
topology: line6
rate: 25mbit
rtt: 20ms
duration: 4s
trials: 2
rule: l4sbench1
sample.interval: 100ms
aqm: ncf
flows:
  l4s: {cc: ncf}
  classic: {cc: cubic}
"""
PORTS = {"net-mid": 132, "net-rx": 140}
QUEUES = [3, 0], [3, 1]
"""Keys of port 140's queues for mice and elephants: it is the first of its group."""


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[StandIn]:
    """A switch without a program."""
    with switch_in(tmp_path / "sde") as found:
        yield found


def with_a_switch(hosts: NodesStatus, switch: StandIn, folder: Path) -> Path:
    """Write the nodes' inventory, in which the router is a switch with the router's addresses."""
    assert hosts.inventory is not None
    plain: Any = YAML(typ="safe").load(hosts.inventory)["all"]
    nodes = plain["children"]["nodes"]["hosts"]
    router = nodes.pop("router")
    ports = {
        network: {"port": PORTS[network], "mac": mac} for network, mac in router["l4sbench_ports"].items()
    }
    named = {**switch.variables, "l4sbench_switch": {"node": "router", "ports": ports}}
    inventory = folder / "hosts.yml"
    YAML().dump({"all": {"vars": plain["vars"], "hosts": {**nodes, "tofino": named}}}, inventory)
    return inventory


def count(switch: StandIn, cells: int) -> None:
    """Let the hardware count this many cells in the elephants' queue."""
    mice, elephants = QUEUES
    queues = [[*mice, {"usage_cells": 0}], [*elephants, {"usage_cells": cells}]]
    switch.count(**{"tf1.tm.counter.queue": queues, "$PORT_STAT": [[140, {"$FramesTransmittedAll": 5}]]})


def test_a_run_through_a_switch(hosts: NodesStatus, switch: StandIn, tmp_path: Path) -> None:
    wanted = tmp_path / "through-a-switch.yaml"
    wanted.write_text(MATRIX, encoding="utf-8")
    inventory = with_a_switch(hosts, switch, tmp_path)
    api.export(wanted, tmp_path / "by-hand", options=api.RunOptions(on=f"ssh:{hosts.inventory}"))
    (cell,) = (tmp_path / "by-hand/cells").iterdir()
    played(tmp_path / "by-hand", "prepare", hosts, "--limit", "router", "-e", f"@{cell}")
    count(switch, 100)

    # as a user runs it
    command = [sys.executable, "-m", "l4sbench", "run", str(wanted), "--on", f"ssh:{inventory}"]
    ended = ran([*command, "--dir", str(tmp_path)])
    assert "NCF" in ended.stdout, ended.stdout + ended.stderr
    path = tmp_path / "through-a-switch" / "latest"
    trials = written(path, "trials")
    assert trials.height == 2, ended.stdout + ended.stderr
    check_only_busy(trials)
    # one load, and one preparation and one fetch for each trial
    of_trials = ["begin", "results"] * 2
    assert switch.steps == ["build", "load", "control", *of_trials]
    queue = written(path, "queues")
    assert set(queue["node"]) == {"router"}
    assert set(queue["ncf_elephants_backlog_bytes"]) == {8_000}
    assert set(queue["trial"]) == {1, 2}
    assert queue["backlog_packets"].null_count() == queue.height
    assert queue["t_ms"].min() >= 0  # type: ignore[operator]
    shown = written(path, "hosts").filter(kind="switch", name="net-rx ncf", trial=1)["value"].item()
    assert json.loads(shown)["options"]["capacity"] == 3_125_000
    # hosts beside the switch ask nobody for its address, and it is part of what the run was made with
    assert "PERMANENT" in on(hosts, "delay", "ip", "neigh", "show", "10.0.2.1")
    assert "PERMANENT" in on(hosts, "rx-l4s", "ip", "neigh", "show", "10.0.5.1")
    for trial in path.glob("cells/*/*/trial.json"):
        made_with = json.loads(trial.read_text())["identity"]["common"]
        assert re.fullmatch(r"sde [0-9a-f]{12}, ncf [0-9a-f]{12}, .*", made_with["switch router"])
        assert "kernel of router" not in made_with
    kernels = written(path, "trials")["kernels"].list.join(", ")
    assert set(kernels.str.contains(r"sde [0-9a-f]{12} \(ncf [0-9a-f]{12}\)")) == {True}
    played(tmp_path / "by-hand", "teardown", hosts)
    assert "PERMANENT" not in on(hosts, "delay", "ip", "neigh", "show", "10.0.2.1")
    assert set(written(path, "sockets").filter(group="l4s", side="sender")["ncf_capacity_mbps"]) >= {25}
