# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One kernel in question, judged by a run of a good one: a step of `git bisect run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app import api
from l4sbench.app.finding import RUNS, find_run, load_matrix
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.disk.userfiles import is_folder, short
from l4sbench.errors import InputError, TestbedError
from l4sbench.store import Run

if TYPE_CHECKING:
    from l4sbench.facts.events import OnEvent
    from l4sbench.matrix import Matrix
    from l4sbench.testbeds.virtual.lab import BuildStep
    from reports.compare import Comparison


class StepOutcome(StrEnum):
    """The outcome of a step."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class JudgedKernel:
    """A kernel that was judged.

    Attributes:
        word: `skip` if it does not build, or some cell has no valid trial with it.
        reason: Why, in words.
        comparison: With the good run; None where nothing could be compared.
        run: The run directory; None if nothing ran.
    """

    word: StepOutcome
    reason: str
    comparison: Comparison | None = None
    run: Path | None = None


def judge_kernel(
    good: str | Path,
    kernel_tree: Path,
    filters: Sequence[str] = (),
    *,
    name: str = "bisect",
    runs: str | Path = RUNS,
    margins: str | Path | None = None,
    jobs: int | None = None,
    on_build: Callable[[BuildStep], None] = lambda _: None,
    on_event: OnEvent = lambda _: None,
) -> JudgedKernel:
    """Build a lab from a kernel tree, run the matrix of a good run in it, and compare the two.

    The built tree is kept, so that the next kernel compiles only what differs; the lab is removed. The new
    run is stored beside the good one.

    Args:
        good: The run of a good kernel: a run directory, or a matrix's name for its latest run below `runs`.
        kernel_tree: A git work tree.
        filters: `FACTOR=PATTERN`, only these cells.
        name: Name of the lab.
        runs: Folder of run directories, to find `good` in.
        margins: A file with the differences that matter.
        jobs: Compilations and trials at once.
        on_build: Called with the progress of the build.
        on_event: Called with the events of the run.

    Raises:
        InputError: there is no such run or tree, a filter or a margin is wrong, or the good run has too few
            trials.
        TestbedError: this machine cannot build or run labs at all, or the tree is none of Linux.
    """
    from l4sbench.testbeds.virtual.lab import BuildOptions, build, remove_lab
    from l4sbench.testbeds.virtual.lab.doctor import build_checks, require
    from l4sbench.testbeds.virtual.lab.source import require_tree
    from reports.compare import load_margins

    base = find_run(good, Path(runs))
    if not is_folder(kernel_tree):
        raise InputError(f"there is no kernel tree {short(str(kernel_tree))}")
    require_tree(kernel_tree)
    # what is wrong shows before a kernel is compiled
    trials = trials_of_step(base, load_matrix(base / "matrix.yaml").select(filters))
    if margins is not None:
        load_margins(Path(margins))
    require(build_checks(None))
    options = BuildOptions(kernel_tree=kernel_tree, name=name, keep_tree=True, jobs=jobs)
    try:
        build(options, on_build)
    except TestbedError as error:
        return JudgedKernel(StepOutcome.SKIP, f"this kernel does not build: {error.message}")
    wanted = RunOptions(lab=name, new=True, runs=base.parents[1], jobs=jobs, trials=trials)
    ended = api.run_prepared(prepare(base / "matrix.yaml", filters, wanted), on_event=on_event)
    if ended.result.error is not None:
        raise ended.result.error
    if ended.result.interrupted:
        raise KeyboardInterrupt
    found = api.compare(base, ended.path, *filters, margins=margins)
    remove_lab(name, keep_tree=True)
    return _judged(found, ended.path)


def trials_of_step(good: Path, matrix: Matrix) -> int | None:
    """Return how many trials per cell a step gets: as many as the good run, whatever its matrix states.

    It is None where the matrix adds trials by itself.

    Raises:
        InputError: no cell of the good run has two trials. Nothing would be worse by more than noise, and
            every kernel good.
    """
    ended = Run(good).view()
    most = max(
        len({name.trial for name in ended.of(cell.id) if name.kind != "failed"}) for cell in matrix.cells
    )
    if most < 2:  # of one trial nobody knows how much it varies
        message = f"{short(str(good))} has no cell with two trials, so that noise is not known"
        raise InputError(message, "run it again with six trials or more: --trials 6")
    return most if matrix.trials.until is None else None


def _judged(found: Comparison, run: Path) -> JudgedKernel:
    without = [cell.cell for cell in found.cells if not cell.trials[1]]
    if without:
        listed = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
        return JudgedKernel(StepOutcome.SKIP, f"no valid trial of {listed} with this kernel", found, run)
    worse = [cell for cell in found.cells if cell.regressed]
    if worse:
        return JudgedKernel(
            StepOutcome.BAD, f"{len(worse)} of {len(found.cells)} cells got worse", found, run
        )
    return JudgedKernel(StepOutcome.GOOD, f"none of {len(found.cells)} cells got worse", found, run)
