# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure how often the range that `run` prints at its beginning holds the wall time of its trials.

    .venv/bin/python tools/bench_estimates.py --runs 12 --loads 0 0 4

Runs small matrices in the lab, drawn by a seed: queues, rates, round-trip times, senders, lengths. It begins
with a machine of which nothing is known, and learns from run to run. `--loads` are numbers of processes that
compute beside a run, taken in turn.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from l4sbench.app import api
from l4sbench.facts import events

QUEUES: Final = ("fifo", "fifo-ecn", "codel", "fq-codel", "dualpi2")
CONTROLS: Final = ("cubic", "bbr1", "prague", "dctcp")
GOAL: Final = 0.8
_SETTLE_S: Final = 4.0
"""Time that a load is there before a run, as load averages follow slowly."""


def matrix(source: random.Random, number: int) -> str:
    """Return a matrix of a few cells that differ in their cost."""
    queues = source.sample(QUEUES, source.randint(1, 3))
    rates = source.sample((5, 20, 50, 100, 200), 2)
    capture = "capture: headers\n" if source.random() < 0.2 else ""
    first, second = source.sample(CONTROLS, 2)
    return (
        f"matrix: estimates-{number}\ntopology: line6\nrule: none\nbuffer_bdp: 1\n"
        f"duration: {source.choice((5, 10, 20))}s\ntrials: {source.randint(1, 4)}\n{capture}"
        f"flows:\n  one: {{cc: {first}, count: {source.choice((1, 1, 1, 4))}}}\n  other: {{cc: {second}}}\n"
        f"axes:\n  aqm: [{', '.join(queues)}]\n  rate: [{', '.join(f'{rate}mbit' for rate in rates)}]\n"
        f"  rtt: [{source.choice((5, 10))}ms, {source.choice((20, 80))}ms]\n"
    )


@dataclass
class RunClock:
    """A listener: the estimate of a run, and the time until its last trial has ended."""

    planned: list[events.RunPlanned] = field(default_factory=list)
    took_s: float = 0.0

    def __call__(self, event: events.Event) -> None:
        """Take note of an event."""
        if isinstance(event, events.RunPlanned):
            self.planned.append(event)
        elif isinstance(event, events.TrialEnded):
            self.took_s = event.at_s


@contextmanager
def loaded(count: int) -> Iterator[None]:
    """Let so many processes compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        if busy:
            time.sleep(_SETTLE_S * 5)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(folder: Path, args: argparse.Namespace) -> int:
    """Run the matrices and print a line for each; returns how often the range held the time."""
    source, held = random.Random(args.seed), 0  # noqa: S311  (no secret)
    print("run  load  trials  estimate             took, s  held  load average before")
    for number in range(args.runs):
        file = folder / f"{number}.yaml"
        file.write_text(matrix(source, number))
        clock, load = RunClock(), args.loads[number % len(args.loads)]
        with loaded(load):
            average = os.getloadavg()[0]
            api.run(file, runs=folder / "runs", on_event=clock)
        (planned,) = clock.planned
        low_s, high_s = planned.estimate.ends_s
        holds = low_s <= clock.took_s <= high_s
        held += holds
        ends = f"{low_s:.1f} to {high_s:.1f} s"
        line = f"{number:3}  {load:4}  {planned.trials:6}  {ends:19}  {clock.took_s:7.1f}"
        print(f"{line}  {'yes' if holds else 'no':4}  {average:.1f}", flush=True)
    return held


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and fail where fewer than 8 of 10 ranges hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=12, help="number of runs (default: %(default)s)")
    parser.add_argument("--loads", type=int, nargs="+", default=[0], help="processes that compute beside")
    parser.add_argument("--seed", type=int, default=1, help="of the matrices (default: %(default)s)")
    args = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("l4sbench.planning.cost.user_cache_path", lambda _: Path(folder, "cache")),
    ):
        held = measure(Path(folder), args)
    print(f"the range held the time of {held} of {args.runs} runs")
    return 0 if held >= GOAL * args.runs else 1


if __name__ == "__main__":
    sys.exit(main())
