# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packets of a real trial: three seconds of Prague and CUBIC on 1 Mbit/s, with losses and marks."""

import csv
import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from typing import Any

import polars as pl
import pytest

from collectors.packetflows import parse_packet_flows
from collectors.packets import parse_packets
from collectors.trialrows import rows_of
from l4sbench import tables
from l4sbench.program import FlowRun
from tests.captured import CapturedTrial
from tests.unit.collectors.conftest import Load

CASE = "captured-dualpi2"


@pytest.fixture
def trial(captured: Load) -> CapturedTrial:
    return captured(CASE)


def packets_of(trial: CapturedTrial) -> pl.DataFrame:
    frames, problems = rows_of(trial.ended)
    assert not problems
    return tables.conform("packets", frames["packets"])


def flows_of(trial: CapturedTrial) -> dict[str, dict[str, Any]]:
    frames, problems = rows_of(trial.ended)
    assert not problems
    return {row["flow"]: row for row in tables.conform("packet_flows", frames["packet_flows"]).to_dicts()}


def sent(trial: CapturedTrial, group: str) -> dict[str, int]:
    path = trial.raw / f"tx-{group}" / f"flow-{group}-0.sender.json"
    found: dict[str, int] = json.loads(path.read_text())
    return found


def runs(trial: CapturedTrial) -> dict[str, FlowRun]:
    return {run.flow: run for program in trial.programs.values() for run in program.flows}


@pytest.mark.parametrize("group", ["l4s", "classic"])
def test_counts_are_those_of_the_sender(trial: CapturedTrial, group: str) -> None:
    row, told = flows_of(trial)[f"{group}-0"], sent(trial, group)
    assert row["retransmits_packets"] == told["retransmits"] > 20
    assert row["ce_packets"] == pytest.approx(told["delivered_ce"], abs=1)  # a mark on its way at the end
    assert row["data_packets"] == pytest.approx(told["data_segs_out"], abs=1)  # in flight at the end


def test_losses_are_those_of_the_queue(trial: CapturedTrial, cases: Path) -> None:
    """The flows go on sending what they hold for a second after their end, and one FIN is lost too."""
    shown = json.loads((trial.raw / "router" / "qdisc-net-rx.json").read_text())
    (drops,) = [qdisc["drops"] for qdisc in shown if qdisc["kind"] == "dualpi2"]
    without_payload = [
        {
            (row["tcp.srcport"], row["ip.id"])
            for row in read_tsv(cases / "pcap" / f"{side}.tsv")
            if row["tcp.len"] == "0"
        }
        for side in ("net-mid", "net-rx")
    ]
    packets = packets_of(trial)
    assert packets["lost"].sum() == packets["sojourn_ms"].null_count() > 60
    assert packets["lost"].sum() + len(without_payload[0] - without_payload[1]) == drops
    in_time = sum(row["lost_packets"] for row in flows_of(trial).values())
    assert 50 < in_time < packets["lost"].sum()


def test_sojourn_by_hand(trial: CapturedTrial, cases: Path) -> None:
    """Every packet looked up in tshark's reading of both sides, one by one."""
    arrived = list(read_tsv(cases / "pcap" / "net-mid.tsv"))
    left = {
        (r["tcp.srcport"], r["ip.id"], r["tcp.seq_raw"]): r for r in read_tsv(cases / "pcap" / "net-rx.tsv")
    }
    expected: dict[str, list[tuple[float | None, bool | None]]] = {"5001": [], "5002": []}
    for row in arrived:
        if row["tcp.len"] == "0":
            continue
        out = left.get((row["tcp.srcport"], row["ip.id"], row["tcp.seq_raw"]))
        port = row["tcp.dstport"]
        if out is None:
            expected[port].append((None, None))
            continue
        ns = [int(r["frame.time_epoch"].replace(".", "")) for r in (row, out)]
        mark = out["ip.dsfield.ecn"] == "3" and row["ip.dsfield.ecn"] != "3"
        expected[port].append(((ns[1] - ns[0]) / 1e6, mark))
    packets = packets_of(trial)
    for flow, port in (("l4s-0", "5001"), ("classic-0", "5002")):
        own = packets.filter(pl.col("flow") == flow)
        assert own["packet"].to_list() == list(range(1, len(expected[port]) + 1))
        assert own["marked"].to_list() == [mark for _, mark in expected[port]]
        for ours, (theirs, _) in zip(own["sojourn_ms"], expected[port], strict=True):
            assert ours == (None if theirs is None else pytest.approx(theirs, abs=1e-4))


