# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From a measurement of what a lab carries: the rate, its form in an inventory, and the words."""

from pathlib import Path

from l4sbench.testbeds.nodes import carrying, ssh
from l4sbench.testbeds.nodes.capacity import Capacity, RateTry
from l4sbench.testbeds.nodes.plan import plan_lab
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.text.units import Rate
from l4sbench.topology import topology

LINE6 = topology("line6")


def tried(rate_mbps: int, arrived: float, late: float) -> RateTry:
    return RateTry(rate_mbps=rate_mbps, arrived=arrived, late=late, node="router")


def capacity(*tries: RateTry) -> Capacity:
    return Capacity(tries=tries, cores=2, load=0.5)


def test_a_rate_is_carried_if_it_arrives_and_no_node_is_late() -> None:
    assert tried(25, 0.9, 0.1).carried
    assert not tried(25, 0.89, 0.0).carried
    assert not tried(25, 0.98, 0.11).carried


def test_rates_above_one_that_fails_do_not_count() -> None:
    found = capacity(tried(10, 0.98, 0.0), tried(25, 0.97, 0.02), tried(50, 0.8, 0.02), tried(100, 0.95, 0.0))
    assert (found.mbps, found.rate) == (25, "25mbit")
    assert str(found) == "the nodes carry 25 Mbit/s in time, not 50, with 2 cores and a load of 0.5"
    assert str(capacity(tried(10, 1.0, 0.0))) == (
        "the nodes carry 10 Mbit/s in time, with 2 cores and a load of 0.5"
    )


def test_a_machine_too_busy_for_the_lowest_rate_carries_none() -> None:
    found = capacity(tried(10, 0.4, 0.3), tried(25, 0.2, 0.5))
    assert (found.mbps, found.rate) == (None, "none")
    assert str(found) == (
        "the nodes do not carry 10 Mbit/s in time with 2 cores and a load of 0.5: 40% arrived, "
        "30% of the timers of router were late"
    )


def test_the_inventory_states_it_for_every_host(tmp_path: Path) -> None:
    plan = plan_lab(LINE6)
    measured = capacity(tried(10, 1.0, 0.0), tried(25, 0.5, 0.0))
    path = ssh.write_inventory(tmp_path, tmp_path / "run", plan, LINE6, measured)
    hosts = hosts_of(read_inventory(path), str(path))
    assert {host.carries for host in hosts} == {Rate.parse("10mbit")}
    before = ssh.write_inventory(tmp_path, tmp_path / "run", plan, LINE6)
    assert {host.carries for host in hosts_of(read_inventory(before), str(before))} == {None}


def test_no_port_sends_segments_of_many_packets() -> None:
    """A node's virtual port loses them, and TCP then sends a packet per timeout."""
    ports = [{"name": name, "address": f"10.0.{place}.1/24"} for place, name in enumerate(("vec1", "vec2"))]
    part = {"ports": ports, "routes": [], "delay_ms": 0, "queue": "vec2", "rates_mbps": [10, 25]}
    off = [argv[2] for argv in carrying.commands(part) if argv[:2] == ["ethtool", "-K"] and "tso" in argv]
    assert off == ["vec1", "vec2"]
