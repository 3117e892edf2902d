# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Baselines: what cells are added for others to be measured against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell

HEAD = """
matrix: test
rate: 100mbit
rtt: 10ms
duration: 30s
baselines: {baselines}
flows:
  l4s: {{cc: prague, count: 2}}
  classic: {{cc: cubic, start: 1s}}
axes:
  aqm: [fifo, codel]
  classic.ecn: ["off", classic]
"""

Make = Callable[..., Matrix]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    catalog = Catalog.load()

    def load_text(baselines: str, more: str = "") -> Matrix:
        file = tmp_path / "m.yaml"
        file.write_text(HEAD.format(baselines=baselines) + more, encoding="utf-8")
        return Matrix.load(file, catalog)

    return load_text


def added(matrix: Matrix) -> list[Cell]:
    return [cell for cell in matrix.cells if cell.id in matrix.baseline_ids]


def groups(cell: Cell) -> str:
    return " v ".join(
        f"{group.count} {group.cc} {group.ecn} {group.nodes[0] or ''}".strip() for group in cell.groups
    )


def test_none_is_what_there_is_without_the_key(make: Make) -> None:
    assert not added(make("none"))
    assert make("none").cells == make("solo").asked


def test_solo_has_each_situation_once_and_in_its_place(make: Make) -> None:
    found = added(make("solo"))
    assert [(cell.aqm, groups(cell)) for cell in found] == [
        (aqm, alone)
        for aqm in ("fifo", "codel")
        for alone in ("2 prague accecn tx-l4s", "1 cubic off tx-classic", "1 cubic classic tx-classic")
    ]
    assert {cell.groups[0].nodes[1] for cell in found} == {"rx-l4s", "rx-classic"}
    assert str(found[1].groups[0].start) == "1s"
    assert not any(name.startswith("classic.") for name in found[0].factors)


def test_same_puts_the_classic_kind_in_the_place_of_the_l4s_one(make: Make) -> None:
    matrix = make("solo-and-same")
    same = [cell for cell in added(matrix) if len(cell.groups) == 2]
    assert [(cell.aqm, groups(cell)) for cell in same] == [
        (aqm, f"2 cubic {ecn} v 1 cubic {ecn}") for aqm in ("fifo", "codel") for ecn in ("off", "classic")
    ]
    assert {str(cell.groups[0].start) for cell in same} == {"0s"}


def test_same_keeps_the_round_trip_time_of_each_place(make: Make) -> None:
    of_l4s, of_classic = (
        {
            tuple(str(cell.get(f"{name}.rtt")) for name in cell.group_names)
            for cell in added(make("solo-and-same", f"include:\n  - {{aqm: fifo, {group}.rtt: 50ms}}\n"))
            if len(cell.groups) == 2
        }
        for group in ("l4s", "classic")
    )
    assert of_l4s == {("None", "None"), ("50ms", "None")}
    assert of_classic == {("None", "None"), ("None", "50ms")}


def test_a_baseline_is_never_a_cell_of_its_own(make: Make) -> None:
    """The matrix itself has CUBIC against CUBIC: no baseline, although some cell is measured against it."""
    asked = "include:\n  - {aqm: fifo, l4s.cc: cubic, l4s.ecn: classic, classic.ecn: classic}\n"
    plain, more = make("solo-and-same"), make("solo-and-same", asked)
    assert len(more.asked) == len(plain.asked) + 1
    assert more.asked[-1].id in {cell.id for cell in added(plain)}
    assert more.asked[-1].id not in more.baseline_ids
    assert len({cell.id for cell in more.cells}) == len(more.cells)


def test_filters_keep_the_baselines_of_what_they_choose(make: Make) -> None:
    matrix = make("solo-and-same").select(["aqm=fifo", "classic.ecn=off"])
    assert [groups(cell) for cell in matrix.cells] == [
        "2 prague accecn v 1 cubic off",
        "2 prague accecn tx-l4s",
        "1 cubic off tx-classic",
        "2 cubic off v 1 cubic off",
    ]
    assert len(matrix.baseline_ids) == 3
    alone = matrix.select(["classic.from=tx-classic"])
    assert [groups(cell) for cell in alone.cells] == ["1 cubic off tx-classic"]


@settings(max_examples=20)
@given(st.sets(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=1), st.sampled_from(["solo", "solo-and-same"]))
def test_every_cell_has_its_baselines(make: Make, buffers: set[float], wanted: str) -> None:
    matrix = make(wanted, f"  buffer_bdp: {sorted(buffers)}\n")
    found = {
        (cell.aqm, cell.buffer_bdp, *((g.name, g.cc, g.ecn, g.count) for g in cell.groups))
        for cell in added(matrix)
    }
    for cell in matrix.asked:
        for group in cell.groups:
            key = (cell.aqm, cell.buffer_bdp, (group.name, group.cc, group.ecn, group.count))
            assert key in found
    assert len(found) == len(added(matrix))


def test_another_word_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="baselines"):
        make("alone")


def test_cells_and_baselines_have_a_largest_number(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make("solo")
    monkeypatch.setattr("l4sbench.matrix.baselines.MAX_CELLS", len(whole.cells))
    assert make("solo").cells == whole.cells
    monkeypatch.setattr("l4sbench.matrix.baselines.MAX_CELLS", len(whole.cells) - 1)
    with pytest.raises(InputError, match="cells and their baselines exceed the maximum") as raised:
        make("solo")
    assert raised.value.problems[0].path == "baselines"
