# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure what `collect --full`, `report` and `show` cost for a run of many trials (docs/results/speed.md).

Trials of a few cells run in the lab. Links to their raw files become the trials of a matrix with the same
cells at many round-trip times, with the programs, seeds and digests that these trials would have. Each
command then reads that run in a process of its own; its processor time and peak memory are printed.

    python tools/bench_reading.py                        # 5,000 trials
    python tools/bench_reading.py --trials 500 --keep FOLDER    # keep the run, and use it again
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree, ignore_patterns

from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.program import programs
from l4sbench.program.trial import EndedTrial, TrialSpec, draw_conditions, seed_of
from l4sbench.store import Ending, Run, locked
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.testbed import VirtualTestbed

MATRIX = """\
matrix: {name}
topology: line6
rate: 20mbit
duration: {seconds}s
trials: {trials}
rule: l4sbench1
flows:
  l4s:     {{cc: prague}}
  classic: {{cc: cubic}}
axes:
  aqm: [fifo, codel, fq-codel, dualpi2]
  buffer_bdp: [1, 4]
  rtt: [{rtts}]
"""

COMMANDS = (("collect", "--full"), ("report",), ("show",))

TRIALS_PER_CELL = 20
CELLS_PER_RTT = 8


def real_trials(home: Path, seconds: int) -> dict[tuple[object, ...], list[EndedTrial]]:
    """Return trials that run now, two of each queue and buffer."""
    matrix = home / "bench-few.yaml"
    matrix.write_text(
        MATRIX.format(name="bench-few", seconds=seconds, trials=2, rtts="10ms"), encoding="utf-8"
    )
    words = [sys.executable, "-m", "l4sbench", "run", str(matrix), "--dir", str(home / "few")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=3600)
    found: dict[tuple[object, ...], list[EndedTrial]] = {}
    for trial in Run.open(home / "few" / "bench-few").ended():
        found.setdefault(alike(trial.cell.factors), []).append(trial)
    return found


def alike(factors: Mapping[str, object]) -> tuple[object, ...]:
    """Return the factors in which cells differ whose raw files are not copies of each other's."""
    return factors["aqm"], factors["buffer_bdp"]


def many_trials(home: Path, seconds: int, trials: int) -> Path:
    """Return a run directory of at least so many trials, copies of real ones."""
    real = real_trials(home, seconds)
    rtts = -(-trials // (TRIALS_PER_CELL * CELLS_PER_RTT))
    listed = ", ".join(f"{10 + number / 10:g}ms" for number in range(rtts))
    path = home / "bench-reading.yaml"
    text = MATRIX.format(name="bench-reading", seconds=seconds, trials=TRIALS_PER_CELL, rtts=listed)
    path.write_text(text, encoding="utf-8")
    prepared = prepare(path, (), RunOptions(runs=home / "many"))
    matrix = prepared.matrix
    testbed = VirtualTestbed(Lab.locate(), matrix.catalog)
    identity = testbed.identity()
    plan = prepared.plan(identity, None, Run(home).view())
    inputs, own = plan.inputs(identity), ignore_patterns("programs.json")
    run = Run.create(home / "many", matrix.name, matrix.source, matrix.seed, {})
    with locked(run) as writer:
        for cell in matrix.cells:
            place = matrix.catalog.topology(cell.topology)
            numbers = range(1, TRIALS_PER_CELL + 1)
            for number, digest in zip(numbers, inputs.digests(cell, numbers), strict=True):
                copied = real[alike(cell.factors)][number % 2]
                seed = seed_of(matrix.seed, number)
                made = programs(cell, place, matrix.catalog, draw_conditions(cell, seed, testbed.traits))
                with writer.begin(TrialSpec(cell, number, seed, made, place, digest)) as partial:
                    copytree(copied.raw, partial.raw, ignore=own, copy_function=os.link, dirs_exist_ok=True)
                    ended = Ending(
                        copied.status, copied.faults, testbed.identity(), datetime.now(UTC), copied.wall_s
                    )
                    partial.end(ended)
    return run.path


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="l4sbench-reading-") as folder:
        yield Path(folder)


def measured(words: list[str]) -> tuple[float, float]:
    """Run a command; return its processor time in seconds and its peak memory in MB."""
    command = [sys.executable, "-m", "l4sbench", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"`l4sbench {' '.join(words)}` ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=5, help="length of a trial")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the run here; one that is here is read again"
    )
    args = parser.parse_args()
    with _folder(args.keep) as home:
        kept = home / "many" / "bench-reading" / "latest"
        run = kept.resolve() if kept.exists() else many_trials(home, args.seconds, args.trials)
        count = sum(len(names) for names in Run(run).view().folders.values())
        print(f"{count} trials in {run}", flush=True)
        for command in COMMANDS:
            cpu_s, peak_mb = measured([command[0], str(run), *command[1:]])
            print(f"{' '.join(command):<16} {cpu_s:7.1f} CPU s {peak_mb:7.0f} MB", flush=True)


if __name__ == "__main__":
    main()
