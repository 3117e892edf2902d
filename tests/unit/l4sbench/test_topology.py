# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies that ship with l4sbench, those of users, and where flow groups land on them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from l4sbench.app.drawing import drawing
from l4sbench.errors import InputError
from l4sbench.topology import (
    NodePair,
    Port,
    Topology,
    find_topology,
    mac_of,
    offered,
    read_topology,
    topology,
)
from l4sbench.traffic.family import Family

OWN = (None, None)
LINE6 = topology("line6")
ALL = [topology(name).of_family(family) for name in offered() for family in Family]
PAIRS = [(one, pair) for one in ALL for pair in one.pairs]
"""Every topology with each of its pairs."""

OPEN = """\
topology: mine
about: The smallest that there can be.
nodes: {tx: sender, delay: delay, router: router, rx: receiver}
networks: {net-tx: [tx, delay], net-mid: [delay, router], net-rx: [router, rx]}
pairs: [{from: tx, to: rx}]
bottlenecks: {router: net-rx}
"""


def test_line6_is_the_published_line() -> None:
    assert " ".join(node.name for node in LINE6.nodes) == "tx-l4s tx-classic delay router rx-l4s rx-classic"
    assert {str(address) for node in LINE6.nodes for address in node.addresses} == {
        "10.0.0.100/24",
        "10.0.0.101/24",
        "10.0.0.2/24",
        "10.0.2.2/24",
        "10.0.2.1/24",
        "10.0.5.1/24",
        "10.0.5.100/24",
        "10.0.5.101/24",
    }
    assert LINE6.bottlenecks == (Port("router", "net-rx"),)
    assert [network.name for network in LINE6.networks if len(network.nodes) > 2] == ["net-tx", "net-rx"]
    assert {(node.name, route.to, route.via) for node in LINE6.nodes for route in node.routes} == {
        ("tx-l4s", "10.0.5.0/24", "10.0.0.2"),
        ("tx-classic", "10.0.5.0/24", "10.0.0.2"),
        ("delay", "10.0.5.0/24", "10.0.2.1"),
        ("router", "10.0.0.0/24", "10.0.2.2"),
        ("rx-l4s", "10.0.0.0/24", "10.0.5.1"),
        ("rx-classic", "10.0.0.0/24", "10.0.5.1"),
    }


def test_ipv6_addresses_end_in_those_of_ipv4_and_ports_keep_their_hardware_addresses() -> None:
    six = LINE6.of_family(Family.IPV6)
    assert six.by_name["rx-l4s"].addresses[0].ip == "fd4c:3453:46::a00:564"
    assert six.by_name["tx-l4s"].routes[0].to == "fd4c:3453:46::a00:500/120"
    assert six.by_name["tx-l4s"].routes[0].via == "fd4c:3453:46::a00:2"
    for node in LINE6.nodes:
        for address in node.addresses:
            assert mac_of(six.by_name[node.name].address_on(address.network).ip) == mac_of(address.ip)
    assert LINE6.of_family(Family.IPV4) == LINE6
    assert six.pairs == LINE6.pairs
    assert six.way("tx-l4s", "rx-l4s") == LINE6.way("tx-l4s", "rx-l4s")


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_networks_and_addresses_agree(one: Topology) -> None:
    for network in one.networks:
        there = {node.name for node in one.nodes for a in node.addresses if a.network == network.name}
        assert there == set(network.nodes)
        for node in network.nodes:
            assert ip_address(one.by_name[node].address_on(network.name).ip) in ip_network(network.prefix)
    addresses = [address.ip for node in one.nodes for address in node.addresses]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize(("one", "pair"), PAIRS, ids=lambda part: getattr(part, "name", None))
def test_every_pair_reaches_the_other_by_routes_alone(one: Topology, pair: NodePair) -> None:
    there = path(one, pair.sender, one.by_name[pair.receiver].addresses[0].ip)
    assert there == [*(port.node for port in one.way(*pair)), pair.receiver]
    assert path(one, pair.receiver, one.by_name[pair.sender].addresses[0].ip) == there[::-1]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_node_reaches_the_router_where_they_meet(one: Topology) -> None:
    port = one.bottlenecks[0]
    meeting = one.by_name[port.node].address_on(port.network).ip
    for node in one.nodes:
        if node.name != port.node:
            assert path(one, node.name, meeting)[-1] == port.node
            leaves_by = one.way(node.name, port.node)[0].network
            back = path(one, port.node, node.address_on(leaves_by).ip)
            assert back[-1] == node.name


