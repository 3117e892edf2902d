# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP NCF: signals that somebody else made change nothing, and true ones what Algorithm 2 says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.guests import Outcome, compiled
from tests.lab.prague.experiment import RX, Experiment, sender_samples

pytestmark = pytest.mark.lab

MODULE = GUEST_MODULES / "tcp_ncf.ko"
SIGNALS, SOCKETS = "/proc/net/ncf_signals", "/proc/net/tcp_ncf"
INFINITE = 0x7FFFFFFF
"""The slow start threshold of a connection that neither lost a packet nor got a signal."""
QUEUE, BACK_MS = "netem delay 18ms limit 60000", 2
"""Most of the delay is between router and receiver: signals come before ACKs. Nothing is lost."""
FORGED = ("malformed", "checksum", "no_flows", "too_fast", "unknown", "stale", "ahead")


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that sends signals of all kinds."""
    return compiled(Path(__file__).with_name("forge.c"), tmp_path_factory.mktemp("forge"))


class Sender(Experiment):
    """A flow of TCP NCF, and programs that send signals to it from the router."""

    def __init__(self, forge: Path, *, rate: str = "10mbit", seconds: float = 4) -> None:
        super().__init__(module=MODULE, ecn=0, queue=QUEUE, rate=rate, rtt_ms=BACK_MS)
        self.programs.append(forge)
        self.flow(seconds, cc="ncf")

    def forge(self, at_ms: float, kind: str, count: int, per_ms: int = 1, number: int = 2) -> None:
        """Send signals of a kind from a time on."""
        self.at("mid", at_ms, "/trial/forge", "tx", kind, count, per_ms, number, out=f"{kind}.sent")

    def look(self, at_ms: float, name: str) -> None:
        """Keep the sender's counters of a time."""
        self.at("tx", at_ms, "busybox", "cat", SIGNALS, out=f"{name}.signals")
        self.at("tx", at_ms, "busybox", "cat", SOCKETS, out=f"{name}.sockets")


def verdicts(outcome: Outcome, name: str) -> dict[str, int]:
    """Return how many packets with NCF's option came, by what became of them; those that came at all."""
    lines = (line.split() for line in (outcome.folder / f"{name}.signals").read_text().splitlines())
    return {verdict: int(count) for verdict, count in lines if count != "0"}


def socket(outcome: Outcome, name: str) -> Mapping[str, str]:
    """Return the only line of a file of sockets."""
    names, values = (outcome.folder / f"{name}.sockets").read_text().splitlines()
    return dict(zip(names.split(), values.split(), strict=True))


def thresholds(outcome: Outcome) -> list[int]:
    """Return the slow start thresholds of the sender's samples."""
    return [int(sample["snd_ssthresh"]) for sample in sender_samples(outcome)]


def test_forged_signals_change_nothing(lab: Lab, tmp_path: Path, forge: Path) -> None:
    this = Sender(forge)
    this.start()
    for kind in FORGED:
        this.forge(500, kind, 1200)
    this.look(3500, "end")
    this.sample(4, 100)
    outcome = this.end(lab, tmp_path)
    assert verdicts(outcome, "end") == dict.fromkeys(FORGED, 1200)
    assert {key: socket(outcome, "end")[key] for key in ("signals", "refused", "reactions")} == {
        "signals": "0",
        "refused": "2400",  # stale and ahead: the others are for nobody
        "reactions": "0",
    }
    assert set(thresholds(outcome)) == {INFINITE}


def test_signals_about_acknowledgements_change_nothing(lab: Lab, tmp_path: Path, forge: Path) -> None:
    """`tx` only acknowledges what comes from `rx`: a signal is about its next byte, which it did not send."""
    this = Sender(forge)
    this.set("tx", "net/ipv4/tcp_congestion_control", "ncf")
    common = ("--port", 5100, "--seconds", 4, "--interval", 1)
    this.script.line("daemon", "tx", "back.receiver.json", "-", "lab-traffic", "receive", *common)
    send = ("lab-traffic", "send", "--to", "10.0.1.1", *common, "--cc", "cubic")
    this.flows.append(("at", "rx", 0, "back.json", "-", *send))
    this.start()
    this.forge(1000, "bare", 500)
    this.look(3500, "end")
    outcome = this.end(lab, tmp_path)
    assert verdicts(outcome, "end") == {"ahead": 500}


