# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small matrix, and a run of it in which no trial has begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.matrix import Matrix
from l4sbench.store import Run
from tests.unit.l4sbench import small


@pytest.fixture
def wanted(tmp_path: Path) -> Matrix:
    return small.matrix(tmp_path)


@pytest.fixture
def run(tmp_path: Path, wanted: Matrix) -> Run:
    return small.new_run(tmp_path / "runs", wanted)
