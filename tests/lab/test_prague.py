# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague by its behaviour: small experiments with known answers (kernels/tcp_prague)."""

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from l4sbench.testbeds.virtual.build import GUEST_MODULES, Lab
from tests.lab.guests import Outcome, Script, boot

pytestmark = pytest.mark.lab

MS = 1_000_000
PORT = 5001
RX, RX6 = "10.0.3.1", "fd00:3::1"
ECN = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
MODULE = GUEST_MODULES / "tcp_prague.ko"
FIN, SYN, RST = 1, 2, 4
RECOVERY = 3  # TCP_CA_Recovery


@dataclass(frozen=True)
class Segment:
    """A captured TCP segment."""

    time_s: float
    to_server: bool
    kind: str  # SYN, data, retransmission, ACK or FIN
    ecn: str
    payload_bytes: int


def segments(capture: Path) -> Iterator[Segment]:
    """Read what tcpdump wrote (pcap, Ethernet, no IP options, microseconds)."""
    data, at, sent = capture.read_bytes(), 24, dict[tuple[bytes, int], int]()
    while at < len(data):
        seconds, micros, kept, length = struct.unpack_from("<IIII", data, at)
        frame, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        if frame[12:14] == b"\x08\x00":
            ecn, tcp, addresses = frame[15] & 3, 34, frame[26:34]
        else:
            ecn, tcp, addresses = frame[15] >> 4 & 3, 54, frame[22:54]
        source, target, sequence, _, flags = struct.unpack_from("!HHIIH", frame, tcp)
        payload = length - tcp - (flags >> 12) * 4
        flow, end = (addresses, source), sequence + payload
        if flags & SYN:
            kind = "SYN"
        elif flags & FIN:
            kind = "FIN"
        elif payload:
            fresh = 0 < (end - sent.get(flow, sequence) & 0xFFFFFFFF) < 1 << 31
            kind = "data" if fresh else "retransmission"
            sent[flow] = end if fresh else sent[flow]
        else:
            kind = "ACK"
        if not flags & RST:
            yield Segment(seconds + micros / 1e6, target == PORT, kind, ECN[ecn], payload)


class Experiment:
    """Senders `tx` and `near`, a router with the queue on its way to `rx`, and Prague loaded.

    The delay is on the way back, at the router's ports towards the senders: `rtt_ms` and `near_rtt_ms`. The
    router routes, since a packet that only crosses bridges stays charged to its socket, and the sender's own
    small-queue limit would then be what fills or spares the queue.
    """

    def __init__(
        self,
        *,
        rate: str = "100mbit",
        queue: str = "dualpi2",
        rtt_ms: float = 20,
        near_rtt_ms: float = 2,
        params: str = "-",
    ) -> None:
        self.flows: list[tuple[object, ...]] = []
        self.script = script = Script()
        script.line("module", MODULE, params)
        nodes = (("tx", 1, rtt_ms), ("near", 2, near_rtt_ms), ("rx", 3, None))
        for node in ("mid", "tx", "near", "rx"):
            script.line("netns", node)
        for key in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            self.set("mid", key, 1)
        for node, net, delay_ms in nodes:
            script.batch("-", "ip", f"link add name {node} netns {node} type veth peer name {node} netns mid")
            for end, number in (("mid", 2), (node, 1)):
                script.batch(
                    *(end, "ip", f"link set dev {node} up", f"addr add 10.0.{net}.{number}/24 dev {node}"),
                    f"addr add fd00:{net}::{number}/64 dev {node} nodad",
                )
                script.run(end, "ethtool", "-K", node, "tso", "off", "gso", "off", "gro", "off")
            gateways = (f"route add default via 10.0.{net}.2", f"-6 route add default via fd00:{net}::2")
            for gateway in gateways:
                script.run(node, "ip", *gateway.split())
            self.set(node, "net/ipv4/tcp_ecn", 3)
            if delay_ms:
                script.batch("mid", "tc", f"qdisc add dev {node} root netem delay {delay_ms}ms limit 60000")
        script.batch(
            *("mid", "tc", "qdisc add dev rx root handle 1: htb default 3"),
            f"class add dev rx parent 1: classid 1:3 htb rate {rate} quantum 1514",
            f"qdisc add dev rx parent 1:3 handle 3: {queue}",
        )

    def set(self, node: str, key: str, value: object) -> None:
        self.script.line("sysctl", node, key, value)

    def capture(self, node: str) -> None:
        filter_ = f"tcp port {PORT}"
        self.script.line(
            *("daemon", node, "-", f"{node}.pcap.stderr", "tcpdump", "-Z", "root", "-nUB", 65536, "-s", 100),
            *("-i", node, "-w", f"/trial/{node}.pcap", filter_),
        )

    def flow(self, seconds: float, *, node: str = "tx", start_ms: int = 0) -> None:
        """Add a flow of lab-traffic; all flows come before what else happens at an instant."""
        port = PORT if node == "tx" else PORT + 1
        common = ("--port", port, "--seconds", seconds, "--interval", 1)
        self.script.line("daemon", "rx", f"{node}.receiver.json", "-", "lab-traffic", "receive", *common)
        send = ("lab-traffic", "send", "--to", RX, *common, "--cc", "prague")
        self.flows.append(("at", node, start_ms * MS, f"{node}.json", "-", *send))

    def start(self) -> None:
        self.script.line("start", 3000)  # until IPv6 neighbours can be asked
        for flow in self.flows:
            self.script.line(*flow)

    def sample(self, seconds: float, interval_ms: int) -> None:
        self.script.line(
            *("at", "-", 0, "-", "-", "lab-sampler", "--interval-ms", interval_ms, "--seconds", seconds),
            *("--sockets-of", "tx", "--out-sockets", "/trial/sockets.jsonl"),
        )

    def end(self, lab: Lab, folder: Path) -> Outcome:
        self.script.line("wait", 100_000 * MS)
        return self.boot(lab, folder)

    def boot(self, lab: Lab, folder: Path) -> Outcome:
        outcome = boot(lab, self.script, folder / "trial")
        assert outcome.end["ok"], outcome.end
        return outcome


