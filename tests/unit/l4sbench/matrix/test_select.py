# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Filters of the command line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from l4sbench.errors import InputError
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

TEXT = """
matrix: test
duration: 30s
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fifo, fifo-ecn, codel]
  rate: [10mbit, 100mbit]
  rtt: [10ms]
  buffer_bdp: [0.5, 1, 4]
  classic.ecn: ["off", classic]
  expect.bottleneck: [true]
  aqm.target: [1ms, 5ms]
exclude:
  - {aqm: fifo-ecn, aqm.target: "*"}
include:
  - {aqm: fifo-ecn, rate: 100mbit, rtt: 10ms}
"""


@pytest.fixture
def matrix(tmp_path: Path, small_catalog: Catalog) -> Matrix:
    (tmp_path / "m.yaml").write_text(dedent(TEXT))
    return Matrix.load(tmp_path / "m.yaml", small_catalog)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ([], 37),
        (["aqm=codel"], 24),
        (["aqm=fifo*"], 13),
        (["aqm=fifo"], 12),
        (["aqm=fifo,fifo-ecn"], 13),
        (["aqm=?odel"], 24),
        (["rate=0.1gbit"], 19),
        (["rate=100mbit,10000kbit"], 37),
        (["rtt=10000us"], 37),
        (["buffer_bdp=1"], 13),
        (["buffer_bdp=1.0"], 13),
        (["buffer_bdp=.5,4"], 24),
        (["buffer_bdp=1", "aqm=codel"], 8),
        (["classic.ecn=off"], 19),
        (["aqm.target=0.001s"], 12),
        (["aqm.target=5ms"], 13 - 1),
        (["expect.bottleneck=true"], 37),
        (["l4s.cc=prague"], 37),
        (["l4s.fallback=off"], 37),
        (["cell=codel_0.5bdp_*"], 8),
        ([" aqm = codel , fifo "], 36),
    ],
)
def test_selects(matrix: Matrix, filters: list[str], count: int) -> None:
    chosen = matrix.select(filters)
    assert len(chosen.cells) == count
    assert set(chosen.cells) <= set(matrix.cells)
    assert [cell for cell in matrix.cells if cell in set(chosen.cells)] == list(chosen.cells)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (["aqm"], "aqm: is not a valid filter; write FACTOR=PATTERN, such as aqm=codel,fq*"),
        (["aqm="], "aqm=: is not a valid filter; write FACTOR=PATTERN, such as aqm=codel,fq*"),
        (["amq=codel"], "amq=codel: no cell has a factor amq; did you mean aqm?"),
        (
            ["l4s.fallbak=off"],
            "l4s.fallbak=off: no cell has a factor l4s.fallbak; did you mean l4s.fallback?",
        ),
        (["aqm=codle"], "aqm=codle: no cell has aqm=codle; did you mean codel?"),
        (["aqm=codel,pie"], "aqm=codel,pie: no cell has aqm=pie; choose from fifo, codel, fifo-ecn"),
        (
            ["rate=100"],
            'rate=100: expected a rate such as 100mbit, not "100"; add a unit: bit, kbit, mbit, gbit',
        ),
        (["rate=50mbit"], "rate=50mbit: no cell has rate=50mbit; choose from 10mbit, 100mbit"),
        (["buffer_bdp=two"], "buffer_bdp=two: no cell has buffer_bdp=two; choose from 0.5, 1, 4"),
        (
            ["amq=codel", "rate=5"],
            (
                "amq=codel: no cell has a factor amq; did you mean aqm?\n"
                'rate=5: expected a rate such as 100mbit, not "5"; add a unit: bit, kbit, mbit, gbit'
            ),
        ),
        (
            ["aqm=codel|fifo*", "cc=prague", "interval=100ms"],
            (
                "aqm=codel|fifo*: commas mean or; | does not; write aqm=codel,fifo*\n"
                "cc=prague: no cell has a factor cc; did you mean classic.cc or l4s.cc?\n"
                "interval=100ms: no cell has a factor interval; did you mean sample.interval or aqm.interval?"
            ),
        ),
        (
            ["aqm=|"],
            "aqm=|: commas mean or; | does not; write FACTOR=PATTERN, such as aqm=codel,fq*",
        ),
        (["aqm=fifo-ecn", "rate=10mbit"], "no cell matches all of aqm=fifo-ecn rate=10mbit"),
    ],
)
def test_bad_filters_say_what_there_is(matrix: Matrix, filters: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        matrix.select(filters)
    assert str(raised.value) == message
