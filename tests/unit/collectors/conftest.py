# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials whose raw files were captured from real runs (tests/cases)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from collectors import COLLECTORS
from l4sbench.program.trial import EndedTrial
from tests.captured import CapturedTrial, captured_trial

CASES = Path(__file__).parents[2] / "cases"
Load = Callable[[str], CapturedTrial]


def rows(table: str, trial: EndedTrial) -> pl.DataFrame:
    return next(c for c in COLLECTORS if c.table == table).rows(trial)


@pytest.fixture
def captured(tmp_path: Path) -> Load:
    """Return a function that copies a captured trial for the test."""
    return lambda name: captured_trial(name).copied(tmp_path / name)


@pytest.fixture(scope="session")
def cases() -> Path:
    return CASES
