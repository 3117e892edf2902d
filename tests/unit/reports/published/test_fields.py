# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measures of ECN fields, marks and shares, from a made-up trial of one L4S flow beside a classic one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.published.claims import measures
from reports.published.claims.fields import FIELDS
from reports.published.claims.samples import Window
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

KEY = {"cell": "c", "trial": 1}
L4S = KEY | {"flow": "l4s-0", "group": "l4s"}
CLASSIC = KEY | {"flow": "classic-0", "group": "classic"}
MakeTrial = Callable[..., RunTables]


def packets(fields: str) -> list[dict[str, Any]]:
    """Return packets by a letter each: ECT(1), ECT(0) or n for none; r is a repetition with ECT(0)."""
    codepoints = {"1": "ect1", "0": "ect0", "n": "not-ect", "r": "ect0"}
    return [
        L4S
        | {"packet": number, "t_ms": float(number), "ip_bytes": 1500, "payload_bytes": 1448, "lost": False}
        | {"retransmit": letter == "r", "ecn": codepoints[letter], "marked": letter in "1n"}
        for number, letter in enumerate(fields, start=1)
    ]


def codepoints(place: str, not_ect: int, ect1: int, ect0: int, ce: int) -> dict[str, Any]:
    counts = {"not_ect_packets": not_ect, "ect1_packets": ect1, "ect0_packets": ect0, "ce_packets": ce}
    return L4S | {"direction": "forward", "place": place} | counts


