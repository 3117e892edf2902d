# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flow groups in the kernel: what they send, when, and what the tables say about it."""

from __future__ import annotations

import gzip
import json
import socket
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.disk.workloads import workload
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.traffic.family import Family
from reports.result.connections import slowdowns
from reports.result.load import RunTables

pytestmark = pytest.mark.lab

SYN = 2

HEAD = """\
matrix: m
rate: 10mbit
rtt: 20ms
trials: 1
expect.bottleneck: false
rule: none
"""


def ran(folder: Path, text: str, **options: Any) -> tuple[RunTables, Path]:
    matrix = folder / "m.yaml"
    head = HEAD.replace("rate: 10mbit\n", "") if "\nrate:" in text else HEAD
    matrix.write_text(head + (text if "aqm:" in text else f"aqm: fifo\n{text}"))
    ended = api.run(matrix, runs=folder / "runs", **options)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"] * tables.trials.height, tables.trials[
        "reasons"
    ].to_list()
    return tables, ended.path


@dataclass(frozen=True)
class Packet:
    """A captured packet of IPv4."""

    t_s: float
    protocol: int
    ecn: int
    frame_bytes: int
    port: int
    flags: int
    """Of TCP."""


def packets(run: Path, port: int) -> list[Packet]:
    """Return what arrived before the bottleneck's queue for this port; read without the project's reader."""
    (capture,) = run.glob("cells/*/1-*/raw/router/net-mid.pcap.gz")
    (start,) = run.glob("cells/*/1-*/raw/start.json")
    t0_ns = json.loads(start.read_text())["t0_ns"]
    data, at, found = gzip.decompress(capture.read_bytes()), 24, []
    while at < len(data):
        seconds, ns, kept, length = struct.unpack_from("<IIII", data, at)
        frame, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        (to,) = struct.unpack_from("!H", frame, 36)
        if to == port:
            t_s = (seconds * 10**9 + ns - t0_ns) / 1e9
            flags = frame[47] if frame[23] == socket.IPPROTO_TCP else 0
            found.append(Packet(t_s, frame[23], frame[15] & 3, length, to, flags))
    return found


@pytest.mark.parametrize(("codepoint", "code"), [("not-ect", 0), ("ect1", 1), ("ect0", 2)])
def test_a_paced_flow_sends_its_rate_with_its_codepoint(
    lab: Lab, tmp_path: Path, codepoint: str, code: int
) -> None:
    tables, run = ran(
        tmp_path,
        f"duration: 5s\nflows: {{udp: {{send: paced, rate: 3mbit, size: 958B, codepoint: {codepoint}}}}}\n",
        capture=True,
    )
    (flow,) = tables.flows.iter_rows(named=True)
    assert (flow["send"], flow["cc"], flow["ecn"]) == ("paced", None, None)
    assert flow["offered_mbps"] == pytest.approx(3, abs=8e-3 / 5)
    assert flow["arrived_mbps"] == pytest.approx(3, rel=0.005)  # the last packets are under way
    assert flow["goodput_mbps"] == pytest.approx(3 * 958 / 1000, rel=0.005)
    seen = packets(run, 5001)
    assert {(p.protocol, p.ecn, p.frame_bytes) for p in seen} == {(17, code, 1000)}
    assert len(seen) * 8000 / 5e6 == pytest.approx(3, rel=0.002)
    gaps_ms = [(b.t_s - a.t_s) * 1e3 for a, b in pairwise(seen)]
    noise_ms = 1514 * 8 / 10e6 * 1e3  # path.noise: up to a packet time at the bottleneck
    assert all(abs(gap - 8 / 3) <= noise_ms + 0.01 for gap in gaps_ms)
    assert sum(gaps_ms) / len(gaps_ms) == pytest.approx(8 / 3, rel=0.001)