def test_copies_of_signals_change_nothing(lab: Lab, tmp_path: Path, forge: Path) -> None:
    def run(name: str, *, copies: bool) -> Outcome:
        this = Sender(forge, rate="20mbit")
        this.script.line("module", GUEST_MODULES / "sch_ncf.ko", "-")
        queue = "qdisc replace dev rx parent 1:3 handle 4: ncf limit 50000 capacity 20mbit"
        this.script.batch("mid", "tc", queue)
        this.start()
        if copies:
            this.forge(0, "replayed", 2000)
        this.look(3500, "end")
        this.at("mid", 3500, "tc", "-s", "-j", "qdisc", "show", "dev", "rx", out="queue.json")
        this.sample(4, 50)
        return this.end(lab, tmp_path / name)

    (tmp_path / "plain").mkdir()
    (tmp_path / "copied").mkdir()
    plain, copied = run("plain", copies=False), run("copied", copies=True)
    (queue,) = [queue for queue in copied.json("queue.json") if queue["kind"] == "ncf"]
    seen = verdicts(copied, "end")
    assert 0 < seen["accepted"] <= queue["signals"]
    assert seen["replayed"] + seen.get("stale", 0) >= 1900
    assert seen.keys() <= {"accepted", "replayed", "stale"}
    assert verdicts(plain, "end").keys() == {"accepted"}
    # the flows are the same but for the nanoseconds in which copies were received
    for one, other in zip(sender_samples(plain), sender_samples(copied), strict=True):
        assert one["snd_ssthresh"] == pytest.approx(other["snd_ssthresh"], rel=0.05, abs=1)


@pytest.mark.parametrize(("mode", "expected"), [("intended", [7, 9, 5]), ("literal", [7, 10, 6])])
def test_algorithm_2(lab: Lab, tmp_path: Path, forge: Path, mode: str, expected: list[int]) -> None:
    """Of 10.3 Mbit/s and 20 ms, 25.75 kB, for 2, then 1, then 4 flows, with a queue of 20 kB: f is 1.29.

    s is 10.3 kB; 0.7 * 7 packets + 0.3 * 20.6 kB (literal: 25.75 kB); 0.3 of that + 0.7 * 5.15 (6.44) kB.
    """
    this = Sender(forge, rate="1gbit", seconds=3)
    this.set("tx", "net/ipv4/ncf_mode", mode)
    this.script.run("tx", "busybox", "ping", "-c", 1, RX)  # the RTT of the handshake is then that of the path
    this.start()
    for at_ms, flows in ((60, 2), (1000, 1), (2000, 4)):
        this.forge(at_ms, "valid", 1, number=flows)
    this.look(2900, "end")
    this.sample(3, 500)
    outcome = this.end(lab, tmp_path)
    assert [thresholds(outcome)[index] for index in (0, 2, 4)] == expected
    last = socket(outcome, "end")
    assert (last["reactions"], last["flows"], last["capacity"]) == ("3", "4", "10300000")


def test_one_signal_makes_the_window_twice_what_was_in_flight(lab: Lab, tmp_path: Path, forge: Path) -> None:
    """100 Gbit/s, 2 Gbit in 20 ms, for one flow: a signal may state it, so the window is bounded."""
    this = Sender(forge, seconds=4)
    this.start()
    this.forge(500, "valid", 1, number=4)  # behind 10 Mbit/s the window would grow for long
    this.forge(2000, "vast", 1, number=1)
    this.look(2100, "end")
    this.sample(4, 1)
    outcome = this.end(lab, tmp_path)
    assert socket(outcome, "end")["reactions"] == "2"
    samples = sender_samples(outcome)
    windows = [int(sample["snd_cwnd"]) for sample in samples]
    found = thresholds(outcome)
    cut = next(at for at, ssthresh in enumerate(found) if ssthresh != INFINITE)
    raised = next(at for at, ssthresh in enumerate(found) if at > cut and ssthresh > 100)
    # ssthresh without a bound: a third of 170,000 packets
    assert 64 * windows[cut] <= found[raised] <= 64 * max(windows[:raised])
    # slow start goes on: one packet more for each ACK in the millisecond since
    assert windows[raised - 1] < windows[raised] <= 2 * windows[raised - 1] + 2
    assert max(windows[raised:]) < found[raised]


