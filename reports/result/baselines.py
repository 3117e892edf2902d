# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Baselines of cells: the goodput of each group alone, and of a classic group beside its own kind.

Baselines are found by factors: the cell of a group alone is the one with the same factors apart from those of
the other groups, wherever it runs; that of a classic group beside its own kind has in the L4S group's place
what the classic group is. They are cells like others and need nothing but the tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

import polars as pl

from reports.result.stats import (
    CONFIDENCE,
    Estimate,
    harm_interval,
    harm_to_delay,
    harm_to_goodput,
    interval,
)

if TYPE_CHECKING:
    from l4sbench.units import Plain
    from reports.result.labels import Setting
    from reports.result.load import RunTables

_PLACE: Final = frozenset({"from", "to"})
_SIZE: Final = frozenset({"count", "start_s"})
_BASELINE_SHARE: Final = 0.1
"""Part of the error of a harm's interval that the baseline's mean has, the cell's mean having the rest
(Bonferroni). A flow alone hardly differs between trials, so its interval may be the surer one."""

Factors: TypeAlias = "Mapping[str, Setting]"
_Key: TypeAlias = "frozenset[tuple[str, Plain]]"


@final
@dataclass(frozen=True)
class Baseline:
    """The result of one flow group in a baseline.

    Attributes:
        cell: Id of the cell.
        goodput: Sum of its flows' goodputs, Mbit/s.
        delay_ms: Mean smoothed RTT minus base RTT; None if it is not known.
    """

    cell: str
    goodput: Estimate
    delay_ms: float | None


@dataclass(frozen=True)
class Baselines:
    """The baselines of a run, found by the factors of the cells that are measured against them.

    Where several have the same factors, the first one counts.
    """

    l4s: str
    classic: str
    solo: Mapping[tuple[str, _Key], list[Baseline]]
    same: Mapping[_Key, list[Baseline]]
    own_kind: frozenset[str]

    @classmethod
    def of(
        cls, tables: RunTables, factors: Mapping[str, Factors], groups: tuple[str, str], value: str
    ) -> Baselines:
        """Find the baselines of a run.

        Args:
            tables: The run.
            factors: The factors of all its cells.
            groups: Names of the L4S and the classic flow group.
            value: Column of table `flows` that counts as goodput.
        """
        l4s, classic = groups
        solo: dict[tuple[str, _Key], list[Baseline]] = defaultdict(list)
        same: dict[_Key, list[Baseline]] = defaultdict(list)
        own_kind = {cell for cell, own in factors.items() if is_own_kind(own, l4s, classic, tables.l4s_ccs)}
        for group in groups:
            for found in _results(tables, group, value, factors):
                own = factors[found.cell]
                if [name for name in own if name.endswith(".cc")] == [f"{group}.cc"]:
                    solo[group, _key_alone(own, group)].append(found)
                elif group == classic and found.cell in own_kind:
                    same[_key_same(own, l4s)].append(found)
        return cls(l4s, classic, solo, same, frozenset(own_kind))

    def alone(self, group: str, factors: Factors) -> Baseline | None:
        """Return the baseline of a cell's flow group alone; None if the run has none."""
        return next(iter(self.solo.get((group, _key_alone(factors, group)), ())), None)

    def beside_own_kind(self, factors: Factors) -> Baseline | None:
        """Return the baseline of a cell's classic group beside its own kind; None if the run has none."""
        return next(iter(self.same.get(_key_same(factors, self.l4s), ())), None)

    def cells(self, measured: Iterable[Factors]) -> frozenset[str]:
        """Return the ids of the baselines that cells with these factors are measured against."""
        keys = {(group, _key_alone(own, group)) for own in measured for group in (self.l4s, self.classic)}
        return self.own_kind | {found.cell for key in keys for found in self.solo.get(key, ())}


