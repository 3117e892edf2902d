# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""line6 as published, and where flow groups land on it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from l4sbench.errors import InputError
from l4sbench.topology import LINE6, NodePair, Port, topology

OWN = (None, None)


def test_line6_is_the_published_line() -> None:
    assert [node.name for node in LINE6.nodes] == [
        "tx-l4s",
        "tx-classic",
        "delay",
        "router",
        "rx-l4s",
        "rx-classic",
    ]
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
    assert LINE6.bottleneck == Port("router", "net-rx")
    assert [network.name for network in LINE6.networks if network.is_bridge] == ["net-tx", "net-rx"]
    assert not {LINE6.delay, LINE6.router} & {*LINE6.senders, *LINE6.receivers}


def test_networks_and_addresses_agree() -> None:
    for network in LINE6.networks:
        there = {node.name for node in LINE6.nodes for a in node.addresses if a.network == network.name}
        assert there == set(network.nodes)
        for node in network.nodes:
            assert ip_address(LINE6.by_name[node].address_on(network.name).ip) in ip_network(network.prefix)


@pytest.mark.parametrize("pair", LINE6.pairs)
def test_every_pair_reaches_the_other_through_delay_and_bottleneck(pair: NodePair) -> None:
    there = path(pair.sender, pair.receiver)
    assert there == [pair.sender, "delay", "router", pair.receiver]
    assert path(pair.receiver, pair.sender) == there[::-1]


def path(source: str, target: str) -> list[str]:
    """Nodes that a packet passes, by addresses and routes alone."""
    goal = ip_address(LINE6.by_name[target].addresses[0].ip)
    owner = {address.ip: node.name for node in LINE6.nodes for address in node.addresses}
    passed = [source]
    while passed[-1] != target:
        node = LINE6.by_name[passed[-1]]
        local = {network.name: ip_network(network.prefix) for network in LINE6.networks}
        if any(goal in local[address.network] for address in node.addresses):
            passed.append(target)
            continue
        via = [route.via for route in node.routes if goal in ip_network(route.to)]
        assert len(via) == 1
        passed.append(owner[via[0]])
        assert len(passed) < 7
    return passed


def test_groups_take_pairs_in_order() -> None:
    placed = LINE6.place({"a": OWN, "b": OWN})
    assert placed == {"a": LINE6.pairs[0], "b": LINE6.pairs[1]}


def test_from_and_to_say_otherwise() -> None:
    placed = LINE6.place({"a": OWN, "b": (None, "rx-l4s"), "c": ("tx-classic", "rx-classic")})
    assert placed["b"] == ("tx-classic", "rx-l4s")
    assert placed["c"] == ("tx-classic", "rx-classic")


def test_a_group_without_a_pair_is_an_error_with_a_hint() -> None:
    with pytest.raises(InputError, match=r"flood: line6 has 2 pairs of nodes, .* group 3; .* flood\.from: "):
        LINE6.place({"a": OWN, "b": OWN, "flood": OWN})


def test_wrong_nodes_are_all_named() -> None:
    with pytest.raises(InputError) as error:
        LINE6.place({"a": ("router", None), "b": ("tx-clasic", "tx-l4s")})
    assert [problem.path for problem in error.value.problems] == ["a.from", "b.from", "b.to"]
    assert error.value.problems[1].hint == "did you mean tx-classic or tx-l4s?"


def test_an_unknown_topology_lists_what_there_is() -> None:
    assert topology("line6") is LINE6
    with pytest.raises(InputError, match="unknown topology line7; did you mean line6"):
        topology("line7")
