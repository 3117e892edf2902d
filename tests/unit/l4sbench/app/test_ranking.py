# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Rankings of congestion controls: whose cells count, and what is capped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from l4sbench.app.asking import Atlas
from l4sbench.app.atlas import AtlasCell, AtlasColumn
from l4sbench.app.ranking import Contender, ranking
from l4sbench.cli import main
from tests.unit.l4sbench.app.test_asking import CATALOG, FIFO, row

BBR1 = AtlasColumn("fifo", None, "prague", "bbr1", "off")
PRAGUE, CUBIC, BBR = map(Contender, ("prague", "cubic", "bbr1"))


def plane(
    column: AtlasColumn, mine: Sequence[float], other: Sequence[float], cells: int = 12
) -> Iterator[AtlasCell]:
    for place in range(cells):
        own = row(column, 10.0 + place, 10, 1, "ok")
        yield replace(own, l4s_each_percent=tuple(mine), classic_each_percent=tuple(other))


def test_who_leaves_the_least_comes_first_and_gains_are_capped() -> None:
    found = ranking([*plane(FIFO, (40, 40, 40), (55, 55, 55)), *plane(BBR1, (10, 10, 10), (80, 80, 80))])
    assert (found.cells, found.trials) == (12, 72)
    assert [one.contender for one in found.ranked] == [BBR, CUBIC, PRAGUE]
    bbr, cubic, prague = found.ranked
    assert (bbr.leaves_percent.mean, bbr.keeps_percent.mean) == (20, 100)
    assert (cubic.leaves_percent.mean, cubic.keeps_percent.mean) == (80, 100)
    assert (prague.leaves_percent.mean, prague.keeps_percent.mean) == (100, 50)
    assert {other: value.mean for other, value in prague.beside.items()} == {CUBIC: 100, BBR: 100}


def test_only_cells_count_that_all_pairs_have() -> None:
    far = replace(next(plane(FIFO, (1, 1, 1), (90, 90, 90))), rtt_ms=100.0)
    once = replace(next(plane(BBR1, (1,), (90,))), rtt_ms=100.0)
    cells = [*plane(FIFO, (40, 40, 40), (55, 55, 55)), *plane(BBR1, (10, 10, 10), (80, 80, 80)), far, once]
    assert ranking(cells).cells == 12
    assert ranking([far]).cells == 1
    assert ranking([once]).ranked == ()
    apart = [far, *plane(BBR1, (10, 10, 10), (80, 80, 80))]
    assert (ranking(apart).cells, ranking(apart).ranked) == (0, ())


def test_the_interval_is_that_of_the_trials() -> None:
    found = ranking(plane(FIFO, (30, 40, 50), (45, 45, 45), cells=100))
    # each cell: 60, 80, 100 %, variance 400, of a mean of three 400 / 3
    half = 1.95996 * (100 * 400 / 3) ** 0.5 / 100
    (cubic,) = [one for one in found.ranked if one.contender == CUBIC]
    leaves = cubic.leaves_percent
    assert (leaves.mean, leaves.low, leaves.high) == pytest.approx((80, 80 - half, 80 + half), abs=1e-3)
    few = ranking(plane(FIFO, (30, 40, 50), (45, 46, 45), cells=9))
    assert {one.leaves_percent.low for one in few.ranked} == {None}


def test_a_queue_and_classic_ecn_are_apart() -> None:
    ecn = replace(FIFO, classic_ecn="classic")
    codel = replace(FIFO, aqm="codel")
    step = replace(FIFO, min_qlen_step=2)
    cells = [
        *plane(FIFO, (40, 40, 40), (55, 55, 55)),
        *plane(ecn, (20, 20, 20), (70, 70, 70)),
        *plane(codel, (30, 30, 30), (60, 60, 60)),
        *plane(step, (1, 1, 1), (90, 90, 90)),
    ]
    found = ranking(cells, "fifo")
    assert [(str(one.contender), one.leaves_percent.mean) for one in found.ranked] == [
        ("cubic, ECN classic", 40),
        ("cubic", 80),
        ("prague", 100),
    ]
    every = ranking(cells)
    assert (every.cells, every.queues) == (12, ("fifo",))  # CoDel has no cells with classic ECN


def test_old_cells_do_not_count() -> None:
    cells = tuple(plane(FIFO, (40, 40, 40), (55, 55, 55)))
    old = tuple(replace(one, rtt_ms=20.0, wire="another") for one in cells)
    assert Atlas({FIFO: (*cells, *old)}, CATALOG).ranking().cells == len(cells)


def test_the_shipped_table_is_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "--ranking", "aqm=dualpi2"]) == 0
    printed = capsys.readouterr().out
    assert "prague" in printed
    assert "percent of a fair share, means [95 % confidence intervals] over" in printed
    assert printed.endswith("these cells are behind dualpi2\n")
    assert main(["ask", "--ranking", "DualPI2"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["ask", "--ranking", "rate=5mbit"]) == 2
    assert "--ranking takes no question, but a queue" in capsys.readouterr().err
    assert main(["ask", "--ranking", "aqm=fqcodel2"]) == 2
    assert "fq-codel" in capsys.readouterr().err
    assert main(["ask", "--ranking", "pie"]) == 2
    assert "the atlas has no queue pie; did you mean pie-drop?" in capsys.readouterr().err


@pytest.mark.parametrize("other", [("--run",), ("--page", "atlas.html"), ("--map", "atlas.svg")])
def test_other_things_are_not_made_beside_the_ranking(
    other: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", "--ranking", *other]) == 2
    assert "do not go together; give one of them at a time" in capsys.readouterr().err
