# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The path on hosts: what delay nodes are asked for, and what must read back, whatever events change."""

from __future__ import annotations

import json

import pytest

from l4sbench.catalog import Expectation
from l4sbench.program import Program, differences, path_programs
from l4sbench.program.data import Expected
from l4sbench.program.refusals import lab_refusals, refusals
from l4sbench.text.units import Value
from tests.unit.l4sbench.program.test_program import CATALOG, LINE6, build, cell, words


def netem(program: Program, network: str = "net-mid") -> str:
    """Return the words of netem at a port."""
    (found,) = (
        " ".join(one.argv) for one in program.setup if f"@{network}" in one.argv and "netem" in one.argv
    )
    return found.partition(" netem ")[2]


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({}, ""),
        ({"path__loss": "2%"}, " loss random 2.0000000%"),
        ({"path__loss": "100%", "path__loss_burst": "4p"}, " loss random 100.0000000%"),
        ({"path__loss": "20%", "path__loss_burst": "5p"}, " loss gemodel 5.0000000% 20.0000000% 100% 0%"),
        ({"path__jitter": "1ms", "path__jitter_model": "uniform"}, " 1ms rate 100gbit"),
        (
            {"path__jitter": "1ms", "path__jitter_model": "uniform", "path__jitter_order": "free"},
            " 1ms",
        ),
        (
            {"path__jitter": "1500us", "path__jitter_model": "normal", "path__loss": "1%"},
            " 1500us distribution normal rate 100gbit loss random 1.0000000%",
        ),
    ],
)
def test_the_way_of_data_has_jitter_and_losses_and_the_other_has_none(
    factors: dict[str, Value], words: str
) -> None:
    delay = build(cell(**factors))["delay"]
    assert netem(delay) == f"delay 5ms{words} limit 60000"
    assert netem(delay, "net-tx") == "delay 5ms limit 60000"


def test_jitter_in_both_directions_is_that_of_wires() -> None:
    factors = {"path__jitter": "1ms", "path__jitter_model": "uniform", "path__jitter_direction": "both"}
    wanted = cell(**factors, path__loss="1%")
    delay = build(wanted)["delay"]
    assert netem(delay) == "delay 5ms 1ms rate 100gbit loss random 1.0000000% limit 60000"
    assert netem(delay, "net-tx") == "delay 5ms 1ms rate 100gbit limit 60000"
    own = dict(build(wanted, wire_seed=1)["delay"].sysctls)
    there, back = (
        {name: own[f"net.wire.{port}.{name}"] for name in ("spread_ns", "spread_model", "overtake")}
        for port in ("net-mid", "net-tx")
    )
    assert there == back == {"spread_ns": "1000000", "spread_model": "1", "overtake": "0"}
    assert own["net.wire.net-mid.seed"] != own["net.wire.net-tx.seed"]
    assert "net.wire.net-tx.loss_enter_ppb" not in own


def shown(words: str, **options: object) -> str:
    """Return what tc 7.2 prints of netem on Linux 7.3."""
    delay = {"delay": 0.005, "jitter": 0, "correlation": 0}
    made = {"limit": 60000, "delay": delay, "ecn": False, "gap": 0, **options}
    assert words
    return json.dumps([{"kind": "netem", "root": True, "options": made}])


def expected(program: Program) -> Expected:
    (found,) = (one for one in program.expected if one.what == "netem at net-mid")
    return found


PAUSE: dict[str, Value] = {"path__pause": "4ms", "path__pause_every": "200ms"}


def test_a_pause_holds_all_that_leaves_a_node_behind_its_delay() -> None:
    made = build(cell(**PAUSE), pause_seed=3)
    delay = made["delay"]
    assert "tc qdisc replace dev @net-mid root handle 1: netem delay 5ms limit 60000" in words(delay)
    assert words(delay)[-1] == "tc qdisc replace dev @net-mid parent 1:1 handle 2: netem limit 60000"
    (paused,) = delay.pauses
    held = [" ".join(argv) for argv in paused.begin]
    slot = "parent 1:1 handle 2: netem limit 60000 slot 4000000ns 4000000ns"
    assert held == [f"tc qdisc change dev @{network} {slot}" for network in ("net-tx", "net-mid")]
    free = [" ".join(argv) for argv in paused.end]
    assert free == [line.replace("4000000ns", "0ns") for line in held]
    again = build(cell(**PAUSE), pause_seed=3)["delay"].pauses
    assert again == delay.pauses != build(cell(**PAUSE), pause_seed=4)["delay"].pauses
    assert {name for name, program in made.items() if program.pauses} == {"delay"}
    assert Program.from_json(json.loads(json.dumps(delay.to_json()))) == delay


