# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Loss events and how many flows lose in them, from made-up trials with an RTT of 50 ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.published.claims import measures
from reports.published.claims.losses import LOSSES
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

KEY = {"cell": "c", "trial": 1}
WARMUP_MS = 1000.0


def dropped(times: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Return packets of each flow: one that is carried, and one that is dropped at each of these times."""
    return [
        KEY
        | {"flow": flow, "group": flow.partition("-")[0], "packet": number, "t_ms": t_ms, "ip_bytes": 1500}
        | {"payload_bytes": 1448, "lost": number > 1, "retransmit": False, "ecn": "ect1", "marked": False}
        for flow, own in times.items()
        for number, t_ms in enumerate([WARMUP_MS, *own], start=1)
    ]


def measured(
    folder: Path, packets: list[dict[str, Any]], group: str = "l4s", asked: Sequence[str] = tuple(LOSSES)
) -> object:
    about = {"status": "ok", "seed": "1", "inputs": "i", "folder": "1-i", "rate_mbps": 12.0, "rtt_ms": 50.0}
    ends = {"sender": "a", "receiver": "b", "start_ms": 0.0, "cc": "x", "goodput_mbps": 1.0}
    names = ("l4s-0", "l4s-1", "classic-0")
    rows: dict[str, list[dict[str, Any]]] = {
        "trials": [KEY | about | {"warmup_s": WARMUP_MS / 1000}],
        "flows": [KEY | ends | {"flow": flow, "group": flow.partition("-")[0]} for flow in names],
        "packets": packets,
        **{name: [] for name in ("packet_flows", "intervals", "requests", "queues", "events", "sockets")},
    }
    for name, own in rows.items():
        write(folder / "tables", name, own)
    tables: RunTables = load(folder)
    return measures(tables, group, asked)["synchronised_percent"][0]


@pytest.mark.parametrize(
    ("first", "second", "percent"),
    [
        ([1100], [1100.5], 100),
        ([1100], [1149], 100),
        ([1100], [1150], 50),  # two events, each of one flow
        ([1100, 1101, 1102], [], 50),
        ([1100, 1200, 1300], [1310], 200 / 3),  # one flow in two events, both in the third
        ([1100, 1149], [1160], 50),  # an event does not grow longer with its drops
        ([900, 1100], [910], 50),  # the warm-up does not count
    ],
)
def test_a_loss_event_lasts_one_rtt(
    tmp_path: Path, first: list[float], second: list[float], percent: float
) -> None:
    packets = dropped({"l4s-0": first, "l4s-1": second})
    assert measured(tmp_path, packets) == pytest.approx(percent)


def test_a_group_has_events_of_its_own_and_all_groups_have_theirs(tmp_path: Path) -> None:
    packets = dropped({"l4s-0": [1100], "l4s-1": [1110], "classic-0": [1090, 1145]})
    assert measured(tmp_path, packets) == pytest.approx(100)
    assert measured(tmp_path, packets, "all") == pytest.approx((100 + 100 / 3) / 2)


def test_synchronisation_needs_captures_drops_and_two_flows(tmp_path: Path) -> None:
    assert measured(tmp_path, []) is None
    assert measured(tmp_path, dropped({"l4s-0": [], "l4s-1": [900]})) is None
    assert measured(tmp_path, dropped({"classic-0": [1100]}), "classic") is None
    assert measured(tmp_path, dropped({"l4s-0": [1100], "l4s-1": [1100]}), asked=()) is None
