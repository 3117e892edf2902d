# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure the speed of the virtual testbed and of planning: `make bench`.

Plans 100,000 cells as the command line does. Then it runs the two-flow 100 Mbit/s cell through `l4sbench
run`, one job at a time, and counts the CPU time of the whole process tree: start-up, guest boot, traffic,
sampling and collection. Three runs separate the fixed cost of a trial from the cost of a virtual second.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LONG_S = 60
SHORT_S = 1
TRIALS = 4

MATRIX = """\
matrix: bench
topology: line6
rate: 100mbit
rtt: 10ms
duration: {seconds}s
trials: {trials}
expect.bottleneck: false
flows:
  l4s:     {{cc: prague}}
  classic: {{cc: cubic}}
aqm: {aqm}
buffer_bdp: 2
"""


@dataclass(frozen=True)
class Cost:
    """CPU time and wall time of one `l4sbench run`."""

    cpu_s: float
    wall_s: float


def measure(folder: Path, aqm: str, seconds: int, trials: int) -> Cost:
    """Run `trials` trials of `seconds` each in a run directory of their own."""
    place = folder / f"{aqm}-{seconds}-{trials}"
    place.mkdir()
    matrix = place / "bench.yaml"
    matrix.write_text(MATRIX.format(aqm=aqm, seconds=seconds, trials=trials), encoding="utf-8")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "l4sbench", "run", str(matrix), "--dir", str(place / "runs"), "--jobs", "1"],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    # 1: some trial is invalid, which a second of slow start often is; its cost is the same
    if done.returncode not in {0, 1}:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu_s, time.monotonic() - began)


PLANNED = """\
matrix: planned
topology: line6
duration: 30s
trials: 3
flows:
  l4s:     {cc: prague}
  classic: {cc: cubic}
axes:
"""


def planning_cpu_s(folder: Path) -> float:
    """Return the CPU seconds that `l4sbench plan` takes for 100,000 cells."""
    axes = {
        "aqm": ["fifo", "codel", "pie", "fq-codel", "dualpi2"],
        "buffer_bdp": [str(n / 4) for n in range(1, 21)],
        "rtt": [f"{n}ms" for n in range(1, 41)],
        "rate": [f"{n}mbit" for n in range(10, 60, 2)],
    }
    matrix = folder / "planned.yaml"
    lines = "".join(f"  {name}: [{', '.join(values)}]\n" for name, values in axes.items())
    matrix.write_text(PLANNED + lines, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "l4sbench", "plan", str(matrix), "--dir", str(folder / "none")],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the cost of planning, and a line per queue."""
    with tempfile.TemporaryDirectory(prefix="l4sbench-bench-") as planning:
        print(f"plan of 100,000 cells: {planning_cpu_s(Path(planning)):.1f} CPU s")
    print("queue        virtual s per CPU s   per wall s   fixed cost per trial (CPU s, wall s)")
    with tempfile.TemporaryDirectory(prefix="l4sbench-bench-") as folder:
        for aqm in ("fifo", "fq-codel", "dualpi2"):
            one = measure(Path(folder), aqm, SHORT_S, 1)
            short = measure(Path(folder), aqm, SHORT_S, TRIALS)
            long = measure(Path(folder), aqm, LONG_S, TRIALS)
            virtual_s = TRIALS * LONG_S
            # The fixed cost includes SHORT_S seconds of traffic, which is little.
            fixed_cpu_s = (short.cpu_s - one.cpu_s) / (TRIALS - 1)
            fixed_wall_s = (short.wall_s - one.wall_s) / (TRIALS - 1)
            print(
                f"{aqm:<12} {virtual_s / long.cpu_s:>19.1f} {virtual_s / long.wall_s:>12.1f}"
                f"   {fixed_cpu_s:.2f}, {fixed_wall_s:.2f}"
            )


if __name__ == "__main__":
    main()