def test_receivers_pause_each_at_instants_of_its_own_and_a_profile_leaves_hosts_alone() -> None:
    made = build(cell(**PAUSE, path__pause_at="receivers"), pause_seed=3)
    seeds = {name: paused.seed for name, program in made.items() for paused in program.pauses}
    assert seeds.keys() == {"rx-l4s", "rx-classic"}
    assert seeds["rx-l4s"] != seeds["rx-classic"]
    assert words(made["rx-l4s"]) == ["tc qdisc replace dev @net-rx root handle 2: netem limit 60000"]
    assert not any(program.pauses for program in build(cell(host="vm")).values())
    assert not build(cell(**PAUSE), wire_seed=1)["delay"].pauses


def test_wifi_is_a_link_of_its_mean_rate_whose_queue_outlives_a_change() -> None:
    changes: dict[str, Value] = {"events__faster__at": "1s", "events__faster__path.wifi_mcs": 7}
    router = build(cell(path__wifi_mcs=2, path__wifi_loss="10%", **changes))["router"]
    assert "tc class add dev @net-rx parent 1: classid 1:3 htb rate 17200kbit" in words(router)
    (change,) = router.changes
    assert " ".join(change.commands[0]).endswith("htb rate 55300kbit")
    (rate,) = (one for one in router.expected_at_end if one.what == "htb class 1:3 at net-rx")
    assert rate.values[0] == Expectation("rate", 55_300_000 // 8)
    wired = build(cell(path__wifi_mcs=2), wire_seed=1)["router"]
    assert not any("htb" in line for line in words(wired))


RANDOM = {"loss-random": {"loss": 0.02, "correlation": 0}}
BURST = {"loss-gemodel": {"p": 0.002, "r": 0.2, "1-h": 1, "1-k": 0}}


def test_losses_that_read_back_otherwise_are_found() -> None:
    wanted = expected(build(cell(path__loss="2%"))["delay"])
    assert differences(wanted, shown("random", **RANDOM)) == ()
    assert differences(wanted, shown("none")) == (
        "netem at net-mid: options.loss-random.loss is missing, expected 0.02",
    )
    assert len(differences(wanted, shown("burst", **BURST))) == 3


def test_jitter_that_an_earlier_cell_has_left_is_found() -> None:
    wanted = expected(build(cell())["delay"])
    jitter = {"delay": {"delay": 0.005, "jitter": 0.001, "correlation": 0}}
    rate = {"rate": {"rate": 12_500_000_000, "packetoverhead": 0}}
    assert differences(wanted, shown("none")) == ()
    assert differences(wanted, shown("kept in order", **jitter, **rate)) == (
        "netem at net-mid: options.delay.jitter is 0.001, not 0",
        "netem at net-mid: options.rate.rate is set and should not be",
    )


EVENTS: dict[str, Value] = {
    "events__slow__at": "1s",
    "events__slow__rtt": "30ms",
    "events__clean__at": "3s",
    "events__clean__path.loss": "0%",
    "events__lossy__at": "2s",
    "events__lossy__path.loss": "2%",
}


def test_every_change_states_what_earlier_events_have_set() -> None:
    delay = build(cell(path__loss="1%", **EVENTS))["delay"]
    said = {
        (change.event, change.readback.network): " ".join(change.commands[0]).partition(" netem ")[2]
        for change in delay.changes
    }
    assert said == {
        ("slow", "net-tx"): "delay 15ms limit 60000",
        ("slow", "net-mid"): "delay 15ms loss random 1.0000000% limit 60000",
        ("lossy", "net-mid"): "delay 15ms loss random 2.0000000% limit 60000",
        ("clean", "net-mid"): "delay 15ms limit 60000",
    }


def test_at_the_end_the_path_is_as_the_last_event_left_it() -> None:
    delay = build(cell(path__loss="1%", **EVENTS))["delay"]
    (wanted,) = (one for one in delay.expected_at_end if one.what == "netem at net-mid")
    after = {"delay": {"delay": 0.015, "jitter": 0, "correlation": 0}}
    assert differences(wanted, shown("clean", **after)) == ()
    assert differences(wanted, shown("lossy", **after, **RANDOM)) == (
        "netem at net-mid: options.loss-random.loss is set and should not be",
    )


def test_rules_are_where_data_leave_the_delay_and_only_where_ecn_changes() -> None:
    assert all(not program.rules for program in build(cell()).values())
    made = build(cell(path__ecn="bleach"))
    assert [node for node, program in made.items() if program.rules] == ["delay"]
    assert {word for command in made["delay"].rules for word in command.argv if word.startswith("@")} == {
        "@net-mid"
    }
    later = build(cell(**{"events__off__at": "1s", "events__off__path.ecn": "bleach"}))["delay"]
    assert "pass" in later.rules[-1].argv
    (change,) = later.changes
    assert change.commands[0][:3] == ("nft", "flush", "chain")
    (wanted,) = (one for one in later.expected_at_end if one.what == "rules at net-mid")
    assert [value.value for value in wanted.values] == ["bleach"]


def test_a_path_of_its_own_delay_gets_none() -> None:
    programs = build(cell(path__delay="own"))
    assert not any("netem" in line for program in programs.values() for line in words(program))
    assert programs["tx-l4s"].echoes == ("10.0.5.100",)
    assert programs["delay"].echoes == ()
    assert all(program.echoes == () for program in build(cell()).values())


def test_losses_of_a_path_of_its_own_delay_are_where_data_passes() -> None:
    delay = build(cell(path__delay="own", path__loss="2%"))["delay"]
    (line,) = [line for line in words(delay) if "netem" in line]
    assert "dev @net-mid root netem delay 0s loss random 2.0000000% limit" in line


@pytest.mark.parametrize(
    ("factors", "paths"),
    [
        ({}, []),
        ({"path__jitter": "1ms", "path__jitter_model": "uniform"}, ["path.jitter"]),
        ({"events__later__at": "1s", "events__later__rtt": "20ms"}, ["events.later.rtt"]),
        ({"events__later__at": "1s", "events__later__path__loss": "1%"}, []),
    ],
)
def test_a_path_of_its_own_delay_has_none_that_could_change(
    factors: dict[str, Value], paths: list[str]
) -> None:
    own = cell(path__delay="own", **factors)
    assert [one.path for one in refusals(own)] == paths
    (refused,) = lab_refusals(own)
    assert refused.path == "path.delay"
    assert not list(lab_refusals(cell(**factors)))


def test_a_path_is_measured_without_what_a_kernel_may_lack() -> None:
    wanted = cell(path__delay="own", family="ipv6")
    made = path_programs(wanted, LINE6, CATALOG)
    assert made["tx-l4s"].echoes == ("fd4c:3453:46::a00:564",)
    assert dict(made["router"].sysctls) == {"net.ipv6.conf.all.forwarding": "1"}
    for program in made.values():
        assert (program.modules, program.setup, program.flows, program.readback) == ((), (), (), ())
        assert all(route.options == () for route in program.routes)
        assert program.links


@pytest.mark.parametrize(("order", "rate"), [("keep", " rate 100gbit"), ("free", "")])
def test_a_walk_sets_one_delay_after_the_other_and_begins_in_the_middle(order: str, rate: str) -> None:
    wanted = cell(path__jitter="2ms", path__jitter_every="5ms", path__jitter_order=order, path__loss="1%")
    programs = build(wanted, pause_seed=7)
    assert netem(programs["delay"]) == f"delay 5ms{rate} loss random 1.0000000% limit 60000"
    (walk,) = programs["delay"].walks
    assert len(walk.levels) == 21
    changes = "tc qdisc change dev @net-mid root netem"
    lost = "loss random 1.0000000% limit 60000"
    for place, delay in ((0, "3ms"), (1, "3200us"), (10, "5ms"), (20, "7ms")):
        assert " ".join(walk.levels[place]) == f"{changes} delay {delay}{rate} {lost}"
    assert walk.every == wanted.path_jitter_every
    assert build(wanted, pause_seed=8)["delay"].walks[0].seed != walk.seed
    assert not build(wanted, wire_seed=7)["delay"].walks
    assert Program.from_json(programs["delay"].to_json()) == programs["delay"]


def test_walks_in_both_directions_have_steps_of_their_own() -> None:
    walks = build(cell(path__jitter="2ms", path__jitter_direction="both"))["delay"].walks
    assert {walk.levels[0][4] for walk in walks} == {"@net-mid", "@net-tx"}
    assert len({walk.seed for walk in walks}) == 2