def read_tsv(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t")


def test_measures_of_a_flow(trial: CapturedTrial) -> None:
    """Against sums over the table of packets."""
    packets, flows = packets_of(trial), flows_of(trial)
    for flow, row in flows.items():
        end_ms = runs(trial)[flow].start.ms + 3000
        own = packets.filter((pl.col("flow") == flow) & (pl.col("t_ms") <= end_ms))
        assert row["length_mean_bytes"] == pytest.approx(own["ip_bytes"].mean())
        out = own.filter(pl.col("sojourn_ms").is_not_null())
        assert row["sojourn_samples"] == out.height
        assert row["sojourn_p50_ms"] == pytest.approx(out["sojourn_ms"].median(), abs=1e-4)
        assert row["throughput_mbps"] == pytest.approx(float(out["ip_bytes"].sum()) * 8e-6 / 3, rel=0.01)
        assert row["gap_mean_ms"] == pytest.approx(3e3 / out.height, rel=0.1)
        assert row["packets_per_rtt"] == pytest.approx(own.height * row["rtt_mean_ms"] / 3e3)
    assert flows["classic-0"]["length_sd_bytes"] == 0
    assert flows["l4s-0"]["length_sd_bytes"] > 100


def test_gaps_between_acks(trial: CapturedTrial, cases: Path) -> None:
    """Against the times of pure ACKs in tshark's reading."""
    flows = flows_of(trial)
    t0_ns = json.loads((trial.raw / "start.json").read_text())["t0_ns"]
    for flow, port in (("l4s-0", "5001"), ("classic-0", "5002")):
        start_ms = runs(trial)[flow].start.ms
        at_ms = [
            (int(row["frame.time_epoch"].replace(".", "")) - t0_ns) / 1e6
            for row in read_tsv(cases / "pcap" / "net-rx.tsv")
            if row["tcp.srcport"] == port and row["tcp.len"] == "0" and not int(row["tcp.flags"], 16) & 7
        ]
        inside = [at for at in at_ms if start_ms <= at <= start_ms + 3000]
        gaps = [later - at for at, later in pairwise(inside)]
        assert flows[flow]["ack_packets"] == len(inside) > 50
        assert flows[flow]["ack_gap_mean_ms"] == pytest.approx(sum(gaps) / len(gaps))
        assert flows[flow]["ack_gap_sd_ms"] == pytest.approx(pstdev(gaps))


def test_codepoints_of_both_directions(trial: CapturedTrial, cases: Path) -> None:
    """Against a count over tshark's reading."""
    frames, _ = rows_of(trial.ended)
    found = tables.conform("codepoints", frames["codepoints"])
    assert found.height == 6
    names = {"0": "not_ect_packets", "1": "ect1_packets", "2": "ect0_packets", "3": "ce_packets"}
    sides = {
        ("forward", "before"): ("net-mid", "tcp.dstport"),
        ("forward", "behind"): ("net-rx", "tcp.dstport"),
        ("backward", "behind"): ("net-rx", "tcp.srcport"),
    }
    for row in found.iter_rows(named=True):
        file, end = sides[row["direction"], row["place"]]
        port = {"l4s": "5001", "classic": "5002"}[row["group"]]
        counted = Counter(
            names[one["ip.dsfield.ecn"]]
            for one in read_tsv(cases / "pcap" / f"{file}.tsv")
            if one[end] == port
        )
        assert {name: row[name] for name in names.values()} == {
            name: counted[name] for name in names.values()
        }
    l4s = found.filter(group="l4s", direction="forward")
    assert (
        l4s.filter(place="before")["ce_packets"].item() == 0 < l4s.filter(place="behind")["ce_packets"].item()
    )


def test_the_most_marks_between_two_acks(trial: CapturedTrial, cases: Path) -> None:
    """Against a count over tshark's reading."""
    frames, _ = rows_of(trial.ended)
    most = marks = 0
    for one in read_tsv(cases / "pcap" / "net-rx.tsv"):
        if one["tcp.dstport"] == "5001":
            marks += one["ip.dsfield.ecn"] == "3"
        elif one["tcp.srcport"] == "5001":
            most, marks = max(most, marks), 0
    assert frames["accecn"]["ce_between_acks_packets"].to_list() == [most]
    assert most > 0


def test_marks_are_those_that_the_receiver_reports(trial: CapturedTrial) -> None:
    """Marks on the wire, the ACE field and the option are one number; TCP_INFO is from a second before."""
    frames, _ = rows_of(trial.ended)
    (row,) = tables.conform("accecn", frames["accecn"]).iter_rows(named=True)
    assert (row["flow"], row["connections"]) == ("l4s-0", 1)
    reported = sent(trial, "l4s")
    assert row["ce_packets"] > 20
    assert row["ace_packets"] == pytest.approx(row["ce_packets"], abs=1)  # one under way at the end
    assert 0 < reported["delivered_ce"] <= row["ace_packets"]
    assert 0 < row["option_acks_packets"] <= row["acks_packets"]
    received = [
        json.loads(line)
        for line in (trial.raw / "sockets.jsonl").read_text().splitlines()
        if '"received_ce_bytes"' in line
    ]
    last = [one for one in received if one["node"] == "rx-l4s"][-1]
    for ours, name in (
        ("ce", "received_ce_bytes"),
        ("ect1", "received_e1_bytes"),
        ("ect0", "received_e0_bytes"),
    ):
        # the sample is up to 100 ms older than the end, and packets go on for a second after it
        assert last[name] <= row[f"option_{ours}_bytes"] <= row[f"{ours}_bytes"], name
    assert row["option_ce_bytes"] > 0.9 * row["ce_bytes"] > 10_000


def test_quantiles_need_samples(trial: CapturedTrial) -> None:
    flows = flows_of(trial)
    assert flows["l4s-0"]["sojourn_samples"] < 200 < flows["classic-0"]["sojourn_samples"]
    assert flows["l4s-0"]["sojourn_p95_ms"] is None
    assert flows["classic-0"]["sojourn_p95_ms"] > flows["classic-0"]["sojourn_p50_ms"]
    assert flows["classic-0"]["sojourn_p99_ms"] is None


def test_warmup_is_kept_out(trial: CapturedTrial) -> None:
    late = flows_of(trial.having(warmup="1s", duration="2s"))["classic-0"]
    whole = flows_of(trial)["classic-0"]
    start_ms = runs(trial)["classic-0"].start.ms
    measured = pl.col("t_ms").is_between(start_ms + 1000, start_ms + 3000)
    after = packets_of(trial).filter((pl.col("flow") == "classic-0") & measured)
    assert late["data_packets"] == after.height < whole["data_packets"]


@pytest.mark.parametrize("seconds", [1.0, 0.5])
def test_a_flow_that_ends_within_the_warmup_has_no_row(trial: CapturedTrial, seconds: float) -> None:
    program = trial.programs["tx-classic"]
    short = replace(program, flows=tuple(replace(run, seconds=seconds) for run in program.flows))
    late = replace(trial, programs={**trial.programs, "tx-classic": short})
    assert set(flows_of(late.having(warmup="1s", duration="2s"))) == {"l4s-0"}


@pytest.mark.parametrize(("ended_s", "seconds"), [(2.5, 1.5), (0.9, None)])
def test_a_flow_whose_bytes_have_arrived_is_over(
    trial: CapturedTrial, ended_s: float, seconds: float | None
) -> None:
    """All measures end with it: its lifetime goes on, and nothing is sent."""
    path = trial.raw / "tx-classic" / "flow-classic-0.sender.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": ended_s}))
    program = trial.programs["tx-classic"]
    sized = replace(program, flows=tuple(replace(run, bytes=100_000) for run in program.flows))
    late = replace(trial, programs={**trial.programs, "tx-classic": sized}).having(warmup="1s", duration="2s")
    row = flows_of(late).get("classic-0", {"seconds": None})
    assert row["seconds"] == (seconds and pytest.approx(seconds))
    if seconds:
        start_ms = runs(late)["classic-0"].start.ms
        measured = pl.col("t_ms").is_between(start_ms + 1000, start_ms + ended_s * 1000)
        own = packets_of(late).filter((pl.col("flow") == "classic-0") & measured)
        assert row["data_packets"] == own.height
        assert row["packets_per_rtt"] == pytest.approx(own.height * row["rtt_mean_ms"] / (seconds * 1e3))


