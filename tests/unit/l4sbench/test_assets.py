# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Where data folders are, and digests of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from l4sbench import assets


def test_data_folders_are_found() -> None:
    assert (assets.folder("kernels") / "codel" / "module.yml").is_file()
    assert assets.folder("kernels").parent == assets.root()


def test_a_digest_is_about_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "a.c").write_text("int a;")
        (folder / "b.h").write_text("int b;")
    os.utime(two / "b.h", (0, 0))
    assert assets.digest(one) == assets.digest(two)
    (two / "sub" / "a.c").rename(two / "sub" / "c.c")
    assert assets.digest(one) != assets.digest(two)


def test_a_digest_can_be_of_some_files(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int a;")
    before = assets.digest(tmp_path, suffixes=(".c",))
    (tmp_path / "a.o").write_text("junk")
    assert assets.digest(tmp_path, suffixes=(".c",)) == before
    assert assets.digest(tmp_path) != before


def test_a_digest_of_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        assets.digest(tmp_path / "nothing")
