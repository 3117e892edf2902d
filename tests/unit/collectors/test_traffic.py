# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of both traffic tools -> flows and intervals."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import BadRawError
from collectors.reader import parse_result
from collectors.result import Interval, Result, goodput_mbps
from collectors.traffic import parse_flows, parse_intervals
from tests.unit.collectors.conftest import Load, rows


def test_lean_flows(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    receiver = json.loads((trial.raw / "rx-l4s/flow-l4s-0.receiver.json").read_text())
    sender = json.loads((trial.raw / "tx-l4s/flow-l4s-0.sender.json").read_text())

    flows = {row["flow"]: row for row in rows("flows", trial).iter_rows(named=True)}

    assert list(flows) == ["classic-0", "l4s-0"]
    l4s = flows["l4s-0"]
    assert l4s["goodput_whole_mbps"] == pytest.approx(receiver["bytes_received"] * 8 / 3e6)
    assert l4s["goodput_mbps"] == l4s["goodput_whole_mbps"], "no warm-up, so they are the same"
    assert l4s["srtt_minus_base_ms"] == pytest.approx(sum(sender["rtt_samples_us"]) / 3 / 1e3 - 10)
    assert (l4s["cc"], l4s["ecn"], flows["classic-0"]["ecn"]) == ("prague", "accecn", "off")
    assert l4s["delivered_ce_packets"] == sender["delivered_ce"] > 0
    assert (l4s["sender"], l4s["receiver"]) == ("tx-l4s", "rx-l4s")
    assert l4s["seconds"] == 3.0


def test_time_to_connect_has_no_delay(captured: Load, cases: Path) -> None:
    """The first of three samples was taken before there was a round trip, on a path of 1.2 s."""
    trial = captured("lean-dualpi2").ended
    (trial.raw / "sockets.jsonl").write_text((cases / "connecting/sockets.jsonl").read_text())
    sender = json.loads((cases / "connecting/flow-l4s-0.sender.json").read_text())
    (trial.raw / "tx-l4s/flow-l4s-0.sender.json").write_text(json.dumps(sender))
    assert sender["rtt_samples_us"] == [0, 1_200_000, 1_202_471]
    flow = rows("flows", trial).filter(pl.col("flow") == "l4s-0").row(0, named=True)
    assert flow["srtt_minus_base_ms"] == pytest.approx((1200 + 1202.471) / 2 - 10)
    assert (flow["srtt_samples"], flow["srtt_min_ms"]) == (3, 1200)
    assert rows("intervals", trial).filter(flow="l4s-0")["srtt_ms"].to_list()[:2] == [None, 1200]


def test_quantiles_need_samples(captured: Load) -> None:
    """3 s at 500 ms are 6 samples: no quantile but the least can be said, and the median needs 20."""
    flow = rows("flows", captured("lean-dualpi2").ended).row(0, named=True)
    assert flow["srtt_samples"] in (5, 6)
    assert flow["srtt_min_ms"] > 9.9
    assert flow["srtt_p50_ms"] is None
    assert flow["srtt_p99_ms"] is None


def test_warmup_is_kept_out(captured: Load) -> None:
    trial = captured("lean-codel-warmup").ended
    receiver = json.loads((trial.raw / "rx-l4s/flow-l4s-0.receiver.json").read_text())
    totals = [interval["bytes_received"] for interval in receiver["intervals"]]
    sender = json.loads((trial.raw / "tx-l4s/flow-l4s-0.sender.json").read_text())

    flow = rows("flows", trial).filter(pl.col("flow") == "l4s-0").row(0, named=True)

    assert flow["goodput_mbps"] == pytest.approx((totals[2] - totals[0]) * 8 / 2e6)
    assert flow["goodput_whole_mbps"] == pytest.approx(totals[2] * 8 / 3e6)
    assert flow["srtt_minus_base_ms"] == pytest.approx(sum(sender["rtt_samples_us"][1:]) / 2 / 1e3 - 10)
    intervals = rows("intervals", trial).filter(pl.col("flow") == "l4s-0")
    assert intervals["warmup"].to_list() == [True, False, False]
    assert intervals["t_ms"].to_list() == [1000, 2000, 3000]


@pytest.mark.parametrize("warmup", ["400ms", "500ms"])
def test_an_interval_that_begins_in_the_warmup_is_kept_out(captured: Load, warmup: str) -> None:
    trial = captured("lean-codel-warmup")
    whole, part = trial.having(warmup="1s").ended, trial.having(warmup=warmup).ended
    measured = ["flow", "goodput_mbps", "srtt_minus_base_ms"]
    assert rows("flows", part).select(measured).equals(rows("flows", whole).select(measured))
    assert rows("intervals", part)["warmup"].to_list() == [True, False, False] * 2


def test_intervals_of_iperf3_begin_a_little_beside_whole_seconds(captured: Load) -> None:
    trial = captured("iperf3-fifo").having(warmup="2s")
    listed = json.loads((trial.raw / "rx-l4s/flow-l4s-0.receiver.json").read_text())["intervals"]
    listed[1]["sum"]["end"] = listed[2]["sum"]["start"] = 1.998
    trial.edit("rx-l4s/flow-l4s-0.receiver.json", lambda plain: plain.update(intervals=listed))
    flow = rows("flows", trial.ended).filter(pl.col("flow") == "l4s-0").row(0, named=True)
    last = listed[2]["sum"]
    assert flow["goodput_mbps"] == pytest.approx(last["bytes"] * 8e-6 / (last["end"] - last["start"]))


def test_iperf3_flows(captured: Load) -> None:
    """Published form: the receiver's sum over all the time, the sender's mean RTT over its intervals."""
    trial = captured("iperf3-fifo").ended
    sender = json.loads((trial.raw / "tx-l4s/flow-l4s-0.sender.json").read_text())["end"]

    flow = rows("flows", trial).filter(pl.col("flow") == "l4s-0").row(0, named=True)

    assert flow["goodput_whole_mbps"] == pytest.approx(sender["sum_received"]["bits_per_second"] / 1e6)
    mean_rtt_ms = sender["streams"][0]["sender"]["mean_rtt"] / 1e3
    assert flow["srtt_minus_base_ms"] == pytest.approx(mean_rtt_ms - 10, abs=0.002)
    assert flow["ecn"] == "accecn", "from the samples of its socket: iperf3 does not say"
    assert flow["busy_ms"] > 2500
    assert flow["delivered_packets"] > 0


def test_iperf3_without_the_receivers_file(captured: Load) -> None:
    """As published: the server is a daemon, and only the client's JSON is kept."""
    trial = captured("iperf3-fifo").ended
    before = rows("flows", trial)
    for path in trial.raw.glob("rx-*/flow-*.receiver.json"):
        path.unlink()
    after = rows("flows", trial)
    assert after["goodput_whole_mbps"].to_list() == pytest.approx(before["goodput_whole_mbps"].to_list())
    assert rows("intervals", trial)["goodput_mbps"].null_count() == rows("intervals", trial).height


def test_a_flow_that_left_nothing_is_a_row_of_nulls(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    for path in trial.raw.glob("*/flow-l4s-0.*"):
        path.unlink()
    flow = rows("flows", trial).filter(pl.col("flow") == "l4s-0").row(0, named=True)
    assert flow["goodput_mbps"] is None
    assert flow["cc"] == "prague"


def test_sums_of_intervals_are_the_whole(captured: Load) -> None:
    for name in ("lean-dualpi2", "lean-codel-warmup"):
        trial = captured(name).ended
        flows = rows("flows", trial).select("flow", "received_bytes", "sent_bytes")
        spans = (
            rows("intervals", trial)
            .group_by("flow")
            .agg(
                (pl.col("goodput_mbps") * pl.col("seconds") * 1e6 / 8).sum().alias("received"),
                (pl.col("sent_mbps") * pl.col("seconds") * 1e6 / 8).sum().alias("sent"),
            )
        )
        both = flows.join(spans, on="flow")
        assert both["received"].to_list() == pytest.approx(both["received_bytes"].to_list())
        assert both["sent"].to_list() == pytest.approx(both["sent_bytes"].to_list())


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no-server", "iperf3: unable to connect to server"),
        ("server-killed", "iperf3: control socket has closed unexpectedly"),
        ("client-interrupted", "iperf3: interrupt - the client has terminated by signal Interrupt"),
        ("client-gone", "iperf3: the client has terminated"),
        ("killed", "is empty"),
        ("cut-short", "is cut short"),
    ],
)
def test_failed_iperf3(cases: Path, case: str, message: str) -> None:
    with pytest.raises(BadRawError) as error:
        parse_result((cases / "iperf3" / case / "raw.json").read_text())
    assert message in str(error.value)