@pytest.mark.parametrize(
    ("rate_mbps", "codepoint", "code"),
    [(9.8, "ect0", "ect0"), (4, "ect1", "ect1"), (2, "not-ect", "not_ect")],
)
def test_a_flood_of_syns_has_its_rate_and_codepoint(
    lab: Lab, tmp_path: Path, rate_mbps: float, codepoint: str, code: str
) -> None:
    flood = f"{{send: syn-flood, rate: {rate_mbps}mbit, codepoint: {codepoint}, start: 1s}}"
    tables, run = ran(tmp_path, f"aqm: dualpi2\nduration: 3s\nflows: {{flood: {flood}}}\n")
    (flow,) = tables.flows.iter_rows(named=True)
    assert flow["offered_mbps"] == pytest.approx(rate_mbps, rel=1e-4)
    assert flow["arrived_mbps"] == pytest.approx(rate_mbps, rel=0.02)
    (counted,) = run.glob("cells/*/1-*/raw/rx*/flow-flood-0.receiver.json")
    by_codepoint = json.loads(counted.read_text())["packets_received"]
    assert by_codepoint[code] > 0.98 * sum(by_codepoint.values())  # the queue marks some
    assert by_codepoint[code] + by_codepoint["ce"] == sum(by_codepoint.values())
    # the queue's own counters: nothing before the flood's start, then SYNs, all of them of one class
    queue = tables.queues.filter(pl.col("kind") == "dualpi2")
    names = ("sent_packets", "sent_bytes", "classic_packets", "l4s_packets")
    before = queue.filter(pl.col("t_ms") < 1000)
    assert before["sent_packets"].n_unique() == 1
    count, size, classic, l4s = (queue[name][-1] - before[name][-1] for name in names)
    assert size == pytest.approx(Family.IPV4.syn_bytes * count, abs=200)  # of the path itself
    own, other = (l4s, classic) if code == "ect1" else (classic, l4s)
    assert own == pytest.approx(count, abs=200)  # what it dropped entered too, what it holds has not left
    assert other < 5  # packets of the path itself


def test_marks_of_a_paced_flow_are_counted(lab: Lab, tmp_path: Path) -> None:
    """CoDel marks ECT(1) at 1 ms; UDP above the link's rate keeps the queue above that."""
    marking = "aqm: fifo-ecn\naqm.ce_threshold: 1ms\n"
    tables, _ = ran(
        tmp_path,
        f"{marking}duration: 3s\nflows: {{udp: {{send: paced, rate: 12mbit, codepoint: ect1}}}}\n",
    )
    (flow,) = tables.flows.iter_rows(named=True)
    marks = tables.queues.filter(pl.col("kind") == "codel")["marks_packets"].max()
    assert flow["arrived_mbps"] == pytest.approx(10, rel=0.02)
    assert 1000 < flow["delivered_ce_packets"] <= flow["delivered_packets"]
    assert flow["delivered_ce_packets"] == pytest.approx(marks, rel=0.05)


@pytest.mark.parametrize("cc", ["cubic", "bbr1"])
def test_a_flow_of_given_bytes_ends_when_they_have_arrived(lab: Lab, tmp_path: Path, cc: str) -> None:
    tables, _ = ran(tmp_path, f"duration: 30s\nflows: {{one: {{cc: {cc}, bytes: 5MB}}}}\n")
    (flow,) = tables.flows.iter_rows(named=True)
    link_s = 5e6 / (10e6 / 8 * 1448 / 1514)
    assert flow["received_bytes"] == flow["sent_bytes"] == 5_000_000
    assert link_s + 0.03 < flow["completed_ms"] / 1e3 < 1.1 * link_s + 0.5
    assert flow["seconds"] == pytest.approx(
        flow["completed_ms"] / 1e3, abs=0.02
    )  # the end reaches the sender
    assert flow["goodput_mbps"] == pytest.approx(40e3 / flow["completed_ms"], rel=1e-3)
    last = tables.intervals.row(-1, named=True)
    assert last["t_ms"] == pytest.approx(flow["completed_ms"], abs=1)


def test_a_flow_whose_bytes_do_not_arrive_in_time_has_no_completion_time(lab: Lab, tmp_path: Path) -> None:
    tables, _ = ran(tmp_path, "duration: 3s\nflows: {one: {cc: cubic, bytes: 50MB}}\n")
    (flow,) = tables.flows.iter_rows(named=True)
    assert flow["completed_ms"] is None
    assert flow["seconds"] == 3
    assert flow["goodput_mbps"] == pytest.approx(9, abs=0.6)


