# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A small catalog that does not change when l4sbench offers more, and a machine that does nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.catalog import Catalog, CongestionControl, Queue
from l4sbench.catalog.reader import read_entry
from l4sbench.facts.estimate import LocalMachine

ERRORS = Path(__file__).parents[1] / "errors"


@pytest.fixture(scope="session")
def small_catalog() -> Catalog:
    """Queues codel, fifo, fifo-ecn; congestion controls cubic, prague."""
    entries = [read_entry(file) for file in sorted(ERRORS.glob("catalog/*/module.yml"))]
    queues = {entry.name: entry for entry in entries if isinstance(entry, Queue)}
    controls = {entry.name: entry for entry in entries if isinstance(entry, CongestionControl)}
    return Catalog(queues, controls)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let estimates count on two cores without load, whatever else this machine does."""
    monkeypatch.setattr(LocalMachine, "now", lambda: LocalMachine(2, 0.0))
