# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The pauses of a host: gaps in a timer that should fire every 0.1 ms.

Hosts stand still now and then: a hypervisor runs another machine, a tick of the kernel comes first, a CPU
sleeps deeply. Packets wait meanwhile. Nothing here needs root: a process sleeps until every instant of a grid
and reads the clock.

Run as a program, `python3 pauses.py SECONDS` measures and prints JSON, on any host with Python.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

RATE_HZ = 10_000
LEAST_NS = 1_000_000
"""Shortest gap that counts as a pause: ten times what the grid asks for."""
MOST_LISTED = 20_000
"""Number of pauses whose sizes are kept; a minute of one pause per 3 ms."""

_STEP_NS = 1_000_000_000 // RATE_HZ
_PR_SET_TIMERSLACK = 29


def pauses(seconds: float) -> dict[str, Any]:
    """Measure for this long; sizes are in ms, in the order of their arrival."""
    # otherwise the kernel may group timers, and let each fire up to 50 us late
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    events = 0
    sizes_ns: list[int] = []
    began_ns = before_ns = due_ns = time.monotonic_ns()
    while due_ns < began_ns + seconds * 1e9:
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        now_ns = time.monotonic_ns()
        events += 1
        if now_ns - before_ns >= LEAST_NS:
            sizes_ns.append(now_ns - before_ns)
        before_ns = now_ns
        due_ns += _STEP_NS * max(1, -((due_ns - now_ns) // _STEP_NS))  # without those that a pause covered
    return {
        "events": events,
        "seconds": round((before_ns - began_ns) / 1e9, 3),
        "pauses": len(sizes_ns),
        "sizes_ms": [round(size / 1e6, 3) for size in sizes_ns[:MOST_LISTED]],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(pauses(float(sys.argv[1]))) + "\n")
