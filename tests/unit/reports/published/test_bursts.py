# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bursts in which packets arrive, from made-up trials at 12 Mbit/s: a packet of 1500 bytes takes 1 ms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.published.claims import measures
from reports.published.claims.bursts import BURSTS
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

KEY = {"cell": "c", "trial": 1}
WARMUP_MS = 1000.0


def arriving(
    flow: str, bursts: Sequence[tuple[int, float]], begin_ms: float = WARMUP_MS
) -> list[dict[str, Any]]:
    """Return packets: of each burst so many, and the time between two of them; bursts are 100 ms apart."""
    times = [
        begin_ms + 100.0 * place + number * gap_ms
        for place, (count, gap_ms) in enumerate(bursts)
        for number in range(count)
    ]
    return [
        KEY
        | {"flow": flow, "group": flow.partition("-")[0], "packet": number, "t_ms": t_ms, "ip_bytes": 1500}
        | {"payload_bytes": 1448, "lost": False, "retransmit": False, "ecn": "ect1", "marked": False}
        for number, t_ms in enumerate(times, start=1)
    ]


def measured(folder: Path, packets: list[dict[str, Any]], asked: Sequence[str] = tuple(BURSTS)) -> object:
    about = {"status": "ok", "seed": "1", "inputs": "i", "folder": "1-i", "rate_mbps": 12.0}
    ends = {"sender": "a", "receiver": "b", "start_ms": 0.0, "cc": "x", "goodput_mbps": 1.0}
    rows: dict[str, list[dict[str, Any]]] = {
        "trials": [KEY | about | {"warmup_s": WARMUP_MS / 1000}],
        "flows": [KEY | ends | {"flow": f"l4s-{number}", "group": "l4s"} for number in (0, 1)],
        "packets": packets,
        **{name: [] for name in ("packet_flows", "intervals", "requests", "queues", "events", "sockets")},
    }
    for name, own in rows.items():
        write(folder / "tables", name, own)
    tables: RunTables = load(folder)
    return measures(tables, "l4s", asked)["burst_p99_ms"][0]


@pytest.mark.parametrize(
    ("bursts", "length_ms"),
    [
        ([(10, 1.0)] * 200, 1.0),  # as fast as the link
        ([(10, 0.51)] * 200, 1.0),
        ([(10, 0.49)] * 200, 10.0),
        ([(1, 0.0)] * 990 + [(5, 0.0)] * 4, 5.0),  # 2 % of the packets
        ([(1, 0.0)] * 998 + [(5, 0.0)], 1.0),  # less than 1 %
        ([(10, 0.0)] * 99, None),  # 990 packets have no such quantile
    ],
)
def test_a_burst_is_what_arrives_faster_than_the_link(
    tmp_path: Path, bursts: list[tuple[int, float]], length_ms: float | None
) -> None:
    assert measured(tmp_path, arriving("l4s-0", bursts)) == (length_ms and pytest.approx(length_ms))


def test_flows_have_bursts_of_their_own(tmp_path: Path) -> None:
    both = arriving("l4s-0", [(1, 0.0)] * 600) + arriving("l4s-1", [(1, 0.0)] * 600, WARMUP_MS + 0.1)
    assert measured(tmp_path, both) == pytest.approx(1.0)


def test_the_warmup_does_not_count(tmp_path: Path) -> None:
    early = arriving("l4s-0", [(30, 0.0)], 0.0)
    later = [packet | {"packet": packet["packet"] + 30} for packet in arriving("l4s-0", [(1, 0.0)] * 1000)]
    assert measured(tmp_path, early + later) == pytest.approx(1.0)


def test_bursts_need_captures_and_are_measured_only_where_asked(tmp_path: Path) -> None:
    assert measured(tmp_path, []) is None
    assert measured(tmp_path, arriving("l4s-0", [(10, 0.0)] * 200), ()) is None
