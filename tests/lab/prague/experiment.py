# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The network of all experiments with TCP Prague."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES, Lab
from tests.lab.guests import Outcome, Script, boot
from tests.lab.prague.captures import Segment, segments

MS = 1_000_000
PORT = 5001
RX, RX6 = "10.0.9.1", "fd00:9::1"
MODULE = GUEST_MODULES / "tcp_prague.ko"
HEADERS_BYTES = 64
"""IPv4, and TCP with the options that data carries: timestamps and AccECN's."""


class Experiment:
    """Senders, a router with the queue on its way to the receiver `rx`, and a module loaded: Prague's.

    The delay is on the way back, at the router's ports towards the senders: `rtts_ms` names the senders and
    their base RTTs, `rtt_ms` is that of a single sender `tx`. The router routes, since a packet that only
    crosses bridges stays charged to its socket, and the sender's own small-queue limit would then be what
    fills or spares the queue.
    """

    def __init__(
        self,
        *,
        rate: str = "100mbit",
        queue: str = "dualpi2",
        rtt_ms: float = 20,
        rtts_ms: Mapping[str, float] | None = None,
        params: str = "-",
        module: PurePosixPath = MODULE,
        ecn: int = 3,
    ) -> None:
        self.flows: list[tuple[object, ...]] = []
        self.programs: list[Path] = []
        self.script = Script()
        self.script.line("module", module, params)
        self.ecn = ecn
        senders = rtts_ms or {"tx": rtt_ms}
        for node in ("mid", "rx", *senders):
            self.script.line("netns", node)
        for key in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            self.set("mid", key, 1)
        self._connect("rx", 9)
        for net, (node, delay_ms) in enumerate(senders.items(), start=1):
            self._connect(node, net)
            self.script.batch("mid", "tc", f"qdisc add dev {node} root {delay(delay_ms)}")
        self.script.batch(
            *("mid", "tc", "qdisc add dev rx root handle 1: htb default 3"),
            f"class add dev rx parent 1: classid 1:3 htb rate {rate} quantum 1514",
            f"qdisc add dev rx parent 1:3 handle 3: {queue}",
        )

    def _connect(self, node: str, net: int) -> None:
        script = self.script
        script.batch("-", "ip", f"link add name {node} netns {node} type veth peer name {node} netns mid")
        for end, number in (("mid", 2), (node, 1)):
            script.batch(
                *(end, "ip", f"link set dev {node} up", f"addr add 10.0.{net}.{number}/24 dev {node}"),
                f"addr add fd00:{net}::{number}/64 dev {node} nodad",
            )
            script.run(end, "ethtool", "-K", node, "tso", "off", "gso", "off", "gro", "off")
        routes = (f"route add default via 10.0.{net}.2", f"-6 route add default via fd00:{net}::2")
        for route in routes:
            script.run(node, "ip", *route.split())
        self.set(node, "net/ipv4/tcp_ecn", self.ecn)

    def set(self, node: str, key: str, value: object) -> None:
        """Set a sysctl."""
        self.script.line("sysctl", node, key, value)

    def capture(self, node: str) -> None:
        """Keep what passes the node's port; the file is `<node>.pcap`."""
        self.script.line(
            *("daemon", node, "-", f"{node}.pcap.stderr", "tcpdump", "-Z", "root", "-nUB", 65536, "-s", 100),
            *("-i", node, "-w", f"/trial/{node}.pcap", f"tcp port {PORT}"),
        )

    def flow(self, seconds: float, *, node: str = "tx", start_ms: int = 0, cc: str = "prague") -> None:
        """Add a flow of lab-traffic, one per sender: writes `<node>.json` and `<node>.receiver.json`."""
        common = ("--port", PORT + len(self.flows), "--seconds", seconds, "--interval", 1)
        self.script.line("daemon", "rx", f"{node}.receiver.json", "-", "lab-traffic", "receive", *common)
        send = ("lab-traffic", "send", "--to", RX, *common, "--cc", cc)
        self.flows.append(("at", node, start_ms * MS, f"{node}.json", "-", *send))

    def start(self) -> None:
        """All is set up: start the flows. What else happens at an instant comes after this."""
        self.script.line("start", 3000)  # until IPv6 neighbours can be asked
        for flow in self.flows:
            self.script.line(*flow)

    def at(self, node: str, at_ms: float, *argv: object, out: str = "-") -> None:
        """Run a program some time after the start."""
        self.script.line("at", node, round(at_ms * MS), out, "-", *argv)

    def sample(self, seconds: float, interval_ms: int) -> None:
        """Sample the sockets of `tx`."""
        self.at(
            *("-", 0, "lab-sampler", "--interval-ms", interval_ms, "--seconds", seconds),
            *("--sockets-of", "tx", "--out-sockets", "/trial/sockets.jsonl"),
        )

    def end(self, lab: Lab, folder: Path) -> Outcome:
        """Wait for the flows' end, then run all of this."""
        self.script.line("wait", 1_000_000 * MS)
        return self.boot(lab, folder)

    def boot(self, lab: Lab, folder: Path) -> Outcome:
        """Run all of this as it is."""
        outcome = boot(lab, self.script, folder / "trial", programs=self.programs)
        assert outcome.end["ok"], outcome.end
        return outcome


def delay(milliseconds: float) -> str:
    """A queue that only delays."""
    return f"netem delay {milliseconds}ms limit 60000"


def random_marking(probability: float) -> str:
    """A queue that never fills, and marks each packet with a probability."""
    return f"netem loss random {probability:.4%} ecn limit 60000"


def sender_samples(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the samples of the first flow's sender while it was connected."""
    return [
        sample
        for sample in outcome.samples("sockets.jsonl")
        if sample["node"] == "tx" and sample["rport"] == PORT and sample["state"] == "ESTAB"
    ]


def sent_segments(outcome: Outcome, node: str = "tx") -> list[Segment]:
    """Return the packets captured at a node on the way to the receiver."""
    return [s for s in segments(outcome.folder / f"{node}.pcap", PORT) if s.to_server]


def rate_mbps(intervals: list[dict[str, Any]]) -> float:
    """Of IP packets, from the first interval's end to the last one's."""
    first, last = intervals[0], intervals[-1]
    packets = last["delivered"] - first["delivered"]
    payload_bytes = last["bytes_acked"] - first["bytes_acked"]
    megabits = (payload_bytes + packets * HEADERS_BYTES) * 8 / 1e6
    return float(megabits / (last["end_s"] - first["end_s"]))


def marked_share(intervals: list[dict[str, Any]]) -> float:
    """Of the packets delivered from the first interval's end to the last one's."""
    first, last = intervals[0], intervals[-1]
    return float((last["delivered_ce"] - first["delivered_ce"]) / (last["delivered"] - first["delivered"]))
