# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Checks of a cell before anything runs: why it cannot run, and what is probably a mistake.

Both checks run for every cell of a matrix, up to a hundred thousand of them. Such cells have few shapes: what
depends on queue, congestion controls, their parameters and places is computed once per shape, and only the
buffer is computed for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from l4sbench.catalog import Bottleneck
from l4sbench.catalog.entries import PACKET_BYTES
from l4sbench.catalog.template import write
from l4sbench.errors import InputError, Problem
from l4sbench.facts.factors import EVENTS, HOSTS, Owner, name_of
from l4sbench.program import changes, timing
from l4sbench.program.placement import Placement
from l4sbench.program.wires import loss_chances
from l4sbench.text.units import Duration, Percent
from l4sbench.traffic.tools import IPERF3, whole_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from l4sbench.catalog import Catalog, CongestionControl
    from l4sbench.catalog.entries import Queue
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.text.units import Rate, Value

_IMPAIRING = frozenset({"path.jitter", "path.loss", "path.loss_burst", "path.wifi_loss"})
_DETAIL_OF = {
    "path.jitter_model": "path.jitter",
    "path.jitter_every": "path.jitter",
    "path.jitter_order": "path.jitter",
    "path.jitter_direction": "path.jitter",
    "path.pause_every": "path.pause",
    "path.pause_at": "path.pause",
    "path.loss_burst": "path.loss",
}
"""Factors that only say how another one acts, which is off by default."""

PAIR_BYTES = 2 * PACKET_BYTES
"""Two full-size packets: with a smaller buffer a queue cannot keep a link busy."""

_FEWEST_RTTS = 10
_FEWEST_PACKETS = 100
_EVERYTHING = Percent(10**9)


@dataclass(frozen=True, slots=True)
class Oddity:
    """A probable mistake in a cell; it stops no run.

    Attributes:
        message: The same for all cells that are odd in this way.
        figures: Of this cell alone, such as the size of its buffer; empty where there are none.
    """

    message: str
    figures: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.figures}" if self.figures else self.message


def problems(cell: Cell, catalog: Catalog) -> tuple[Problem, ...]:
    """Return the reasons why the cell cannot run; empty when it can. `programs` raises the same.

    For instance: an unknown queue, ECN that a congestion control does not support, two groups that cannot
    share a node, more groups than the topology has places.
    """
    return findings(cell, catalog, odd=False)[0]


def findings(
    cell: Cell, catalog: Catalog, *, odd: bool = True
) -> tuple[tuple[Problem, ...], tuple[Oddity, ...]]:
    """Return the problems of a cell and, if it has none, its oddities: both from one look at its shape."""
    shape = _shape(cell, catalog)
    found = _problems(cell, shape)
    return found, _oddities(cell, shape) if odd and not found else ()


def _problems(cell: Cell, shape: _Shape) -> tuple[Problem, ...]:
    found = shape.problems
    if cell.traffic_tool == IPERF3 and not whole_seconds(cell.length):
        message = f"iperf3 runs for whole seconds, and warmup and duration add up to {cell.length}"
        found = (*found, Problem("", "duration", message, "use traffic.tool: lean"))
    if cell.path_pause.ns and cell.path_pause.ns >= cell.path_pause_every.ns:
        message = f"a pause of {cell.path_pause} does not end before the next, {cell.path_pause_every} later"
        found = (*found, Problem("", "path.pause", message, "make path.pause_every longer"))
    if _impairs(cell.given):
        parts = shape.catalog.topology(cell.topology).parts
        found = (*found, *_of_path(cell, parts), *changes.problems(cell))
    return (*found, *timing.problems(cell))


@lru_cache(maxsize=1024)
def _impairs(given: frozenset[str]) -> bool:
    return any(name in _IMPAIRING or name_of(name).kind is Owner.EVENT for name in given)


def _of_path(cell: Cell, parts: int) -> Iterator[Problem]:
    """Yield why a path whose round-trip time has this many parts cannot have these jitter and losses."""
    rtt = cell.shortest_rtt
    if cell.path_jitter.ns * parts > rtt.ns and cell.path_jitter_model != "normal":
        what = "one way is" if parts == 2 else "the delay before the bottleneck is"
        when = " after an event" if rtt < cell.rtt else ""
        message = f"{cell.path_jitter} of jitter would need a delay below 0: {what} {rtt} / {parts}{when}"
        yield Problem("", "path.jitter", message, "make it smaller, or the rtt longer")
    losses = [cell.path_loss, *(event.changes.get("path.loss") for event in cell.events)]
    for loss in losses:
        if isinstance(loss, Percent) and loss_chances(loss, cell.path_loss_burst)[0] > 1:
            message = f"losses of {cell.path_loss_burst} in a row cannot be {loss} of all packets"
            yield Problem("", "path.loss_burst", message, "make it longer")
    if all(loss in (None, _EVERYTHING) for loss in losses):
        message = f"with {cell.path_loss} nothing arrives in the whole trial, and no flow can start"
        yield Problem("", "path.loss", message, "make it smaller, or let an event change it")
    yield from _of_wifi(cell)