def test_without_captures_there_are_no_packets(captured: Load) -> None:
    ended = captured("lean-dualpi2").ended
    assert parse_packets(ended) is None
    assert parse_packet_flows(ended) is None


def test_one_side_alone_is_told(trial: CapturedTrial) -> None:
    (trial.raw / "router" / "net-rx.pcap.gz").unlink()
    frames, problems = rows_of(trial.ended)
    assert any("one side" in problem for problem in problems)
    assert "unread-packets" in frames["trials"]["flags"].item()
    assert frames["flows"].height == 2


def test_times_without_the_start_instant(trial: CapturedTrial) -> None:
    """Then they count from the first packet, which left its sender up to half an RTT and a jitter before."""
    known = packets_of(trial)["t_ms"]
    (trial.raw / "start.json").unlink()
    guessed = packets_of(trial)["t_ms"]
    late_ms = (known - guessed).to_list()
    assert max(late_ms) - min(late_ms) == pytest.approx(0, abs=1e-3)
    assert 10 < late_ms[0] < 25


def test_sequence_numbers_wrap(trial: CapturedTrial) -> None:
    """A connection whose numbers pass 2^32 in the middle: the same packets, the same retransmissions."""
    before = packets_of(trial)
    shift = (1 << 32) - 393_075_960 - 150_000  # classic-0 has then sent 150,000 bytes when they wrap
    for network in ("net-mid", "net-rx"):
        path = trial.raw / "router" / f"{network}.pcap.gz"
        data = bytearray(gzip.decompress(path.read_bytes()))
        at = 24
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at + 8)
            tcp = at + 16 + 14 + 20
            (sequence,) = struct.unpack_from(">I", data, tcp + 4)
            struct.pack_into(">I", data, tcp + 4, (sequence + shift) % (1 << 32))
            at += 16 + length
        path.write_bytes(gzip.compress(data))
    after = packets_of(trial)
    assert after.equals(before)


