# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Layouts that are possible, and every mistake in one that is reported before anything runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.api import find_matrix
from l4sbench.matrix import Matrix
from l4sbench.testbeds.ssh.hosts import Host, hosts_of, settled
from l4sbench.testbeds.ssh.layout import (
    approximated,
    misplaced,
    shared_by_all,
    too_fast,
    unable_to_rewrite,
)
from l4sbench.text.units import Rate
from l4sbench.topology import offered, topology
from tests.unit.l4sbench.testbeds.inventories import hosts_for

LINE6 = topology("line6")

SIX = hosts_for(LINE6)
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


def test_one_host_per_node() -> None:
    hosts = hosts_of({**SIX, "bastion": {"ansible_user": "me"}}, "hosts.yml")
    assert [host.name for host in hosts] == sorted(SIX)
    assert misplaced(hosts, LINE6) == []


REWRITING = """\
matrix: rewriting
rate: 10mbit
rtt: 10ms
duration: 2s
aqm: fifo
rule: none
path.ecn: {ecn}
flows: {{classic: {{cc: cubic}}}}
{more}
"""


@pytest.mark.parametrize(
    ("ecn", "more", "named"),
    [
        ("bleach", "", ["delay"]),
        ("pass", "events: {later: {at: 1s, path.ecn: ect0}}", ["delay"]),
        ("pass", "", []),
    ],
)
def test_hosts_that_cannot_change_the_ecn_field_are_named_from_their_inventory(
    ecn: str, more: str, named: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(REWRITING.format(ecn=ecn, more=more))
    made = Matrix.load(path)
    unable = {name: {**own, "l4sbench_rewrites": "no"} for name, own in SIX.items()}
    found = unable_to_rewrite(hosts_of(unable, "hosts.yml"), made.cells, made.catalog, "hosts.yml")
    assert [one.path for one in found] == named
    assert all("path.ecn needs nf_tables" in one.message for one in found)
    assert unable_to_rewrite(hosts_of(SIX, "hosts.yml"), made.cells, made.catalog, "hosts.yml") == []
    one = settled(hosts_of({"one": {"l4sbench_nodes": "all", "l4sbench_rewrites": False}}, "x"), [LINE6])
    found = unable_to_rewrite(one, made.cells, made.catalog, "x")
    assert [problem.path for problem in found] == ["one"] * bool(named)


def test_two_hosts_do_for_a_lab() -> None:
    ends = Host("ends", ("tx-l4s", "tx-classic", "rx-l4s", "rx-classic"), {"net-tx": A, "net-rx": B})
    middle = Host("middle", ("delay", "router"), {"net-tx": A, "net-rx": B})
    assert misplaced([ends, middle], LINE6) == []


@pytest.mark.parametrize("name", sorted(offered()))
def test_three_hosts_do_for_every_topology(name: str) -> None:
    """Senders, receivers, and all between them, whatever networks these hosts then share."""
    place = topology(name)
    held = {
        "senders": place.senders,
        "middle": (*place.delays, *place.routers),
        "receivers": place.receivers,
    }
    hosts = []
    for number, (host, nodes) in enumerate(held.items()):
        shared = [
            net.name for net in place.networks if set(net.nodes) & set(nodes) and set(net.nodes) - set(nodes)
        ]
        macs = {network: f"02:00:00:00:{number:02x}:{port:02x}" for port, network in enumerate(shared)}
        hosts.append(Host(host, nodes, macs))
    assert misplaced(hosts, place) == []
    lacking = replace(hosts[1], nodes=hosts[1].nodes[:-1])
    assert next(str(problem) for problem in misplaced([hosts[0], lacking, hosts[2]], place)) == (
        f"{held['middle'][-1]}: no host holds this node of {name}; give one host l4sbench_node: "
        f"{held['middle'][-1]}, or add it to a host's l4sbench_nodes"
    )
    together = replace(hosts[1], nodes=(*hosts[1].nodes, place.senders[0]))
    said = [problem.message for problem in misplaced([together], place) if "originates" in problem.message]
    parts = [f"the delay ({node})" for node in place.delays]
    parts += [f"the queue under test ({port.node})" for port in place.bottlenecks]
    assert said == [f"{part} is on a host that originates flows ({place.senders[0]})" for part in parts]


@pytest.mark.parametrize("name", sorted(offered()))
def test_one_host_does_for_every_topology(name: str) -> None:
    """It needs no interface, and is not told that it originates flows."""
    place = topology(name)
    assert misplaced([Host("a", tuple(place.by_name))], place) == []
    found = hosts_of({"a": {"l4sbench_nodes": "all"}}, "hosts.yml")
    whole = settled(found, [place])
    assert whole[0].nodes == tuple(place.by_name)
    assert misplaced(whole, place) == []
    # with cells of another topology, its nodes are no mistake here
    both = settled(found, [topology("line6"), place])
    assert misplaced(both, place) == []
    (line,) = shared_by_all(both)
    assert line.startswith("a holds all nodes on its own CPUs")


def test_all_nodes_are_not_on_two_hosts() -> None:
    hosts = hosts_of({"a": {"l4sbench_nodes": "all"}, "b": {"l4sbench_node": "router"}}, "hosts.yml")
    messages = [str(problem) for problem in misplaced(settled(hosts, [LINE6]), LINE6)]
    assert "router: several hosts hold it: a, b" in messages
    assert list(shared_by_all(hosts)) == []


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ([Host("a", ("tx-l4s", "routr"))], "line6 has no node routr; did you mean"),
        ([Host("a", ("router",)), Host("b", ("router",))], "several hosts hold it: a, b"),
        ([Host("a", ("router",))], "no host holds this node of line6; give one host l4sbench_node: tx-l4s"),
        ([Host("a", ("router",), {"net-mid": A})], "names no interface for net-rx"),
        ([Host("a", ("router",), {"net-mid": A, "net-rx": A})], "each needs its own interface"),
        ([Host("a", ("router",), {"net-mi": A})], "line6 has no network net-mi; did you mean"),
        (
            [Host("a", ("tx-l4s", "delay"), {})],
            "the delay (delay) is on a host that originates flows (tx-l4s)",
        ),
        (
            [Host("a", ("tx-classic", "router"), {})],
            "the queue under test (router) is on a host that originates flows (tx-classic)",
        ),
    ],
)
def test_hosts_that_cannot_be_the_topology(hosts: list[Host], told: str) -> None:
    assert any(told in str(problem) for problem in misplaced(hosts, LINE6, "hosts.yml"))