def is_own_kind(factors: Factors, l4s: str, classic: str, l4s_ccs: frozenset[str]) -> bool:
    """Return True if a cell's classic group is beside its own kind: a baseline, and nobody's question.

    Both groups have the same settings, their sizes, starts and places aside, and they are not L4S.
    """
    cc = factors.get(f"{l4s}.cc")
    if cc is None or cc.value in l4s_ccs:
        return False
    kinds = [
        {
            name.removeprefix(f"{group}."): setting.value
            for name, setting in factors.items()
            if name.startswith(f"{group}.") and name.removeprefix(f"{group}.") not in _SIZE | _PLACE
        }
        for group in (l4s, classic)
    ]
    return kinds[0] == kinds[1]


def harm(alone: Baseline | None, beside: Estimate | None, rate_mbps: float, looks: int) -> Estimate | None:
    """Return the harm to a goodput, in percent; None where something for it is not known.

    Args:
        alone: The group alone.
        beside: Its goodput beside the other group.
        rate_mbps: The link's rate, which no goodput exceeds.
        looks: How often the cell may have been looked at while trials were added to it.
    """
    if alone is None or beside is None:
        return None
    value = harm_to_goodput(alone.goodput.value, beside.value)
    if value is None:
        return None
    parts = ((alone.goodput, 1, _BASELINE_SHARE), (beside, looks, 1 - _BASELINE_SHARE))
    alone_ends, beside_ends = (
        interval(
            found.value,
            found.sd,
            found.trials,
            least=0.0,
            most=rate_mbps,
            looks=own_looks,
            confidence=1 - (1 - CONFIDENCE) * share,
        )
        for found, own_looks, share in parts
    )
    low = high = None
    if alone_ends is not None and beside_ends is not None and alone_ends[1] > 0:
        low, high = harm_interval(alone_ends, beside_ends)
    return Estimate(value * 100, "%", beside.trials, _percent(low), _percent(high))


def harm_to_rtt(alone: Baseline | None, beside: Estimate | None, rtt_ms: float) -> Estimate | None:
    """Return the harm to the smoothed RTT, in percent and without an interval; None where it is not known.

    `beside` is the group's delay, the mean smoothed RTT minus the base RTT `rtt_ms`.
    """
    if alone is None or alone.delay_ms is None or beside is None:
        return None
    value = harm_to_delay(rtt_ms + alone.delay_ms, rtt_ms + beside.value)
    return None if value is None else Estimate(value * 100, "%", beside.trials)


def _key_alone(factors: Factors, group: str) -> _Key:
    """The factors that a cell shares with that of the group alone: its own and those of no group."""
    groups = {name.removesuffix(".cc") for name in factors if name.endswith(".cc")} - {group}
    places = {f"{group}.{end}" for end in _PLACE}
    return frozenset(
        (name, setting.value)
        for name, setting in factors.items()
        if name.partition(".")[0] not in groups and name not in places
    )


def _key_same(factors: Factors, l4s: str) -> _Key:
    """The factors that a cell shares with that of its classic group beside its own kind."""
    sizes = {f"{l4s}.{end}" for end in _SIZE}
    return frozenset(
        (name, setting.value)
        for name, setting in factors.items()
        if not name.startswith(f"{l4s}.") or name in sizes
    )


def _results(tables: RunTables, group: str, value: str, factors: Mapping[str, Factors]) -> Iterable[Baseline]:
    means = (
        tables.totals(group, value)
        .group_by("cell")
        .agg(
            pl.col("mbps").mean(),
            pl.col("mbps").std().alias("sd"),
            pl.len(),
            pl.col("delay_ms").mean(),
        )
    )
    found = {row[0]: row[1:] for row in means.iter_rows()}
    for cell in factors:
        if cell in found:
            mbps, sd, trials, delay_ms = found[cell]
            most = factors[cell]["rate_mbps"].amount
            low, high = interval(mbps, sd, trials, least=0.0, most=most) or (None, None)
            yield Baseline(cell, Estimate(mbps, "Mbit/s", trials, low, high, sd), delay_ms)


def _percent(part: float | None) -> float | None:
    return None if part is None else part * 100