@pytest.mark.parametrize("case", [CASE, "captured-sends"])
@pytest.mark.parametrize("bits", [0xFFFF, 0xFFFE])
def test_packets_that_overtake_others_are_not_sent_again(captured: Load, case: str, bits: int) -> None:
    """Every second packet arrives before the one that was sent before it.

    With fewer bits neighbours have the same identification, as those of IPv6 have the same timestamp.
    """
    trial = captured(case)
    before = {flow: row["retransmits_packets"] for flow, row in flows_of(trial).items()}
    assert sum(before.values()) > 0
    for network in ("net-mid", "net-rx"):
        path = trial.raw / "router" / f"{network}.pcap.gz"
        data = bytearray(gzip.decompress(path.read_bytes()))
        records, at = [], 24
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at + 8)
            (identification,) = struct.unpack_from(">H", data, at + 34)
            struct.pack_into(">H", data, at + 34, identification & bits)
            records.append((data[at : at + 8], data[at + 8 : at + 16 + length]))
            at += 16 + length
        last = len(records) - 1
        other = [min(at ^ 1, last) if network == "net-mid" else at for at in range(len(records))]
        swapped = (time + records[at][1] for (time, _), at in zip(records, other, strict=True))
        path.write_bytes(gzip.compress(data[:24] + b"".join(swapped)))
    after = {flow: row["retransmits_packets"] for flow, row in flows_of(trial).items()}
    assert after == before


def test_a_trial_without_its_captures_is_invalid(trial: CapturedTrial) -> None:
    assert trial.faults() == []
    said = trial.raw / "router" / "net-mid.pcap.stderr"
    said.write_text(said.read_text().replace("0 packets dropped", "12 packets dropped"))
    assert "router packets-missing 12 net-mid.pcap" in trial.faults()
    (trial.raw / "router" / "net-rx.pcap.gz").unlink()
    assert "router no-capture net-rx.pcap" in trial.faults()


SENDS = "captured-sends"
"""Two seconds of Prague, UDP, SYNs and requests over DualPI2 at 2 Mbit/s."""