def test_cells_that_hosts_do_not_carry_are_reported_with_the_rate_that_fits() -> None:
    cells = Matrix.load(find_matrix("testbeds25")).cells
    slow = hosts_of({**SIX, "router": {**SIX["router"], "l4sbench_carries": "10mbit"}}, "hosts.yml")
    (line,) = too_fast(cells, slow)
    assert line == (
        "6 of 6 cells are faster than these hosts carry in time; 10mbit fits (l4sbench_carries). "
        "A matrix with `extends: FILE` and `rate: 10mbit` has the same cells at that rate"
    )
    none = [replace(host, carries=Rate(0)) for host in slow]
    (line,) = too_fast(cells[:1], none)
    assert line == (
        "1 of 1 cells is faster than these hosts carry in time: none of the measured rates "
        "(l4sbench_carries: none)"
    )
    enough = [replace(host, carries=Rate.parse("25mbit")) for host in slow]
    assert list(too_fast(cells, enough)) == []
    assert list(too_fast(cells, hosts_of(SIX, "hosts.yml"))) == []


def test_of_wifi_the_mean_rate_counts_and_is_named() -> None:
    plain = Matrix.load(find_matrix("testbeds25")).cells[:1]
    by_wifi = [cell for cell in Matrix.load(find_matrix("stress25-steps")).cells if cell.wifi_mcs == 2]
    (line,) = approximated([*plain, *by_wifi])
    assert line == (
        "2 of 3 cells have Wi-Fi, in whose place hosts have a link of its mean rate (19.2mbit, 61.5mbit), "
        "without aggregation"
    )
    assert list(approximated(plain)) == []
    slow = hosts_of({**SIX, "router": {**SIX["router"], "l4sbench_carries": "50mbit"}}, "hosts.yml")
    (line,) = too_fast(by_wifi[:1], slow)
    assert line.startswith("1 of 1 cells is faster than these hosts carry in time; 50mbit fits")
