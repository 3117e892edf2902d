# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`plan` lists what is not tried again, and how to have it run."""

from pathlib import Path

import pytest

from l4sbench.cli.plan import warn_of
from l4sbench.planning.plan import plan
from l4sbench.store import StoreView
from tests.unit.l4sbench import small


def test_trials_that_are_not_tried_again_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = small.matrix(tmp_path)
    tries = tuple(f"1-aa.failed-{number}" for number in (1, 2, 3))
    planned = plan(wanted, StoreView({wanted.cells[0].id: tries}), None, small.TRAITS, small.TRAITS.cost)
    warn_of(planned)
    shown = capsys.readouterr().err
    assert "1 trial failed 3 times and will not be tried again; --retry failed tries again" in shown
