# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Maps from a machine's CPUs to its host's, from answers as fablib's documentation shows them."""

from __future__ import annotations

from typing import Any

import pytest

from fablib_slices.pinning import CardPlace, cpu_map, memory_nodes
from l4sbench.errors import TestbedError

PLACE = CardPlace("sliver", "host", "instance", ("1",), 32)


def cpuinfo(cores: int = 4, *, affinity: Any = "0,1,2,3,4,5,6,7", **host: Any) -> dict[str, Any]:
    nodes = {"NUMA node0 CPU(s):": "0-1,4-5", "NUMA node1 CPU(s):": "2-3,6-7", "pinned_cpus": []}
    own = [{"VCPU": str(cpu), "CPU": "0", "CPU Affinity": affinity} for cpu in range(cores)]
    return {"host": nodes | host, "instance": own}


def cpus(info: dict[str, Any], place: CardPlace = PLACE) -> list[str]:
    return [pair["cpu"] for pair in cpu_map(info, place)]


def test_cpus_are_near_the_card_and_in_order() -> None:
    assert cpus(cpuinfo(2)) == ["2", "3"]
    assert cpus(cpuinfo(4)) == ["2", "3", "6", "7"]
    assert cpu_map(cpuinfo(1), PLACE) == ({"vcpu": "0", "cpu": "2"},)


def test_cores_that_somebody_else_has_a_part_of_come_last() -> None:
    # 6 is the other CPU of the core of 2
    assert cpus(cpuinfo(1, pinned_cpus=["6"])) == ["3"]
    assert cpus(cpuinfo(3, pinned_cpus=["6"])) == ["3", "7", "2"]
    # without siblings the order of numbers is all there is
    assert cpus(cpuinfo(2, **{"NUMA node1 CPU(s):": "2-4,9"})) == ["2", "3"]


def test_machines_that_are_bound_stay_so() -> None:
    assert cpu_map(cpuinfo(2, affinity="3"), PLACE) == ()


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (cpuinfo(5), "4 CPUs of NUMA node 1 of host are free, and it has 5"),
        (cpuinfo(2, pinned_cpus=["2", "3", "6"]), "1 CPUs of NUMA node 1 of host are free, and it has 2"),
        (cpuinfo(2, **{"NUMA node1 CPU(s):": "all"}), "FABRIC reports 'all' as CPUs"),
        (cpuinfo(2, **{"NUMA node1 CPU(s):": 7}), "does not report the CPUs of NUMA node 1 of host"),
        ({"host": {}}, "FABRIC reports nothing about instance"),
        ("Failed", "FABRIC reports nothing about instance"),
        ({"host": {}, "instance": []}, "FABRIC does not report the CPUs of instance"),
        ({"host": {}, "instance": ["x"]}, "FABRIC does not report the CPUs of instance"),
        ({"host": {}, "instance": [{"vcpu": 0}]}, "FABRIC does not report the CPUs of instance"),
        (cpuinfo(5, pinned_cpus=2), "4 CPUs of NUMA node 1 of host are free, and it has 5"),
    ],
)
def test_what_cannot_be_bound_is_told(info: Any, told: str) -> None:
    with pytest.raises(TestbedError, match=told):
        cpu_map(info, PLACE)


def test_memory_is_kept_near_the_cards_if_it_fits() -> None:
    free = {"host": {"node 1": {"free": "32000 MB"}}, "instance": {"Node 1": {"Total": "900"}}}
    assert memory_nodes(free, PLACE) == ("1",)
    with pytest.raises(TestbedError, match="32 GB does not fit on NUMA node 1: 32000 MB free"):
        memory_nodes({**free, "instance": {}}, PLACE)
    with pytest.raises(TestbedError, match="does not fit on NUMA node 1: 0 MB free"):
        memory_nodes({"host": {"node 1": "free"}, "instance": {"Node 1": ["900"]}}, PLACE)
