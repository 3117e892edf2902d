# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Where data folders are, and digests of files."""

from __future__ import annotations

import ast
import gc
import os
from pathlib import Path

import pytest

from l4sbench.disk import assets


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


CODE = '''"""Say a thing."""


def twice(number: int) -> int:
    """Return the number twice."""
    return 2 * number  # as asked
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Say a thing.", "Another thing."),
        ("Return the number twice.", "Double it."),
        ("  # as asked", ""),
        ("\n\n\n", "\n"),
        ("2 * number", "(2 * number)"),
    ],
)
def test_rewording_code_does_not_change_its_digest(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    before = assets.digest(file)
    file.write_text(CODE.replace(old, new))
    assert file.read_text() != CODE
    assert assets.digest(file) == before


@pytest.mark.parametrize(
    ("old", "new"), [("2 *", "3 *"), ("2 *", "2 +"), ("return 2", 'return "2"'), ("-> int", ""), ("2", "0")]
)
def test_other_code_has_another_digest(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    before = assets.digest(file)
    file.write_text(CODE.replace(old, new))
    assert assets.digest(file) != before


def test_a_digest_of_code_is_the_same_in_all_versions_of_python(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(
        "def f(a, *, b=None):\n    global c\n    return f'{a!r:>{b}} x' 'y' if a else [*a, 1.5, b'', ...]\n"
    )
    assert assets.digest(file) == "48991e291a5b0e6995bcb284aa920e4e5f9d8fec8f3b2ccc5084a5e9051ccf22"


def test_a_collection_of_garbage_does_not_disturb_a_digest(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(CODE * 20)
    before = assets.digest(file)
    every = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(10)
    try:
        assert assets.digest(file) == before
    finally:
        gc.set_threshold(*every)
        gc.callbacks.remove(parse)


def parse(phase: str, info: dict[str, int]) -> None:
    """Parse something, deep in the stack, as code that a collection runs may."""

    def deep(calls: int) -> ast.AST:
        return deep(calls - 1) if calls else ast.parse("a + b")

    deep(20)


def test_a_digest_of_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        assets.digest(tmp_path / "nothing")
