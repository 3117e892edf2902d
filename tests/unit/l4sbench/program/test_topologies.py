# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of nodes in topologies with several delays or bottlenecks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from l4sbench.catalog import Catalog
from l4sbench.facts.cell import Cell
from l4sbench.program import Conditions, Program, problems, programs
from l4sbench.text.units import Duration, Value
from l4sbench.topology import offered, topology
from tests.unit.l4sbench.program.test_program import words

CATALOG = Catalog.load()
PLAIN: Mapping[str, Value] = {
    "rate": "100mbit",
    "rtt": "40ms",
    "duration": "30s",
    "aqm": "codel",
    "long.cc": "prague",
    "long.ecn": "accecn",
    "first.cc": "cubic",
    "first.ecn": "off",
}


def cell(name: str, **factors: Value) -> Cell:
    stated = {**PLAIN, "topology": name, **{key.replace("__", "."): value for key, value in factors.items()}}
    return Cell.of(stated)


def made(name: str, wires: str = "wires", **factors: Value) -> Mapping[str, Program]:
    """Return the programs for networks that are wires, or for `netem`."""
    wanted = cell(name, **factors)
    assert problems(wanted, CATALOG) == ()
    return programs(wanted, topology(name), CATALOG, Conditions(wire_seed=7 if wires == "wires" else None))


def sysctls(found: Mapping[str, Program], name: str) -> dict[tuple[str, str], str]:
    """Return (node, network) -> value of a sysctl of wires."""
    return {
        (node, key.split(".")[2]): value
        for node, program in found.items()
        for key, value in program.sysctls
        if key.startswith("net.wire.") and key.endswith(f".{name}")
    }


def test_both_bottlenecks_of_the_parking_lot_have_the_queue_and_its_samples() -> None:
    found = made("parking-lot", "netem")
    for node, network in (("router-1", "net-mid"), ("router-2", "net-rx")):
        program = found[node]
        (queue,) = (line for line in words(program) if " codel " in line)
        assert queue.startswith(f"tc qdisc replace dev @{network} parent 1:3 handle 3: codel limit ")
        assert f"tc class add dev @{network} parent 1: classid 1:3 htb rate 100mbit" in words(program)
        assert [(one.kind, one.network) for one in program.samplers] == [("queues", network)]
    assert {node for node, program in found.items() for line in words(program) if "htb" in line} == {
        "router-1",
        "router-2",
    }


@pytest.mark.parametrize("name", sorted(offered()))
def test_delays_add_up_to_the_rtt_for_every_pair(name: str) -> None:
    place = topology(name)
    for wires in ("wires", "netem"):
        found = made(name, wires)
        delays_ms = {key: int(value) / 1e6 for key, value in sysctls(found, "delay_ns").items()}
        if wires == "netem":
            netem = (
                (node, line.split())
                for node, program in found.items()
                for line in words(program)
                if " netem " in line
            )
            delays_ms = {
                (node, words[4].removeprefix("@")): Duration.parse(words[8]).ns / 1e6 for node, words in netem
            }
        for sender, receiver in place.pairs:
            ports = (*place.way(sender, receiver), *place.way(receiver, sender))
            parts = [delays_ms[port] for port in ports if port in delays_ms]
            assert parts == [40 / place.parts] * place.parts


def test_losses_are_before_the_bottleneck_and_only_there() -> None:
    loss = {"path__loss": "1%", "path__jitter": "2ms"}
    assert sysctls(made("segsize7", **loss), "loss_enter_ppb") == {("delay-tx", "net-left"): "10000000"}
    lot = made("parking-lot", **loss)
    assert sysctls(lot, "loss_enter_ppb").keys() == {("delay-1", "net-in-1"), ("delay-2", "net-in-2")}
    seeds = {key: value for key, value in sysctls(lot, "seed").items() if key[0].startswith("delay")}
    assert len(set(seeds.values())) == 2


def test_jitter_has_room_only_in_the_part_before_the_bottleneck() -> None:
    assert problems(cell("segsize7", path__jitter="10ms"), CATALOG) == ()
    (problem,) = problems(cell("segsize7", path__jitter="11ms"), CATALOG)
    assert problem.message == (
        "11ms of jitter would need a delay below 0: the delay before the bottleneck is 40ms / 4"
    )
    (problem,) = problems(cell("parking-lot", path__jitter="21ms"), CATALOG)
    assert problem.message == "21ms of jitter would need a delay below 0: one way is 40ms / 2"
    shorter = {"events__fall__at": "5s", "events__fall__rtt": "10ms"}
    assert problems(cell("parking-lot", path__jitter="5ms", **shorter), CATALOG) == ()
    (problem,) = problems(cell("parking-lot", path__jitter="6ms", **shorter), CATALOG)
    assert problem.message.endswith("below 0: one way is 10ms / 2 after an event")


def test_events_change_every_bottleneck_and_every_delay() -> None:
    events = {"events__step__at": "10s", "events__step__rate": "25mbit", "events__step__rtt": "20ms"}
    found = made("parking-lot", "netem", **events)
    rates = [
        (node, change.commands[0][4])
        for node, program in found.items()
        for change in program.changes
        if change.factor == "rate"
    ]
    assert rates == [("router-1", "@net-mid"), ("router-2", "@net-rx")]
    wires = made("segsize7", **events)
    later = {change.sysctls for program in wires.values() for change in program.changes if change.sysctls}
    assert later == {
        (("net.wire.net-tx.delay_ns", "5000000"), ("net.wire.net-left.delay_ns", "5000000")),
        (("net.wire.net-right.delay_ns", "5000000"), ("net.wire.net-rx.delay_ns", "5000000")),
    }


def test_acks_are_limited_where_they_leave_routers_with_a_bottleneck() -> None:
    found = made("parking-lot", path__reverse_rate="1mbit")
    limited = {
        (node, line.split()[4])
        for node, program in found.items()
        for line in words(program)
        if "htb rate 1mbit" in line
    }
    assert limited == {("router-1", "@net-in-1"), ("router-2", "@net-mid"), ("router-2", "@net-in-2")}


def test_wifi_and_pauses_are_at_every_bottleneck() -> None:
    found = made("parking-lot", path__wifi_mcs=4, path__pause="1ms", path__pause_at="router")
    assert sysctls(found, "air_rate_bps").keys() == {("router-1", "net-mid"), ("router-2", "net-rx")}
    pausing = {node for node, program in found.items() if "net.wire.pause_ns" in dict(program.sysctls)}
    assert pausing == {"router-1", "router-2"}


def test_captures_are_where_the_topology_has_them() -> None:
    found = made("parking-lot", capture="headers")
    captured = {
        (node, server.output)
        for node, program in found.items()
        for server in program.servers
        if server.argv[0] == "tcpdump"
    }
    assert captured == {("router-1", "net-in-1.pcap"), ("router-1", "net-mid.pcap")}


def test_groups_without_a_place_are_a_problem() -> None:
    (problem,) = problems(cell("parking-lot", mice__cc="cubic", mice__ecn="off"), CATALOG)
    assert problem.path == "mice"
    assert problem.message.startswith("no pair of nodes of parking-lot is for it")
