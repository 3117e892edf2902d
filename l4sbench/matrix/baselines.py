# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Baselines: cells with a flow group alone, or against its own kind, that other cells are compared with.

Harm is what a competitor takes away (Ware, Mukerjee, Seshan and Sherry, "Beyond Jain's Fairness Index",
HotNets 2019). It needs a cell in which the group has the path to itself, and is compared with the harm that
the group's own congestion control does in place of the competitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from l4sbench.errors import BadValueError
from l4sbench.facts.cell import Cell
from l4sbench.facts.common import Common
from l4sbench.facts.factors import name_of
from l4sbench.matrix.expand import MAX_CELLS

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.text.units import Value
    from l4sbench.topology import NodePair

OF_PLACE: Final = ("count", "start", "start_within", "every", "lifetime", "stop", "from", "to", "rtt")
"""Factors of a group for the number, times, nodes and paths of its flows, as opposed to their kind."""

_V = TypeVar("_V")


class _Change(Protocol):
    """A change of the names of factors, and of which there are."""

    def __call__(self, mapping: Mapping[str, _V], /) -> dict[str, _V]: ...


def baselines(cells: Iterable[Cell], wanted: str, catalog: Catalog) -> tuple[Cell, ...]:
    """Return the baselines of these cells, each once, without those that are among the cells.

    Groups without a congestion control have none.

    `solo`: for every cell and flow group, the same cell with that group alone, on the same nodes.
    `solo-and-same` adds, for every group that is not L4S beside one that is, the same cell with the group's
    congestion control in place of the L4S one. `none`: nothing.

    Raises:
        BadValueError: these are too many cells.
    """
    own = list(cells)
    found: dict[str, Cell] = {}
    known = {cell.id for cell in own} if wanted != "none" else set[str]()
    maker = _Maker(catalog)
    for cell in own if wanted != "none" else ():
        for baseline in _of(cell, wanted, maker):
            if baseline.id not in known:
                found.setdefault(baseline.id, baseline)
        if len(own) + len(found) > MAX_CELLS:
            message = f"{len(own)} cells and their baselines exceed the maximum of {MAX_CELLS} cells"
            raise BadValueError(message, "split the matrix, or write baselines: none")
    return tuple(found.values())


def _of(cell: Cell, wanted: str, maker: _Maker) -> Iterator[Cell]:
    """Yield the baselines of a cell except those made before: among many cells few baselines are new."""
    if len(cell.group_names) > 1:
        for name in cell.group_names:
            if f"{name}.cc" in cell.common.factors:
                yield from maker.solo(cell, name)
    if wanted == "solo-and-same":
        l4s = maker.l4s(cell)
        for replaced in sorted(l4s):
            for kind in cell.group_names:
                if kind not in l4s and f"{kind}.cc" in cell.common.factors:
                    yield from maker.same(cell, replaced, kind)


class _Maker:
    """Makes baselines by halves: what cells share is turned into what their baselines share once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._l4s: dict[int, frozenset[str]] = {}
        self._commons: dict[tuple[int, str, str], Common] = {}
        self._owns: dict[tuple[int, str, str], Mapping[str, Value]] = {}
        self._equal_commons: dict[object, Common] = {}
        self._equal_owns: dict[object, Mapping[str, Value]] = {}
        self._made: set[tuple[int, int]] = set()

    def l4s(self, cell: Cell) -> frozenset[str]:
        """Return the groups of a cell with a congestion control for L4S."""
        found = self._l4s.get(id(cell.common))
        if found is None:
            controls = self._catalog.congestion_controls
            ccs = {name: controls.get(str(cell.get(f"{name}.cc"))) for name in cell.group_names}
            found = frozenset(name for name, control in ccs.items() if control is not None and control.l4s)
            self._l4s[id(cell.common)] = found
        return found

    def solo(self, cell: Cell, name: str) -> Iterator[Cell]:
        """Yield the cell with one group alone, unless it was made before.

        Its nodes are stated; they would default to the first group's.
        """
        others = tuple(f"{other}." for other in cell.group_names if other != name)

        def kept(mapping: Mapping[str, _V]) -> dict[str, _V]:
            return {key: value for key, value in mapping.items() if not key.startswith(others)}

        def nodes() -> dict[str, Value]:
            pair: NodePair = self._catalog.topology(cell.topology).place(cell.nodes)[name]
            return {f"{name}.from": pair.sender, f"{name}.to": pair.receiver}

        return self._changed(cell, (name, ""), kept, (name,), nodes)

    def same(self, cell: Cell, replaced: str, kind: str) -> Iterator[Cell]:
        """Yield the cell with the flows of `replaced` turned into the kind of group `kind`, as `solo`."""

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

        return self._changed(cell, (replaced, kind), become, cell.group_names)

    def _changed(
        self,
        cell: Cell,
        how: tuple[str, str],
        change: _Change,
        group_names: tuple[str, ...],
        nodes: Callable[[], dict[str, Value]] = dict,
    ) -> Iterator[Cell]:
        """Yield the cell with both halves changed, unless one of equal halves was made before."""
        common = self._commons.get((id(cell.common), *how))
        if common is None:
            common = self._common(cell.common, change, group_names, nodes())
            self._commons[id(cell.common), *how] = common
        own = self._owns.get((id(cell.own), *how))
        if own is None:
            own = change(cell.own)
            own = self._owns[id(cell.own), *how] = self._equal_owns.setdefault(_typed(own), own)
        key = (id(common), id(own))
        if key not in self._made:
            self._made.add(key)
            yield Cell(common, own)

    def _common(
        self, old: Common, change: _Change, group_names: tuple[str, ...], nodes: dict[str, Value]
    ) -> Common:
        factors = change(old.factors) | nodes
        common = Common(
            factors=MappingProxyType({name: factors[name] for name in sorted(factors)}),
            given=frozenset(change(dict.fromkeys(old.given, True))).union(nodes),
            defaults=MappingProxyType(change(old.defaults)),
            group_names=group_names,
            varying=frozenset(change(dict.fromkeys(old.varying, True))),
        )
        key = (_typed(common.factors), common.given, _typed(common.defaults), group_names, common.varying)
        return self._equal_commons.setdefault(key, common)


def _typed(values: Mapping[str, Value]) -> tuple[object, ...]:
    """Return a key that values have in common if they are equal and of the same types."""
    return tuple((name, type(value), value) for name, value in values.items())


def _below(key: str, group: str) -> str:
    """Return the factor's name without the group's; empty if it is not a factor of the group."""
    name = name_of(key)
    return name.key if name.group == group else ""
