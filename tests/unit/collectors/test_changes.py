# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Events of a captured trial: the rate halves and the round-trip time doubles after 2 s."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.changes import parse_events
from collectors.collector import BadRawError
from tests.unit.collectors.conftest import Load


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
    assert captured("events-codel").faults() == []


def test_an_event_that_did_not_take_place(captured: Load) -> None:
    trial = captured("events-codel")
    (trial.raw / "router" / "events.json").unlink()
    assert trial.faults() == ["router no-event slower rate"]


def test_an_event_that_changed_something_else(captured: Load) -> None:
    trial = captured("events-codel")
    trial.edit("router/event-slower-rate-net-rx.json", lambda shown: shown[0].update(rate=1_250_000))
    path = trial.raw / "delay" / "event-slower-rtt.txt"
    path.write_text(path.read_text().replace("net-mid.delay_ns = 20000000", "net-mid.delay_ns = 1"))
    assert trial.faults() == [
        "delay event-sysctl slower rtt net.wire.net-mid.delay_ns 1 20000000",
        "router differs htb class 1:3 at net-rx: rate is 1250000, not 625000 slower",
    ]


@pytest.mark.parametrize(
    ("file", "change", "fault"),
    [
        ("delay/events.json", {"t_ms": 2150.0}, "delay late-event slower rtt 150"),
        (
            "router/class-net-rx.json",
            {"rate": 1_250_000},
            "router differs htb class 1:3 at net-rx: rate is 1250000, not 625000",
        ),
    ],
)
def test_a_change_comes_in_time_and_lasts(
    captured: Load, file: str, change: dict[str, float], fault: str
) -> None:
    trial = captured("events-codel")
    trial.edit(file, lambda shown: shown[0].update(change))
    assert trial.faults() == [fault]


@pytest.mark.parametrize("text", ["[", "{}", "[1]", '[{"event": 1}]', "1"])
def test_a_damaged_file(captured: Load, text: str) -> None:
    trial = captured("events-codel")
    (trial.raw / "delay" / "events.json").write_text(text)
    if text == "{}":
        assert trial.faults() == ["delay no-event slower rtt"]
        return
    with pytest.raises(BadRawError, match=r"delay/events\.json"):
        parse_events(trial.ended)
    assert trial.faults()[0].startswith("raw delay/events.json: ")
