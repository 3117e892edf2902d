# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Thousands of trials are read in little memory, which does not depend on the speed of the machine."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.long]

TOOL = Path(__file__).parents[2] / "tools" / "bench_reading.py"
TRIALS = 5000
MOST_MB = {"collect": 350, "report": 350, "show": 100}
"""Command -> its limit: 15 % over docs/results/speed.md; all tables in memory take 900 MB."""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The program that makes such a run and measures what reading it costs."""
    spec = importlib.util.spec_from_file_location("bench_reading", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_many_trials_are_read_in_little_memory(bench: ModuleType, tmp_path: Path) -> None:
    run = bench.many_trials(tmp_path, 5, TRIALS)
    peaks_mb = {
        command: bench.measured([command, str(run), *options])[1] for command, *options in bench.COMMANDS
    }
    assert {command: peak_mb for command, peak_mb in peaks_mb.items() if peak_mb > MOST_MB[command]} == {}
