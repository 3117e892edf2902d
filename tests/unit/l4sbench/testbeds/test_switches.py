# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Switches of an inventory, and that the control part on the switch takes what a cell asks for."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from l4sbench.app import api
from l4sbench.app.finding import load_matrix
from l4sbench.catalog import Catalog
from l4sbench.errors import InputError, TrialFailed
from l4sbench.testbeds.fabric import FabricTestbed
from l4sbench.testbeds.ssh.facts import SwitchFacts
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.switches import switches_of
from l4sbench.testbeds.ssh.switching import Switching, require_clock
from l4sbench.topology import topology
from tests.p4.plane import NCF, control
from tests.unit.l4sbench.testbeds.inventories import hosts_for, write_inventory

LINE6 = topology("line6")
MATRIX = """\
matrix: on-a-switch
topology: line6
rate: 200mbit
rtt: 20ms
duration: 5s
trials: 1
rule: none
buffer_bdp: 0.5
aqm: ncf
flows:
  elephants: {cc: ncf}
  mice: {send: requests, cc: cubic, period: 100ms, size: 1kB}
"""
PORTS = {
    "net-mid": {"port": 132, "mac": "02:00:00:00:01:84"},
    "net-rx": {"port": 140, "mac": "02:00:00:00:01:8c", "speed": "25G"},
}


def mac(node: int, port: int) -> str:
    return f"02:00:00:00:{node:02x}:{port:02x}"


def inventory(folder: Path, switch: Any) -> Path:
    """A host for every node but the router, which is a switch."""
    hosts = hosts_for(LINE6, "host-")
    del hosts["host-router"]
    return write_inventory(folder, {**hosts, "tofino": {"l4sbench_switch": switch}})


def exported(folder: Path, switch: Any, **changes: str) -> dict[str, Any]:
    """Return the variables of the matrix's cell, exported for these hosts and this switch."""
    wanted = folder / "on-a-switch.yaml"
    text = MATRIX
    for name, value in changes.items():
        text = re.sub(rf"^{name}:.*$", f"{name}: {value}", text, flags=re.MULTILINE)
    wanted.write_text(text, encoding="utf-8")
    api.export(wanted, folder / "by-hand", options=api.RunOptions(on=f"ssh:{inventory(folder, switch)}"))
    (cell,) = (folder / "by-hand/cells").iterdir()
    return dict(json.loads(cell.read_text(encoding="utf-8")))


def test_the_control_part_takes_a_cells_configuration(tmp_path: Path) -> None:
    given = exported(tmp_path, {"node": "router", "ports": PORTS}, aqm="ncf\naqm.rho: 14")
    plain = given["l4sbench_switch_configs"]["tofino"]
    (tmp_path / "ports.json").write_text(json.dumps(plain))
    config = control().read_config(str(tmp_path / "ports.json"))
    assert config.rho == 14
    behind, bottleneck = config.ports
    assert (behind.port, behind.rate_kbps, behind.mac) == (132, 0, PORTS["net-mid"]["mac"])
    # half of 200 Mbit/s times 20 ms, of which mice get a fifth
    assert (bottleneck.port, bottleneck.rate_kbps, bottleneck.buffer_bytes) == (140, 200_000, 250_000)
    assert (bottleneck.speed, bottleneck.bottleneck) == ("25G", 1)
    assert [config.cells(bottleneck, queue) for queue in (0, 1)] == [625, 2500]
    # neighbours by their own addresses, the rest by the delay
    assert config.routes["10.0.5.100/32"] == (140, mac(4, 0))
    assert config.routes["10.0.5.101/32"] == (140, mac(5, 0))
    assert config.routes["10.0.2.2/32"] == config.routes["10.0.0.0/24"] == (132, mac(2, 1))
    assert len(config.routes) == 4
    assert (tmp_path / "by-hand/p4/ncf/ncf.p4").read_bytes() == (NCF / "ncf.p4").read_bytes()


