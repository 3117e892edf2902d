# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cells that other cells are measured against: what a flow group gets alone, and against its own kind.

Harm is what a competitor takes away (Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's Fairness Index",
HotNets 2019): it needs a cell in which the group has the path to itself, and it is judged by the harm that
the group's own congestion control does in the competitor's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from l4sbench.topology import topology

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.topology import Pair

BASELINES: Final = ("none", "solo", "solo-and-same")
"""What a matrix may ask for."""

OF_PLACE: Final = ("count", "start", "from", "to")
"""Factors of a group that say how many flows it has, when and where, and not of which kind they are."""

_V = TypeVar("_V")


def baselines(cells: Iterable[Cell], wanted: str, catalog: Catalog) -> tuple[Cell, ...]:
    """The baselines of these cells, each once, and none that is one of the cells.

    `solo`: for every cell and flow group, the same cell with that group alone, on the nodes it has there.
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
    """A cell's baselines, without those made before: among many cells few baselines are new."""
    if len(cell.group_names) > 1:
        for name in cell.group_names:
            others = tuple(f"{other}." for other in cell.group_names if other != name)
            key = (name, tuple(item for item in cell.factors.items() if not item[0].startswith(others)))
            if key not in seen:
                seen.add(key)
                yield _solo(cell, name, others)
    if wanted == "solo-and-same":
        l4s = {name for name in cell.group_names if _is_l4s(cell, name, catalog)}
        for replaced in sorted(l4s):
            for kind in cell.group_names:
                if kind not in l4s:
                    yield _same(cell, replaced, kind)


def _is_l4s(cell: Cell, group: str, catalog: Catalog) -> bool:
    control = catalog.congestion_controls.get(str(cell.factors[f"{group}.cc"]))
    return control is not None and control.l4s


def _solo(cell: Cell, name: str, others: tuple[str, ...]) -> Cell:
    """The cell with one group alone. It states its nodes, or it would move to those of the first group."""
    pair: Pair = topology(cell.topology).place(cell.groups)[name]
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
    """The cell with `replaced`'s flows, as many, when and where they were, but of the kind of `kind`'s."""

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
    """The part of a factor's name behind the group's; empty when it is not a factor of the group."""
    head, dot, rest = key.partition(".")
    return rest if dot and head == group else ""


def _ordered(factors: Mapping[str, _V]) -> Mapping[str, _V]:
    return MappingProxyType({name: factors[name] for name in sorted(factors)})
