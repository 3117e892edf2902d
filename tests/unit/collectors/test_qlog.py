# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""qlogs of senders: one that quic-go wrote in the lab, other forms of the drafts, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.collector import BadRawError
from collectors.qlog import QlogSample, read_qlog

QUIC_GO = Path(__file__).parents[2] / "cases" / "qlog" / "quic-go.sqlog"
HEAD = {"qlog_version": "0.3"}


def read(content: bytes, **changes: Any) -> list[QlogSample]:
    about = {"start_ms": 200.0, "lasts_ms": 1000.0, "interval_ms": 100, "least_rtt_ms": 10.0} | changes
    return list(read_qlog(content, **about))


def log(*events: Any, head: Any = HEAD) -> bytes:
    return b"".join(b"\x1e%s\n" % json.dumps(one).encode() for one in (head, *events))


def event(time: Any, name: str, **data: Any) -> dict[str, Any]:
    return {"time": time, "name": name, "data": data}


def ack(time: float, packet_type: str = "1RTT", **counts: Any) -> dict[str, Any]:
    frames = [{"frame_type": "ping"}, {"frame_type": "ack", "acked_ranges": [[0, 3]], **counts}]
    return event(time, "transport:packet_received", header={"packet_type": packet_type}, frames=frames)


def test_a_log_of_quic_go_has_rtt_window_losses_and_marks() -> None:
    found = read(QUIC_GO.read_bytes())
    assert [sample.at_ms for sample in found] == list(range(300, 1300, 100))
    first, last = found[0].values, found[-1].values
    assert 10_000 < first["cwnd_bytes"] < 100_000
    assert last["lost_packets"] >= first.get("lost_packets", 0)
    assert all(20 <= sample.values["srtt_ms"] < 60 for sample in found)
    assert last["lost_packets"] == QUIC_GO.read_bytes().count(b"recovery:packet_lost")
    assert last["ce_packets"] > 0
    assert last["ect0_packets"] > 100
    assert last["ect1_packets"] == 0


def test_each_interval_has_the_newest_values() -> None:
    found = read(
        log(
            event(1, "recovery:metrics_updated", smoothed_rtt=0, congestion_window=12000),
            event(90, "recovery:metrics_updated", smoothed_rtt=20.5, bytes_in_flight=3000, pacing_rate=8e6),
            ack(95, "initial", ect0=7, ce=7),
            ack(96),  # the receiver reports no counts
            event(95, "recovery:packet_lost"),
            event(310, "quic:recovery_metrics_updated", congestion_window=6000, min_rtt=None),
            ack(320, ect0=20, ect1=0, ce=4),
            ack(330, ect0=18, ect1=0, ce=3),  # overtaken
            event(305, "recovery:packet_lost"),
        )
    )
    early = {
        "srtt_ms": 20.5,
        "cwnd_bytes": 12000,
        "inflight_bytes": 3000,
        "pacing_mbps": 8,
        "lost_packets": 1,
    }
    marks = {"ect0_packets": 20, "ect1_packets": 0, "ce_packets": 4}
    late = early | {"cwnd_bytes": 6000, "lost_packets": 2} | marks
    assert found == [QlogSample(300, early), QlogSample(600, late)]


@pytest.mark.parametrize(
    ("times", "time_format"),
    [
        ((0, 250), "relative"),
        ((0, 250), "delta"),
        ((0, 250), "relative_to_previous_event"),
        ((1_700_000_000_000, 1_700_000_000_250), "absolute"),
    ],
)
def test_forms_of_times(times: tuple[int, int], time_format: str) -> None:
    head = HEAD | {"trace": {"common_fields": {"time_format": time_format}}}
    events = (event(time, "recovery:metrics_updated", smoothed_rtt=20) for time in times)
    assert [sample.at_ms for sample in read(log(*events, head=head))] == [200, 500]


@pytest.mark.parametrize("epoch_ms", [0, 1_700_000_000_000])
def test_times_begin_at_the_first_event_even_one_of_no_use(epoch_ms: int) -> None:
    first = event(epoch_ms, "transport:packet_sent")
    later = event(epoch_ms + 600, "recovery:metrics_updated", smoothed_rtt=20)
    assert [sample.at_ms for sample in read(log(first, later))] == [800]


def test_lines_will_do_and_a_last_record_may_be_cut_short() -> None:
    whole = log(event(1, "recovery:packet_lost"), event(2, "recovery:packet_lost")).replace(b"\x1e", b"")
    assert [sample.values for sample in read(whole)] == [{"lost_packets": 2}]
    for end in range(len(log()), len(whole) - 2):
        assert len(read(whole[:end])) <= 1
    assert read(log()) == []


ENOUGH = event(1, "recovery:packet_lost")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "is empty"),
        (b"\x1e{", "is not JSON, record 1"),
        (b"\x1e[]", "is not a sequence of objects, record 1"),
        (log(head={"qlog": 1}), "is not a qlog: its first record states no version"),
        (log() + b"\x1epacket_lost\n" + log(ENOUGH)[len(log()) :], "is not JSON, record 2"),
        (b"\x1e" + b"[" * 100_000 + b"\x1e", "is not JSON, record 1"),
        (log(event(-1, "recovery:packet_lost")), "has a time that is not a valid number, record 2"),
        (log(event(True, "recovery:packet_lost")), "has a time that is not a valid number, record 2"),
        (log(event(11_001, "recovery:packet_lost")), "has an event at 11.001 s of a flow of 1 s, record 2"),
        (
            log(event(1, "recovery:metrics_updated", smoothed_rtt=0.0203)),
            "has a smoothed RTT of 0.0203 ms, and the path alone takes 10 ms, record 2",
        ),
        (
            log(event(1, "recovery:metrics_updated", smoothed_rtt="20")),
            "has a smoothed_rtt that is not a valid number, record 2",
        ),
        (
            log(event(1, "recovery:metrics_updated", congestion_window=10**400)),
            "has a congestion_window that is not a valid number, record 2",
        ),
        (
            log(event(1, "recovery:metrics_updated", bytes_in_flight=float("nan"))),
            "has a bytes_in_flight that is not a valid number, record 2",
        ),
        (log(ack(1, ce=[])), "has a ce that is not a valid number, record 2"),
    ],
)
def test_bad_logs(content: bytes, message: str) -> None:
    with pytest.raises(BadRawError) as raised:
        read(content)
    assert str(raised.value) == message


def test_what_is_of_no_use_is_passed_over() -> None:
    odd: list[Any] = [
        {"name": "packet_lost", "time": 1},
        {"name": "packet_lost", "time": 1, "data": []},
        {"packet_lost": 1, "time": 2},
        event(3, "packet_received", frames={"ack": 1}),
        event(4, "packet_received", frames=[1]),
    ]
    assert read(log(*odd)) == []
