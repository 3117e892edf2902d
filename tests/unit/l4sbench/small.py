# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small but real testbed, on which every trial is a process that writes files, and a program that uses it.

    python -m tests.unit.l4sbench.small RUNS [--jobs N] [--trials N] [--sleep S] [--stubborn]

runs `MATRIX` below RUNS, says `began` with the first trial, and ends as the command line would.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from l4sbench.catalog import Catalog
from l4sbench.engine.loop import Order, RunResult, execute
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import Problem, TrialFailed
from l4sbench.facts import events
from l4sbench.facts.events import Status
from l4sbench.facts.faults import stored_fault
from l4sbench.facts.traits import CostModel, Identity, Needs, TestbedTraits
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.program.trial import EndedTrial, Judgement, TrialSpec
from l4sbench.store import Run, TrialFolder, locked

IDENTITY = Identity("small", "7.0.0", {"kernel": "k1"}, {"tcp_prague": "p1"}, {"lean": "t1"})
TRAITS = TestbedTraits("lean", wires=True, parallel=True, cost=CostModel(0.5, 0.01, 0.0001), memory_mb=10)

HEAD = """\
matrix: {name}
topology: line6
duration: 2s
trials: {trials}
rule: pam25
flows:
  l4s: {{cc: prague}}
  classic: {{count: 1}}
axes:
"""
AXES = "  aqm: [fifo, codel, dualpi2]\n  buffer_bdp: [1, 4]\n"

# Several files, each in several writes, so that there is something to be cut short.
SCRIPT = """\
set -e
for name in a.txt b.txt; do
    exec 3>"$1/$name"
    for _ in 1 2 3 4; do
        printf "%-$3s" "$2" >&3
        [ "$4" = 0.0 ] || sleep "$4"
    done
done
"""
# It ends when the testbed's process ends, however that ends.
COMMAND = ("setpriv", "--pdeathsig", "KILL", "sh", "-c")


def folders(*texts: str) -> tuple[TrialFolder, ...]:
    """Return the folders of trials that have these names."""
    found = tuple(map(TrialFolder.parse, texts))
    assert all(found)
    return tuple(filter(None, found))


@cache
def catalog() -> Catalog:
    return Catalog.load()


def matrix(folder: Path, axes: str = AXES, trials: str = "2", name: str = "small", extra: str = "") -> Matrix:
    """A matrix of six cells, or of other axes."""
    path = folder / f"{name}.yaml"
    fixed = {"rate": "100mbit", "rtt": "10ms", "classic.cc": "cubic"}
    rest = "".join(f"{key}: {value}\n" for key, value in fixed.items() if f"{key}:" not in axes)
    path.write_text(HEAD.format(name=name, trials=trials) + axes + rest + extra, encoding="utf-8")
    return Matrix.load(path, catalog())


def run_process(argv: Sequence[str], look: Callable[[], None]) -> None:
    """Run a trial's process to its end; `look` is called meanwhile, and ends it by an error.

    Raises:
        TrialFailed: the process failed.
    """
    process = subprocess.Popen(
        argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        while process.poll() is None:
            look()
            time.sleep(0.002)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _, stderr = process.communicate()
    if process.returncode:
        raise TrialFailed(stderr.decode().strip() or f"ended by signal {-process.returncode}")


@dataclass
class SmallTestbed:
    """Runs a process per trial. `fault` may do anything, or raise, before the process starts.

    `stubborn`: does not stop when told to; `careless`: does not notice when a file cannot be written.
    """

    size: int = 1000
    sleep_s: float = 0.0
    stubborn: bool = False
    careless: bool = False
    fault: Callable[[TrialSpec, Path], None] = lambda spec, raw: None
    identity_: Identity = IDENTITY
    traits: TestbedTraits = TRAITS
    name: str = "small"
    ran: list[tuple[str, int]] = field(default_factory=list)

    def identity(self) -> Identity:
        return self.identity_

    def check(self, needs: Needs) -> Sequence[Problem]:
        return ()

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        began = time.monotonic()
        self.ran.append((spec.cell.id, spec.trial))
        self.fault(spec, raw)
        script = SCRIPT.replace("set -e", "") + "exit 0" if self.careless else SCRIPT
        argv = [*COMMAND, script, "sh", str(raw), text_of(spec), str(self.size // 8), str(self.sleep_s / 8)]

        def look() -> None:
            if stop.is_set() and not self.stubborn:
                raise TrialStopped
            if time.monotonic() - began > spec.wall_limit_s and not self.stubborn:
                raise TrialFailed(f"no end within {spec.wall_limit_s:g} s")

        run_process(argv, look)
        return Outcome(time.monotonic() - began, 0.01, spec.cell.duration.s)


def text_of(spec: TrialSpec) -> str:
    return f"{spec.cell.id} {spec.seed}"


def judge(spec: TrialSpec, raw: Path) -> Judgement:
    """Invalid by the name of the queue; fails what is not whole."""
    for name in ("a.txt", "b.txt"):
        if not (raw / name).read_text().startswith(text_of(spec)):
            raise TrialFailed(f"{name} is not whole")
    if spec.cell.aqm == "codel" and spec.trial == 2:
        return Judgement(Status.INVALID, (stored_fault("codel was not codel"),))
    return Judgement(Status.OK)


def run_matrix(
    wanted: Matrix,
    run: Run,
    testbed: SmallTestbed,
    *,
    capture: bool = False,
    retry: Sequence[str] = (),
    **options: object,
) -> RunResult:
    """Plan and run, as the command line does."""
    with locked(run, "l4sbench run small") as writer:
        writer.retry(retry)
        traits = testbed.traits
        planned = plan(wanted, writer.view, testbed.identity(), traits, Costs(traits.cost), capture=capture)
        return execute(Order(planned, writer, testbed, judge, **options))  # type: ignore[arg-type]


def new_run(runs: Path, wanted: Matrix) -> Run:
    return Run.create(runs, wanted.name, wanted.source, wanted.seed, {"git": "v0"})


def contents(run: Run) -> Mapping[tuple[str, int], tuple[str, str]]:
    """Status and digest of the raw files of every ended trial; what two equal runs have in common."""
    return {(ended.cell.id, ended.trial): (ended.status.value, _raw_digest(ended)) for ended in run.ended()}


def _raw_digest(ended: EndedTrial) -> str:
    total = hashlib.sha256()
    for path in sorted(ended.raw.rglob("*")):
        if path.is_file():
            total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def everything(run: Run) -> Mapping[str, str]:
    """Digest of every file of every trial that has ended, by its path."""
    folders = (path for path in (run.path / "cells").glob("*/*") if not path.name.endswith(".partial"))
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(run.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def partials(run: Run) -> list[Path]:
    return sorted((run.path / "cells").glob("*/*.partial"))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trials", default="2")
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--stubborn", action="store_true")
    args = parser.parse_args()
    wanted = matrix(args.runs, trials=args.trials)
    run = Run.latest(args.runs, wanted.name) or new_run(args.runs, wanted)
    testbed = SmallTestbed(size=args.size, sleep_s=args.sleep, stubborn=args.stubborn)

    def tell(event: events.Event) -> None:
        if isinstance(event, events.TrialStarted | events.RunStopping):
            say("began" if isinstance(event, events.TrialStarted) else "stopping")

    result = run_matrix(wanted, run, testbed, jobs=args.jobs, on_event=tell)
    error = None if result.error is None else str(result.error)
    say(json.dumps({"ok": result.ok, "invalid": result.invalid, "failed": result.failed, "error": error}))
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
