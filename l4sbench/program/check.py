# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What can be said about a cell before anything runs: why it cannot, and where it is seldom sensible.

Both are asked for every cell of a matrix, up to a hundred thousand of them, so what cells share is worked out
once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from l4sbench.catalog import Setting
from l4sbench.catalog.template import write
from l4sbench.errors import InputError, Problem
from l4sbench.program.placement import Plan
from l4sbench.topology import topology
from l4sbench.traffic import whole_seconds
from l4sbench.units import Duration

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CongestionControl, Queue
    from l4sbench.cell import Cell
    from l4sbench.units import Rate

LEAST_BUFFER_BYTES = 2 * 1500
"""Below two full-size packets a queue cannot keep a link busy."""


def problems(cell: Cell, catalog: Catalog) -> tuple[Problem, ...]:
    """Why the cell cannot be run; empty when it can. `programs` raises the same.

    For instance: a queue nobody offers, ECN that a congestion control does not do, two groups that cannot
    share a node, more groups than the topology has places.
    """
    groups = frozenset(cell.group_names)
    decisive = tuple(item for item in cell.factors.items() if item[0].partition(".")[0] in groups)
    known = _Keyed(catalog, (cell.topology, cell.aqm, cell.group_names, decisive), cell)
    length = Duration(cell.warmup.ns + cell.duration.ns)
    if cell.traffic_tool == "iperf3" and not whole_seconds(length):
        message = f"iperf3 runs whole seconds, and warmup and duration make {length}"
        return (*_of_groups(known), Problem("", "duration", message, "use traffic.tool: lean"))
    return _of_groups(known)


def warnings(cell: Cell, catalog: Catalog) -> tuple[str, ...]:
    """What about the cell is seldom what its author wants; nothing here stops a run.

    Raises:
        InputError: the catalog has no such queue or congestion control.
    """
    factors = cell.factors
    queue = catalog.queue(cell.aqm)
    params = cell.aqm_params
    decisive = (*params.items(), cell.rate, cell.rtt, cell.buffer_bdp)
    found = list(_of_queue(_Keyed(queue, decisive, cell)))
    found += (
        f"aqm.{name} has no effect on {queue.name} with these other parameters"
        for name in params.keys() - queue.applicable(params)
        if f"aqm.{name}" in cell.given
    )
    if f"aqm.{queue.buffer}" in cell.given and "buffer_bdp" in cell.given:
        found.append(
            f"aqm.{queue.buffer} replaces buffer_bdp for {queue.name}: other buffers would be the same cell"
        )
    l4s = False
    for group in cell.group_names:
        cc = catalog.congestion_control(str(factors[f"{group}.cc"]), f"{group}.cc")
        ecn = str(factors[f"{group}.ecn"])
        l4s = l4s or (cc.l4s and ecn == "accecn")
        found += _of_group(cc, group, ecn)
    if queue.l4s and not l4s:
        found.append(
            f"{queue.name} treats L4S flows apart, and no group of this cell sends any (AccECN, ECT(1))"
        )
    return tuple(found)


def _of_group(cc: CongestionControl, group: str, ecn: str) -> tuple[str, ...]:
    if ecn == "off" or ecn in cc.ecn_reacts:
        return ()
    return (f"{group}.ecn is {ecn}, but {cc.name} does not react to marks",)


class _Keyed:
    """Arguments of a cached function, told apart by `key` and by which catalog or entry it is about."""

    __slots__ = ("about", "cell", "key")

    def __init__(self, about: object, key: tuple[object, ...], cell: Cell) -> None:
        self.about = about
        self.key = key
        self.cell = cell

    def __hash__(self) -> int:
        return hash((id(self.about), self.key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and other.about is self.about and other.key == self.key


@lru_cache(maxsize=4096)
def _of_groups(known: _Keyed) -> tuple[Problem, ...]:
    """What is wrong with a cell's queue, congestion controls, ECN and places, and nothing else of it."""
    cell, catalog = known.cell, cast("Catalog", known.about)
    try:
        return tuple(Plan(cell, topology(cell.topology), catalog).problems())
    except InputError as error:
        return error.problems


@lru_cache(maxsize=65536)
def _of_queue(known: _Keyed) -> tuple[str, ...]:
    queue, given, rate = cast("Queue", known.about), known.cell.aqm_params, known.cell.rate
    setting = Setting(rate, known.cell.rtt, known.cell.buffer_bdp)
    limit_bytes = queue.limit_bytes(given, setting)
    found: list[str] = []
    if limit_bytes < LEAST_BUFFER_BYTES:
        found.append(f"the buffer of {queue.name} is {limit_bytes} bytes: less than two full-size packets")
    threshold = queue.threshold_bytes(given, setting)
    if threshold is not None and threshold[1] >= limit_bytes:
        name, at_bytes = threshold
        does = "marks" if queue.marks else "drops early"
        found.append(
            f"{queue.name} seldom {does}: its aqm.{name} ({_time(at_bytes, rate)} of queue) is not below "
            f"its buffer ({_time(limit_bytes, rate)} at {rate})"
        )
    return tuple(found)


def _time(size_bytes: int, rate: Rate) -> str:
    us = round(size_bytes * 8_000_000 / rate.bits_per_s)
    return write(Duration(us * 1000))