def test_packets_of_every_kind_of_traffic(captured: Load) -> None:
    """Against what both ends of every flow counted: nothing was lost."""
    trial = captured(SENDS)
    packets = packets_of(trial)
    number = dict(packets.group_by("flow").agg(pl.len()).iter_rows())
    flood, udp, mice = (
        json.loads((trial.raw / "tx-classic" / f"flow-{flow}.sender.json").read_text())
        for flow in ("flood-0", "udp-0", "mice-0")
    )
    assert number["flood-0"] == flood["packets_sent"] == 232
    assert number["udp-0"] == udp["packets_sent"] == 75
    assert set(packets.filter(flow="flood-0")["payload_bytes"]) == {0}
    assert set(packets.filter(flow="udp-0")["payload_bytes"]) == {958}
    assert packets["lost"].sum() == packets["sojourn_ms"].null_count() == 0
    own = packets.filter(flow="mice-0")
    again = own.filter("retransmit")
    whole, twice = (sum(frame["payload_bytes"].to_list()) for frame in (own, again))
    assert whole - twice == mice["ended"] * 3000
    assert again.height == 2  # TCP sends a request again that is answered late, and one of those was
    row = flows_of(trial)["udp-0"]
    counted = json.loads((trial.raw / "rx-classic" / "flow-udp-0.receiver.json").read_text())
    assert (
        row["ce_packets"]
        == counted["packets_received"]["ce"]
        == packets["marked"].filter(packets["flow"] == "udp-0").sum()
    )
    assert (row["ack_packets"], row["ack_gap_mean_ms"]) == (0, None)


def test_codepoints_of_what_tcp_does_not_send(captured: Load) -> None:
    trial = captured(SENDS)
    frames, _ = rows_of(trial.ended)
    found = tables.conform("codepoints", frames["codepoints"]).filter(direction="forward")
    by_place = {(row["flow"], row["place"]): row for row in found.iter_rows(named=True)}
    counted = json.loads((trial.raw / "rx-classic" / "flow-udp-0.receiver.json").read_text())[
        "packets_received"
    ]
    assert by_place["udp-0", "before"]["ect1_packets"] == 75
    assert by_place["udp-0", "behind"]["ect1_packets"] == counted["ect1"]
    assert by_place["udp-0", "behind"]["ce_packets"] == counted["ce"]
    assert by_place["flood-0", "behind"]["ect0_packets"] == 232
    assert by_place["mice-0", "behind"]["not_ect_packets"] == by_place["mice-0", "before"]["not_ect_packets"]


def test_every_mark_of_a_whole_flow_is_reported(captured: Load) -> None:
    trial = captured(SENDS)
    frames, _ = rows_of(trial.ended)
    (row,) = tables.conform("accecn", frames["accecn"]).iter_rows(named=True)
    assert row["ce_packets"] == row["ace_packets"] == 117
    assert row["ce_bytes"] == row["option_ce_bytes"] > 100_000
    assert row["ect1_bytes"] == row["option_ect1_bytes"] > 100_000
    assert row["ect0_bytes"] == row["option_ect0_bytes"] == 0


def test_udp_whose_identification_begins_anew(captured: Load) -> None:
    """Packets with the same 16 bits, seconds apart, are not taken for each other, even after losses."""
    trial = captured(SENDS)
    before = packets_of(trial).filter(flow="udp-0")
    lost = set(before.filter(pl.col("packet").is_between(10, 20))["packet"])
    for network in ("net-mid", "net-rx"):
        path = trial.raw / "router" / f"{network}.pcap.gz"
        data, kept, at, number = gzip.decompress(path.read_bytes()), bytearray(), 24, 0
        kept += data[:24]
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at + 8)
            record, at = bytearray(data[at : at + 16 + length]), at + 16 + length
            if record[16 + 23] == 17:
                number += 1
                # a counter of 16 bits whose 65,536 values these 75 packets use twice
                struct.pack_into(">H", record, 16 + 18, (number * 2000) & 0xFFFF)
                if network == "net-rx" and number in lost:
                    continue
            kept += record
        path.write_bytes(gzip.compress(kept))
    after = packets_of(trial).filter(flow="udp-0")
    assert set(after.filter("lost")["packet"]) == lost
    there = ~pl.col("packet").is_in(sorted(lost))
    assert after.filter(there)["sojourn_ms"].to_list() == before.filter(there)["sojourn_ms"].to_list()