def _of_wifi(cell: Cell) -> Iterator[Problem]:
    """Yield what only Wi-Fi has in a cell without it, and rates of a link in a cell with it."""
    hint = "state path.wifi_mcs"
    if cell.wifi_mcs is None and cell.path_wifi_loss.ppb:
        yield Problem("", "path.wifi_loss", "the cell has no Wi-Fi whose frames could be lost", hint)
    for event in cell.events:
        path = f"{EVENTS}.{event.name}"
        if cell.wifi_mcs is None and "path.wifi_mcs" in event.changes:
            yield Problem("", f"{path}.path.wifi_mcs", "the cell has no Wi-Fi before this event", hint)
        elif cell.wifi_mcs is not None and "rate" in event.changes:
            message = "the rate of Wi-Fi follows from path.wifi_mcs"
            yield Problem("", f"{path}.rate", message, f"change {path}.path.wifi_mcs")


def oddities(cell: Cell, catalog: Catalog) -> tuple[Oddity, ...]:
    """Return what is probably a mistake in the cell; nothing here stops a run.

    Raises:
        InputError: the catalog has no such queue or congestion control.
    """
    return _oddities(cell, _shape(cell, catalog))


def _oddities(cell: Cell, shape: _Shape) -> tuple[Oddity, ...]:
    rate = cell.rate
    return (
        *shape.of_buffer(Bottleneck(rate, cell.rtt, cell.buffer_bdp)),
        *shape.of_steps(rate),
        *_of_length(cell),
        *shape.oddities,
    )


def _of_length(cell: Cell) -> Iterator[Oddity]:
    """Yield why a trial ends before its flows have got going."""
    length, rtt, rate = cell.length, cell.rtt, cell.rate
    if length.ns < _FEWEST_RTTS * rtt.ns:
        message = f"a trial is shorter than {_FEWEST_RTTS} round-trip times, in which flows hardly start"
        yield Oddity(message, f"{length} with an rtt of {rtt}")
    if length.ns * rate.bits_per_s < _FEWEST_PACKETS * PACKET_BYTES * 8_000_000_000:
        message = f"fewer than {_FEWEST_PACKETS} full-size packets fit into a trial"
        yield Oddity(message, f"{length} at {rate}")


