# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials whose raw files were captured from real runs (tests/cases)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from collectors.validity import judge
from l4sbench.cell import Cell
from l4sbench.events import Status
from l4sbench.program import Program
from l4sbench.program.trial import EndedTrial, Judgement, TrialSpec
from l4sbench.topology import topology

CASES = Path(__file__).parents[2] / "cases"


@dataclass(frozen=True)
class Captured:
    """A copy of a captured trial that a test may spoil."""

    cell: Cell
    programs: dict[str, Program]
    raw: Path

    @property
    def ended(self) -> EndedTrial:
        return EndedTrial(
            cell=self.cell,
            trial=1,
            seed=7,
            status=Status.OK,
            reasons=(),
            raw=self.raw,
            programs=self.programs,
            inputs_digest="0123456789abcdef",
            testbed="virtual",
            kernel_release="7.3.4-l4slab",
        )

    def judged(self) -> Judgement:
        spec = TrialSpec(self.cell, 1, 7, self.programs, topology(self.cell.topology), "0123456789abcdef")
        return judge(spec, self.raw)

    def having(self, **factors: Any) -> Captured:
        """The same with other factors of the cell (double underscores for dots)."""
        changed = {name.replace("__", "."): value for name, value in factors.items()}
        return replace(self, cell=Cell.of(dict(self.cell.factors) | changed))

    def edit(self, file: str, change: Callable[[Any], None]) -> None:
        """Change a JSON file in place."""
        path = self.raw / file
        plain = json.loads(path.read_text())
        change(plain)
        path.write_text(json.dumps(plain))


@pytest.fixture
def captured(tmp_path: Path) -> Callable[[str], Captured]:
    def load(name: str) -> Captured:
        case = CASES / "trials" / name
        raw = tmp_path / name / "1-0123456789abcdef" / "raw"
        shutil.copytree(case / "raw", raw)
        programs = json.loads((raw / "programs.json").read_text())
        return Captured(
            Cell.from_json(json.loads((case / "cell.json").read_text())),
            {node: Program.from_json(plain) for node, plain in programs.items()},
            raw,
        )

    return load


@pytest.fixture(scope="session")
def cases() -> Path:
    return CASES
