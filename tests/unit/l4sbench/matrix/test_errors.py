# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Damaged matrices: they load, or every problem has a position."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from l4sbench.errors import InputError, Problem
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell

GOOD: dict[str, Any] = {
    "matrix": "good",
    "rate": "100mbit",
    "rtt": "10ms",
    "duration": "30s",
    "trials": {"min": 3, "max": 10, "until": "decided"},
    "flows": {"l4s": {"cc": "prague", "fallback": "on"}, "classic": {"cc": "cubic"}},
    "axes": {
        "aqm": ["fifo", "codel"],
        "buffer_bdp": [1, 4],
        "aqm.target": ["1ms", "5ms"],
        "load": [{"classic.count": 2}, {"classic.count": 1, "classic.ecn": "classic"}],
    },
    "exclude": [{"aqm": "fif*", "buffer_bdp": 4}],
    "include": [{"aqm": "fifo-ecn", "aqm.form": "literal"}],
}
JUNK: list[Any] = [None, True, False, -1, 10**30, 0.5, "", "off", "*", "100mbit", "codel", "l4s"]
JUNK += ["x" * 300, "\0"]
JUNK += [[], {}, [[1]], [{}], {"a": {"b": 1}}, {"classic.count": 2}, float("inf")]
KEYS = [
    "",
    "aqm",
    "aqm.",
    "aqm.form",
    "l4s",
    "l4s.cc",
    ".cc",
    "..",
    "flows",
    "axes",
    "catalog",
    "extends",
    "min",
]


def paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything below the root."""
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))


PATHS = sorted(paths(GOOD), key=str)
DELETE = object()


def test_the_good_matrix_is_good(tmp_path: Path, small_catalog: Catalog) -> None:
    (tmp_path / "m.yaml").write_text(json.dumps(GOOD))
    assert len(Matrix.load(tmp_path / "m.yaml", small_catalog).cells) == 11


@settings(max_examples=150)
@given(path=st.sampled_from(PATHS), junk=st.sampled_from([*JUNK, DELETE]), key=st.sampled_from(KEYS))
def test_whatever_is_wrong_is_told_with_its_place(
    path: tuple[Any, ...], junk: Any, key: str, tmp_path: Path, small_catalog: Catalog
) -> None:
    """A damaged matrix loads, or fails with problems that all have a place; nothing else happens."""
    tree = copy.deepcopy(GOOD)
    above = tree
    for part in path[:-1]:
        above = above[part]
    if junk is DELETE:
        renamed = above.pop(path[-1])
        if isinstance(above, dict):
            above[key] = renamed
    else:
        above[path[-1]] = junk
    file = tmp_path / "m.yaml"
    file.write_text(json.dumps(tree).replace("Infinity", ".inf"))
    problems: tuple[Problem, ...] = ()
    cells: tuple[Cell, ...] = ()
    try:
        cells = Matrix.load(file, small_catalog).cells
    except InputError as error:
        problems = error.problems
    assert cells or problems
    assert all(problem.where.startswith(str(file)) for problem in problems)
