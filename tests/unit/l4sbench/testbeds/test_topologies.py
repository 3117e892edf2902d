# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies with several delays or bottlenecks on hosts and on FABRIC, as a plan sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fablib_slices import load_slice_file, spec_of
from l4sbench.app import api
from l4sbench.disk import assets
from l4sbench.errors import InputError
from l4sbench.testbeds.fabric.specs import specs_of
from l4sbench.testbeds.ssh.facts import node_needs
from l4sbench.testbeds.ssh.trialvars import meeting_place, trial_variables
from l4sbench.topology import Topology, find_topology, topology
from tests.unit.l4sbench.testbeds.inventories import hosts_for, write_inventory

MATRIX = """\
matrix: elsewhere
topology: {name}
rate: 10mbit
rtt: 40ms
duration: 10s
trials: 1
rule: none
aqm: fifo
flows:
  {first}: {{cc: cubic}}
  {second}: {{cc: reno}}
"""
GROUPS = {"segsize7": ("a", "b"), "parking-lot": ("long", "second"), "./mine.yml": ("long", "second")}


@pytest.fixture(autouse=True)
def no_slices(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def matrix(folder: Path, name: str) -> Path:
    first, second = GROUPS[name]
    path = folder / "elsewhere.yaml"
    path.write_text(MATRIX.format(name=name, first=first, second=second), encoding="utf-8")
    lot = (assets.folder("matrices") / "topologies" / "parking-lot.yml").read_text(encoding="utf-8")
    (folder / "mine.yml").write_text(lot.replace("topology: parking-lot", "topology: mine"), encoding="utf-8")
    return path


def inventory(folder: Path, place: Topology) -> Path:
    return write_inventory(folder, hosts_for(place, "host-"))


@pytest.mark.parametrize("name", GROUPS)
def test_a_plan_for_hosts_needs_a_host_for_every_node(tmp_path: Path, name: str) -> None:
    path = matrix(tmp_path, name)
    place = find_topology(name, tmp_path)
    options = api.RunOptions(on=f"ssh:{inventory(tmp_path, place)}", runs=tmp_path)
    assert api.plan_of(path, options=options).plan.to_run == 1
    options = api.RunOptions(on=f"ssh:{inventory(tmp_path, topology('line6'))}", runs=tmp_path)
    with pytest.raises(InputError) as error:
        api.plan_of(path, options=options)
    lacking = {
        problem.path for problem in error.value.problems if "no host holds this node" in problem.message
    }
    assert lacking == set(place.by_name) - set(topology("line6").by_name)


@pytest.mark.parametrize("name", GROUPS)
def test_every_node_of_a_trial_meets_at_the_first_bottleneck(tmp_path: Path, name: str) -> None:
    _, place, programs = api.programs_of(matrix(tmp_path, name))
    given = trial_variables(programs, place, "trial", "me", 10.0)
    assert given["l4sbench_router"] == place.bottlenecks[0].node
    assert given["l4sbench_meet"] == meeting_place(place)
    assert isinstance(given["l4sbench_programs"], dict)
    assert given["l4sbench_programs"].keys() == place.by_name.keys()


def test_every_bottleneck_needs_the_queue(tmp_path: Path) -> None:
    path = matrix(tmp_path, "parking-lot")
    path.write_text(path.read_text().replace("fifo", "dualpi2"))
    loaded = api.load_matrix(path)
    wanted = node_needs(loaded.cells, loaded.catalog)
    assert {node for node, need in wanted.items() if "dualpi2" in need.needs} == {"router-1", "router-2"}


@pytest.mark.parametrize("name", GROUPS)
def test_a_slice_has_a_machine_for_every_node(tmp_path: Path, name: str) -> None:
    loaded = api.load_matrix(matrix(tmp_path, name))
    place = find_topology(name, tmp_path)
    (spec,) = specs_of("l4s-elsewhere", loaded, 1)
    assert spec.topology == place.name
    assert [(vm.name, vm.role) for vm in spec.vms] == [(node.name, node.role) for node in place.nodes]
    assert [(net.name, net.nodes) for net in spec.nets] == [(net.name, net.nodes) for net in place.networks]


def test_a_slice_file_may_name_the_file_of_a_topology(tmp_path: Path) -> None:
    loaded = api.load_matrix(matrix(tmp_path, "./mine.yml"))
    path = tmp_path / "slice.yaml"
    path.write_text("slice: own\ntopology: ./mine.yml\ncores: 2\n", encoding="utf-8")
    (spec,) = specs_of(str(path), loaded, 1)
    assert (spec.name, spec.topology, len(spec.vms), spec.vms[0].cores) == ("own", "mine", 10, 2)
    wishes = load_slice_file(path)
    assert spec_of(find_topology(wishes.topology), wishes) == spec
    path.write_text("slice: own\ntopology: parking-lot\n", encoding="utf-8")
    with pytest.raises(InputError, match="slice own is made for parking-lot, and this matrix has mine"):
        specs_of(str(path), loaded, 1)
    path.write_text("slice: own\ntopology: ./none.yml\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"slice\.yaml:2:11: topology: .*none\.yml .*No such file"):
        specs_of(str(path), loaded, 1)