def test_flows_start_at_intervals_and_end_with_their_lifetime_or_stop(lab: Lab, tmp_path: Path) -> None:
    groups = "{a: {cc: cubic, count: 3, every: 1500ms, lifetime: 4s}, b: {cc: reno, start: 1s, stop: 5s}}"
    tables, _ = ran(tmp_path, f"duration: 20s\nflows: {groups}\n")
    flows = {row["flow"]: row for row in tables.flows.iter_rows(named=True)}
    starts = [flows[f"a-{index}"]["start_ms"] for index in range(3)]
    assert 0 <= starts[0] < 1000
    assert [start - starts[0] for start in starts] == [0, 1500, 3000]
    assert [flows[f"a-{index}"]["seconds"] for index in range(3)] == [4, 4, 4]
    assert flows["b-0"]["start_ms"] + flows["b-0"]["seconds"] * 1e3 == pytest.approx(5000, abs=0.001)
    sending = tables.sockets.filter((pl.col("side") == "sender") & (pl.col("state") == "ESTAB"))
    ends = dict(sending.group_by("flow").agg(pl.col("t_ms").max()).iter_rows())
    for name, row in flows.items():
        assert ends[name] == pytest.approx(row["start_ms"] + row["seconds"] * 1e3, abs=210), name


def test_a_group_has_its_own_round_trip_time(lab: Lab, tmp_path: Path) -> None:
    groups = "{near: {cc: reno, bytes: 50kB}, far: {cc: reno, bytes: 50kB, rtt: 80ms, start: 3s}}"
    tables, _ = ran(tmp_path, f"duration: 3s\nflows: {groups}\n")
    lowest = (
        tables.sockets.filter(pl.col("side") == "sender").group_by("group").agg(pl.col("min_rtt_ms").min())
    )
    found = dict(lowest.iter_rows())
    assert found["near"] == pytest.approx(20, abs=2.5)  # a packet takes 1.2 ms, as long as the noise at most
    assert found["far"] == pytest.approx(80, abs=2.5)
    delay = tables.flows.select("group", "srtt_minus_base_ms").rows()
    assert all(0 <= ms < 20 for _, ms in delay), delay


def test_requests_have_their_times(lab: Lab, tmp_path: Path) -> None:
    """Alone they take two round trips; behind a full queue of 40 ms that much longer."""
    mice = "mice: {send: requests, cc: reno, period: 100ms, size: 50B"
    tables, _ = ran(tmp_path, f"duration: 5s\nflows: {{{mice}}}}}\n")
    alone = tables.requests
    assert alone.height == 50
    assert alone["t_ms"].diff().drop_nulls().to_list() == pytest.approx([100] * 49, abs=0.01)
    assert (alone["handshake_ms"] - 20).is_between(0, 2).all()
    assert (alone["response_ms"] - 40).is_between(0, 4).all()
    (flow,) = tables.flows.iter_rows(named=True)
    assert (flow["connections"], flow["received_bytes"]) == (50, 50 * 50)
    (tmp_path / "busy").mkdir()
    bulk = "bulk: {cc: cubic}"
    busy, _ = ran(
        tmp_path / "busy", f"duration: 10s\nbuffer_bdp: 2\nflows: {{{bulk}, {mice}, start: 4s, stop: 9s}}}}\n"
    )
    late = busy.requests["handshake_ms"].median()
    assert isinstance(late, float)
    assert 32 < late < 62


def test_pages_load_their_objects_on_a_few_connections(lab: Lab, tmp_path: Path) -> None:
    """Alone, nine objects follow one another on a connection: ten round trips, and the time for 75 kB."""
    page = "page: {send: pages, cc: cubic, period: 1s, size: 1500B}"
    tables, _ = ran(tmp_path, f"duration: 5s\nflows: {{{page}}}\n")
    assert tables.requests.height == 5
    assert tables.requests["t_ms"].diff().drop_nulls().to_list() == pytest.approx([1000] * 4, abs=0.01)
    assert (tables.requests["handshake_ms"] - 20).is_between(0, 3).all()
    sent_ms = 50 * 2 * 1_514 * 8e-4 / 1
    assert (tables.requests["response_ms"] - 200).is_between(0, sent_ms).all()
    assert (tables.requests["fair_ms"] >= tables.requests["response_ms"]).all()
    assert tables.requests["payload_bytes"].to_list() == [75_000] * 5
    (flow,) = tables.flows.iter_rows(named=True)
    assert (flow["connections"], flow["received_bytes"]) == (5 * 6, 5 * 75_000)