def test_captured_udp_of_iperf3(cases: Path) -> None:
    """751 packets of 958 bytes in 2.003 s, which are 1000 bytes in their frames."""
    sender = parse_result((cases / "iperf3/udp-sender/raw.json").read_text())
    receiver = parse_result((cases / "iperf3/udp-receiver/raw.json").read_text())
    assert sender.bytes == receiver.bytes == 751 * 958
    assert sender.frames_mbps == pytest.approx(751 * 8e-3 / 2.002913)
    assert receiver.frames_mbps == pytest.approx(751 * 8e-3 / 2.003063)
    assert (sender.cc, sender.retransmits, len(sender.intervals)) == (None, None, 2)


def test_frames_of_ipv6_are_longer(cases: Path) -> None:
    raw = json.loads((cases / "iperf3/udp-receiver/raw.json").read_text())
    for host, frame_bytes in (("::1", 1020), ("::ffff:127.0.0.1", 1000)):
        raw["start"]["connected"][0]["remote_host"] = host
        assert parse_result(json.dumps(raw)).frames_mbps == pytest.approx(751 * frame_bytes * 8e-6 / 2.003063)
    counted = {"not_ect": 100, "ect1": 0, "ect0": 0, "ce": 0}
    lean = {"role": "counter", "seconds": 1.0, "payload": 938, "packets_received": counted, "intervals": []}
    assert parse_result(json.dumps({**lean, "ipv6": True})).frames_mbps == pytest.approx(0.8)
    assert parse_result(json.dumps({**lean, "payload": 958})).frames_mbps == pytest.approx(0.8)


