# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Grids: what is shown in rows and columns, one panel for each of several things, by typed keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from l4sbench.errors import InputError
from reports.result.labels import BUFFER

if TYPE_CHECKING:
    from reports.result.cells import CellResult

P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")
U = TypeVar("U")

USUALLY_ACROSS: Final = (BUFFER, "rate_mbps", "rtt_ms")


@dataclass(frozen=True)
class Panel(Generic[P, T]):
    """One panel of a grid: what it is about, and its items by (row, column), counted from 0."""

    about: P
    places: Mapping[tuple[int, int], T]


@dataclass(frozen=True)
class Grid(Generic[P, R, C, T]):
    """Panels that share rows and columns."""

    rows: tuple[R, ...]
    columns: tuple[C, ...]
    panels: tuple[Panel[P, T], ...]

    def lines(self, panel: int = 0) -> Iterator[tuple[R, tuple[T | None, ...]]]:
        """Return the rows of a panel with their items from left to right; None where a place is empty."""
        places = self.panels[panel].places
        for row, about in enumerate(self.rows):
            yield about, tuple(places.get((row, column)) for column in range(len(self.columns)))

    def map(self, change: Callable[[T], U]) -> Grid[P, R, C, U]:
        """Return the grid with every item exchanged for another."""
        panels = (
            Panel(panel.about, {place: change(item) for place, item in panel.places.items()})
            for panel in self.panels
        )
        return Grid(self.rows, self.columns, tuple(panels))


def grid(
    items: Iterable[T],
    *,
    row: Callable[[T], R],
    column: Callable[[T], C],
    panel: Callable[[T], P],
    row_order: Callable[[R], Any] | None = None,
    column_order: Callable[[C], Any] | None = None,
    clash: Callable[[T, T, R], R] | None = None,
) -> Grid[P, R, C, T]:
    """Place items in a grid.

    Args:
        items: The items to place.
        row: Returns the key of an item's row.
        column: Returns the key of its column.
        panel: Returns the key of its panel.
        row_order: Sort key of rows; None: in order of appearance.
        column_order: Sort key of columns; None: in order of appearance.
        clash: Called with the item that is in a place, another one for the same place, and their row; returns
            another row for the latter.

    Raises:
        InputError: two items are in one place, and there is no `clash`.
    """
    found: dict[P, dict[tuple[R, C], T]] = {}
    for item in items:
        own, down, across = found.setdefault(panel(item), {}), row(item), column(item)
        if (down, across) in own:
            if clash is None:
                raise InputError(f"two cells are in one place: {down}, {across}")
            down = clash(own[down, across], item, down)
        own[down, across] = item
    keys = list(dict.fromkeys(key for own in found.values() for key in own))
    rows = _ordered((down for down, _ in keys), row_order)
    columns = _ordered((across for _, across in keys), column_order)
    down_at, across_at = ({key: at for at, key in enumerate(keys)} for keys in (rows, columns))
    panels = (
        Panel(about, {(down_at[down], across_at[across]): item for (down, across), item in own.items()})
        for about, own in found.items()
    )
    return Grid(rows, columns, tuple(panels))


def _ordered(keys: Iterable[T], order: Callable[[T], Any] | None) -> tuple[T, ...]:
    unique = dict.fromkeys(keys)
    return tuple(unique if order is None else sorted(unique, key=order))


def across_of(cells: Sequence[CellResult]) -> str:
    """Return the factor to show across: the first of the usual ones that differs, else the buffer."""
    return next((name for name in USUALLY_ACROSS if len({c.value(name) for c in cells}) > 1), BUFFER)
