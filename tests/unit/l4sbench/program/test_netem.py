# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The path on hosts: what delay nodes are asked for, and what must read back, whatever events change."""

from __future__ import annotations

import json

import pytest

from l4sbench.program import Program, differences
from l4sbench.program.data import Expected
from l4sbench.text.units import Value
from tests.unit.l4sbench.program.test_program import build, cell


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
