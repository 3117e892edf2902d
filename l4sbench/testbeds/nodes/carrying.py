# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One node's part in measuring what a lab carries; runs on the node as root, Python's standard library only.

usage: python3 -c PROGRAM PART   (PART: JSON from `capacity`; in a network namespace with the node's ports)

Prints "ready" once the network is set up, reads the instant of the start (Unix time), and prints JSON: for
every rate how late the node's timers were, and at a receiver how much arrived.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PORT = 5200


def commands(part: dict[str, Any]) -> list[list[str]]:
    """Return the commands that set up a node: addresses, routes, forwarding, delay or queue."""
    found = [["ip", "link", "set", "lo", "up"], ["sysctl", "-qw", "net.ipv4.ip_forward=1"]]
    for port in part["ports"]:
        found += [["ip", "address", "add", port["address"], "dev", port["name"]]]
        found += [["ip", "link", "set", port["name"], "up"]]
        found += [["ethtool", "-K", port["name"], "tso", "off", "gso", "off", "gro", "off"]]
        if part["delay_ms"]:
            delay = ["delay", f"{part['delay_ms']}ms", "limit", "10000"]
            found += [["tc", "qdisc", "add", "dev", port["name"], "root", "netem", *delay]]
    found += [["ip", "route", "add", to, "via", via] for to, via in part["routes"]]
    if part["queue"]:
        first = f"{part['rates_mbps'][0]}mbit"
        on = ["dev", part["queue"]]
        found += [["tc", "qdisc", "add", *on, "root", "handle", "1:", "htb", "default", "1"]]
        found += [["tc", "class", "add", *on, "parent", "1:", "classid", "1:1", "htb", "rate", first]]
        found += [["tc", "qdisc", "add", *on, "parent", "1:1", "pfifo", "limit", "100"]]
    return found


def watch(until_s: float, interval_s: float = 0.01) -> list[float]:
    """Sleep until every instant of a grid, and return how late each one came, in ms."""
    late, due = list[float](), time.time()
    while due < until_s:
        time.sleep(max(0.0, due - time.time()))
        now = time.time()
        while due <= now:
            late.append((now - due) * 1000)
            due += interval_s
    return late


def received_bytes(part: dict[str, Any]) -> int:
    """Return what arrived at the node's first port so far, in bytes of IP packets."""
    return int(Path("/sys/class/net", part["ports"][0]["name"], "statistics/rx_bytes").read_text())


def try_rate(part: dict[str, Any], place: int, began_s: float) -> dict[str, Any]:
    """Take part in one rate from this instant on: half of a second to begin, then the measurement."""
    seconds, rate_mbps = part["seconds"], part["rates_mbps"][place]
    if part["queue"]:
        rate = ["classid", "1:1", "htb", "rate", f"{rate_mbps}mbit"]
        subprocess.run(["tc", "class", "change", "dev", part["queue"], "parent", "1:", *rate], check=True)
    time.sleep(max(0.0, began_s - time.time()))
    sender = None
    if part["to"]:
        # a server for every rate: one that still sees an earlier client refuses the next
        port = str(_PORT + place)
        argv = ["iperf3", "-c", part["to"], "-p", port, "-t", str(seconds + 5)]
        sender = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(max(0.0, began_s + 0.5 - time.time()))
    before, since_s = received_bytes(part), time.time()
    late_ms = watch(began_s + 0.5 + seconds)
    got, took_s = received_bytes(part) - before, time.time() - since_s
    if sender is not None:
        sender.kill()
        sender.wait()
    return {"late_ms": [round(late, 2) for late in late_ms], "received_mbps": got * 8 / 1e6 / took_s}


def main() -> None:
    """Set up, wait for the start, and take part in every rate."""
    part = json.loads(sys.argv[1])
    for argv in commands(part):
        subprocess.run(argv, check=True, capture_output=True)
    places = range(len(part["rates_mbps"]))
    ports = [_PORT + place for place in places] if part["serves"] else []
    servers = [
        subprocess.Popen(["iperf3", "-s", "-p", str(port)], stdout=subprocess.DEVNULL) for port in ports
    ]
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        began_s = float(sys.stdin.readline())
        each_s = 1.0 + part["seconds"]
        found = [try_rate(part, place, began_s + place * each_s) for place in places]
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        for server in servers:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
