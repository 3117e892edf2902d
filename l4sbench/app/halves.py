# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two halves of a matrix that differ in one factor, such as the lab, as the two sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError
from l4sbench.text.parameters import plain

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.matrix import Matrix
    from l4sbench.text.units import Value


@dataclass(frozen=True)
class Half:
    """One side: its cells, and by their ids those that they have in the comparison.

    `label` is the factor with its value.
    """

    label: str
    cells: frozenset[str]
    ids: Mapping[str, str]


def sides(between: str, base: Matrix, new: Matrix, filters: Sequence[str] = ()) -> tuple[Half, Half]:
    """Return the halves that `FACTOR=BASE,NEW` names, the second with the ids of the first.

    Raises:
        InputError: it is not of this form, or no cell of a matrix has the factor with the value.
    """
    factor, _, values = between.partition("=")
    first, comma, second = values.partition(",")
    if not (factor and first and comma and second) or "," in second:
        hint = "write FACTOR=BASE,NEW, such as lab=default,mine"
        raise InputError(f"{between!r} does not name two values of a factor", hint)
    was, is_now = _half(base, factor, first, filters), _half(new, factor, second, filters)
    value = _value(was, factor)
    return (
        Half(f"{factor}={first}", frozenset(cell.id for cell in was.cells), {}),
        Half(
            f"{factor}={second}",
            frozenset(cell.id for cell in is_now.cells),
            {cell.id: _counterpart(cell, factor, value) for cell in is_now.cells},
        ),
    )


def _counterpart(cell: Cell, factor: str, value: Value) -> str:
    """Return the id of a cell with the other value; a baseline may lack the factor, and be that of both."""
    return cell.id if cell.get(factor) is None else cell.with_value(factor, value).id


def _half(matrix: Matrix, factor: str, value: str, filters: Sequence[str]) -> Matrix:
    half = matrix.select([f"{factor}={value}", *filters])
    _value(half, factor)
    return half


def _value(half: Matrix, factor: str) -> Value:
    """Return the value that a factor has in all cells of a half that have it."""
    values = (cell.get(factor) for cell in half.cells)
    found = {str(plain(value)): value for value in values if value is not None}
    if len(found) > 1:
        raise InputError(f"{factor} has several values in one half: {', '.join(found)}", "name one of them")
    return next(iter(found.values()))
