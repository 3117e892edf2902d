# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a lab of booted nodes consists of."""

from itertools import pairwise

from l4sbench.testbeds.nodes.plan import LabPlan, plan_lab
from l4sbench.topology import topology

LINE6 = topology("line6")


def test_every_port_of_the_topology_has_an_interface_on_its_network() -> None:
    plan = plan_lab(LINE6)
    made = {(node.name, port.network) for node in plan.nodes for port in node.ports if port.network}
    assert made == {(node, network.name) for network in LINE6.networks for node in network.nodes}


def test_ports_of_one_network_share_a_bridge_that_no_other_network_uses() -> None:
    ports = [port for node in plan_lab(LINE6).nodes for port in node.ports]
    bridges = {(port.network, port.bridge) for port in ports}
    assert len(bridges) == len({network for network, _ in bridges}) == len({bridge for _, bridge in bridges})
    assert len(bridges) == len(LINE6.networks) + 1  # and management


def test_addresses_and_taps_are_given_once() -> None:
    plan = plan_lab(LINE6)
    ports = [port for node in plan.nodes for port in node.ports]
    for values in (
        [port.mac for port in ports],
        [port.tap for port in ports],
        [node.address for node in plan.nodes],
        [node.address_6 for node in plan.nodes],
    ):
        assert len(values) == len(set(values))
    assert all(len(port.tap) < 16 for port in ports)  # IFNAMSIZ


def test_management_comes_first_and_touches_no_network_of_the_topology() -> None:
    plan = plan_lab(LINE6)
    assert {node.ports[0].network for node in plan.nodes} == {""}
    experiment = {address.ip for node in LINE6.nodes for address in node.addresses}
    assert experiment.isdisjoint(node.address for node in plan.nodes)


def test_a_bridge_is_made_before_something_is_attached_to_it() -> None:
    lines = plan_lab(LINE6).link_commands().splitlines()
    made = [line.split()[2] for line in lines if line.startswith("link add")]
    last = max(number for number, line in enumerate(lines) if line.startswith("link add"))
    first = min(number for number, line in enumerate(lines) if " master " in line)
    assert last < first
    assert set(made) == set(plan_lab(LINE6).bridges)


def test_a_plan_survives_being_written_down() -> None:
    plan = plan_lab(LINE6)
    assert LabPlan.model_validate_json(plan.model_dump_json()) == plan
    assert all(a.name != b.name for a, b in pairwise(plan.nodes))
