# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of sockets and queues at an interval, in the form `collectors` reads."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from counters import completed
from diag import Diag, line
from during import During
from system import duration_ns, port, read_text

SS_FILE = "ss.txt"
SOCKETS_FILE = "sockets.jsonl"
TC_FILE = "tc-{network}.txt"


class Recorder(During):
    """Takes a sample again and again, from the start instant on.

    Args:
        sample: Returns the text of a sample for the milliseconds since the start, or "" for none.
        output: File for all of them.
        interval_ns: From one to the next.
        start_ns: The start instant on the monotonic clock.
    """

    def __init__(self, sample: Callable[[float], str], output: Path, interval_ns: int, start_ns: int) -> None:
        super().__init__(output, start_ns)
        self._sample = sample
        self._interval_ns = interval_ns

    def run(self) -> None:
        """Sample until `end`."""
        tick = 0
        with self.output.open("w", encoding="utf-8") as out:
            while not self.wait(self.start_ns + tick * self._interval_ns):
                out.write(self._sample((time.monotonic_ns() - self.start_ns) / 1e6))
                out.flush()
                # instants that this sample took are left out
                tick = max(tick + 1, (time.monotonic_ns() - self.start_ns) // self._interval_ns)


def printed(argv: list[str]) -> Callable[[float], str]:
    """Return a sample that has what a command prints, after a line with the time; none if it fails."""

    def sample(at_ms: float) -> str:
        try:
            ended = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        text = ended.stdout.rstrip()
        return f"@ {at_ms:.3f}\n{text}\n" if text and not ended.returncode else ""

    return sample


def asked(diag: Diag, node: str) -> Callable[[float], str]:
    """Return a sample that has what the kernel reports of the flows' sockets."""

    def sample(at_ms: float) -> str:
        try:
            return "".join(line(at_ms, node, found) for found in diag.sockets())
        except OSError:
            return ""

    return sample


def samplers(part: Mapping[str, Any], node: str, raw: Path, start_ns: int) -> list[Recorder]:
    """Return the samplers of a node's program, not yet started."""
    found = []
    for sampler in part["programs"][node]["samplers"]:
        interval_ns = duration_ns(sampler["interval"])
        if sampler["kind"] == "sockets":
            found.append(_sockets(part, node, raw, interval_ns, start_ns))
        else:
            network = sampler["network"]
            interface = port(part, node, network)
            layouts = {e["source"]: e["statistics"] for e in sampler["exports"] if e["statistics"]}
            shown = printed(["tc", "-s", "-j", "qdisc", "show", "dev", interface])
            sample = completed(shown, interface, layouts)
            found.append(Recorder(sample, raw / TC_FILE.format(network=network), interval_ns, start_ns))
    return found


def _sockets(part: Mapping[str, Any], node: str, raw: Path, interval_ns: int, start_ns: int) -> Recorder:
    """Return a sampler by netlink; by `ss` where the kernel does not answer."""
    runs = [(name, run) for name, p in part["programs"].items() for run in p["flows"] if run["sampled"]]
    ports = {run["port"] for name, run in runs if node in {name, run["receiver"]}}
    try:
        diag = Diag(ports, accecn=mainline_accecn())
        list(diag.sockets())
    except OSError:
        words = [word for port_ in sorted(ports) for side in ("sport", "dport") for word in _or(side, port_)]
        argv = ["ss", "-tinemHO", "(", *words[1:], ")"]
        return Recorder(printed(argv), raw / SS_FILE, interval_ns, start_ns)
    return Recorder(asked(diag, node), raw / SOCKETS_FILE, interval_ns, start_ns)


def _or(side: str, number: int) -> list[str]:
    return ["or", side, "=", f":{number}"]


def mainline_accecn() -> bool:
    """Return True if this kernel has mainline's AccECN, which came with Linux 7.0."""
    release = read_text("/proc/sys/kernel/osrelease")
    return Path("/proc/sys/net/ipv4/tcp_ecn_option").exists() and int(release.partition(".")[0] or 0) >= 7