def test_a_front_port_is_named_in_place_of_the_devices_number(tmp_path: Path) -> None:
    ports = {
        network: {"front": front, "mac": PORTS[network]["mac"]}
        for network, front in (("net-mid", "1/0"), ("net-rx", "2/0"))
    }
    given = exported(tmp_path, {"node": "router", "ports": ports})
    plain = given["l4sbench_switch_configs"]["tofino"]
    assert [one["port"] for one in plain["ports"]] == ["1/0", "2/0"]
    assert {route["port"] for route in plain["routes"].values()} == {"1/0", "2/0"}
    (tmp_path / "ports.json").write_text(json.dumps(plain))
    numbers = {"1/0": 132, "2/0": 140}
    config = control().read_config(str(tmp_path / "ports.json"), numbers.__getitem__)
    assert [port.port for port in config.ports] == [132, 140]
    assert config.routes["10.0.5.100/32"][0] == 140


def test_hosts_do_without_the_node_that_is_a_switch(tmp_path: Path) -> None:
    given = exported(tmp_path, {"node": "router", "ports": PORTS})
    assert given["l4sbench_programs"].keys() == LINE6.by_name.keys() - {"router"}
    # a receiver, whose address on the bottleneck's network every node has a route to
    assert (given["l4sbench_router"], given["l4sbench_meet"]) == ("rx-l4s", "10.0.5.100")


@pytest.mark.parametrize(
    ("switch", "changes", "told"),
    [
        ({"node": "delay", "ports": PORTS}, {}, "a switch cannot be delay; use router"),
        ({"node": "router", "ports": {"net-rx": PORTS["net-rx"]}}, {}, "names no port for net-mid"),
        ({"node": "router", "ports": {**PORTS, "net-tx": PORTS["net-rx"]}}, {}, "router is not on net-tx"),
        ({"node": "router"}, {}, "tofino.l4sbench_switch.ports: is missing"),
        (
            {"node": "router", "ports": {**PORTS, "net-rx": {"port": 600, "mac": "x"}}},
            {},
            "tofino.l4sbench_switch.ports.net-rx.port",
        ),
        (
            {"node": "router", "ports": {**PORTS, "net-rx": {**PORTS["net-rx"], "front": "2/0"}}},
            {},
            "ports.net-rx: needs either the front port or the device's number for it; front: 1/0, or port",
        ),
        (
            {"node": "router", "ports": {**PORTS, "net-rx": {"front": "0/0", "mac": PORTS["net-rx"]["mac"]}}},
            {},
            "tofino.l4sbench_switch.ports.net-rx.front",
        ),
        (
            {"node": "router", "ports": PORTS},
            {"aqm": "codel"},
            "there is no program for switches with the queue codel; choose from ncf",
        ),
        (
            {"node": "router", "ports": PORTS},
            {"aqm": "ncf\naqm.gap: 3"},
            "gap of the switch's program is 16",
        ),
        (
            {"node": "router", "ports": PORTS},
            {"aqm": "ncf\nevents: {step: {at: 1s, rate: 5mbit}}"},
            "a switch keeps its rate",
        ),
    ],
)
def test_what_a_switch_cannot_be_is_told(
    tmp_path: Path, switch: dict[str, Any], changes: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError) as error:
        exported(tmp_path, deepcopy(switch), **changes)
    assert told in str(error.value)


def test_hosts_know_the_switch_beside_them(tmp_path: Path) -> None:
    given = exported(tmp_path, {"node": "router", "ports": PORTS})
    beside = {node: program["neighbours"] for node, program in given["l4sbench_programs"].items()}
    assert beside["tx-l4s"] == []
    own = {"network": "net-rx", "ip": "10.0.5.1", "mac": PORTS["net-rx"]["mac"]}
    assert beside["rx-l4s"] == beside["rx-classic"] == [own]
    assert [one["ip"] for one in beside["delay"]] == ["10.0.2.1"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("aqm.sweep: 8", "the switch's program has no sweep"),
        ("aqm.mice_threshold: 0", "mice_threshold of a switch is from 1 to 99, not 0"),
        ("aqm.capacity: 10mbit", "capacity of a switch is its link's rate, 200mbit, not 10mbit"),
        ("capture: headers", "capture: headers would keep packets at router, which is a switch"),
        ("path.reverse_rate: 10mbit", "path.reverse_rate would shape a second port of router"),
        ("family: ipv6", "the program on a switch is for IPv4 only, not for IPv6; write family: ipv4"),
        ("aqm.limit: 7kB", "a queue of a switch would have 17 cells of 80 bytes, less than a packet"),
    ],
)
def test_a_run_is_refused_before_anything_is_reached(tmp_path: Path, more: str, told: str) -> None:
    wanted = tmp_path / "on-a-switch.yaml"
    wanted.write_text(MATRIX.replace("aqm: ncf", f"aqm: ncf\n{more}"), encoding="utf-8")
    where = f"ssh:{inventory(tmp_path, {'node': 'router', 'ports': PORTS})}"
    with pytest.raises(InputError) as error:
        api.run(wanted, on=where, runs=tmp_path)
    assert told in str(error.value)


