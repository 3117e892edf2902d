# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Bulk transfers: one connection each, of which everything is known that a socket reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.reader import HOST_LIMITED, NEGOTIATED, Limit, Reader, negotiated
from l4sbench.facts.faults import Fault, FaultKind
from l4sbench.traffic.bulk import Bulk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from collectors.reader import FlowResult, TrialView
    from l4sbench.facts.groups import Group

START_LIMITED: Final = 0.02
"""A flow may also be limited at its start for this share of its busy time, while the receiver's window grows:
with the whole link for that time its share of the link would be at most two points higher."""


REPLACED: Final = "-reno"
"""End of the names that DCTCP and Prague take where they cannot run, and leave the window to Reno's law."""
WITHOUT_EXTENT: Final = ("off", "classic")
"""ECN without feedback of the extent of congestion, which they need."""


class BulkReader(Reader):
    """Reads bulk transfers, and judges what limited them."""

    send = Bulk.name

    def faults(self, flow: FlowResult, group: Group, trial: TrialView) -> Iterator[Fault]:
        """Yield another congestion control or ECN than asked for, and limits by a host."""
        del group
        if flow.sender is None:
            return
        replaced = flow.run.ecn in WITHOUT_EXTENT and flow.sender.cc == f"{flow.run.cc}{REPLACED}"
        if flow.sender.cc is not None and flow.sender.cc != flow.run.cc and not replaced:
            yield Fault.of(FaultKind.CC, flow.run.flow, shown=flow.sender.cc, wanted=flow.run.cc)
        yield from _ecn(flow, trial, replaced=replaced)
        yield from _host_limited(flow, trial)

    def limits(self, flow: FlowResult, trial: TrialView) -> list[Limit] | None:
        """Return how long the receiver's window and the send buffer limited a flow."""
        return _limited(flow, trial)


def _ecn(flow: FlowResult, trial: TrialView, *, replaced: bool) -> Iterator[Fault]:
    """Yield another ECN than asked for; a control that was replaced may have turned it off in its sender."""
    wanted = NEGOTIATED[flow.run.ecn]
    for side, result in (("sender", flow.sender), ("receiver", flow.receiver)):
        shown = (result.ecn if result else None) or trial.last(flow.run.flow, side).get("ecn")
        if shown is None:
            if side == "sender":
                yield Fault.of(FaultKind.ECN_UNKNOWN, flow.run.flow)
        elif replaced and side == "sender" and shown == "off":
            continue
        elif not negotiated(shown, wanted):
            yield Fault.of(FaultKind.ECN, flow.run.flow, side=side, shown=str(shown), wanted=wanted)


def _host_limited(flow: FlowResult, trial: TrialView) -> Iterator[Fault]:
    limited = _limited(flow, trial)
    if limited is None:
        yield Fault.of(FaultKind.LIMITS_UNKNOWN, flow.run.flow)
        return
    for one in limited:
        if one.share > START_LIMITED or (one.share > HOST_LIMITED and one.later > HOST_LIMITED):
            yield Fault.of(FaultKind.LIMITED, flow.run.flow, by=one.by, share=one.share)


def _limited(flow: FlowResult, trial: TrialView) -> list[Limit] | None:
    """Return what limited a flow's sender, for which share of its busy time, and for which after its start.

    Both are of the measured time, after the warm-up, where samples of the socket have its counters then. None
    if no file has them.
    """
    name, sender = flow.run.flow, flow.sender
    if sender is not None and sender.busy_ms is not None:
        ends = (sender.busy_ms, sender.rwnd_limited_ms or 0.0, sender.sndbuf_limited_ms or 0.0)
    else:
        ends = _counters(trial.last(name, "sender"))
    if not ends[0]:
        return None
    warm_ms = flow.run.start.ms + trial.warmup_ms
    warm = _counters(trial.last(name, "sender", warm_ms))
    if not trial.warmup_ms or warm[0] >= ends[0]:
        warm = (0.0, 0.0, 0.0)
    until_ms = max(warm_ms, trial.first_ms(name) + trial.start_ms)
    started = _counters(trial.last(name, "sender", until_ms))
    if not trial.samples.height or started[0] >= ends[0]:
        started = warm

    def share(number: int, since: tuple[float, float, float]) -> float:
        return (ends[number] - since[number]) / (ends[0] - since[0])

    limits = ("its receiver's window", "its send buffer")
    return [
        Limit(by, share(number, warm), share(number, started)) for number, by in enumerate(limits, start=1)
    ]


def _counters(sample: Mapping[str, object]) -> tuple[float, float, float]:
    busy, rwnd, sndbuf = (
        _number(sample.get(name)) or 0.0 for name in ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms")
    )
    return busy, rwnd, sndbuf


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
