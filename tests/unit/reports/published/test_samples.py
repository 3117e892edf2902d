# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures from samples, from a made-up trial of 20 s: one flow from 0.5 s, another that joins it at 2 s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.published.claims import measures
from reports.published.claims.samples import SAMPLES, Window
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

KEY = {"cell": "c", "trial": 1}
STARTS_MS = {"both-0": 500.0, "both-1": 2000.0}
BYTES_PER_MS = {"both-0": 300, "both-1": 100}
SEGMENTS_PER_MS = {"both-0": 10, "both-1": 5}
WINDOWS = (Window(3, 10), Window(11, 20))
MakeTrial = Callable[..., RunTables]


def sampled(flow: str, every_ms: int, end_ms: int) -> list[dict[str, Any]]:
    """Return a receiver that gets its bytes evenly, and a sender that sends each hundredth segment again."""
    first = (int(STARTS_MS[flow]) // every_ms + 1) * every_ms
    rows: list[dict[str, Any]] = []
    for t_ms in range(first, end_ms + 1, every_ms):
        run_ms = t_ms - STARTS_MS[flow]
        own = KEY | {"flow": flow, "group": "both", "t_ms": t_ms}
        segments = int(SEGMENTS_PER_MS[flow] * run_ms)
        rows += [
            own | {"node": "rx", "side": "receiver", "received_bytes": int(BYTES_PER_MS[flow] * run_ms)},
            own
            | {"node": "tx", "side": "sender", "srtt_ms": 20.0}
            | {"delivered_packets": segments, "retransmits_packets": segments // 100}
            | {"alpha": 0.25, "cwnd_packets": 8 if flow == "both-0" else 16},
        ]
    return rows


@pytest.fixture
def trial(tmp_path: Path) -> MakeTrial:
    def build(every_ms: int = 20, end_ms: int = 20_000) -> RunTables:
        about = {"status": "ok", "seed": "1", "inputs": "i", "folder": "1-i"}
        factors = {"both.cc": "cubic", "rate_mbps": 10.0, "warmup_s": 0.0}
        ends = {"cc": "x", "sender": "tx", "receiver": "rx", "seconds": end_ms / 1000, "goodput_mbps": 5.0}
        flows = [
            KEY
            | {"flow": flow, "group": "both", "start_ms": start, "completed_ms": 900.0 + start}
            | ends
            | {"srtt_minus_base_ms": 3.0, "srtt_p95_ms": p95_ms, "retransmits_packets": 1}
            for p95_ms, (flow, start) in zip((20.0, 30.0), STARTS_MS.items(), strict=True)
        ]
        seconds = [
            KEY
            | {"flow": "both-0", "group": "both", "t_ms": end_s * 1000, "seconds": 1.0, "warmup": False}
            | {"goodput_mbps": 8.0 if end_s < 10 else 2.0}
            for end_s in range(1, 20)
        ]
        requests = [
            KEY
            | {"flow": "mice-0", "group": "mice", "request": number, "t_ms": number * 100.0}
            | {"handshake_ms": float(number), "payload_bytes": payload, "warmup": number < 3}
            | {"response_ms": None if number == 7 else 10.0 * number}
            for number, payload in enumerate((50, 50, 100, 101, 1500, 15_000, 15_000), start=1)
        ]
        rows = {
            "trials": [KEY | factors | about],
            "flows": flows,
            "packet_flows": [],
            "intervals": seconds,
            "requests": requests,
            "packets": [],
            "events": [],
            "sockets": [row for flow in STARTS_MS for row in sampled(flow, every_ms, end_ms)],
        }
        for name, own in rows.items():
            write(tmp_path / "tables", name, own)
        return load(tmp_path)

    return build


def measured(tables: RunTables, group: str = "both") -> dict[str, Any]:
    return measures(tables, group, SAMPLES, WINDOWS).row(0, named=True)


def test_fairness_is_that_of_the_flows_that_are_there(trial: MakeTrial) -> None:
    """Bins with one flow do not count; with both, 3 to 1, the index is (3 + 1)^2 / (2 (9 + 1))."""
    row = measured(trial())
    assert row["jain_80ms_mean"] == pytest.approx(0.8)
    assert row["jain_80ms_p50"] == pytest.approx(0.8)
    assert row["jain_80ms_p05"] == pytest.approx(0.8)


def test_repetitions_of_an_outage_are_those_between_two_events(trial: MakeTrial) -> None:
    tables = trial()
    assert measured(tables)["outage_retransmits_packets"] is None
    changes = [
        KEY
        | {"event": name, "node": "delay", "port": port, "at_ms": at_ms, "t_ms": at_ms + 0.1}
        | {"factor": "path.loss", "value": value}
        for port in ("net-mid", "net-tx")
        for name, at_ms, value in (("begin", 5000.0, "100%"), ("end", 7000.0, "0%"))
    ]
    write(tables.folder, "events", changes)
    row = measured(load(tables.folder.parent))
    assert row["outage_retransmits_packets"] == pytest.approx(200 + 100, abs=2)


def test_alpha_and_window_are_multiplied_sample_by_sample(trial: MakeTrial) -> None:
    assert measured(trial())["alpha_by_window_packets"] == pytest.approx((2 + 4) / 2)


def test_alpha_does_not_count_after_the_flow_has_ended(trial: MakeTrial) -> None:
    tables = trial()
    later = [
        row | {"t_ms": row["t_ms"] + 40_000, "alpha": 1.0}
        for row in tables.scan("sockets").filter(side="sender").collect().to_dicts()
    ]
    write(tables.folder, "sockets", [*tables.scan("sockets").collect().to_dicts(), *later])
    assert measured(load(tables.folder.parent))["alpha_by_window_packets"] == pytest.approx((2 + 4) / 2)


def test_a_quantile_needs_enough_bins(trial: MakeTrial) -> None:
    row = measured(trial(end_ms=12_000))  # 125 bins with both; the fifth of 100 needs 200
    assert row["jain_80ms_p50"] == pytest.approx(0.8)
    assert row["jain_80ms_p05"] is None


def test_samples_that_are_too_far_apart_tell_no_bin(trial: MakeTrial) -> None:
    row = measured(trial(every_ms=100))
    assert row["jain_80ms_mean"] is row["jain_80ms_p50"] is None


def test_the_first_segments_are_found_between_samples(trial: MakeTrial) -> None:
    """Flow 0 needs 2000 ms, flow 1 4000 ms; each has then sent 200 again."""
    row = measured(trial(every_ms=300))
    assert row["first_segments_ms"] == pytest.approx(3000, abs=1)
    assert row["first_segments_retransmits_packets"] == pytest.approx(200, abs=2)


def test_a_flow_that_ends_before_has_no_such_time(trial: MakeTrial) -> None:
    row = measured(trial(end_ms=5000))
    assert row["first_segments_ms"] is row["first_segments_retransmits_packets"] is None


def test_harm_is_between_two_windows(trial: MakeTrial) -> None:
    """Seconds that a window cuts do not count: 8 Mbit/s until 9.5 s, then 2."""
    row = measured(trial())
    assert (row["first_window_mbps"], row["second_window_mbps"]) == (8, 2)
    assert row["harm_percent"] == pytest.approx(75)


def test_what_is_left_of_a_flow_counts_for_as_long_as_it_is(trial: MakeTrial) -> None:
    """The last 20 ms of a flow of iperf3, which counts in blocks."""
    tables = trial()
    rest = {"t_ms": 19_020, "seconds": 0.02, "goodput_mbps": 52.0}
    rows = tables.intervals.sort("t_ms").to_dicts()
    write(tables.folder, "intervals", [*rows, rows[-1] | rest])
    row = measured(load(tables.folder.parent))
    whole = [row for row in rows if row["t_ms"] >= 12_000]
    assert row["second_window_mbps"] == pytest.approx((2 * len(whole) + 52 * 0.02) / (len(whole) + 0.02))


@pytest.mark.parametrize(("marks", "per_rtt"), [(50, 50 * 0.02), (0, 0.0), (None, None)])
def test_marks_are_not_known_of_every_tool(
    trial: MakeTrial, marks: int | None, per_rtt: float | None
) -> None:
    tables = trial()
    counted = {"srtt_ms": 20.0, "delivered_ce_packets": marks}
    write(tables.folder, "intervals", [row | counted for row in tables.intervals.to_dicts()])
    assert measured(load(tables.folder.parent))["marks_per_rtt"] == pytest.approx(per_rtt)


def test_tail_and_completion(trial: MakeTrial) -> None:
    row = measured(trial())
    assert row["srtt_p95_ms"] == 25
    assert row["completed_ms"] == 900 + 1250
    assert row["srtt_minus_base_ms"] == 3


def test_connections_of_the_warmup_do_not_count(trial: MakeTrial) -> None:
    tables = trial()
    flow = {"flow": "mice-0", "group": "mice", "sender": "tx", "receiver": "rx", "start_ms": 0.0}
    write(tables.folder, "flows", [KEY | flow])
    row = measured(load(tables.folder.parent), "mice")
    assert row["handshake_p50_ms"] == 5
    assert row["completed_to_100B_ms"] == 30  # two earlier ones began in the warm-up
    assert row["completed_to_1500B_ms"] == 45
    assert row["completed_to_15kB_ms"] == 60  # the last one has not ended


def test_responsiveness_is_of_new_connections_and_of_those_under_load(trial: MakeTrial) -> None:
    """Handshakes of 3 and 4 ms and exchanges of 27 and 36 ms, the slowest apart; loaded flows have 40 ms.

    A minute has 60,000 / ((3 + 27) / 2 / 2 + 40 / 2) round trips. Requests of several segments do not count.
    """
    tables = trial()
    flow = {"flow": "mice-0", "group": "mice", "sender": "tx", "receiver": "rx", "start_ms": 0.0}
    write(tables.folder, "flows", [KEY | flow])
    assert measured(load(tables.folder.parent), "mice")["rpm"] is None, "nothing loads the path"
    seconds = [
        KEY
        | {"flow": "both-0", "group": "both", "t_ms": number * 1000, "seconds": 1.0, "goodput_mbps": 1.0}
        | {"srtt_ms": 400.0 if number == 1 else 40.0, "warmup": number == 1}
        for number in (1, 2, 3)
    ]
    write(tables.folder, "intervals", seconds)
    assert measured(load(tables.folder.parent), "mice")["rpm"] == pytest.approx(60_000 / (7.5 + 20))


def test_samples_are_read_only_where_asked(trial: MakeTrial) -> None:
    row = measures(trial(), "both").row(0, named=True)
    assert {name for name in SAMPLES if row[name] is not None} == set()
    row = measures(trial(), "both", {"harm_percent"}).row(0, named=True)
    assert row["harm_percent"] is None, "no windows were given"
