# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The rows of one trial in every table, from its raw files, and the flags that they give it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from collectors import COLLECTORS, BadRawError
from collectors.collector import Collector, Content
from collectors.faults import limited_at_start
from collectors.hostinfo import read_kernel
from collectors.kinds import READERS
from collectors.lateness import REMARKABLE
from collectors.reader import HOST_LIMITED
from l4sbench.disk.plain import is_real_folder
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, FaultKind

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.groups import Group
    from l4sbench.program.trial import EndedTrial

LOW_UTILISATION: Final = 0.8
"""A trial whose flows together use less than this share of the link's rate is flagged, if all of them send as
fast as they can until its end; published cells use 0.85 and more."""

_OF_KINDS: Final = frozenset(one.table for reader in READERS.values() for one in reader.collectors)

_MEASUREMENTS: Final = _OF_KINDS | {
    *("flows", "intervals", "requests", "packets", "packet_flows", "codepoints", "accecn"),
}
"""Tables without rows of invalid trials: a trial with the wrong apparatus gives no numbers."""

_OF_FAILED: Final = frozenset({"trials", "programs"})
"""The only tables that have rows of failed trials."""

_NOTHING: Final = Path(os.devnull)
"""Folder of the raw files of a trial from which none is read, as a folder may be a link to others."""


def made_invalid(ended: EndedTrial, reason: str) -> EndedTrial:
    """Return a trial as invalid for what its raw files are; one that failed stays so."""
    status = Status.INVALID if ended.status is Status.OK else ended.status
    fault = Fault.of(FaultKind.RAW, problem=reason)
    return replace(ended, status=status, faults=tuple(dict.fromkeys((*ended.faults, fault))))


def odd_file(raw: Path) -> str | None:
    """Return what among a trial's raw files is neither a regular file nor a folder."""
    if not is_real_folder(raw):
        return f"{raw.name} is not a folder"
    waiting = [str(raw)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        return f"{Path(entry.path).relative_to(raw)} is not a regular file"
        except OSError:  # a folder that cannot be read, or is gone
            continue
    return None


def _damage(ended: EndedTrial) -> str | None:
    """Return why a trial's host descriptions cannot be read."""
    try:
        for node in ended.programs:
            read_kernel(ended.raw, node)
    except BadRawError as error:
        return str(error)
    return None


def rows_of(ended: EndedTrial) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Return the rows of one trial in every table, and the files that could not be read.

    A trial without a readable `host.json` is invalid: nothing says on what it ran.
    """
    return _gathered(ended, Collector.rows)


def contents_of(ended: EndedTrial) -> tuple[dict[str, Content], list[str]]:
    """Return the same as `rows_of`, the rows as they were made."""
    return _gathered(ended, Collector.content)


_Found = TypeVar("_Found", pl.DataFrame, Content)


def _gathered(
    ended: EndedTrial, read: Callable[[Collector, EndedTrial], _Found]
) -> tuple[dict[str, _Found], list[str]]:
    found: dict[str, Any] = {}
    problems: list[str] = []
    if odd := odd_file(ended.raw):
        ended = replace(ended, raw=_NOTHING)
    damage = odd or _damage(ended)
    if damage:
        ended = made_invalid(ended, damage)
        problems.append(damage)
    unread: list[str] = []
    for collector in COLLECTORS:
        if not _applies(collector.table, ended.status):
            continue
        try:
            rows = read(collector, ended)
        except BadRawError as error:
            if str(error) != damage:
                problems.append(str(error))
            unread.append(f"unread-{collector.table}")
            continue
        if len(rows) or collector.table not in found:
            found[collector.table] = rows
    flows: list[dict[str, Any]] = _as_rows(found.get("flows"))
    lateness: list[dict[str, Any]] = _as_rows(found.get("lateness"))
    flags = [
        *unread,
        *(["low-utilisation"] if _underused(ended, flows) else []),
        *(["left-out-flows"] if any(flow["left_out"] is not None for flow in flows) else []),
        *(["busy-host"] if any(node["late_share"] > REMARKABLE for node in lateness) else []),
        *(["limited-start"] if _limited_at_start(ended, flows) else []),
    ]
    if flags:
        trials = found["trials"]
        noted = list(dict.fromkeys(flags))
        if isinstance(trials, pl.DataFrame):
            found["trials"] = trials.with_columns(pl.lit(noted).alias("flags"))
        else:
            trials[0]["flags"] = noted
    return found, problems


def _as_rows(found: Content | None) -> list[dict[str, Any]]:
    return found.to_dicts() if isinstance(found, pl.DataFrame) else found or []


def _applies(table: str, status: Status) -> bool:
    if status is Status.FAILED:
        return table in _OF_FAILED
    return status is Status.OK or table not in _MEASUREMENTS


def _underused(ended: EndedTrial, flows: list[dict[str, Any]]) -> bool:
    if (
        not flows
        or ended.cell.wifi_mcs is not None
        or not all(_greedy(ended.cell, group) for group in ended.cell.groups)
        or any(flow["goodput_mbps"] is None for flow in flows)
    ):
        return False
    return bool(sum(flow["goodput_mbps"] for flow in flows) < LOW_UTILISATION * ended.cell.rate.mbps)


def _greedy(cell: Cell, group: Group) -> bool:
    """Return whether flows of a group send as fast as they can until the trial's end."""
    lasting = group.lifetime is None or group.lifetime.ns >= cell.length.ns
    return group.sends.greedy and group.stop is None and lasting


def _limited_at_start(ended: EndedTrial, flows: list[dict[str, Any]]) -> bool:
    def suspect(flow: dict[str, Any]) -> bool:
        limits = [limit for name in _LIMITS if (limit := flow[name]) is not None]
        if not limits or flow["busy_ms"] is None:
            return False
        # the least that the measured time may be
        return bool(max(limits) > HOST_LIMITED * (flow["busy_ms"] - ended.cell.warmup.ms))

    return any(map(suspect, flows)) and limited_at_start(ended)


_LIMITS: Final = ("rwnd_limited_ms", "sndbuf_limited_ms")
