# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure what the local lab of booted nodes carries: `python tools/bench_nodes.py [RATE ...]`.

Boots a lab of its own, gives every node the links, routes and queues of a line6 cell with DualPI2, and sends
two flows for some seconds. Prints goodput, CPU time, and round trips with and without traffic. Rates
are written as in a matrix; the default is 25mbit 50mbit 100mbit.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.api import programs_of
from l4sbench.testbeds import nodes, ssh
from l4sbench.topology import topology

if TYPE_CHECKING:
    from l4sbench.program.data import Program

LINE6 = topology("line6")

NAME = f"bench-{os.getpid()}"
SECONDS = 15
PINGS = 500
RTT_MS = 10
MATRIX = """\
matrix: bench-nodes
topology: line6
rate: {rate}
rtt: {rtt}ms
duration: {seconds}s
trials: 1
flows:
  l4s:     {{cc: prague}}
  classic: {{cc: cubic}}
aqm: dualpi2
buffer_bdp: 2
"""


@dataclass(frozen=True)
class Pings:
    """Round-trip times, ms."""

    sorted_ms: tuple[float, ...]

    def __str__(self) -> str:
        at = [self.sorted_ms[min(len(self.sorted_ms) - 1, int(q * len(self.sorted_ms)))] for q in (0.5, 0.99)]
        return f"{at[0]:6.2f} {at[1]:6.2f} {self.sorted_ms[-1]:6.2f}"


def on(lab: nodes.NodesStatus, node: str, script: str) -> str:
    """Run a shell script as root on a node."""
    done = subprocess.run(
        ["ssh", "-F", str(lab.ssh_config), node, "sudo sh -eu"],
        input=script,
        capture_output=True,
        text=True,
        timeout=SECONDS + 60,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{node}: {done.stderr}")
    return done.stdout


def furnish(lab: nodes.NodesStatus, node: str, program: Program, macs: Mapping[str, str]) -> None:
    """Apply a node's program to it; ports get the names of their networks, as in the virtual testbed."""

    def line(*argv: str) -> str:
        return shlex.join(word.removeprefix("@") for word in argv)

    lines = [f"modprobe {shlex.quote(module.name)}" for module in program.modules]
    for link in program.links:
        lines += [
            f"port=$(grep -l {macs[link.network]} /sys/class/net/*/address | cut -d/ -f5)",
            f"ip link set $port down && ip link set $port name {link.network}",
            f"ip address replace {link.address} dev {link.network} && ip link set {link.network} up",
        ]
    lines += [line("sysctl", "-qw", f"{name}={value}") for name, value in program.sysctls]
    lines += [line("ip", "route", "replace", r.to, "via", r.via, *r.options) for r in program.routes]
    lines += [f"{line(*command.argv)} 2>/dev/null || true" for command in program.reset]
    lines += [line(*command.argv) for command in program.setup]
    on(lab, node, "\n".join(lines))


def cpu_s(namespace: Path) -> float:
    """Return the CPU seconds of all processes of a process namespace so far; few end while flows run."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "ns/pid").readlink() == namespace:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def namespace_of(lab: nodes.NodesStatus) -> Path:
    """Return the process namespace of the lab."""
    keeper = json.loads((lab.folder / "state.json").read_text())["keeper"]["pid"]
    return Path(f"/proc/{keeper}/ns/pid_for_children").readlink()


def ping(lab: nodes.NodesStatus, seconds: float) -> Pings:
    """Measure round trips from a sender to a receiver, through delay and router."""
    to = LINE6.by_name["rx-classic"].addresses[0].ip
    said = on(lab, "tx-classic", f"ping -c {PINGS} -i {seconds / PINGS:.3f} {to} || true")
    return Pings(tuple(sorted(float(ms) for ms in re.findall(r"time=([\d.]+) ms", said))))


def flows(lab: nodes.NodesStatus) -> float:
    """Send both flows and return their goodput, in Mbit/s."""
    got: list[float] = []

    def send(pair: tuple[str, str], cc: str) -> None:
        to = LINE6.by_name[pair[1]].addresses[0].ip
        said = on(lab, pair[0], f"iperf3 -J -C {cc} -t {SECONDS} -c {to}")
        got.append(json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6)

    threads = [
        threading.Thread(target=send, args=(pair, cc))
        for pair, cc in zip(LINE6.pairs, ("prague", "cubic"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(got)


def main() -> None:
    """Print a line per rate."""
    began = time.monotonic()
    hosts = {node.name: {p.network: p.mac for p in node.ports} for node in nodes.plan_lab(LINE6).nodes}
    try:
        lab = nodes.up("line6", name=NAME)
        print(f"six nodes up in {time.monotonic() - began:.1f} s; load {os.getloadavg()[0]:.1f}", flush=True)
        print("rate      Mbit/s  of rate  CPU s per s  ping idle: 50 % 99 % max, ms  ping loaded", flush=True)
        for number, rate in enumerate(sys.argv[1:] or ("25mbit", "50mbit", "100mbit")):
            with tempfile.TemporaryDirectory() as folder:
                matrix = Path(folder) / "bench.yaml"
                matrix.write_text(MATRIX.format(rate=rate, rtt=RTT_MS, seconds=SECONDS))
                cell, _, programs = programs_of(matrix, traits=ssh.TRAITS)
            for node, program in programs.items():
                furnish(lab, node, program, hosts[node])
            if number == 0:
                for receiver in LINE6.receivers:
                    on(lab, receiver, "iperf3 -s -D")
            idle, namespace = ping(lab, 5), namespace_of(lab)
            loaded: list[Pings] = []
            background = threading.Thread(target=lambda: loaded.append(ping(lab, SECONDS - 3)))  # noqa: B023
            background.start()
            before, at = cpu_s(namespace), time.monotonic()
            mbps = flows(lab)
            cores = (cpu_s(namespace) - before) / (time.monotonic() - at)
            background.join()
            share = mbps / cell.rate.mbps
            print(f"{rate:9} {mbps:6.1f}  {share:6.1%}  {cores:11.2f}  {idle}   {loaded[0]}", flush=True)
    finally:
        nodes.down(NAME)  # also when some nodes did not come up
        shutil.rmtree(nodes.status(NAME).folder, ignore_errors=True)


if __name__ == "__main__":
    main()