def random_marking(probability: float) -> str:
    """A queue that never fills, and marks each packet with a probability."""
    return f"netem loss random {probability:.4%} ecn limit 60000"


def sender_samples(outcome: Outcome) -> list[dict[str, Any]]:
    return [s for s in outcome.samples("sockets.jsonl") if s["node"] == "tx" and s["rport"] == PORT]


def iperf3(lab: Lab, folder: Path, target: str, rx_ecn: int, rx_cc: str = "prague") -> list[Segment]:
    """Two seconds of Prague over a queue that loses 1 %, as captured at the sender."""
    this = Experiment(queue="netem loss random 1% limit 60000")
    for node, control in (("tx", "prague"), ("rx", rx_cc)):
        this.set(node, "net/ipv4/tcp_congestion_control", control)
    this.set("rx", "net/ipv4/tcp_ecn", rx_ecn)
    this.capture("tx")
    this.script.line("daemon", "rx", "-", "-", "iperf3", "-s", "-1", "-p", PORT)
    this.start()
    this.script.line("at", "tx", 0, "iperf3.out", "-", "iperf3", "-c", target, "-p", PORT, "-t", 2)
    this.script.line("at", "tx", 1000 * MS, "ss.out", "-", "ss", "-tin")
    outcome = this.end(lab, folder)
    return list(segments(outcome.folder / "tx.pcap"))


def marks_per_round(p: float) -> float:
    """Marks per virtual RTT at which increase and reductions balance; README.md derives it."""
    return 1 - p + math.sqrt((1 - p) ** 2 + 2 * (1 - p))


def rate_mbps(intervals: list[dict[str, Any]]) -> float:
    """Of packets of 1500 B, from the first interval's end to the last one's."""
    first, last = intervals[0], intervals[-1]
    megabits = (last["delivered"] - first["delivered"]) * 1500 * 8 / 1e6
    return float(megabits / (last["end_s"] - first["end_s"]))