@pytest.fixture
def trial(tmp_path: Path) -> MakeTrial:
    def build(**more: list[dict[str, Any]]) -> RunTables:
        about = {
            "status": "ok",
            "seed": "1",
            "inputs": "i",
            "folder": "1-i",
            "rate_mbps": 10.0,
            "warmup_s": 0.0,
        }
        ends = {
            "sender": "a",
            "receiver": "b",
            "start_ms": 0.0,
            "retransmits_packets": 5,
            "delivered_packets": 500,
        }
        seconds = {"seconds": 1.0, "srtt_ms": 20.0, "delivered_packets": 900}
        rows: dict[str, list[dict[str, Any]]] = {
            "trials": [KEY | about],
            "flows": [
                L4S | ends | {"cc": "x", "goodput_mbps": 6.0},
                CLASSIC | ends | {"cc": "y", "goodput_mbps": 3.0},
            ],
            "intervals": [
                L4S
                | seconds
                | {"t_ms": 1000 * t, "delivered_ce_packets": 1000 if t == 1 else 100, "warmup": t == 1}
                for t in (1, 2, 3)
            ],
            "packet_flows": [],
            "requests": [],
            "queues": [
                KEY
                | {"node": "router", "network": "net-rx", "handle": "3:", "kind": "pfifo", "t_ms": t_ms}
                | {"backlog_bytes": 1250, "sent_bytes": t_ms, "drops_packets": t_ms // 100}
                for t_ms in (100, 200, 300)
            ],
            "events": [],
            "sockets": [],
            **{name: [] for name in ("packets", "codepoints", "accecn")},
        }
        for name, own in (rows | more).items():
            write(tmp_path / "tables", name, own)
        return load(tmp_path)

    return build


def measured(tables: RunTables, *names: str) -> list[Any]:
    return list(measures(tables, "l4s", names).select(names).row(0))


def test_shares_and_marks(trial: MakeTrial) -> None:
    tables = trial()
    assert measured(tables, "utilisation_percent", "tcp_retransmits_percent") == [90.0, 1.0]
    assert measured(tables, "queue_drops_packets") == [3.0]
    # 100 marks a second after the warm-up, of 20 ms each
    assert measured(tables, "marks_per_rtt") == [2.0]


def test_repetitions_need_not_be_ect(trial: MakeTrial) -> None:
    own = ("ect1_percent", "ect1_packets", "marked_not_ect_packets")
    assert measured(trial(packets=packets("1111r")), *own) == [100.0, 4.0, 0.0]
    assert measured(trial(packets=packets("11n0r")), *own) == [50.0, 2.0, 1.0]


def test_without_captures_there_are_no_fields(trial: MakeTrial) -> None:
    assert measured(trial(), *FIELDS) == [None] * len(FIELDS)


@pytest.mark.parametrize(
    ("behind", "recoloured"),
    [
        ((1, 80, 0, 19), 0.0),  # marks
        ((1, 70, 0, 19), 0.0),  # drops
        ((1, 80, 19, 0), 19.0),  # ECT(1) becomes ECT(0)
        ((6, 76, 0, 18), 5.0),
    ],
)
def test_a_field_that_a_queue_changes_is_counted_behind_it(
    trial: MakeTrial, behind: tuple[int, int, int, int], recoloured: float
) -> None:
    rows = [codepoints("before", 1, 99, 0, 0), codepoints("behind", *behind)]
    assert measured(trial(codepoints=rows), "recoloured_packets") == [recoloured]


def test_the_coupling_is_between_marks_and_the_signals_of_others(trial: MakeTrial) -> None:
    counts = {"data_packets": 1000, "ack_packets": 0, "retransmits_packets": 0, "seconds": 1.0}
    counts |= {"sojourn_samples": 0}
    rows = [
        L4S | counts | {"lost_packets": 0, "ce_packets": 200},
        CLASSIC | counts | {"lost_packets": 4, "ce_packets": 6},
    ]
    assert measured(trial(packet_flows=rows), "coupling_factor") == [pytest.approx(2.0)]
    rows[1] |= {"lost_packets": 0, "ce_packets": 0}
    assert measured(trial(packet_flows=rows), "coupling_factor") == [None]


@pytest.mark.parametrize(
    ("waits", "marks", "longest"),
    [
        ([1.0, 1.9, 2.0], "...", 0.0),  # none waited for longer
        ([3.0, 3.0, 3.0], "mmm", 0.0),
        ([3.0, 3.0, 1.0, 3.0, 3.0], "..m.m", 3.0),  # one that did not wait ends no run
        ([3.0, 3.0, 3.0, 3.0], ".m..", 2.0),
        ([3.0, None, 3.0], "...", 2.0),  # one that was dropped is no signal by a mark
    ],
)
def test_packets_that_wait_without_a_mark_are_counted_in_a_row(
    trial: MakeTrial, waits: list[float | None], marks: str, longest: float
) -> None:
    rows = [
        packet | {"sojourn_ms": wait, "marked": mark == "m"}
        for packet, wait, mark in zip(packets("1" * len(waits)), waits, marks, strict=True)
    ]
    assert measured(trial(packets=rows), "unmarked_wait_packets") == [longest]


def test_marks_that_the_sender_takes_are_compared_with_those_applied(trial: MakeTrial) -> None:
    counts = {"connections": 1, "ce_packets": 200, "ace_packets": 199}
    payload = {"ce_bytes": 1, "ect1_bytes": 1, "ect0_bytes": 1}
    flow = {"cc": "x", "sender": "a", "receiver": "b", "start_ms": 0.0, "goodput_mbps": 6.0}
    of = {"accecn": [L4S | counts | payload], "flows": [L4S | flow | {"delivered_ce_packets": 150}]}
    assert measured(trial(**of), "ce_counted_percent", "ce_taken_percent") == [99.5, 75.0]
    unknown = of | {"flows": [L4S | flow]}
    assert measured(trial(**unknown), "ce_counted_percent", "ce_taken_percent") == [99.5, None]


def test_packets_are_lost_in_the_window_in_which_they_arrive(trial: MakeTrial) -> None:
    """Packets arrive at 1 ms to 5 ms, of which those at 2 and 5 ms are lost."""
    rows = [packet | {"lost": packet["packet"] in (2, 5)} for packet in packets("11111")]
    windows = (Window(0, 0.003), Window(0.003, 0.006))
    names = ["first_window_lost_percent", "second_window_lost_percent"]
    found = measures(trial(packets=rows), "l4s", names, windows).select(names).row(0)
    assert found == (50.0, pytest.approx(100 / 3))


def test_reported_marks(trial: MakeTrial) -> None:
    counts = {"connections": 1, "ce_packets": 200, "ace_packets": 199}
    payload = {"ce_bytes": 1, "ect1_bytes": 1, "ect0_bytes": 1}
    assert measured(trial(accecn=[L4S | counts | payload]), "ce_counted_percent") == [99.5]
    rows = [L4S | counts | payload | {"ce_between_acks_packets": most} for most in (2, 9)]
    rows[1]["flow"] = "l4s-1"
    assert measured(trial(accecn=rows), "ce_between_acks_packets") == [9.0]
    none = counts | {"ce_packets": 0, "ace_packets": 0}
    assert measured(trial(accecn=[L4S | none | payload]), "ce_counted_percent") == [None]
