# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bad input files of every kind and exactly what the user reads: <case>.yml, <case>.txt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from fablib_slices import load_slice_file
from l4sbench.catalog.reader import read_entry
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.testbeds.ssh.images import read_image
from reports.compare import load_margins
from reports.published.claims import load_study
from reports.result.regret import load_prevalence
from reports.result.rules import read_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from l4sbench.catalog import Catalog

ERRORS: Final = Path(__file__).parents[1] / "errors"


READERS: Final[dict[str, Callable[[Path, Catalog], object]]] = {
    "claims": lambda path, _: load_study(str(path)),
    "images": lambda path, _: read_image(path),
    "margins": lambda path, _: load_margins(path),
    "matrix": Matrix.load,
    "modules": lambda path, _: read_entry(path),
    "prevalence": lambda path, _: load_prevalence(path),
    "rules": lambda path, _: read_rule(path),
    "slices": lambda path, _: load_slice_file(path),
}
CASES: Final = sorted(
    path.relative_to(ERRORS)
    for kind in READERS
    for path in (ERRORS / kind).iterdir()
    if path.suffix != ".txt"
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_message(case: Path, small_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ERRORS / case.parent)
    with pytest.raises(InputError) as raised:
        READERS[case.parts[0]](Path(case.name), small_catalog)
    assert raised.value.exit_code == 2
    assert f"{raised.value}\n" == Path(case.stem + ".txt").read_text(encoding="utf-8")


def test_every_message_has_its_file() -> None:
    messages = {path.relative_to(ERRORS).with_suffix("") for path in ERRORS.rglob("*.txt")}
    assert messages == {case.with_suffix("") for case in CASES}
