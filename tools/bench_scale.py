# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure what a run on a Dask cluster costs its client, with many simulated workers (docs/scale.md).

One trial runs here for real, and its files are kept. Then the engine runs a matrix three times with guests
that return these files:

- at once, in this process: the processor time that the engine takes anyway (programs, judging, storing);
- at once, as tasks on workers: what is more is the overhead of Dask per trial;
- as tasks on `--workers` workers that sleep `--seconds` first, as a guest would run: the share of the
  workers' time that is used, from the first trial's start to the end of the last, and this process's memory.

The workers share one process beside this one. Needs the lab and the extra `scale`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.validity import judge
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.engine.loop import Order, execute
from l4sbench.facts.events import Event, TrialEnded
from l4sbench.store import Run, locked
from l4sbench.testbeds.dask.answers import Ran, RawFile, encode, new_files, write
from l4sbench.testbeds.dask.guests import DaskGuests
from l4sbench.testbeds.dask.packing import pack
from l4sbench.testbeds.virtual.guest import Boot, Ended, Guests, LocalGuests
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.testbed import VirtualTestbed

if TYPE_CHECKING:
    from l4sbench.testbeds.dask.worker import Work

MATRIX = """\
matrix: bench-scale
topology: line6
rate: 10mbit
rtt: 10ms
duration: 30s
trials: {trials}
flows:
  l4s:     {{cc: prague}}
  classic: {{cc: cubic}}
aqm: dualpi2
"""

WORKERS = """\
import sys
import dask
# 64 workers that share one interpreter would spend it on profiling themselves a hundred times a second
dask.config.set({"distributed.worker.profile.enabled": False})
from distributed import LocalCluster
cluster = LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, processes=False,
                       protocol="tcp", host="127.0.0.1", dashboard_address=None)
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Recorded:
    """The end of one real guest, and its files."""

    ended: Ended
    files: tuple[RawFile, ...]


@dataclass
class Recorder:
    """Guests on this machine; the last one's files are kept."""

    places: int | None = 1
    queues: bool = False
    last: Recorded | None = None

    def run(self, boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:
        """Boot a guest, and keep its files."""
        before = pack(boot.trial)
        ended = LocalGuests().run(boot, console, limit_s, stop)
        self.last = Recorded(ended, new_files(boot.trial, before))
        return ended


@dataclass(frozen=True)
class Replayed:
    """Guests that end at once with recorded files, in this process.

    `wrote_s` has the processor time that writing them took: real guests write theirs themselves.
    """

    recorded: Recorded
    places: int | None
    queues: bool = True
    wrote_s: list[float] = field(default_factory=list)

    def run(self, boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:  # noqa: ARG002
        """Write the files."""
        began_s = time.thread_time()
        write(self.recorded.files, boot.trial)
        self.wrote_s.append(time.thread_time() - began_s)
        return self.recorded.ended


def replay(file: str, seconds: float, work: Work) -> bytes:  # noqa: ARG001
    """Answer with recorded files after some seconds, on a worker."""
    time.sleep(seconds)
    return Path(file).read_bytes()


@dataclass
class Measured:
    """Costs of one run. `memory_mb` is this process's memory after each trial that ended."""

    trials: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: list[float] = field(default_factory=list)

    def listen(self, event: Event) -> None:
        """Note the memory when a trial has ended."""
        if isinstance(event, TrialEnded):
            self.memory_mb.append(memory_mb())


def memory_mb() -> float:
    """Return the memory of this process that is resident."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def run(home: Path, lab: Lab, trials: int, guests: Guests) -> Measured:
    """Run the matrix with these guests."""
    home.mkdir()
    matrix = home / "bench-scale.yaml"
    matrix.write_text(MATRIX.format(trials=trials), encoding="utf-8")
    prepared = prepare(matrix, (), RunOptions(runs=home))
    testbed = VirtualTestbed(lab, prepared.matrix.catalog, guests=guests)
    made = Run.create(home, "bench-scale", prepared.matrix.source, prepared.matrix.seed, {})
    measured = Measured()
    with locked(made) as writer:
        plan = prepared.plan(testbed.identity(), None, writer.view)
        cpu_s, wall_s = time.process_time(), time.monotonic()
        result = execute(Order(plan, writer, testbed, judge, on_event=measured.listen))
        measured.cpu_s = time.process_time() - cpu_s
        measured.wall_s = time.monotonic() - wall_s
    if result.error is not None:
        raise result.error
    measured.trials = result.ok + result.invalid
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a simulated trial")
    parser.add_argument("--trials", type=int, default=1280)
    args = parser.parse_args()
    lab = Lab.locate()
    with tempfile.TemporaryDirectory(prefix="l4sbench-scale-") as folder:
        home = Path(folder)
        recorder = Recorder()
        run(home / "one", lab, 1, recorder)
        recorded = recorder.last
        if recorded is None:
            raise SystemExit("no trial ran")
        file = home / "recorded"
        file.write_bytes(encode(Ran(recorded.ended, recorded.files)))
        size = sum(len(one.content) for one in recorded.files)
        print(f"files of a trial: {size / 1e3:.0f} kB; processors: {os.cpu_count()}", flush=True)
        words = [sys.executable, "-W", "ignore", "-c", WORKERS, str(args.workers)]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as workers:
            assert workers.stdout is not None  # noqa: S101
            address = workers.stdout.readline().strip()
            few = min(args.trials, 256)
            replayed = Replayed(recorded, args.workers)
            here = run(home / "here", lab, few, replayed)
            here.cpu_s -= sum(replayed.wrote_s)
            tasks = run(
                home / "tasks", lab, few, DaskGuests(address, lab, print, partial(replay, str(file), 0.0))
            )
            more_ms = (tasks.cpu_s - here.cpu_s) / few * 1e3
            print(
                f"processor time of the client per trial, {few} trials: {here.cpu_s / few * 1e3:.1f} ms "
                f"without Dask, {tasks.cpu_s / few * 1e3:.1f} ms with; overhead {more_ms:.1f} ms",
                flush=True,
            )
            task = partial(replay, str(file), args.seconds)
            long = run(home / "long", lab, args.trials, DaskGuests(address, lab, print, task))
            workers.terminate()
    used = long.trials * args.seconds / (long.wall_s * args.workers)
    print(
        f"{long.trials} trials of {args.seconds:g} s on {args.workers} workers took {long.wall_s:.1f} s: ",
        end="",
    )
    print(f"{used:.1%} of the workers' time; client {long.cpu_s / long.trials * 1e3:.1f} ms per trial")
    quarter = long.memory_mb[len(long.memory_mb) // 4]
    print(f"memory of the client: {quarter:.0f} MB after a quarter of the trials, ", end="")
    print(f"{long.memory_mb[-1]:.0f} MB after all")


if __name__ == "__main__":
    main()