@dataclass(frozen=True)
class _Shape:
    """The common part of cells with the same queue, groups and parameters; `cell` is any of them."""

    cell: Cell
    catalog: Catalog

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        try:
            topology = self.catalog.topology(self.cell.topology)
            return tuple(Placement(self.cell, topology, self.catalog).problems())
        except InputError as error:
            return error.problems

    @cached_property
    def oddities(self) -> tuple[Oddity, ...]:
        return tuple(
            Oddity(message) for message in (*self._of_params(), *self._of_details(), *self._of_ecn())
        )

    def _of_params(self) -> Iterator[str]:
        cell, queue = self.cell, self.catalog.queue(self.cell.aqm)
        applicable = queue.applicable(cell.aqm_params)
        for name in cell.aqm_params:
            if name not in applicable and f"aqm.{name}" in cell.given:
                yield f"aqm.{name} has no effect on {queue.name} with these other parameters"
        if f"aqm.{queue.buffer}" in cell.given and "buffer_bdp" in cell.given:
            yield f"aqm.{queue.buffer} replaces buffer_bdp for {queue.name}: other buffers are the same cell"

    def _of_details(self) -> Iterator[str]:
        stated = self.cell.given.union(*(event.changes for event in self.cell.events))
        if "host" in stated:
            stated = stated.union(*HOSTS.values())
        for detail, factor in _DETAIL_OF.items():
            if detail in stated and factor not in stated:
                yield f"{detail} has no effect without {factor}, which is 0 unless stated"

    @cached_property
    def _sends_l4s(self) -> bool:
        return any(cc.l4s and group.ecn == "accecn" for group, cc in self._by_tcp) or any(
            group.sends.is_l4s for group in self.cell.groups
        )

    @cached_property
    def _by_tcp(self) -> tuple[tuple[Group, CongestionControl], ...]:
        """The groups that have a congestion control."""
        return tuple(
            (group, self.catalog.congestion_control(group.cc, f"{group.name}.cc"))
            for group in self.cell.groups
            if group.cc is not None and group.kind.by_tcp
        )

    def _of_ecn(self) -> Iterator[str]:
        queue = self.catalog.queue(self.cell.aqm)
        for group, cc in self._by_tcp:
            if group.ecn != "off" and group.ecn not in cc.ecn_reacts:
                yield f"{group.name}.ecn is {group.ecn}, but {cc.name} does not react to marks"
        if queue.l4s and not self._sends_l4s:
            yield f"{queue.name} treats L4S flows apart, and no group of this cell sends any (AccECN, ECT(1))"

    @cached_property
    def _bare_steps(self) -> tuple[tuple[str, Duration, str], ...]:
        queue = self.catalog.queue(self.cell.aqm)
        return queue.bare_steps(self.cell.aqm_params) if self._sends_l4s else ()

    def of_steps(self, rate: Rate) -> tuple[Oddity, ...]:
        """Return an oddity for each step that marks L4S packets on a link so slow that none need queue."""
        if not self._bare_steps:
            return ()
        pair_ns = PAIR_BYTES * 8_000_000_000 // rate.bits_per_s
        return tuple(
            Oddity(
                f"{self.cell.aqm} marks L4S packets that hardly queue, as two take longer than aqm.{name} "
                f"(aqm.{least}: 1p exempts a packet that waits alone)",
                f"{_time(PAIR_BYTES, rate)} against {write(at)} at {rate}",
            )
            for name, at, least in self._bare_steps
            if pair_ns > at.ns
        )

    @cached_property
    def _queue(self) -> Queue:
        return self.catalog.queue(self.cell.aqm)

    @cached_property
    def _thresholds(self) -> dict[Rate, tuple[str, int] | None]:
        """The queue's lowest threshold by rate: it does not depend on the buffer."""
        return {}

    def of_buffer(self, setting: Bottleneck) -> tuple[Oddity, ...]:
        """Return what is probably a mistake in the size of the buffer."""
        queue, params = self._queue, self.cell.aqm_params
        limit_bytes = queue.limit_bytes(params, setting)
        if setting.rate not in self._thresholds:
            self._thresholds[setting.rate] = queue.threshold_bytes(params, setting)
        threshold = self._thresholds[setting.rate]
        if limit_bytes >= PAIR_BYTES and (threshold is None or threshold[1] < limit_bytes):
            return ()
        found: list[Oddity] = []
        if limit_bytes < PAIR_BYTES:
            message = f"the buffer of {queue.name} is smaller than two full-size packets"
            found.append(Oddity(message, f"{limit_bytes} bytes"))
        if threshold is not None and threshold[1] >= limit_bytes:
            name, rate = threshold[0], setting.rate
            does = "marks" if queue.marks else "drops early"
            message = f"{queue.name} seldom {does}, as its aqm.{name} is not below its buffer"
            figures = f"{_time(threshold[1], rate)} of queue against {_time(limit_bytes, rate)} at {rate}"
            found.append(Oddity(message, figures))
        return tuple(found)


def _shape(cell: Cell, catalog: Catalog) -> _Shape:
    given = cell.given
    decisive = _decisive(given, cell.group_names)(cell.factors)
    # what is not given is at its default, which follows from the catalog and from what is given
    key = (id(catalog), cell.group_names, given, decisive)
    return _known_shape(_Key(key, cell, catalog))


@lru_cache(maxsize=1024)
def _decisive(given: frozenset[str], groups: tuple[str, ...]) -> Callable[[Mapping[str, Value]], object]:
    """Select the given values that make a shape: topology, queue and parameters, everything of the groups."""
    always = {"topology", "aqm", *given.intersection({"family"})}
    owners = {"aqm", *groups}
    return itemgetter(*sorted(always.union(name for name in given if name_of(name).owner in owners)))


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the cache that compares by `key` alone; the shape is made from the rest.

    The catalog is compared by identity: it is loaded once, and the cached shape keeps it alive.
    """

    key: tuple[object, ...]
    cell: Cell
    catalog: Catalog

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.key == self.key


@lru_cache(maxsize=16384)
def _known_shape(key: _Key) -> _Shape:
    return _Shape(key.cell, key.catalog)


def _time(size_bytes: int, rate: Rate) -> str:
    us = round(size_bytes * 8_000_000 / rate.bits_per_s)
    return write(Duration(us * 1000))