def path(one: Topology, source: str, target: str) -> list[str]:
    """Nodes that a packet to an address passes, by addresses and routes alone."""
    goal = ip_address(target)
    owner = {address.ip: node.name for node in one.nodes for address in node.addresses}
    local = {network.name: ip_network(network.prefix) for network in one.networks}
    passed = [source]
    while passed[-1] != owner[target]:
        node = one.by_name[passed[-1]]
        if any(goal in local[address.network] for address in node.addresses):
            passed.append(owner[target])
            continue
        via = [route.via for route in node.routes if goal in ip_network(route.to)]
        assert len(via) == 1
        passed.append(owner[via[0]])
        assert len(passed) <= len(one.nodes)
    return passed


# ---- what is where
@pytest.mark.parametrize(("one", "pair"), PAIRS, ids=lambda part: getattr(part, "name", None))
def test_every_round_trip_has_all_parts_of_the_rtt(one: Topology, pair: NodePair) -> None:
    assert one.parts_of(pair) == one.parts
    assert one.passed_by(pair)
    assert sum(port in one.data_ports for port in one.way(*pair)) == 1


def test_segsize7_delays_in_four_parts_on_both_sides_and_both_ways() -> None:
    one = topology("segsize7")
    pair = one.pairs[0]
    there = [port for port in one.way(*pair) if port in one.delay_ports]
    back = [port for port in one.way(pair.receiver, pair.sender) if port in one.delay_ports]
    assert there == [Port("delay-tx", "net-left"), Port("delay-rx", "net-rx")]
    assert back == [Port("delay-rx", "net-right"), Port("delay-tx", "net-tx")]
    assert one.parts == 4
    assert one.passed_by(pair) == (Port("router", "net-right"),)


def test_in_the_parking_lot_one_flow_passes_both_bottlenecks() -> None:
    one = topology("parking-lot")
    first, second = one.bottlenecks
    placed = one.place({"second": OWN, "first": OWN, "long": OWN})
    passed = {group: one.passed_by(pair) for group, pair in placed.items()}
    assert passed == {"long": (first, second), "first": (first,), "second": (second,)}
    assert one.parts == 2


# ---- flow groups
def test_groups_take_pairs_in_order() -> None:
    placed = LINE6.place({"a": OWN, "b": OWN})
    assert placed == {"a": LINE6.pairs[0], "b": LINE6.pairs[1]}


def test_the_dumbbell_has_a_pair_for_each_of_four_groups() -> None:
    placed = topology("dumbbell").place(dict.fromkeys("abcd", OWN))
    assert list(placed.values()) == [NodePair(f"tx-{n}", f"rx-{n}") for n in (1, 2, 3, 4)]
    with pytest.raises(InputError, match="dumbbell has 4 pairs of nodes, but this is group 5"):
        topology("dumbbell").place(dict.fromkeys("abcde", OWN))


def test_from_and_to_say_otherwise() -> None:
    placed = LINE6.place({"a": OWN, "b": (None, "rx-l4s"), "c": ("tx-classic", "rx-classic")})
    assert placed["b"] == ("tx-classic", "rx-l4s")
    assert placed["c"] == ("tx-classic", "rx-classic")


def test_a_pair_may_be_for_one_group_and_others_for_any(tmp_path: Path) -> None:
    text = OPEN.replace("{tx: sender,", "{tx: sender, own: sender,").replace(
        "[tx, delay]", "[tx, own, delay]"
    )
    text = text.replace("[{from", "[{group: flood, from: own, to: rx}, {from")
    placed = find_topology(written(tmp_path, text)).place({"flood": OWN, "l4s": OWN})
    assert placed == {"flood": ("own", "rx"), "l4s": ("tx", "rx")}


def test_a_group_without_a_pair_is_an_error_with_a_hint() -> None:
    with pytest.raises(InputError, match=r"flood: line6 has 2 pairs of nodes, .* group 3; .* flood\.from: "):
        LINE6.place({"a": OWN, "b": OWN, "flood": OWN})


