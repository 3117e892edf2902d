# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Events of a captured trial: the rate halves and the round-trip time doubles after 2 s."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from collectors.changes import parse_events
from collectors.collector import BadRawError

Load = Callable[[str], Any]


def test_the_table_has_every_change(captured: Load) -> None:
    found: Any = parse_events(captured("events-codel").ended)
    assert found is not None
    by_factor = {row["factor"]: row for row in found}
    rate, rtt = by_factor["rate"], by_factor["rtt"]
    assert (rate["event"], rate["node"], rate["port"], rate["value"]) == (
        "slower",
        "router",
        "net-rx",
        "5mbit",
    )
    assert json.loads(rate["shown"])["rate"] == 625_000
    assert (rtt["node"], rtt["port"], rtt["value"]) == ("delay", "", "40ms")
    assert set(json.loads(rtt["shown"]).values()) == {"20000000"}
    assert {row["at_ms"] for row in by_factor.values()} == {2000}
    assert all(0 <= row["t_ms"] - 2000 < 1 for row in by_factor.values())


def test_a_trial_without_events_has_no_rows(captured: Load) -> None:
    assert parse_events(captured("lean-dualpi2").ended) is None


def test_the_trial_is_valid(captured: Load) -> None:
    assert captured("events-codel").judged().reasons == ()


def test_an_event_that_did_not_take_place(captured: Load) -> None:
    trial = captured("events-codel")
    (trial.raw / "router" / "events.json").unlink()
    assert trial.judged().reasons == ("router: slower: rate did not change",)


def test_an_event_that_came_late(captured: Load) -> None:
    trial = captured("events-codel")
    trial.edit("delay/events.json", lambda taken: taken[0].update(t_ms=2150.0))
    assert trial.judged().reasons == ("delay: slower: rtt changed 150 ms late",)


def test_an_event_that_changed_something_else(captured: Load) -> None:
    trial = captured("events-codel")
    trial.edit("router/event-slower-rate-net-rx.json", lambda shown: shown[0].update(rate=1_250_000))
    path = trial.raw / "delay" / "event-slower-rtt.txt"
    path.write_text(path.read_text().replace("net-mid.delay_ns = 20000000", "net-mid.delay_ns = 1"))
    assert trial.judged().reasons == (
        "delay: slower: rtt: net.wire.net-mid.delay_ns is 1, not 20000000",
        "router: htb class 1:3 at net-rx: rate is 1250000, not 625000 (after slower)",
    )


def test_what_was_set_must_last(captured: Load) -> None:
    trial = captured("events-codel")
    trial.edit("router/class-net-rx.json", lambda shown: shown[0].update(rate=1_250_000))
    assert trial.judged().reasons == ("router: htb class 1:3 at net-rx: rate is 1250000, not 625000",)


@pytest.mark.parametrize("text", ["[", "{}", "[1]", '[{"event": 1}]', "1"])
def test_a_damaged_file(captured: Load, text: str) -> None:
    trial = captured("events-codel")
    (trial.raw / "delay" / "events.json").write_text(text)
    if text == "{}":
        assert trial.judged().reasons == ("delay: slower: rtt did not change",)
        return
    with pytest.raises(BadRawError, match=r"delay/events\.json"):
        parse_events(trial.ended)
    assert trial.judged().reasons[0].startswith("delay/events.json: ")
