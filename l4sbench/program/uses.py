# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The things that a cell uses: entries of the catalog, traffic tools, senders, programs of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from l4sbench.disk.executables import command_of
from l4sbench.facts.factors import refers
from l4sbench.program.timing import tools
from l4sbench.program.trial import tool_of
from l4sbench.traffic.sender import PROGRAM
from l4sbench.traffic.tools import LEAN

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CongestionControl, Queue
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import TestbedTraits
    from l4sbench.text.units import Value

Entry: TypeAlias = "Queue | CongestionControl"


class Uses(NamedTuple):
    """Names of the things that a cell uses.

    Attributes:
        queue: Its queue.
        tools: Its traffic tools.
        ccs: Its congestion controls, in order of the groups.
    """

    queue: str
    tools: tuple[str, ...]
    ccs: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell, traits: TestbedTraits) -> Uses:
        """Return the things that a cell uses on a testbed."""
        by_tcp = zip(cell.group_names, cell.kinds, strict=True)
        groups = tuple(group for group, kind in by_tcp if not kind.has_controls)
        queue, asked, *ccs = _named(groups, cell.given)(cell.factors)
        tool = tool_of(asked, traits)
        return cls(queue, (LEAN,) if tool == LEAN else tools(cell, tool), tuple(ccs))

    def entries(self, catalog: Catalog) -> list[Entry]:
        """Return the catalog's entries of these names.

        Raises:
            InputError: the catalog has no such entry.
        """
        return [catalog.queue(self.queue), *(catalog.congestion_control(cc) for cc in self.ccs)]


@lru_cache(maxsize=1024)
def _named(
    groups: tuple[str, ...], given: frozenset[str]
) -> Callable[[Mapping[str, Value]], tuple[str, ...]]:
    ccs = (f"{group}.cc" for group in groups)
    return itemgetter("aqm", "traffic.tool", *(cc for cc in ccs if cc in given))


def modules(used: Iterable[Entry]) -> set[str]:
    """Return the names of the kernel modules of these entries that are built from our own source."""
    return {
        entry.module.name for entry in used if entry.module is not None and entry.module.source is not None
    }


def kernel_options(used: Iterable[Entry]) -> set[str]:
    """Return the kernel options, without `CONFIG_`, that these entries need."""
    return {option for entry in used for option in entry.needs.config}


def executables(cell: Cell) -> frozenset[str]:
    """Return the programs of the user's own and of senders that a cell runs, as the catalog names them."""
    own = {command_of(str(cell.factors[name])).program for name in _commands(cell.given)}
    return frozenset(own | {f"{PROGRAM}{name}" for name in senders(cell)})


def senders(cell: Cell) -> frozenset[str]:
    """Return the senders that a cell uses, by name."""
    named = zip(cell.group_names, cell.kinds, strict=True)
    return frozenset(str(cell.get(f"{group}.send")) for group, kind in named if kind.has_controls)


@lru_cache(maxsize=1024)
def _commands(given: frozenset[str]) -> tuple[str, ...]:
    """Return which factors are commands of the user's own programs, in order."""
    return tuple(sorted(name for name in given if refers(name, "program")))
