# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of sockets and queues at an interval, in the form `collectors` reads."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Mapping

from system import duration_ns, port

SS_FILE = "ss.txt"
TC_FILE = "tc-{network}.txt"


class Sampler(threading.Thread):
    """Runs one command again and again, from the start instant on, each time after a line with the time."""

    def __init__(self, argv: list[str], output: Path, interval_ns: int, start_ns: int) -> None:
        super().__init__(name=output.name, daemon=True)
        self._argv = argv
        self._output = output
        self._interval_ns = interval_ns
        self._start_ns = start_ns
        self._end = threading.Event()
        self.missed = 0
        """Samples left out because the one before took too long."""

    def end(self) -> None:
        """Stop after the sample under way."""
        self._end.set()
        self.join(10)

    def run(self) -> None:
        """Sample until `end`. A command that fails leaves no sample."""
        tick = 0
        with self._output.open("w", encoding="utf-8") as out:
            while True:
                wait_ns = self._start_ns + tick * self._interval_ns - time.monotonic_ns()
                if self._end.wait(max(0.0, wait_ns / 1e9)):
                    return
                at_ms = (time.monotonic_ns() - self._start_ns) / 1e6
                try:
                    ended = subprocess.run(
                        self._argv,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        text=True,
                        timeout=5,
                        check=False,
                    )
                except (OSError, subprocess.TimeoutExpired):
                    ended = None
                if ended is not None and not ended.returncode and ended.stdout.strip():
                    out.write(f"@ {at_ms:.3f}\n{ended.stdout.rstrip()}\n")
                    out.flush()
                due = max(tick + 1, (time.monotonic_ns() - self._start_ns) // self._interval_ns)
                self.missed += due - tick - 1
                tick = due


def samplers(part: Mapping[str, Any], node: str, raw: Path, start_ns: int) -> list[Sampler]:
    """The samplers of a node's program, not yet started."""
    found = []
    for sampler in part["programs"][node]["samplers"]:
        interval_ns = duration_ns(sampler["interval"])
        if sampler["kind"] == "sockets":
            argv = ["ss", "-tinemHO", *_ports(part, node)]
            found.append(Sampler(argv, raw / SS_FILE, interval_ns, start_ns))
        else:
            network = sampler["network"]
            argv = ["tc", "-s", "-j", "qdisc", "show", "dev", port(part, node, network)]
            found.append(Sampler(argv, raw / TC_FILE.format(network=network), interval_ns, start_ns))
    return found


def _ports(part: Mapping[str, Any], node: str) -> list[str]:
    """A filter of ss: the sockets of the flows that this node sends or receives, and no others."""
    words: list[str] = []
    for name, program in part["programs"].items():
        for flow in program["flows"]:
            for at, side in ((name, "dport"), (flow["receiver"], "sport")):
                if at == node:
                    words += ["or"] if words else []
                    words += [side, "=", f":{flow['port']}"]
    return ["(", *words, ")"] if words else []
