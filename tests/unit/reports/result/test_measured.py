# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Labels of cells without verdicts: as few columns as distinguish them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reports.result.load import RunTables
from reports.result.measured import measure

PRAGUE = {"aqm": "fifo", "l4s.cc": "prague", "l4s.rtt_virt_ms": 25.0, "l4s.ecn": "accecn"}
BBR3 = {"aqm": "fifo", "l4s.cc": "bbr3", "l4s.rtt_virt_ms": None, "l4s.ecn": "off"}


def labels(make: Callable[[Any], RunTables], *cells: dict[str, Any]) -> list[list[str]]:
    found = measure(make([{"l4s": [45.0], "classic": [50.0], **cell} for cell in cells]))
    return [[setting.column for setting in cell.label.settings] for cell in found.cells]


def test_a_parameter_follows_from_its_congestion_control(make: Callable[[Any], RunTables]) -> None:
    assert labels(make, PRAGUE, BBR3) == [["l4s.cc", "l4s.ecn"]] * 2


def test_a_parameter_with_several_values_is_named(make: Callable[[Any], RunTables]) -> None:
    cells = (PRAGUE, PRAGUE | {"l4s.rtt_virt_ms": 10.0}, BBR3)
    assert sorted(labels(make, *cells)) == [
        ["l4s.cc", "l4s.ecn"],
        *[["l4s.cc", "l4s.ecn", "l4s.rtt_virt_ms"]] * 2,
    ]


def test_a_column_that_only_some_cells_have_is_named_where_nothing_else_says_so(
    make: Callable[[Any], RunTables],
) -> None:
    assert sorted(labels(make, PRAGUE, PRAGUE | {"l4s.rtt_virt_ms": None})) == [[], ["l4s.rtt_virt_ms"]]


def test_a_group_that_only_some_cells_have_is_named_by_its_congestion_control(
    make: Callable[[Any], RunTables],
) -> None:
    alone = PRAGUE | {"classic.cc": None, "classic.ecn": None, "classic.count": None}
    assert sorted(labels(make, PRAGUE, alone)) == [[], ["classic.cc"]]
