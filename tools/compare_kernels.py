# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Compare what trials cost on several lab kernels: `tools/compare_kernels.py RUN NAME=KERNEL[,ROOTFS] ...`.

Boots the guests of a finished run's first trials again, a kernel after the other, several rounds, and prints
CPU seconds and their ratio to the first kernel. Only CPU seconds are compared, and of every kernel the
least: other programs on the machine make a trial dearer, never cheaper.

KERNEL is a program `linux`; ROOTFS is the guests' root folder with modules for it, by default the lab's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from l4sbench.testbeds.virtual.guest import Boot, run_guest
from l4sbench.testbeds.virtual.lab import Lab

LIMIT_S = 600.0
SEED = 42


@dataclass(frozen=True)
class Variant:
    """A kernel and the root folder of its guests."""

    name: str
    kernel: Path
    rootfs: Path


def variant(text: str) -> Variant:
    """Return the variant that an argument describes. Raises ValueError."""
    name, equals, paths = text.partition("=")
    kernel, _, rootfs = paths.partition(",")
    if not equals or not kernel:
        raise ValueError(text)
    return Variant(name, Path(kernel).absolute(), Path(rootfs) if rootfs else Lab.locate().rootfs)


def cost(raw: Path, on: Variant) -> float:
    """Return the CPU seconds of a guest that does again what the raw folder of a trial has as its script."""
    with tempfile.TemporaryDirectory(prefix="l4sbench-compare-") as folder:
        trial = Path(folder, "trial")
        shutil.copytree(
            raw, trial, ignore=lambda _, names: [n for n in names if "." in n and ".batch" not in n]
        )
        ended = run_guest(
            Boot(on.kernel, on.rootfs, trial, SEED), Path(folder, "console"), LIMIT_S, threading.Event()
        )
        last = json.loads((trial / "status.jsonl").read_text().splitlines()[-1])
        if not last["ok"]:
            raise SystemExit(f"{on.name}: {last}")
        return ended.cpu_s


def main() -> None:
    """Print a line per cell and kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory of the virtual testbed")
    parser.add_argument("variants", nargs="+", type=variant, metavar="NAME=KERNEL[,ROOTFS]")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{'cell':<12} {'kernel':<12} {'least CPU s':>11} {'median':>7} {'least / first kernel':>21}")
    for cell in sorted((given.run / "cells").iterdir()):
        raw = next(iter(sorted(cell.glob("*/raw"))))
        spent: dict[str, list[float]] = {one.name: [] for one in given.variants}
        for _ in range(given.rounds):
            for one in given.variants:
                spent[one.name].append(cost(raw, one))
        first = min(spent[given.variants[0].name])
        for name, every in spent.items():
            least, middle = min(every), statistics.median(every)
            print(f"{cell.name[:12]:<12} {name:<12} {least:>11.2f} {middle:>7.2f} {least / first:>21.3f}")


if __name__ == "__main__":
    main()