def test_packets_that_iperf3_missed_did_not_arrive(cases: Path) -> None:
    raw = json.loads((cases / "iperf3/udp-receiver/raw.json").read_text())
    raw["end"]["sum_received"].update(lost_packets=51, bytes=700 * 958)
    assert parse_result(json.dumps(raw)).frames_mbps == pytest.approx(700 * 8e-3 / 2.003063)


def test_captured_iperf3(cases: Path) -> None:
    sender = parse_result((cases / "iperf3/sender/raw.json").read_text())
    receiver = parse_result((cases / "iperf3/receiver/raw.json").read_text())
    assert (sender.cc, sender.mss_bytes, sender.retransmits) == ("dctcp", 1448, 0)
    assert len(sender.intervals) == len(receiver.intervals) == 6
    assert sender.far is not None
    assert (sender.far.bytes, receiver.bytes) == (12582912, 12582912)
    assert receiver.seconds == pytest.approx(6.017938)
    assert sender.intervals[0].cwnd_packets == pytest.approx(24)
    assert sender.intervals[0].srtt_ms == pytest.approx(16.467)
    assert (sender.ecn, sender.busy_ms) == (None, None)


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"role": "sender"}', '{"role": "receiver", "seconds": 1}', "nonsense", "7"]
)
def test_no_result(text: str) -> None:
    with pytest.raises(BadRawError):
        parse_result(text)


@pytest.mark.parametrize("name", ["lean-dualpi2", "iperf3-fifo"])
@given(share=st.floats(0.01, 0.99))
def test_no_part_of_a_result_is_taken_for_one(cases: Path, name: str, share: float) -> None:
    text = (cases / "trials" / name / "raw/tx-l4s/flow-l4s-0.sender.json").read_text().strip()
    with pytest.raises(BadRawError):
        parse_result(text[: int(len(text) * share)])


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.floats(0, 25))
def test_goodput_is_of_intervals_that_begin_after_the_warmup(sizes: list[int], warmup_s: float) -> None:
    spans = tuple(Interval(float(i), i + 1.0, size) for i, size in enumerate(sizes))
    result = Result("lean", float(len(sizes)), sum(sizes), spans)
    kept = [size for i, size in enumerate(sizes) if i >= warmup_s - 0.1]
    expected = sum(kept) * 8 / len(kept) / 1e6 if kept else None
    assert goodput_mbps(result.after(warmup_s)) == (pytest.approx(expected) if kept else None)


def test_trials_without_flows_give_no_rows(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    object.__setattr__(trial, "programs", {})
    assert parse_flows(trial) is None
    assert parse_intervals(trial) is None