@pytest.mark.parametrize("target", [RX, RX6, f"::ffff:{RX}"])
def test_every_packet_is_ect1(lab: Lab, tmp_path: Path, target: str) -> None:
    seen = Counter((s.to_server, s.kind, s.ecn) for s in iperf3(lab, tmp_path, target, rx_ecn=3))
    assert {ecn for _, _, ecn in seen} == {"ECT(1)"}, seen
    assert {kind for to_server, kind, _ in seen if to_server} == {
        "SYN",
        "data",
        "retransmission",
        "ACK",
        "FIN",
    }
    assert {kind for to_server, kind, _ in seen if not to_server} >= {"SYN", "ACK", "FIN"}


@pytest.mark.parametrize("rx_ecn", [0, 1, 2])
@pytest.mark.parametrize("target", [RX, RX6])
def test_a_peer_without_accecn_gets_a_reno_without_ecn(
    lab: Lab, tmp_path: Path, target: str, rx_ecn: int
) -> None:
    sent = [s for s in iperf3(lab, tmp_path, target, rx_ecn, "cubic") if s.to_server]
    assert {s.ecn for s in sent if s.kind == "SYN"} == {"ECT(1)"}
    assert {s.ecn for s in sent if s.kind != "SYN"} == {"Not-ECT"}
    assert " prague-reno " in (tmp_path / "trial" / "ss.out").read_text()


