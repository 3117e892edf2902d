# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bad matrices and, for each, exactly what the user reads: tests/errors/<case>.yaml and <case>.txt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from l4sbench.errors import InputError
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

ERRORS = Path(__file__).parents[3] / "errors"
CASES = sorted(file.stem for file in ERRORS.glob("*.yaml"))


@pytest.mark.parametrize("case", CASES)
def test_message(case: str, small_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ERRORS)
    with pytest.raises(InputError) as raised:
        Matrix.load(Path(f"{case}.yaml"), small_catalog)
    assert raised.value.exit_code == 2
    assert f"{raised.value}\n" == Path(f"{case}.txt").read_text(encoding="utf-8")


def test_there_are_no_stray_messages() -> None:
    assert sorted(file.stem for file in ERRORS.glob("*.txt")) == CASES
