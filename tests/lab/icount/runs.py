# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs of matrices on machines of counted instructions, as `l4sbench run` does them elsewhere."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from collectors.assemble import collect
from collectors.validity import judge
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.engine.loop import Order, execute
from l4sbench.store import Run, locked
from tests.lab.icount.machine import Image
from tests.lab.icount.testbed import TRAITS, IcountTestbed


def run_matrix(image: Image, matrix: Path, filters: Sequence[str], folder: Path) -> Path:
    """Run the cells of a matrix, or the rest of them, and return the run directory."""
    options = RunOptions(on="ssh:one", runs=folder / "runs", jobs=1)
    prepared = replace(prepare(matrix, filters, options), traits=TRAITS)
    testbed = IcountTestbed(image, folder / "trials")
    loaded = prepared.matrix
    found = prepared.latest or Run.create(folder / "runs", loaded.name, loaded.source, loaded.seed, {})
    with locked(found) as writer:
        plan = prepared.plan(testbed.identity(), None, writer.view)
        assert not testbed.check(plan.needs)
        writer.keep_matrix(loaded.source)
        execute(Order(plan, writer, testbed, judge, jobs=1))
        collect(found, loaded.catalog)
    return found.path


def raw_digests(run: Path) -> dict[str, str]:
    """Return the SHA-256 of every raw file of a run, by its path below `cells`."""
    files = (path for path in (run / "cells").glob("*/*/raw/**/*") if path.is_file())
    return {
        path.relative_to(run / "cells").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
    }