def test_wrong_nodes_are_all_named() -> None:
    with pytest.raises(InputError) as error:
        LINE6.place({"a": ("router", None), "b": ("tx-clasic", "tx-l4s")})
    assert [problem.path for problem in error.value.problems] == ["a.from", "b.from", "b.to"]
    assert error.value.problems[1].hint == "did you mean tx-classic or tx-l4s?"


def test_flows_that_pass_no_bottleneck_are_an_error() -> None:
    lot = topology("parking-lot")
    assert lot.place({"a": ("tx-first", "rx-second")})["a"] == ("tx-first", "rx-second")
    with pytest.raises(InputError, match="packets from tx-second to rx-first pass no bottleneck"):
        lot.place({"a": ("tx-second", "rx-first")})


# ---- files
def written(folder: Path, text: str, name: str = "mine") -> str:
    (folder / f"{name}.yml").write_text(text, encoding="utf-8")
    return str(folder / f"{name}.yml")


def test_an_unknown_topology_lists_what_there_is() -> None:
    assert topology("line6") is LINE6
    with pytest.raises(InputError, match="unknown topology line7; did you mean line6"):
        topology("line7")


def test_words_about_a_topology_change_nothing(tmp_path: Path) -> None:
    one = find_topology(written(tmp_path, OPEN))
    other = find_topology(written(tmp_path, f"# more\n{OPEN.replace('smallest', 'least')}"))
    assert one.about != other.about
    assert one.digest == other.digest
    changed = find_topology(
        written(tmp_path, OPEN.replace("net-mid: [delay, router]", "net-mid: [router, delay]"))
    )
    assert changed.digest != one.digest


def test_a_shipped_file_is_the_same_topology_by_name_and_by_path() -> None:
    assert find_topology(str(offered()["line6"])) is LINE6
    assert read_topology(offered()["line6"]) == LINE6


def test_a_topology_may_have_sixty_nodes_and_no_more(tmp_path: Path) -> None:
    def many(count: int) -> str:
        names = [f"tx-{number}" for number in range(count - 3)]
        senders = ", ".join(f"{name}: sender" for name in names)
        return (
            OPEN.replace("tx: sender", senders)
            .replace("[tx, delay]", f"[{', '.join(names)}, delay]")
            .replace("from: tx", "from: tx-0")
        )

    assert len(find_topology(written(tmp_path, many(60))).nodes) == 60
    with pytest.raises(
        InputError, match=r"mine\.yml:3:8: nodes: 61 nodes are too many; at most 60 are possible"
    ):
        find_topology(written(tmp_path, many(61)))


# ---- drawings
DRAWN = """\
tx-long  sender
└── net-tx-1  10.0.1.0/24
    ├── tx-first  sender
    └── delay-1  delays by rtt/2 at each of 2 ports
        └── net-in-1  10.0.2.0/24
            └── router-1  bottleneck to net-mid, captures
                └── net-mid  10.0.3.0/24
                    ├── router-2  bottleneck to net-rx
                    │   ├── net-in-2  10.0.5.0/24
                    │   │   └── delay-2  delays by rtt/2 at each of 2 ports
                    │   │       └── net-tx-2  10.0.4.0/24
                    │   │           └── tx-second  sender
                    │   └── net-rx  10.0.6.0/24
                    │       ├── rx-long  receiver
                    │       └── rx-second  receiver
                    └── rx-first  receiver

flow group long: tx-long - delay-1 - router-1 =net-mid=> router-2 =net-rx=> rx-long
flow group first: tx-first - delay-1 - router-1 =net-mid=> rx-first
flow group second: tx-second - delay-2 - router-2 =net-rx=> rx-second"""


def test_a_drawing_has_every_node_and_the_way_of_every_pair() -> None:
    assert "\n".join(drawing(topology("parking-lot"))) == DRAWN


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_topology_can_be_drawn(one: Topology) -> None:
    lines = drawing(one)
    for name in (*one.by_name, *(network.name for network in one.networks)):
        assert sum(f"{name}  " in f"{line} " for line in lines) == 1, name
    assert sum(line.startswith("flow group ") for line in lines) == len(one.pairs)