def test_a_page_behind_a_full_queue_is_slow(lab: Lab, tmp_path: Path) -> None:
    page = "page: {send: pages, cc: cubic, period: 2s, size: 1500B, objects: 5, connections: 8, start: 3s}"
    tables, _ = ran(tmp_path, f"duration: 20s\nbuffer_bdp: 4\nflows: {{bulk: {{cc: cubic}}, {page}}}\n")
    (slowdown,) = slowdowns(tables)["slowdown"]
    assert 2 < slowdown < 6
    (flow,) = tables.flows.filter(group="page").iter_rows(named=True)
    assert flow["connections"] == 5 * tables.requests.height, "no more connections than objects"


def test_a_flood_of_connections_carries_its_rate(lab: Lab, tmp_path: Path) -> None:
    tables, run = ran(
        tmp_path,
        "duration: 3s\nflows: {flood: {send: connect-flood, cc: reno, rate: 4mbit, size: 50B}}\n",
        capture=True,
    )
    (flow,) = tables.flows.iter_rows(named=True)
    expected = 4e6 * 3 / 8 / (388)
    assert flow["connections"] == pytest.approx(expected, rel=0.01)
    assert flow["received_bytes"] == pytest.approx(50 * expected, rel=0.03)
    seen = packets(run, 5001)
    assert sum(p.frame_bytes for p in seen) * 8 / 3e6 == pytest.approx(4, rel=0.03)


def test_a_flood_beyond_the_link_gives_up_what_is_not_answered(lab: Lab, tmp_path: Path) -> None:
    """No SYN is sent again, and ports of connections that were given up are free."""
    flood = "{send: connect-flood, cc: reno, rate: 8mbit, size: 50B}"
    _, run = ran(tmp_path, f"duration: 3s\nrate: 2mbit\nflows: {{flood: {flood}}}\n", capture=True)
    (sender,) = run.glob("cells/*/1-*/raw/tx*/flow-flood-0.sender.json")
    told = json.loads(sender.read_text())
    assert told["opened"] > 7000
    assert told["unopened"] == 0
    assert told["failed"] > told["ended"] > 1000
    # what was opened in the last 0.9 s may still wait
    assert told["opened"] - told["failed"] - told["ended"] < 0.9 / 3 * told["opened"] + 10
    assert sum(1 for p in packets(run, 5001) if p.flags & SYN) == told["opened"]


def test_a_workload_has_its_sizes_and_its_load(lab: Lab, tmp_path: Path) -> None:
    """At 40 % of the link short connections end after two round trips and long ones need the link's time."""
    group = "{send: workload, cc: cubic, workload: facebook-hadoop, load: 40%}"
    tables, _ = ran(tmp_path, f"duration: 60s\nflows: {{many: {group}}}\n")
    found = tables.requests
    offered = int(found["payload_bytes"].sum()) * 8 / 60e6
    assert 2 < offered < 7  # of some 800 sizes the largest few decide
    assert tables.flows["connections"].to_list() == [found.height]
    assert found.height == pytest.approx(
        60 * 0.4 * 10e6 / 8 / workload("facebook-hadoop").sizes.mean_bytes, rel=0.15
    )
    assert (found["payload_bytes"] <= 700).mean() == pytest.approx(0.5, abs=0.06)
    ended = found.filter(pl.col("response_ms").is_not_null())
    assert ended.height >= 0.95 * found.height
    assert ended["response_ms"].min() == pytest.approx(40, abs=3)
    fastest_ms = ended["payload_bytes"] * 8 / 10e6 * 1e3
    assert (ended["response_ms"] > fastest_ms).all()
    arrived = tables.flows["received_bytes"].item()
    assert ended["payload_bytes"].sum() <= arrived <= found["payload_bytes"].sum()


def test_a_workload_that_draws_no_connection(lab: Lab, tmp_path: Path) -> None:
    group = "{send: workload, cc: cubic, workload: facebook-hadoop, load: 0.0001%}"
    tables, _ = ran(tmp_path, f"duration: 2s\nflows: {{none: {group}, classic: {{cc: cubic}}}}\n")
    none = tables.flows.row(by_predicate=pl.col("group") == "none", named=True)
    assert (none["connections"], none["received_bytes"], none["goodput_mbps"]) == (0, 0, 0)
    assert tables.trials["flags"].item() is None
    assert not tables.requests.height