def test_what_was_marked_is_counted(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(queue=random_marking(0.05))
    this.capture("rx")
    this.flow(10)
    this.start()
    outcome = this.end(lab, tmp_path)
    data = [s.ecn for s in segments(outcome.folder / "rx.pcap") if s.to_server and s.kind == "data"]
    assert set(data) == {"ECT(1)", "CE"}
    last = outcome.json("tx.json")["intervals"][-1]
    acknowledged = data[: last["delivered"] - 1]  # `delivered` counts the SYN
    assert len(acknowledged) > 10_000
    assert acknowledged.count("CE") == last["delivered_ce"]


@pytest.mark.parametrize(("probability", "seconds"), [(0.05, 60), (0.01, 40)])
def test_rate_under_random_marking(lab: Lab, tmp_path: Path, probability: float, seconds: int) -> None:
    this = Experiment(rate="10gbit", queue=random_marking(probability), rtt_ms=25)
    this.flow(seconds)
    this.start()
    intervals = this.end(lab, tmp_path).json("tx.json")["intervals"][9:]
    first, last = intervals[0], intervals[-1]
    p = (last["delivered_ce"] - first["delivered_ce"]) / (last["delivered"] - first["delivered"])
    assert p == pytest.approx(probability, rel=0.1)
    assert rate_mbps(intervals) == pytest.approx(0.48 * marks_per_round(p) / p, rel=0.1)


@pytest.mark.parametrize(("transition", "factor"), [(4, 1), (4_294_967_295, 5)])
def test_rtt_independence(lab: Lab, tmp_path: Path, transition: int, factor: int) -> None:
    """A flow of 5 ms gets what one of 25 ms gets; before the transition five times as much."""
    p = 0.05
    params = f"prague_rtt_transition={transition}"
    this = Experiment(rate="10gbit", queue=random_marking(p), rtt_ms=5, params=params)
    this.flow(20)
    this.start()
    intervals = this.end(lab, tmp_path).json("tx.json")["intervals"][4:]
    assert rate_mbps(intervals) == pytest.approx(factor * 0.48 * marks_per_round(p) / p, rel=0.2)


def test_alone_on_dualpi2_it_fills_the_link_and_not_the_queue(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(rate="50mbit")
    this.flow(10)
    this.start()
    sender = this.end(lab, tmp_path).json("tx.json")
    assert rate_mbps(sender["intervals"][2:]) > 0.96 * 50 * 1500 / 1514
    assert max(sender["rtt_samples_us"][2:]) < 22_500
    assert sender["retransmits"] == 0


def test_flows_of_two_rtts_share_evenly(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(rtt_ms=20, near_rtt_ms=2)
    this.flow(40)
    this.flow(40, node="near", start_ms=37)
    this.start()
    outcome = this.end(lab, tmp_path)
    far, near = (outcome.json(f"{node}.json") for node in ("tx", "near"))
    assert max(near["rtt_samples_us"][9:]) < 6_000
    assert min(far["rtt_samples_us"][9:]) > 19_000
    assert 0.75 < rate_mbps(far["intervals"][9:]) / rate_mbps(near["intervals"][9:]) < 1.33


def test_a_loss_halves_the_window_once(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(rate="20mbit", queue="bfifo limit 60000")
    this.flow(15)
    this.start()
    this.sample(15, 1)
    samples = sender_samples(this.end(lab, tmp_path))
    recoveries = [
        (before, after, settled)
        for before, after, settled in zip(samples, samples[1:], samples[150:], strict=False)
        if after["ca_state"] == RECOVERY != before["ca_state"] and before["t_ms"] > 1500
    ]
    assert len(recoveries) >= 2
    for before, after, settled in recoveries:
        assert after["snd_ssthresh"] == pytest.approx(before["snd_cwnd"] / 2, abs=1)
        assert settled["snd_cwnd"] == pytest.approx(before["snd_cwnd"] / 2, abs=5)


@pytest.mark.parametrize(("mode", "alpha"), [(0, 0), (1, 1024)])
def test_where_alpha_starts(lab: Lab, tmp_path: Path, mode: int, alpha: int) -> None:
    this = Experiment(queue="netem limit 60000", params=f"prague_alpha_mode={mode}")
    this.flow(1)
    this.start()
    this.sample(1, 100)
    samples = sender_samples(this.end(lab, tmp_path))
    assert {s["alpha"] for s in samples if s["state"] == "ESTAB"} == {alpha}


@pytest.mark.parametrize("mode", [0, 1])
def test_the_first_mark_halves(lab: Lab, tmp_path: Path, mode: int) -> None:
    this = Experiment(rate="10gbit", queue=random_marking(0.01), params=f"prague_alpha_mode={mode}")
    this.flow(1)
    this.start()
    this.sample(1, 1)
    samples = [s for s in sender_samples(this.end(lab, tmp_path)) if s["state"] == "ESTAB"]
    before, after = next((b, a) for b, a in pairwise(samples) if a["delivered_ce"])
    assert before["snd_ssthresh"] == 0x7FFFFFFF  # slow start
    # The window goes down by one packet per ACK, so it takes a round trip or two
    settled = next(s for s in samples if s["t_ms"] >= after["t_ms"] + 45)
    assert settled["snd_cwnd"] == pytest.approx(before["snd_cwnd"] / 2, rel=0.15)


@pytest.mark.parametrize(("rate", "packets"), [("10mbit", 1), ("100mbit", 2)])
def test_bursts_are_limited(lab: Lab, tmp_path: Path, rate: str, packets: int) -> None:
    """1/4096 s of 100 Mbit/s is 3051 B. Slow start, at twice the rate, is left out."""
    this = Experiment(rate=rate)
    this.script.run("tx", "ethtool", "-K", "tx", "tso", "on", "gso", "on")
    this.capture("tx")
    this.flow(4)
    this.start()
    outcome = this.end(lab, tmp_path)
    sent = [s for s in segments(outcome.folder / "tx.pcap") if s.to_server and s.payload_bytes]
    steady = [s for s in sent if s.time_s > sent[0].time_s + 2]
    assert len(steady) > 1000
    assert max(s.payload_bytes for s in steady) <= packets * 1448
    # Pacing keeps them apart: none follows within half of the time that a packet takes
    gaps_s = [after.time_s - before.time_s for before, after in pairwise(steady)]
    assert min(gaps_s) > 0.5 * 1448 * 8 / (int(rate.removesuffix("mbit")) * 1e6)


def test_unloading(lab: Lab, tmp_path: Path) -> None:
    """Refused while a flow runs; afterwards clean, and the module can be loaded again."""
    this = Experiment()
    this.flow(2)
    this.start()
    attempt = ("busybox", "sh", "-c", "! /usr/sbin/rmmod tcp_prague")
    this.script.line("at", "-", 1000 * MS, "-", "refused.err", *attempt)
    this.script.line("wait", 20_000 * MS)
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", "tcp_prague")
    this.script.line("module", MODULE, "-")
    this.script.run("-", "rmmod", "tcp_prague")
    outcome = this.boot(lab, tmp_path)
    assert "tcp_prague is in use" in (outcome.folder / "refused.err").read_text()
    assert outcome.json("tx.json")["bytes_acked"] > 10_000_000
