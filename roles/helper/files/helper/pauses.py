# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The pauses of a host: gaps in a timer and in a UDP stream that should come every 0.1 ms.

Hosts stand still now and then: a hypervisor runs another machine, a tick of the kernel comes first, a CPU
sleeps deeply. Packets wait meanwhile. Nothing here needs root: a process sleeps until every instant of a grid
and reads the clock, then one process sends datagrams on the same grid to another on the loopback interface.

Run as a program, `python3 pauses.py SECONDS` measures and prints JSON, on any host with Python.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from typing import Any, Callable, TextIO

RATE_HZ = 10_000
LEAST_NS = 1_000_000
"""Shortest gap that counts as a pause: ten times what the grid asks for."""
MOST_LISTED = 20_000
"""Number of pauses whose sizes are kept; a minute of one pause per 3 ms."""

_STEP_NS = 1_000_000_000 // RATE_HZ
_PR_SET_TIMERSLACK = 29
_PR_SET_PDEATHSIG = 1
_LAST = 0xFFFFFFFF
_BYTES = 64
_PATIENCE_S = 10.0


class Gaps:
    """Times between consecutive events, of which those of at least 1 ms are kept.

    The first event only begins a gap. Times are of any one clock, in ns.
    """

    def __init__(self) -> None:
        self._before_ns = 0
        self._first_ns = 0
        self.events = 0
        self.sizes_ns: list[int] = []

    def add(self, now_ns: int) -> None:
        """Count an event."""
        if not self.events:
            self._first_ns = now_ns
        elif now_ns - self._before_ns >= LEAST_NS:
            self.sizes_ns.append(now_ns - self._before_ns)
        self.events += 1
        self._before_ns = now_ns

    def report(self) -> dict[str, Any]:
        """Return the result as plain data: sizes are in ms, in the order of their arrival."""
        return {
            "events": self.events,
            "seconds": round((self._before_ns - self._first_ns) / 1e9, 3),
            "pauses": len(self.sizes_ns),
            "sizes_ms": [round(size / 1e6, 3) for size in self.sizes_ns[:MOST_LISTED]],
        }


def on_grid(seconds: float, act: Callable[[int], None]) -> None:
    """Call `act` with the time at every instant of the grid; instants that a pause covered are left out."""
    began_ns = due_ns = time.monotonic_ns()
    end_ns = began_ns + int(seconds * 1e9)
    while due_ns < end_ns:
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        now_ns = time.monotonic_ns()
        act(now_ns)
        due_ns += _STEP_NS * max(1, -((due_ns - now_ns) // _STEP_NS))


def timer(seconds: float) -> dict[str, Any]:
    """Return the gaps of a timer."""
    gaps = Gaps()
    on_grid(seconds, gaps.add)
    return gaps.report()


def stream(seconds: float) -> dict[str, Any]:
    """Return the gaps of a UDP stream on the loopback interface, where it is sent and where it is read.

    `lost` is the number of datagrams that did not arrive.

    Raises:
        OSError: There is no loopback interface, or no process could be started.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, tempfile.TemporaryFile("w+") as shared:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(_PATIENCE_S)
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                _end_with(parent)
                _send(receiver.getsockname(), seconds, shared)
            finally:
                os._exit(1)
        try:
            received = Gaps()
            while struct.unpack_from("!I", receiver.recv(_BYTES))[0] != _LAST:
                received.add(time.monotonic_ns())
            shared.seek(0)
            sent = json.load(shared)
        except socket.timeout as error:
            raise OSError("datagrams on the loopback interface do not arrive") from error
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return {"sent": sent, "received": received.report(), "lost": sent["events"] - received.events}


def _send(address: tuple[str, int], seconds: float, shared: TextIO) -> None:
    """Send the stream, write its gaps to a file, and announce the end until this process is killed."""
    gaps = Gaps()
    padding = bytes(_BYTES - 4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(address)

        def send(now_ns: int) -> None:
            gaps.add(now_ns)
            sender.send(struct.pack("!I", gaps.events) + padding)

        on_grid(seconds, send)
        json.dump(gaps.report(), shared)
        shared.flush()
        while True:  # a full buffer loses datagrams
            sender.send(struct.pack("!I", _LAST) + padding)
            time.sleep(0.1)


def _fire_when_due() -> None:
    """Switch off the delay of up to 50 us by which the kernel may group this process's timers."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def pauses(seconds: float) -> dict[str, Any]:
    """Measure the timer, then the stream, for this long each.

    Raises:
        OSError: As `stream`.
    """
    _fire_when_due()
    return {"timer": timer(seconds), **stream(seconds)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(pauses(float(sys.argv[1]))) + "\n")
