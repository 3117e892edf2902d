# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of sockets, by netlink and as text of ss."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from collectors import BadRawError
from collectors.sockets import parse_sockets, parse_ss_text
from collectors.ss import parse_ss
from tests.unit.collectors.conftest import Load


def test_netlink_samples(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    found = parse_sockets(trial)
    assert found is not None
    assert sorted(found.select("node", "flow", "side").unique().rows()) == [
        ("rx-classic", "classic-0", "receiver"),
        ("rx-l4s", "l4s-0", "receiver"),
        ("tx-classic", "classic-0", "sender"),
        ("tx-l4s", "l4s-0", "sender"),
    ]
    last = found.filter(pl.col("node") == "tx-l4s").row(-1, named=True)
    assert (last["cc"], last["ecn"], last["state"]) == ("prague", "accecn", "ESTAB")
    assert 9.9 < last["min_rtt_ms"] < last["srtt_ms"] < 60
    assert 0 < last["alpha"] <= 1
    assert last["acked_bytes"] > 100_000
    assert 0.1 < last["pacing_mbps"] < 40
    first = found.filter(pl.col("node") == "tx-classic").row(0, named=True)
    assert first["ecn"] == "off"


def test_what_prague_tells_of_itself(captured: Load, cases: Path) -> None:
    trial = captured("lean-dualpi2").ended
    (trial.raw / "sockets.jsonl").write_text((cases / "prague/sockets.jsonl").read_text())
    found = parse_sockets(trial)
    assert found is not None
    last = found.filter(pl.col("node") == "tx-l4s").row(-1, named=True)
    assert (last["prague_mode"], last["prague_packet_bytes"], last["mss_bytes"]) == ("window", 1500, 1448)
    by_window = last["prague_frac_cwnd_packets"] * 1500 * 8 / last["srtt_ms"] / 1000
    assert last["prague_rate_mbps"] == pytest.approx(by_window, rel=0.001)
    assert 0 < last["prague_fallback_score"] <= 17
    assert 10 <= last["prague_fallback_rtt_ms"] < 20
    assert 0 < last["prague_fallback_mdev_ms"] < 5
    assert 0 < last["alpha"] < 1


def test_no_round_trip_is_sampled_while_connecting(captured: Load, cases: Path) -> None:
    """The kernel reports 0 until then, on a path of 1.2 s, and a deviation of 250 ms that it assumes."""
    trial = captured("lean-dualpi2").ended
    (trial.raw / "sockets.jsonl").write_text((cases / "connecting/sockets.jsonl").read_text())
    found = parse_sockets(trial)
    assert found is not None
    of_rtt = found.select("state", "srtt_ms", "rttvar_ms", "min_rtt_ms").rows()
    assert of_rtt[:2] == [("SYN-SENT", None, None, None)] * 2
    assert of_rtt[2] == ("ESTAB", 1200, 600, 1200)
    assert found["delivery_mbps"].null_count() == 4, "the first sample came after 2.3 s"
    assert (found["delivery_mbps"].drop_nulls() > 0).all()


def test_rows_are_in_order_and_unique(captured: Load) -> None:
    found = parse_sockets(captured("iperf3-fifo").ended)
    assert found is not None
    keys = found.select("node", "flow", "t_ms").rows()
    assert keys == sorted(set(keys))


def test_the_control_connection_of_iperf3_is_left_out(captured: Load) -> None:
    """It has the flow's port too, and carries a few hundred bytes."""
    trial = captured("iperf3-fifo").ended
    ports = pl.read_ndjson(trial.raw / "sockets.jsonl").filter(pl.col("rport") == 5001)["lport"].n_unique()
    assert ports == 2, "the case has both connections"
    found = parse_sockets(trial)
    assert found is not None
    sender = found.filter((pl.col("flow") == "l4s-0") & (pl.col("side") == "sender"))
    assert sender["acked_bytes"][-1] > 100_000
    assert sender["acked_bytes"].is_sorted()


def test_ss_names_and_units(cases: Path) -> None:
    """Against what the captured lines say."""
    row = list(parse_ss((cases / "ss/dctcp-accecn/ss.txt").read_text()))[-1]
    assert row["t_ms"] == 3000
    assert (row["lport"], row["rport"], row["state"], row["cc"]) == (34532, 5001, "ESTAB", "dctcp")
    assert (row["rtt"], row["rttvar"], row["min_rtt"]) == (17516, 83, 10000)
    assert (row["snd_cwnd"], row["snd_ssthresh"], row["snd_mss"], row["unacked"]) == (28, 28, 1448, 28)
    assert (row["bytes_sent"], row["bytes_acked"]) == (6087241, 6047034)
    assert (row["delivered"], row["delivered_ce"], row["total_retrans"]) == (4213, 253, 0)
    assert row["pacing_rate"] == 22220800 // 8
    assert row["delivery_rate"] == round(18467912 / 8)
    assert (row["busy_time"], row["rwnd_limited"], row["alpha"]) == (2950000, 0, 73)
    assert row["options"] == 1 | 2 | 8 | 16


def test_ss_of_bbr_with_retransmissions(cases: Path) -> None:
    row = list(parse_ss((cases / "ss/bbr/ss.txt").read_text()))[-1]
    assert (row["cc"], row["total_retrans"], row["bytes_acked"]) == ("bbr", 40, 5222770)
    assert "alpha" not in row


def test_ss_of_a_program_that_limits_its_pacing_rate(cases: Path) -> None:
    (row,) = parse_ss((cases / "ss/paced/ss.txt").read_text())
    assert (row["cc"], row["pacing_rate"]) == ("bbr", 20_000_000 // 8)


def test_ss_of_a_connection_that_is_not_yet(cases: Path) -> None:
    rows = list(parse_ss((cases / "ss/dctcp-accecn/ss.txt").read_text()))
    assert rows[0]["state"] == "SYN-SENT"
    assert rows[0]["cc"] == "cubic"


def test_ss_of_limited_flows_and_rates_with_letters() -> None:
    line = (
        "ESTAB 0 0 10.0.0.1:1 10.0.0.2:5001 cubic rto:204 rtt:1.5/2 mss:1448 cwnd:10 send 13.1Mbps "
        "pacing_rate 26.2Mbps delivery_rate 900Kbps busy:1000ms rwnd_limited:31ms(3.1%) "
        "sndbuf_limited:2ms(0.2%)"
    )
    row = next(parse_ss(f"@ 100\n{line}\n"))
    assert (row["busy_time"], row["rwnd_limited"], row["sndbuf_limited"]) == (1_000_000, 31_000, 2_000)
    assert (row["pacing_rate"], row["delivery_rate"]) == (3_275_000, 112_500)
    assert (row["cc"], row["options"]) == ("cubic", 0)


def test_ss_as_a_table(captured: Load, cases: Path) -> None:
    """What ss prints gives the columns that netlink gives."""
    trial = captured("lean-dualpi2").ended
    (trial.raw / "sockets.jsonl").unlink()
    (trial.raw / "tx-l4s/ss.txt").write_text((cases / "ss/dctcp-accecn/ss.txt").read_text())
    (trial.raw / "rx-l4s/ss.txt").write_text((cases / "ss/receiver/ss.txt").read_text())
    found = parse_ss_text(trial)
    assert found is not None
    sender = found.filter(pl.col("side") == "sender").row(-1, named=True)
    assert (sender["flow"], sender["t_ms"], sender["ecn"]) == ("l4s-0", 3000, "on")
    assert sender["srtt_ms"] == pytest.approx(17.516)
    assert sender["pacing_mbps"] == pytest.approx(22.2208)
    assert sender["alpha"] == pytest.approx(73 / 1024)
    receiver = found.filter(pl.col("side") == "receiver").row(-1, named=True)
    assert receiver["received_bytes"] == 6058521


@pytest.mark.parametrize(
    "text",
    [
        "ESTAB 0 0 10.0.0.1:1 10.0.0.2:5001 cubic\n",
        "@ soon\n",
        "@ 0\nnonsense\n",
        "@ 0\nESTAB 0 0 10.0.0.1:1 10.0.0.2:5001 rtt:fast/slow\n",
    ],
)
def test_what_is_no_ss(text: str) -> None:
    with pytest.raises(BadRawError):
        list(parse_ss(text))


def test_a_cut_last_line_is_dropped(cases: Path) -> None:
    """The sampler is killed when the flows have ended."""
    text = (cases / "ss/bbr/ss.txt").read_text()
    whole = list(parse_ss(text))
    cut = list(parse_ss(text[: text.rindex("delivered:") + 4]))
    assert len(cut) in (len(whole) - 1, len(whole))
    assert cut[:-1] == whole[: len(cut) - 1]


def test_damaged_netlink_samples(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    path = trial.raw / "sockets.jsonl"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(BadRawError, match=r"sockets\.jsonl"):
        parse_sockets(trial)


def test_samples_of_a_minute_are_all_parsed(captured: Load) -> None:
    """2,400 rows: 60 s, every 100 ms, two flows, both ends."""
    trial = captured("lean-dualpi2").ended
    path = trial.raw / "sockets.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"rport":500' in line or '"lport":500' in line]
    some = [line.partition(",")[2] for line in lines]
    path.write_text("".join(f'{{"t_ms":{i // 4 * 100},{some[i % len(some)]}\n' for i in range(2400)))
    parsed = parse_sockets(trial)
    assert parsed is not None
    assert parsed.height == 2400
