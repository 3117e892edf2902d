# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The vectors of NCF, stored and generated, in the kernel: sch_ncf does what reference and switch do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import compiled
from tests.lab.ncf.router import beyond_ethernet, driven, lab_under_test
from tests.p4.reference import Outcome
from tests.p4.test_vectors import traffic
from tests.p4.vectors import Event, Reference, Vector, drive, from_json, stored

pytestmark = pytest.mark.lab

EXAMPLES = 100


@pytest.fixture(scope="module")
def under_test(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Path]:
    """Return the lab with sch_ncf built for tests, and the program that drives it."""
    work = tmp_path_factory.mktemp("ncf")
    return lab_under_test(lab, work), compiled(Path(__file__).with_name("drive.c"), work)


def vectors() -> list[Vector]:
    """Return the vectors of data planes that clear their counters themselves."""
    found = [from_json(path) for path in stored()]
    kept = [vector for vector in found if vector.cleared]
    assert {vector.name for vector in found} - {vector.name for vector in kept} == {"counters-not-cleared"}
    return kept


def differences(
    expected: Sequence[Sequence[Outcome]], seen: Sequence[Sequence[Outcome]], names: Sequence[str]
) -> list[str]:
    """Return the packets whose outcomes are not as expected."""
    found = []
    for name, theirs, ours in zip(names, expected, seen, strict=True):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            if beyond_ethernet(one) != beyond_ethernet(other):
                found.append(f"{name}, packet {number}: {one}, not {other}")
    return found


def test_queue_agrees_on_every_vector(under_test: tuple[Lab, Path], tmp_path: Path) -> None:
    lab, program = under_test
    kept = vectors()
    seen = driven(lab, [vector.events for vector in kept], tmp_path, program)
    expected = [vector.outcomes for vector in kept]
    assert differences(expected, seen, [vector.name for vector in kept]) == []


def generated() -> list[list[Event]]:
    """Return traffic as the interpreter of the switch gets it."""
    found: list[list[Event]] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(traffic())
    def collect(events: list[Event]) -> None:
        found.append(events)

    collect()
    return found


def test_queue_agrees_on_generated_traffic(under_test: tuple[Lab, Path], tmp_path: Path) -> None:
    lab, program = under_test
    runs = generated()
    expected = [drive(Reference(), events, cleared=True) for events in runs]
    seen = driven(lab, runs, tmp_path, program)
    assert differences(expected, seen, [f"example {number}" for number in range(len(runs))]) == []
    # the comparison means something only where there is something to compare
    outcomes = [outcome for run in expected for outcome in run]
    assert len(outcomes) >= 10_000
    assert sum(len(outcome.sent) > 1 for outcome in outcomes) >= 100
    assert sum(outcome.queue == "elephants" for outcome in outcomes) >= 1_000
