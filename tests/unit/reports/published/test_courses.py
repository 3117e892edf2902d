# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Courses around an event, from a made-up trial: one flow of 40 s on a link that gets slower after 20 s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from l4sbench.errors import InputError
from reports.published.claims import ClaimOutcome, check, markdown, measures
from reports.published.claims.courses import COURSES
from reports.published.claims.model import Claim, Study
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

EVENT_S = 20
PACKET_BYTES = 1250
"""A packet takes 1 ms at 10 Mbit/s, and 4 ms at 2.5."""
MakeTrial = Callable[..., RunTables]


def goodput(second: int) -> float:
    """Return 9.5 Mbit/s until the event, then 1 for four seconds, then 2.4."""
    if second <= EVENT_S:
        return 9.5
    return 1.0 if second <= EVENT_S + 4 else 2.4


def backlog(t_ms: int) -> int:
    """Return two packets until the event, then 20, of which one leaves every 40 ms until one is left."""
    if t_ms <= EVENT_S * 1000:
        return 2
    return max(20 - (t_ms - EVENT_S * 1000) // 40, 1)


@pytest.fixture
def trial(tmp_path: Path) -> MakeTrial:
    def build(
        event: tuple[str, str] | None = ("rate", "2500kbit"), *, wifi: bool = False, second: bool = False
    ) -> RunTables:
        key = {"cell": "c", "trial": 1}
        factors: dict[str, Any] = {"flow.cc": "prague", "rate_mbps": 10.0, "warmup_s": 0.0, "aqm": "fifo"}
        factors |= {"path.wifi_mcs": 4} if wifi else {}
        about = {"status": "ok", "seed": "1", "inputs": "i", "folder": "1-i"}
        flow = {"flow": "flow-0", "group": "flow"}
        got = {"cc": "x", "sender": "a", "receiver": "b", "start_ms": 500.0, "goodput_mbps": 6.0}
        queue = {"node": "router", "network": "net-rx", "handle": "3:", "kind": "pfifo"}
        change = {"event": "step", "node": "router", "port": "net-rx", "at_ms": 20e3, "t_ms": 20e3}
        rows: dict[str, list[dict[str, Any]]] = {
            "trials": [key | factors | about],
            "flows": [key | flow | got | {"retransmits_packets": 7}],
            "packet_flows": [],
            "intervals": [
                key
                | flow
                | {
                    "t_ms": second * 1000.0 - 500,
                    "seconds": 1.0,
                    "goodput_mbps": goodput(second),
                    "warmup": False,
                }
                for second in range(1, 41)
            ],
            "queues": [
                key
                | queue
                | {
                    "t_ms": float(t_ms),
                    "backlog_bytes": backlog(t_ms) * PACKET_BYTES,
                    "sent_bytes": t_ms * 625,
                }
                for t_ms in range(10, 40_000, 20)
            ],
            "events": [key | change | {"factor": event[0], "value": event[1]}] if event else [],
        }
        if second:  # a bottleneck after the first one, which is never fuller
            rows["queues"] += [row | {"node": "after", "backlog_bytes": 0} for row in rows["queues"]]
        rows["queues"] += [
            row | {"handle": "1:", "kind": "htb", "backlog_bytes": 9e9} for row in rows["queues"]
        ]
        for name, own in rows.items():
            write(tmp_path / "tables", name, own)
        return load(tmp_path)

    return build


def measured(tables: RunTables) -> dict[str, Any]:
    return measures(tables, "flow", COURSES).row(0, named=True)


def test_what_an_event_did(trial: MakeTrial) -> None:
    row = measured(trial())
    assert row["before_mbps"] == 9.5
    assert row["after_mbps"] == pytest.approx((3 * 1.0 + 16 * 2.4) / 19)
    assert row["queue_before_ms"] == pytest.approx(2)  # at the rate before
    assert row["peak_ms"] == pytest.approx(80)  # 20 packets at the rate after
    assert row["settle_ms"] == pytest.approx(4000)
    assert row["drain_ms"] == pytest.approx(770, abs=20)  # one packet, 4 ms, is left after 19 * 40 ms
    assert row["queue_mean_ms"] is row["queue_p05_ms"] is row["queue_p95_ms"] is None
    assert row["tcp_retransmits_packets"] == 7


def test_seconds_are_those_of_each_flow(trial: MakeTrial) -> None:
    """As iperf3 has them: they end milliseconds off, here on both sides of a trial's second; and a rest."""
    tables = trial()
    exact = measured(tables)
    seconds = [
        row | {"t_ms": row["t_ms"] + (-3 if number % 2 else 3)}
        for number, row in enumerate(tables.intervals.sort("t_ms").to_dicts())
    ]
    rest = {"t_ms": seconds[-1]["t_ms"] + 20, "seconds": 0.02, "goodput_mbps": 50.0}
    write(tables.folder, "intervals", [*seconds, seconds[-1] | rest])
    row = measured(load(tables.folder.parent))
    assert row["after_mbps"] == pytest.approx(exact["after_mbps"], abs=0.1)
    assert row["settle_ms"] == pytest.approx(exact["settle_ms"], abs=3)


def test_a_queue_is_in_time_at_the_rate_of_each_instant(trial: MakeTrial) -> None:
    """The RTT changes with the rate, and is made first; 10 s later the rate is as before."""
    tables = trial()
    rate = tables.events.row(0, named=True)
    rtt = rate | {"factor": "rtt", "node": "delay", "port": "", "value": "20ms", "t_ms": rate["t_ms"] - 0.01}
    back = rate | {"event": "back", "value": "10mbit", "at_ms": 30e3, "t_ms": 30e3}
    write(tables.folder, "events", [rate, rtt, back])
    row = measured(load(tables.folder.parent))
    assert row["queue_before_ms"] == pytest.approx(2)
    assert row["peak_ms"] == pytest.approx(80)
    slow = [4 * backlog(t_ms) / 2 for t_ms in range(20_010, 30_000, 20)]
    assert row["queue_after_ms"] == pytest.approx((sum(slow) * 2 + 500 * 1) / 1000, rel=0.01)


def test_a_trial_without_events_has_its_queue_only(trial: MakeTrial) -> None:
    row = measured(trial(None))
    quantiles = [row[f"queue_p{percent:02}_ms"] for percent in (5, 25, 50, 75, 95, 99)]
    assert quantiles == pytest.approx([1, 1, 2, 2, 2, 10], abs=0.5)
    assert row["queue_p95_ms"] == pytest.approx(2)
    assert row["queue_mean_ms"] == pytest.approx(
        1.7, abs=0.1
    )  # 2 packets until half-time, then 1 and a burst
    assert row["settle_ms"] is row["drain_ms"] is row["before_mbps"] is None


def test_of_several_bottlenecks_the_fullest_counts(trial: MakeTrial) -> None:
    assert measured(trial(second=True)) == measured(trial())


def test_a_queue_of_wifi_is_in_time_at_the_rate_that_left_it(trial: MakeTrial) -> None:
    """5 Mbit/s leave the queue all the time: a packet of 1250 bytes takes 2 ms."""
    row = measured(trial(("path.wifi_mcs", "2"), wifi=True))
    assert row["queue_before_ms"] == pytest.approx(4)
    assert row["peak_ms"] == pytest.approx(40)


def test_a_queue_of_wifi_needs_two_samples_for_its_rate(trial: MakeTrial) -> None:
    tables = trial(("path.wifi_mcs", "2"), wifi=True)
    late = [row | {"at_ms": 39_985.0, "t_ms": 39_985.0} for row in tables.events.to_dicts()]
    write(tables.folder, "events", late)
    row = measured(load(tables.folder.parent))
    assert row["queue_before_ms"] > 0
    assert row["queue_after_ms"] is row["drain_ms"] is row["peak_ms"] is None


def test_courses_are_read_only_where_asked(trial: MakeTrial) -> None:
    assert measures(trial(), "flow").row(0, named=True)["settle_ms"] is None


def study(**claim: Any) -> Study:
    asked = Claim.model_validate({"name": "c", "says": "it is so", "of": ["prague"], **claim})
    about = {"study": "s", "about": "", "source": "", "group": "flow", "factor": "flow.cc"}
    return Study.model_validate(about | {"schemes": ["prague"], "settings": ["aqm"], "claims": [asked]})


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ({"measure": "settle_ms", "is": 4500, "within": 500}, ClaimOutcome.SEEN),
        ({"measure": "settle_ms", "is": 4501, "within": 500}, ClaimOutcome.NOT_SEEN),
        ({"measure": "goodput_mbps", "is": 5.9, "within": 0}, ClaimOutcome.NOT_SEEN),
    ],
)
def test_a_published_number_give_or_take(
    trial: MakeTrial, claim: dict[str, Any], outcome: ClaimOutcome
) -> None:
    report = check(trial(), study(**claim))
    assert report.findings[0].outcome == outcome
    assert f"{claim['is']:g}, give or take {claim['within']:g}" in markdown(report, "l4sbench run s")


def test_packets_are_needed_only_for_measures_of_packets(trial: MakeTrial) -> None:
    with pytest.raises(InputError, match="capture: headers"):
        check(trial(), study(measure="sojourn_mean_ms", at_most=1))
