# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two halves of a matrix as the sides of a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from l4sbench.app.halves import sides
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from tests.unit.l4sbench import small

AXES = "  aqm: [codel, fifo]\n  lab: [default, mine]\n"


def test_the_second_half_has_the_ids_of_the_first(tmp_path: Path) -> None:
    both = small.matrix(tmp_path, AXES)
    plain = small.matrix(tmp_path, "  aqm: [codel, fifo]\n", name="plain")
    base, new = sides("lab=default,mine", both, both)
    assert (base.label, new.label) == ("lab=default", "lab=mine")
    assert base.cells == {cell.id for cell in plain.cells}
    assert base.ids == {}
    assert new.cells.isdisjoint(base.cells)
    assert new.ids.keys() == new.cells
    assert set(new.ids.values()) == base.cells
    base, new = sides("lab=mine,default", both, both, ["aqm=codel"])
    assert len(base.cells) == len(new.cells) == 1
    assert set(new.ids.values()) == base.cells


def test_baselines_without_the_factor_belong_to_both_halves(tmp_path: Path) -> None:
    wanted = small.matrix(
        tmp_path, "  l4s.reduction: [cwr, round]\n  aqm: [fifo]\n", extra="baselines: solo\n"
    )
    base, new = sides("l4s.reduction=cwr,round", wanted, wanted)
    (shared,) = base.cells & new.cells
    assert new.ids[shared] == shared
    assert len(base.cells) == 3  # both groups, and each of them alone
    assert set(new.ids.values()) == base.cells


@pytest.mark.parametrize(
    ("between", "message"),
    [
        ("lab", "'lab' does not name two values of a factor; write FACTOR=BASE,NEW"),
        ("lab=default", "does not name two values"),
        ("lab=default,mine,third", "does not name two values"),
        ("=a,b", "does not name two values"),
        ("lab=default,*", "lab has several values in one half: default, mine; name one of them"),
        ("lab=default,none", "lab=none"),
        ("nothing=a,b", "no cell has a factor nothing"),
    ],
)
def test_what_names_no_two_halves(tmp_path: Path, between: str, message: str) -> None:
    both: Matrix = small.matrix(tmp_path, AXES)
    with pytest.raises(InputError) as error:
        sides(between, both, both)
    assert message in str(error.value)
