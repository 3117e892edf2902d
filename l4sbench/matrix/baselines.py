# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Baselines: cells with a flow group alone, or against its own kind, that other cells are compared with.

Harm is what a competitor takes away (Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's Fairness Index",
HotNets 2019). It needs a cell in which the group has the path to itself, and is compared with the harm that
the group's own congestion control does in place of the competitor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.topology import NodePair

BASELINES: Final = ("none", "solo", "solo-and-same")
"""Values of `baselines` in a matrix."""

OF_PLACE: Final = ("count", "start", "every", "lifetime", "stop", "from", "to")
"""Factors of a group for the number, times and nodes of its flows, as opposed to their kind."""

_V = TypeVar("_V")


def baselines(cells: Iterable[Cell], wanted: str, catalog: Catalog) -> tuple[Cell, ...]:
    """Return the baselines of these cells, each once, without those that are among the cells.

    Groups that TCP does not send have none.

    `solo`: for every cell and flow group, the same cell with that group alone, on the same nodes.
    `solo-and-same` adds, for every group that is not L4S beside one that is, the same cell with the group's
    congestion control in place of the L4S one. `none`: nothing.
    """
    own = list(cells)
    found: dict[str, Cell] = {}
    known = {cell.id for cell in own} if wanted != "none" else set[str]()
    seen: set[object] = set()
    for cell in own if wanted != "none" else ():
        for baseline in _of(cell, wanted, catalog, seen):
            if baseline.id not in known:
                found.setdefault(baseline.id, baseline)
    return tuple(found.values())


def _of(cell: Cell, wanted: str, catalog: Catalog, seen: set[object]) -> Iterator[Cell]:
    """Yield the baselines of a cell except those in `seen`: among many cells few baselines are new."""
    if len(cell.group_names) > 1:
        for name in cell.group_names:
            if f"{name}.cc" not in cell.factors:
                continue
            others = tuple(f"{other}." for other in cell.group_names if other != name)
            key = (name, tuple(item for item in cell.factors.items() if not item[0].startswith(others)))
            if key not in seen:
                seen.add(key)
                yield _solo(cell, name, others, catalog)
    if wanted == "solo-and-same":
        l4s = {name for name in cell.group_names if _is_l4s(cell, name, catalog)}
        for replaced in sorted(l4s):
            for kind in cell.group_names:
                if kind not in l4s and f"{kind}.cc" in cell.factors:
                    yield _same(cell, replaced, kind)


def _is_l4s(cell: Cell, group: str, catalog: Catalog) -> bool:
    control = catalog.congestion_controls.get(str(cell.factors.get(f"{group}.cc")))
    return control is not None and control.l4s


def _solo(cell: Cell, name: str, others: tuple[str, ...], catalog: Catalog) -> Cell:
    """Return the cell with one group alone and its nodes stated; they would default to the first group's."""
    pair: NodePair = catalog.topology(cell.topology).place(cell.nodes)[name]
    nodes = {f"{name}.from": pair.sender, f"{name}.to": pair.receiver}

    def kept(mapping: Mapping[str, _V]) -> dict[str, _V]:
        return {key: value for key, value in mapping.items() if not key.startswith(others)}

    return replace(
        cell,
        factors=_ordered(kept(cell.factors) | nodes),
        given=frozenset(key for key in cell.given if not key.startswith(others)).union(nodes),
        defaults=MappingProxyType(kept(cell.defaults)),
        group_names=(name,),
    )


def _same(cell: Cell, replaced: str, kind: str) -> Cell:
    """Return the cell with the flows of `replaced` turned into the kind of group `kind`."""

    def become(mapping: Mapping[str, _V]) -> dict[str, _V]:
        theirs = {
            f"{replaced}.{rest}": value
            for key, value in mapping.items()
            if (rest := _below(key, kind)) and rest not in OF_PLACE
        }
        ours = {
            key: value
            for key, value in mapping.items()
            if not (rest := _below(key, replaced)) or rest in OF_PLACE
        }
        return ours | theirs

    given = become(dict.fromkeys(cell.given, True))
    return replace(
        cell,
        factors=_ordered(become(cell.factors)),
        given=frozenset(given),
        defaults=MappingProxyType(become(cell.defaults)),
    )


def _below(key: str, group: str) -> str:
    """Return the factor's name without the group's; empty if it is not a factor of the group."""
    head, dot, rest = key.partition(".")
    return rest if dot and head == group else ""


def _ordered(factors: Mapping[str, _V]) -> Mapping[str, _V]:
    return MappingProxyType({name: factors[name] for name in sorted(factors)})
