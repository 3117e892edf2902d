# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-traffic: one flow, told about at its interval boundaries."""

from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import GUEST_MODULES, Lab
from tests.lab.guests import Outcome, Script, boot

pytestmark = pytest.mark.lab

MS = 1_000_000
SECONDS = 5


def one_flow(
    lab: Lab, folder: Path, *, cc: str = "cubic", ecn: int = 0, seed: int = 1, sink: bool = False
) -> Outcome:
    script = Script()
    if sink:
        script.line("module", GUEST_MODULES / "lab_sink.ko", "-")
    script.pair(ecn=ecn)
    common = ("--port", 5001, "--seconds", SECONDS, "--interval", 1)
    script.line("daemon", "rx", "receiver.json", "-", "lab-traffic", "receive", *common)
    script.line("start", 100)
    sender = ("lab-traffic", "send", "--to", "10.0.0.2", *common, "--cc", cc, "--flow", "l4s-0")
    script.line("at", "tx", 250 * MS, "sender.json", "-", *sender)
    script.line("wait", 20_000 * MS)
    return boot(lab, script, folder, seed=seed)


@pytest.fixture(scope="module", params=[False, True], ids=["recv", "sink"])
def flow(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    outcome = one_flow(lab, tmp_path_factory.mktemp("flow") / "trial", sink=request.param)
    assert outcome.end["ok"], outcome.end
    return outcome


def test_both_ends_tell_of_the_same_flow(flow: Outcome) -> None:
    sender, receiver = flow.json("sender.json"), flow.json("receiver.json")
    planned_ns = flow.end["t0_ns"] + 250 * MS
    assert sender["start_ns"] == receiver["start_ns"] == planned_ns
    assert 0 <= sender["connect_ns"] - planned_ns < 0.1 * MS
    assert (sender["flow"], sender["cc"], sender["mss"]) == ("l4s-0", "cubic", 1448)
    in_flight_bytes = receiver["bytes_received"] - sender["bytes_acked"]
    assert 0 <= in_flight_bytes < 10 * 1448  # one way back of 20 ms at 2 Mbit/s is 5 kB
    rate_mbps = receiver["bytes_received"] * 8e-6 / SECONDS
    assert 1.8 < rate_mbps < 2 * 1448 / 1514


def test_intervals_end_at_whole_seconds_and_the_last_is_the_total(flow: Outcome) -> None:
    sender, receiver = flow.json("sender.json"), flow.json("receiver.json")
    for side, total in ((sender, "bytes_acked"), (receiver, "bytes_received")):
        assert [interval["end_s"] for interval in side["intervals"]] == [1.0, 2.0, 3.0, 4.0, 5.0]
        totals = [interval[total] for interval in side["intervals"]]
        assert totals == sorted(totals)
        assert totals[-1] == side[total]
    assert sender["rtt_samples_us"] == [interval["rtt_us"] for interval in sender["intervals"]]
    assert sender["retransmits"] == sender["intervals"][-1]["retransmits"]


def test_no_end_of_the_flow_is_what_limits_it(flow: Outcome) -> None:
    sender = flow.json("sender.json")
    assert sender["busy_us"] > 0.98 * SECONDS * 1e6
    assert sender["rwnd_limited_us"] + sender["sndbuf_limited_us"] < 0.01 * sender["busy_us"]


def test_every_second_segment_is_acknowledged(flow: Outcome) -> None:
    receiver = flow.json("receiver.json")
    assert 0.5 < receiver["segs_out"] / receiver["data_segs_in"] < 0.6


def test_tcp_does_the_same_with_a_sink_as_with_a_program_that_reads(lab: Lab, tmp_path: Path) -> None:
    read, sunk = (one_flow(lab, tmp_path / f"sink-{sink}", sink=sink) for sink in (False, True))
    assert read.end["ok"], read.end
    assert sunk.end["ok"], sunk.end
    for name in ("data_segs_in", "segs_out", "bytes_received"):
        of_reader, of_sink = (outcome.json("receiver.json")[name] for outcome in (read, sunk))
        assert of_sink == pytest.approx(of_reader, rel=0.01), name
    of_reader, of_sink = (outcome.json("sender.json")["rtt_samples_us"] for outcome in (read, sunk))
    assert of_sink == pytest.approx(of_reader, rel=0.05)


@pytest.mark.parametrize(("ecn", "mode"), [(0, "off"), (1, "rfc3168"), (3, "accecn")])
def test_what_was_negotiated_is_told(lab: Lab, tmp_path: Path, ecn: int, mode: str) -> None:
    outcome = one_flow(lab, tmp_path / "trial", ecn=ecn)
    assert outcome.end["ok"], outcome.end
    assert outcome.json("sender.json")["ecn"]["mode"] == mode
    assert outcome.json("receiver.json")["ecn"]["mode"] == mode


def test_an_unknown_congestion_control_is_an_error(lab: Lab, tmp_path: Path) -> None:
    end = one_flow(lab, tmp_path / "trial", cc="nosuch").end
    assert end["ok"] is False
    assert "congestion control nosuch: No such file or directory" in end["reason"]


def test_a_flow_nobody_answers_is_an_error(lab: Lab, tmp_path: Path) -> None:
    script = Script()
    script.pair()
    script.line("start", 0)
    script.line(
        *("at", "tx", 0, "-", "-", "lab-traffic", "send", "--to", "10.0.0.2", "--port", 5001),
        *("--seconds", 2, "--cc", "reno"),
    )
    script.line("wait", 60_000 * MS)
    end = boot(lab, script, tmp_path / "trial").end
    assert end["ok"] is False
    assert "cannot connect to 10.0.0.2 port 5001: Connection refused" in end["reason"]


@pytest.mark.parametrize("sink", [False, True])
def test_equal_seeds_give_equal_files(lab: Lab, tmp_path: Path, sink: bool) -> None:
    first, again = (one_flow(lab, tmp_path / name, sink=sink) for name in ("folder", "another-folder"))
    for name in ("sender.json", "receiver.json", "status.jsonl"):
        assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()


def test_a_pacer_that_cannot_keep_its_rate_ends_in_time_with_the_rate_that_it_had(
    lab: Lab, tmp_path: Path
) -> None:
    script = Script()
    script.pair(rate="100mbit")
    script.batch("tx", "tc", "qdisc add dev left root tbf rate 2mbit burst 5kb limit 1mb")
    common = ("--port", 5001, "--seconds", SECONDS, "--size", 958)
    script.line("daemon", "rx", "counter.json", "-", "lab-traffic", "count", *common)
    script.line("start", 100)
    paced = ("pace", "--to", "10.0.0.2", *common, "--frames", "10000000/8000", "--codepoint", 0)
    script.line("at", "tx", 0, "pacer.json", "-", "lab-traffic", *paced)
    script.line("wait", (SECONDS * 1000 + 1) * MS)
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    pacer, counter = outcome.json("pacer.json"), outcome.json("counter.json")
    arrived = sum(counter["packets_received"].values())
    assert arrived * 8000e-6 / SECONDS == pytest.approx(2, rel=0.02)
    waiting = pacer["packets_sent"] - arrived
    assert 0 <= waiting < 300  # in the socket's buffer and on the way
    assert [interval["end_s"] for interval in pacer["intervals"]] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_connection_of_a_flood_that_is_established_sends_all_its_payload(lab: Lab, tmp_path: Path) -> None:
    """At 2 Mbit/s it takes 2 s, which is longer than a flood waits for an answer."""
    script = Script()
    script.pair()
    script.line("sysctl", "tx", "net/ipv4/tcp_wmem", "4096 16384 65536")
    common = ("--port", 5001, "--seconds", SECONDS, "--size", 500_000)
    script.line("daemon", "rx", "answerer.json", "-", "lab-traffic", "answer", *common)
    script.line("start", 100)
    flood = ("request", "--to", "10.0.0.2", *common, "--every-ns", 10_000 * MS, "--cc", "cubic")
    script.line("at", "tx", 0, "flood.json", "-", "lab-traffic", *flood)
    script.line("wait", 20_000 * MS)
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    flood_result, answerer = outcome.json("flood.json"), outcome.json("answerer.json")
    assert [flood_result[name] for name in ("opened", "established", "ended", "failed")] == [1, 1, 1, 0]
    assert answerer["bytes_received"] == 500_000


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_packets_of_a_flood_are_valid_and_nothing_answers_them(lab: Lab, tmp_path: Path, family: str) -> None:
    script = Script()
    script.pair()
    to, options = "10.0.0.2", []
    if family == "ipv6":
        to, options = "fd00::2", ["--ipv6"]
        for number, (node, port) in enumerate((("tx", "left"), ("rx", "right")), start=1):
            script.batch(node, "ip", f"addr add fd00::{number}/64 dev {port} nodad")
    common = ("--port", 5001, "--seconds", 1, "--syn")
    script.line("daemon", "rx", "counter.json", "-", "lab-traffic", "count", *common, *options)
    script.line("start", 100)
    flood = ("pace", "--to", to, *common, "--frames", "540000/540", "--codepoint", 0)
    script.line("at", "tx", 0, "pacer.json", "-", "lab-traffic", *flood)
    script.line("wait", 20_000 * MS)
    script.run("rx", "cat", "/proc/net/snmp", out="snmp.txt")
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    assert sum(outcome.json("counter.json")["packets_received"].values()) > 900
    names, values = (
        line.split()[1:]
        for line in (outcome.folder / "snmp.txt").read_text().splitlines()
        if line.startswith("Tcp: ")
    )
    tcp = dict(zip(names, map(int, values), strict=True))
    assert tcp["InSegs"] > 900
    assert (tcp["InCsumErrors"], tcp["OutRsts"], tcp["OutSegs"]) == (0, 0, 0)
