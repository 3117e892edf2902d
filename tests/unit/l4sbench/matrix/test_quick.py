# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The quick variant of a matrix: its key `quick` is merged over it as a file that extends it would be."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import l4sbench
from l4sbench.app.finding import load_matrix
from l4sbench.app.words import matrices
from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix
from l4sbench.store import Run

WHOLE = """\
matrix: whole
rate: 10mbit
rtt: 10ms
duration: 60s
trials: {min: 3, max: 9, until: decided}
flows: {l4s: {cc: prague}, classic: {cc: cubic}}
axes:
  aqm: [codel, fifo]
  buffer_bdp: [1, 2, 4]
exclude:
  - {aqm: fifo, buffer_bdp: 4}
"""
CHANGES = """\
description: A small one.
duration: 20s
trials: 1
flows: {classic: {start: 1s}}
axes:
  buffer_bdp: [1, 4]
exclude:
  - {aqm: codel, buffer_bdp: 1}
"""


OF_FILE = "l4sbench run FILE --quick, with the matrix file that the run was made from"
COPY = "is the copy of a run, and the quick variant has a run of its own"


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_quick_variant_is_what_a_file_that_extends_the_matrix_would_be(
    tmp_path: Path, small_catalog: Catalog
) -> None:
    whole = written(tmp_path / "whole.yaml", f"{WHOLE}quick:\n{indented(CHANGES)}")
    child = written(tmp_path / "child.yaml", f"matrix: whole-quick\nextends: whole.yaml\n{CHANGES}")
    quick, expected = Matrix.load(whole, small_catalog, quick=True), Matrix.load(child, small_catalog)
    assert quick.name == "whole-quick"
    assert (quick.cells, quick.trials) == (expected.cells, expected.trials)
    assert (quick.description, len(quick.cells)) == ("A small one.", 3)
    assert quick.where("classic.start") == f"{whole}:16:28"
    # a run's copy needs no other file, and resumes without --quick
    copied = Matrix.load(written(tmp_path / "copy.yaml", quick.source.decode()), small_catalog)
    assert (copied.name, copied.cells, copied.trials) == (quick.name, quick.cells, quick.trials)


def test_the_matrix_itself_is_as_without_the_key(tmp_path: Path, small_catalog: Catalog) -> None:
    alone = Matrix.load(written(tmp_path / "alone.yaml", WHOLE), small_catalog)
    whole = written(tmp_path / "whole.yaml", f"{WHOLE}quick:\n{indented(CHANGES)}")
    found = Matrix.load(whole, small_catalog)
    assert (found.name, found.cells, found.trials) == (alone.name, alone.cells, alone.trials)
    # nor does a file that extends it inherit the variant
    child = written(tmp_path / "child.yaml", "matrix: child\nextends: whole.yaml\n")
    assert Matrix.load(child, small_catalog).cells == alone.cells
    with pytest.raises(InputError) as caught:
        Matrix.load(child, small_catalog, quick=True)
    (problem,) = caught.value.problems
    assert (problem.where, problem.path) == (f"{child}:1:1", "quick")
    assert problem.hint == "write what it changes, such as quick: {duration: 10s, trials: 1}"


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ("quick: 10s\n", "12:8", "quick"),
        ("quick: {matrix: other}\n", "12:9", "matrix"),
        ("quick: {quick: {trials: 1}}\n", "12:16", "quick"),
        ("quick: {extends: other.yaml}\n", "12:9", "extends"),
        ("quick: {rate: 10}\n", "12:15", "rate"),
        ("quick: {trials: 0}\n", "12:17", "trials"),
        ("quick: {flows: {l4s: {cc: cubicc}}}\n", "12:27", "l4s.cc"),
        ("quick: {axes: {aqm: [fifi]}}\n", "12:22", "aqm"),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_problems_have_their_places(
    changes: str, place: str, problem: str, *, quick: bool, tmp_path: Path, small_catalog: Catalog
) -> None:
    path = written(tmp_path / "m.yaml", WHOLE + changes)
    with pytest.raises(InputError) as caught:
        Matrix.load(path, small_catalog, quick=quick)
    assert [(one.where, one.path) for one in caught.value.problems] == [(f"{path}:{place}", problem)]


def test_a_variant_is_checked_without_making_its_cells(tmp_path: Path, small_catalog: Catalog) -> None:
    numbers = ", ".join(map(str, range(1, 101)))
    quick = f"quick: {{axes: {{buffer_bdp: [{numbers}], classic.count: [{numbers}]}}}}\n"
    path = written(tmp_path / "m.yaml", WHOLE + quick)
    plain, variant = (calls_of_loading(path, small_catalog, quick=quick) for quick in (False, True))
    assert plain < variant / 3


def calls_of_loading(path: Path, catalog: Catalog, *, quick: bool) -> int:
    """Count calls instead of seconds: a test must not depend on the machine's speed."""
    calls = 0

    def profile(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(profile)
    try:
        Matrix.load(path, catalog, quick=quick)
    finally:
        sys.setprofile(None)
    return calls


def stored(runs: Path, text: str, provenance: Mapping[str, str] = MappingProxyType({})) -> Path:
    """The copy of a matrix in a run directory."""
    return Run.create(runs, "name", text.encode(), 1, provenance).path / "matrix.yaml"


def test_a_stored_copy_is_read_whatever_its_variant_is(tmp_path: Path) -> None:
    """A run needs no variant; its catalog may lack what only the variant uses."""
    assert len(load_matrix(stored(tmp_path, f"{WHOLE}quick: {{axes: {{aqm: [gone]}}}}\n")).cells) == 5


@pytest.mark.parametrize(
    ("name", "provenance", "message"),
    [
        ("mine-quick", {"variant": "quick"}, "is the quick variant already; leave out --quick"),
        ("mine-quick-seed-7", {"variant": "quick"}, "is the quick variant already; leave out --quick"),
        ("quickstart", {}, f"{COPY}; l4sbench run quickstart --quick"),
        ("mine", {"git": "v1"}, f"{COPY}; {OF_FILE}"),
        ("too-quick", {}, f"{COPY}; {OF_FILE}"),
    ],
)
@pytest.mark.parametrize("key", ["", "quick: {trials: 1}\n"])
def test_a_stored_copy_has_no_variant(
    name: str, provenance: Mapping[str, str], message: str, key: str, tmp_path: Path
) -> None:
    text = WHOLE.replace("matrix: whole", f"matrix: {name}") + key
    copy = stored(tmp_path, text, provenance)
    with pytest.raises(InputError) as caught:
        l4sbench.plan(copy, quick=True)
    assert str(caught.value) == f"{copy} {message}"


def test_every_quick_variant_that_ships_is_smaller() -> None:
    names = [row["matrix"] for row in matrices() if row["quick"]]
    assert len(names) > 15
    for name in names:
        whole, quick = load_matrix(name), load_matrix(name, quick=True)
        assert len(quick.cells) * quick.trials.min < len(whole.cells) * whole.trials.min, name


def test_the_former_name_of_a_quick_variant_leads_to_it() -> None:
    with pytest.raises(InputError) as caught:
        load_matrix("segsize26-quick")
    assert caught.value.problems[0].hint == "segsize26 --quick is its quick variant"
