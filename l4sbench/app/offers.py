# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Words that a shell offers and no list of names has: filters of cells, and lists with commas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from l4sbench.catalog.describe import written

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell

_CELL: Final = "cell"


def filters(cells: Sequence[Cell], typed: str, *, ids: bool = False) -> list[str]:
    """Return what may be typed in place of the beginning of a filter: `aqm=` for `aq`, then `aqm=codel`.

    Factors that are alike in all cells are offered only where no other begins so.

    Args:
        cells: the cells to choose from.
        typed: what is there.
        ids: offer ids of cells, too.
    """
    name, stated, pattern = typed.partition("=")
    if stated:
        values = [cell.id for cell in cells] if name == _CELL else _values(cells, name)
        return [f"{name}={text}" for text in listed(values, pattern)]
    names = dict.fromkeys(factor for cell in cells for factor in cell.factors)
    varied = [factor for factor in names if len(_values(cells, factor)) > 1]
    offered = _begun(varied, name) or _begun(names, name)
    return [*(f"{factor}=" for factor in offered), *(_begun([c.id for c in cells], name) if ids else ())]


def listed(names: Iterable[str], typed: str) -> list[str]:
    """Return what may be typed in place of the beginning of a list with commas; no name comes twice."""
    before, comma, last = typed.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in _begun(names, last) if name not in given]


def _values(cells: Sequence[Cell], factor: str) -> list[str]:
    found = dict.fromkeys(cell.factors[factor] for cell in cells if factor in cell.factors)
    return [written(value) for value in found]


def _begun(names: Iterable[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]
