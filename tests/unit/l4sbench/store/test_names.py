# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Names of the folders of ended trials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.store import TrialFolder


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("3-9f2c", TrialFolder(3, "9f2c")),
        ("12-0.failed-1", TrialFolder(12, "0", "failed", 1)),
        ("1-aa.again-10", TrialFolder(1, "aa", "again", 10)),
    ],
)
def test_names_are_read_and_written(name: str, folder: TrialFolder) -> None:
    assert TrialFolder.parse(name) == folder
    assert str(folder) == name


@pytest.mark.parametrize(
    "name", ["", "3", "0-9f", "3-9G", "3-9f.partial", "3-9f.invalid", "3-9f.failed", "3-9f.failed-0", " 3-9f"]
)
def test_other_names_are_none(name: str) -> None:
    assert TrialFolder.parse(name) is None


@given(st.from_regex(r"[1-9][0-9]{0,3}-[0-9a-f]{1,12}(\.(again|failed)-[1-9][0-9]?)?", fullmatch=True))
def test_a_name_survives(name: str) -> None:
    assert str(TrialFolder.parse(name)) == name


def test_later_results_rank_higher() -> None:
    folders = [TrialFolder(1, "aa", "again", 2), TrialFolder(1, "aa"), TrialFolder(1, "aa", "failed", 3)]
    folders += [TrialFolder(1, "aa", "again", 1), TrialFolder(1, "aa", "failed", 1)]
    ordered = [str(folder) for folder in sorted(folders, key=lambda folder: folder.rank)]
    assert ordered == ["1-aa.failed-1", "1-aa.failed-3", "1-aa", "1-aa.again-1", "1-aa.again-2"]
    assert {folder.first for folder in folders} == {TrialFolder(1, "aa")}