def test_what_is_wrong_with_several_cells_is_told_once(tmp_path: Path) -> None:
    wanted = tmp_path / "on-a-switch.yaml"
    axes = "axes: {aqm: [codel, ncf], rtt: [20ms, 40ms], rate: [100mbit, 200mbit]}"
    text = re.sub(r"^(rtt|rate):.*\n", "", MATRIX, flags=re.MULTILINE)
    wanted.write_text(text.replace("aqm: ncf", axes), encoding="utf-8")
    where = f"ssh:{inventory(tmp_path, {'node': 'router', 'ports': PORTS})}"
    with pytest.raises(InputError) as error:
        api.run(wanted, on=where, runs=tmp_path)
    (problem,) = error.value.problems
    assert problem.message == "there is no program for switches with the queue codel"
    assert problem.path.endswith(" and 3 more")


@pytest.mark.parametrize(("shown_s", "off"), [(99.0, None), (105.0, None), (94.0, "-6.0"), (113.0, r"\+3.0")])
def test_clocks_of_a_trial_agree(shown_s: float, off: str | None) -> None:
    if off is None:
        require_clock("tofino: its clock", shown_s, 100.0, 110.0)
        return
    with pytest.raises(TrialFailed, match=f"tofino: its clock is {off} s off: synchronize it"):
        require_clock("tofino: its clock", shown_s, 100.0, 110.0)


def test_another_program_on_a_switch_is_another_testbed(tmp_path: Path) -> None:
    plain = read_inventory(inventory(tmp_path, {"node": "router", "ports": PORTS}))
    switching = Switching(tmp_path, switches_of(plain, ""), hosts_of(plain, ""), Catalog.load())
    seen = SwitchFacts(sde="bf-sde-9.13.3 0123", program="ncf 4567")
    own = switching.runs({"tofino": seen})
    assert own == switching.runs({"tofino": seen.model_copy(update={"time_s": 5.0})})
    others = ({"program": "ncf 89ab"}, {"sde": "bf-sde-9.13.4 0123"})
    for change in others:
        assert switching.runs({"tofino": seen.model_copy(update=change)}) != own


SLICE = (
    "slice: l4s\nswitch: {node: router, program: ncf, ports: {net-mid: {port: 132}, net-rx: {port: 140}}}\n"
)


def of_fabric(folder: Path, text: str = SLICE, aqm: str = "ncf", slices: int = 1) -> FabricTestbed:
    """Return the testbed for a slice's file, without reaching FABRIC."""
    (folder / "m.yaml").write_text(MATRIX.replace("aqm: ncf", f"aqm: {aqm}"), encoding="utf-8")
    (folder / "slice.yaml").write_text(text, encoding="utf-8")
    matrix = load_matrix(folder / "m.yaml")
    return FabricTestbed(str(folder / "slice.yaml"), matrix, slices=slices, contact=False)


def test_a_slices_switch_has_addresses(tmp_path: Path) -> None:
    own = {"net-mid": "02:00:0a:00:02:01", "net-rx": "02:00:0a:00:05:01"}
    assert of_fabric(tmp_path).traits.switches == {"router": own}
    # also if nobody says which ports those are
    assert of_fabric(tmp_path, SLICE.partition(", ports")[0] + "}\n").traits.switches == {"router": own}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text": SLICE.replace("net-mid", "net-tx")}, "router is not on net-tx"),
        ({"text": SLICE.replace("140", "600")}, "switch.ports.net-rx.port"),
        ({"aqm": "fifo"}, "there is no program for switches with the queue fifo"),
        ({"slices": 2}, "slice l4s has a switch, whose ports are those of one slice"),
    ],
)
def test_a_slices_switch_is_checked_before_it_is_reserved(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as error:
        of_fabric(tmp_path, **changes)
    assert told in str(error.value)
