# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The lateness of a node's timers: a node without a CPU forwards packets late, and measures itself.

Other work on the host, another guest on the machine below it, a hypervisor that gives no time: all of them
show as a timer that fires late, which is measured on every kind of host alike. The kernel's statistics of its
CPUs are stored as well, to identify the cause.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from during import During
from system import read_text, write_whole

FILE = "lateness.json"
INTERVAL_NS = 50_000_000
_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Fields of the first line of /proc/stat (proc_stat(5)); one tick is 10 ms."""


class Watch(During):
    """Thread that wakes up at an interval from the start instant on, and records its delay each time.

    Instants within a longer delay count, too: packets due then would have waited as well.
    """

    def run(self) -> None:
        """Watch until `end`, and write the file."""
        late_ns: list[int] = []
        before, before_ns = cpus(), time.monotonic_ns()
        due_ns = self.start_ns
        while not self.wait(due_ns):
            now_ns = time.monotonic_ns()
            while due_ns <= now_ns:
                late_ns.append(now_ns - due_ns)
                due_ns += INTERVAL_NS
        after, seconds = cpus(), (time.monotonic_ns() - before_ns) / 1e9
        plain: dict[str, Any] = {
            "interval_ms": INTERVAL_NS / 1e6,
            "late_ms": [round(late / 1e6, 2) for late in late_ns],
            "seconds": round(seconds, 3),
            "cpus": {name: round(after[name] - before[name], 6) for name in before if name in after},
        }
        write_whole(self.output, json.dumps(plain))


def cpus() -> dict[str, float]:
    """Return the seconds of all CPUs by use so far; `pressure`: seconds in which a task waited for a CPU."""
    words = read_text("/proc/stat").partition("\n")[0].split()[1:]
    found = {name: int(word) / 100 for name, word in zip(_TICKS, words)}
    some = re.search(r"^some .*total=(\d+)$", read_text("/proc/pressure/cpu"), re.MULTILINE)
    return {**found, "pressure": int(some[1]) / 1e6} if some else found
