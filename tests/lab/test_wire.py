# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The lab's wires: delay, order, pauses and the cost of packets, as trials see them."""

from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Script, boot
from tests.lab.wires import sysctl, tables

pytestmark = pytest.mark.lab


def test_the_path_has_its_rtt(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, "capture: headers\n")
    least_ms = found.sockets.filter(pl.col("side") == "sender")["min_rtt_ms"].min()
    # 20 ms, and the packet's own time at 20 Mbit/s: 0.6 ms
    assert least_ms == pytest.approx(20.3, abs=0.4)
    assert sysctl(found, "delay", "net-mid.delay_ns") == [10_000_000]
    assert sysctl(found, "delay", "net-mid.drops") == [0]
    # noise keeps the order of packets: nothing is lost in front of the queue, and nothing comes twice
    lost = found.packet_flows["lost_packets"].sum()
    assert found.flows["retransmits_packets"].sum() == found.packet_flows["retransmits_packets"].sum()
    assert lost <= found.flows["retransmits_packets"].sum() + 2


def test_what_a_host_sends_at_once_arrives_at_once(lab: Lab, tmp_path: Path) -> None:
    """Noise delays bursts, not their packets: it may not turn back-to-back packets into paced ones."""
    found = tables(tmp_path, "capture: headers\npath.noise: 0.1\n")
    most_ms = 0.1 * 1514 * 8 / 20e3
    arrivals_ms = found.scan("packets").filter(pl.col("group") == "classic").collect()["t_ms"]
    gaps_ms = arrivals_ms.diff().drop_nulls()
    together = (gaps_ms == 0).sum()
    apart = gaps_ms.is_between(0, most_ms, closed="none").sum()
    # TCP may send two bursts at one instant, when an ACK also repairs a loss
    assert together > 1000
    assert apart < together / 10


@pytest.mark.parametrize(
    ("where", "nodes"), [("delay", 1), ("router", 1), ("receivers", 2), ("senders+delay+router+receivers", 6)]
)
def test_a_node_pauses_as_often_as_it_is_asked_to(lab: Lab, tmp_path: Path, where: str, nodes: int) -> None:
    """Every pause delays what arrives in it, so some round trips take a pause longer than the path."""
    more = f"path.pause: 30ms\npath.pause_every: 200ms\npath.pause_at: {where}\naqm.limit: 200kB\n"
    found = tables(tmp_path, more)
    pauses = found.hosts.filter(pl.col("name") == "net.wire.pauses")
    counts = [int(value) for value in pauses["value"] if value != "0"]
    assert len(counts) == nodes
    # 10 s of flows after some start offsets; the gaps are random
    assert all(40 <= count <= 75 for count in counts)


def test_pauses_come_from_the_seed(lab: Lab, tmp_path: Path) -> None:
    more = "axes:\n  path.pause: [3ms]\n  path.pause_at: [delay, router, receivers, senders]\n"
    first = tables(tmp_path, more, "first", jobs=1)
    second = tables(tmp_path, more, "second", jobs=3)
    for name in ("flows", "intervals", "sockets", "queues", "hosts"):
        assert getattr(first, name).equals(getattr(second, name)), name


def test_packets_cost_each_host_its_time(lab: Lab, tmp_path: Path) -> None:
    """Data cross three hosts (delay, router, receiver), and their ACKs three (router, delay, sender)."""
    found = tables(tmp_path, "path.noise: 0\naxes: {host.packet_cost: [0s, 50us]}\n")
    cells = found.trials.select("cell", "host.packet_cost_ms")
    senders = found.sockets.filter(pl.col("side") == "sender").join(cells, on="cell")
    least = senders.group_by("host.packet_cost_ms").agg(pl.col("min_rtt_ms").min())
    none_ms, some_ms = least.sort("host.packet_cost_ms")["min_rtt_ms"]
    assert some_ms - none_ms == pytest.approx(6 * 0.05, abs=0.05)


def bulk_flow(rate: str, queue: str, seconds: int) -> Script:
    """Return the beginning of a script: a flow of CUBIC through a router with a queue, on a path of 20 ms."""
    script = Script()
    script.line("module", "/lab/modules/wire.ko", "-")
    ends = {"tx": "left", "rx": "right"}
    for node in ("tx", "mid", "rx"):
        script.line("netns", node)
        script.line("sysctl", node, "net/ipv6/conf/default/disable_ipv6", 1)
    for number, (node, net) in enumerate(ends.items(), 1):
        for at in (node, "mid"):
            script.run("-", "ip", "link", "add", net, "netns", at, "type", "wire")
        script.line("port", node, net, f"02:00:0a:00:0{number}:02", f"10.0.{number}.2/24")
        script.line("port", "mid", net, f"02:00:0a:00:0{number}:01", f"10.0.{number}.1/24")
        script.line("neighbour", node, net, f"10.0.{number}.1", f"02:00:0a:00:0{number}:01")
        script.line("neighbour", "mid", net, f"10.0.{number}.2", f"02:00:0a:00:0{number}:02")
        script.run(node, "ip", "route", "add", "default", "via", f"10.0.{number}.1")
        script.line("sysctl", node, f"net/wire/{net}/delay_ns", 10_000_000)
    script.line("sysctl", "mid", "net/ipv4/ip_forward", 1)
    script.batch(
        "mid",
        "tc",
        "qdisc add dev right root handle 1: htb default 3",
        f"class add dev right parent 1: classid 1:3 htb rate {rate}",
        f"qdisc add dev right parent 1:3 {queue}",
    )
    common = ("--port", 5001, "--seconds", seconds)
    script.line("daemon", "rx", "receiver.json", "-", "lab-traffic", "receive", *common)
    script.line("start", 100)
    sender = ("lab-traffic", "send", "--to", "10.0.2.2", *common, "--cc", "cubic")
    script.line("at", "tx", 250_000_000, "sender.json", "-", *sender)
    return script


def test_a_flow_stays_in_its_queue_after_a_timeout(lab: Lab, tmp_path: Path) -> None:
    """A router sees headers, and not the hash that the sender's TCP draws anew after a timeout."""
    script = bulk_flow("1mbit", "fq", 20)
    # no ACKs for two seconds, again and again
    for second in (2, 8, 14):
        for verb, when in (("add", second), ("del", second + 2)):
            change = ("ip", "route", verb, "blackhole", "10.0.1.2/32")
            script.line("at", "rx", when * 1_000_000_000, "-", "-", *change)
    script.line("wait", 60_000_000_000)
    script.run("mid", "tc", "-s", "-j", "qdisc", "show", "dev", "right", out="queue.json")
    script.run("tx", "nstat", "-asz", "-j", "TcpExtTcpTimeoutRehash", out="timeouts.json")
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    assert outcome.json("timeouts.json")["kernel"]["TcpExtTcpTimeoutRehash"] >= 3
    assert [queue["flows"] for queue in outcome.json("queue.json") if queue["kind"] == "fq"] == [1]


def test_a_router_does_not_know_when_a_packet_was_sent(lab: Lab, tmp_path: Path) -> None:
    """The fq queue counts the time since a packet's departure time, and TCP sets one for its host's queue."""
    script = bulk_flow("1gbit", "fq ce_threshold 5ms", 2)
    script.line("wait", 10_000_000_000)
    script.run("mid", "tc", "-s", "-j", "qdisc", "show", "dev", "right", out="queue.json")
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    (queue,) = (queue for queue in outcome.json("queue.json") if queue["kind"] == "fq")
    assert queue["packets"] > 10_000
    assert queue.get("ce_mark", 0) == 0  # its 100 packets of a flow take 1.2 ms