def test_counters_are_roots_alone(lab: Lab, tmp_path: Path, forge: Path) -> None:
    """Who makes up signals would learn from them what a connection has in flight."""
    this = Sender(forge)
    this.programs.append(compiled(Path(__file__).with_name("nobody.c"), tmp_path))
    this.start()
    this.at("tx", 500, "/trial/nobody", SIGNALS, SOCKETS, "/proc/net/dev", out="nobody.out")
    this.look(500, "root")
    outcome = this.end(lab, tmp_path)
    refused, reads = "Permission denied", "open"
    assert (outcome.folder / "nobody.out").read_text().splitlines() == [refused, refused, reads]
    assert socket(outcome, "root")["signals"] == "0"
    assert "accepted 0" in (outcome.folder / "root.signals").read_text()


def test_once_in_a_round_trip_unless_the_number_changes(lab: Lab, tmp_path: Path, forge: Path) -> None:
    this = Sender(forge)
    this.start()
    this.forge(1000, "valid", 3, 3, number=2)
    this.look(1100, "same")
    this.forge(2500, "growing", 3, 3, number=4)  # 5 is 25 %, 6 is 50 % more than 4
    this.look(2600, "other")
    outcome = this.end(lab, tmp_path)
    same, other = socket(outcome, "same"), socket(outcome, "other")
    assert (same["signals"], same["reactions"]) == ("3", "1")
    assert (other["signals"], other["reactions"], other["flows"]) == ("6", "3", "6")


@pytest.mark.parametrize(("endhost", "soon"), [(0, "1"), (1, "0")])
def test_endhost_waits_for_the_acknowledgement(
    lab: Lab, tmp_path: Path, forge: Path, endhost: int, soon: str
) -> None:
    this = Sender(forge)
    this.set("tx", "net/ipv4/ncf_endhost", endhost)
    this.start()
    this.forge(1000, "valid", 1)
    this.look(1015, "soon")
    this.look(2500, "late")
    outcome = this.end(lab, tmp_path)
    assert socket(outcome, "soon")["signals"] == "1"
    assert socket(outcome, "soon")["reactions"] == soon
    assert socket(outcome, "late")["reactions"] == "1"


def fuzzed(lab: Lab, work: Path, forge: Path, packets: int) -> None:
    """Send packets of any bytes, and check that the flow did not notice."""
    seconds = packets / 200_000 + 2
    this = Sender(forge, seconds=seconds, rate="2mbit")
    this.start()
    this.forge(500, "fuzz", packets, 200, number=7)
    this.look((seconds - 0.2) * 1000, "end")
    this.sample(seconds, 500)
    outcome = this.end(lab, work)
    assert (outcome.folder / "fuzz.sent").read_text() == f"{packets}\n"
    seen = verdicts(outcome, "end")
    assert seen.keys() == {"malformed", "checksum", "no_flows", "too_fast", "stale", "ahead"}
    assert sum(seen.values()) > packets / 2
    assert min(seen["stale"], seen["ahead"], seen["malformed"]) > packets / 100
    assert set(thresholds(outcome)) == {INFINITE}


def test_any_bytes_change_nothing(lab: Lab, tmp_path: Path, forge: Path) -> None:
    fuzzed(lab, tmp_path, forge, 20_000)


@pytest.mark.long
def test_a_million_packets_of_any_bytes_change_nothing(lab: Lab, tmp_path: Path, forge: Path) -> None:
    fuzzed(lab, tmp_path, forge, 1_000_000)
