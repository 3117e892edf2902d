# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The result of every cell, made once from the tables of a run; everything that reports print starts here.

Harm is measured against baselines: each group alone, and a classic group beside its own kind. Baselines are
cells like others and are found by factors. The cell of a group alone is the one with the same factors apart
from those of the other groups, wherever it runs; that of a classic group beside its own kind has in the L4S
group's place what the classic group is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.facts.factors import name_of
from l4sbench.tables import empty
from reports.result.labels import Setting
from reports.result.queues import OnlyDropped, limit, only_dropped
from reports.result.stats import (
    CONFIDENCE,
    MODES_FLOOR,
    Estimate,
    bimodal,
    harm_interval,
    harm_to_delay,
    harm_to_goodput,
    interval,
)

if TYPE_CHECKING:
    from l4sbench.text.units import Packets, Plain, Size
    from reports.result.load import RunTables

Factors: TypeAlias = Mapping[str, Setting]
Estimates: TypeAlias = Mapping[str, Estimate]
_Key: TypeAlias = "frozenset[tuple[str, Plain]]"

_PLACE: Final = frozenset({"from", "to"})
_SIZE: Final = frozenset({"count", "start", "every", "lifetime", "stop"})
_BASELINE_SHARE: Final = 0.1
"""Part of the error of a harm's interval that the baseline's mean has, the cell's mean having the rest
(Bonferroni). A flow alone hardly differs between trials, so its interval may be the surer one."""


@final
@dataclass(frozen=True)
class GroupResult:
    """The result of one flow group of a cell. Estimates are None without a valid trial.

    Attributes:
        flows: Number of its flows.
        goodput: Sum of its flows' goodputs, Mbit/s.
        delay: Mean over its flows of the smoothed RTT minus base RTT, ms.
        sojourn_p99: Mean over its flows of the 99 % quantile of queuing delay per packet, ms; None unless
            packets were captured.
        alone: Goodput of the same group alone, Mbit/s; None where the run has no such baseline, like the
            harms. Negative harm is gain.
        harm: Harm to its goodput, % of `alone`.
        delay_harm: Harm to its smoothed RTT, %.
        same_harm: Harm to the goodput of a classic group beside its own kind, %.
    """

    flows: int
    goodput: Estimate | None
    delay: Estimate | None
    sojourn_p99: Estimate | None
    alone: Estimate | None = None
    harm: Estimate | None = None
    delay_harm: Estimate | None = None
    same_harm: Estimate | None = None


@dataclass(frozen=True)
class CellResult:
    """The result of a cell that has both the L4S and the classic flow group.

    Attributes:
        id: Id of the cell.
        factors: The factors that it has, by their column of table `trials`, in the order of columns.
        valid: Number of its valid trials, on which all estimates are based.
        left_out: Number of invalid and failed trials.
        l4s: Result of the L4S group.
        classic: Result of the classic group.
        share: Goodput of the L4S group in percent of the link's rate; None without a valid trial.
        bimodal: Whether the trials fall into two groups by the L4S group's goodput; None with fewer than 4.
        limit: How much the queue holds; None if that is not known.
        only_dropped: What the queue did where it could mark, flows asked for it, and it never did; else None.
    """

    id: str
    factors: Factors
    valid: int
    left_out: int
    l4s: GroupResult
    classic: GroupResult
    share: Estimate | None
    bimodal: bool | None
    limit: Packets | Size | None = None
    only_dropped: OnlyDropped | None = None

    def value(self, column: str) -> Plain | None:
        """Return the value of a factor by its column; None if the cell does not have it."""
        setting = self.factors.get(column)
        return None if setting is None else setting.value

    @property
    def means(self) -> Mapping[str, Estimate | None]:
        """Goodputs, delays and what else reports show of a cell, by names with their unit."""
        return {
            "l4s_mbps": self.l4s.goodput,
            "classic_mbps": self.classic.goodput,
            "delay_ms": self.l4s.delay,
            "classic_delay_ms": self.classic.delay,
            "sojourn_p99_ms": self.l4s.sojourn_p99,
        }

    @property
    def queue(self) -> Setting:
        """The queue at the bottleneck; `queue.called` is its label."""
        return self.factors["aqm"]

    @property
    def rate_mbps(self) -> float:
        """The link's rate."""
        return self.factors["rate_mbps"].amount

    @property
    def fair_percent(self) -> float:
        """The L4S group's fair share: its flows over all flows, in percent of the link's rate."""
        return 100 * self.l4s.flows / (self.l4s.flows + self.classic.flows)


def cells(
    tables: RunTables, l4s: str, classic: str, value: str = "goodput_mbps", looks: int = 1
) -> tuple[CellResult, ...]:
    """Return the results of `cells_and_baselines`."""
    return cells_and_baselines(tables, l4s, classic, value, looks)[0]


def cells_and_baselines(
    tables: RunTables, l4s: str, classic: str, value: str = "goodput_mbps", looks: int = 1
) -> tuple[tuple[CellResult, ...], Baselines]:
    """Return the results of the cells that have both flow groups, in order, and the run's baselines.

    Args:
        tables: The run.
        l4s: Name of the L4S flow group.
        classic: Name of the flow group it competes with.
        value: Column of table `flows` that counts as goodput.
        looks: How often a cell may have been looked at while trials were added; the intervals of all looks
            hold together.

    Raises:
        InputError: no cell has both groups.
    """
    factors = factors_of(tables)
    lacking = [group for group in (l4s, classic) if f"{group}.cc" not in tables.trials.columns]
    if lacking:
        raise InputError(
            f"no cell has a flow group {' or '.join(lacking)}",
            f"the rule compares the groups {l4s} and {classic}",
        )
    both = {cell: own for cell, own in factors.items() if f"{l4s}.cc" in own and f"{classic}.cc" in own}
    if not both:
        raise InputError(f"no cell has both flow groups {l4s} and {classic}")
    own_kind = _own_kind(both, l4s, classic, tables.l4s_ccs)
    both = {cell: own for cell, own in both.items() if cell not in own_kind}
    trials = _trials(tables, both, (l4s, classic), value)
    estimates = _estimates(trials, factors, looks)
    shares = dict(trials.group_by("cell", maintain_order=True).agg(pl.col("l4s.goodput")).iter_rows())
    counts = dict(tables.trials.group_by("cell").len().iter_rows())
    baselines = Baselines.of(tables, factors, (l4s, classic), value, own_kind)
    unmarked = only_dropped(tables, both)
    found: list[CellResult] = []
    for cell, own in both.items():
        got, values, rate_mbps = estimates.get(cell, {}), shares.get(cell, []), own["rate_mbps"].amount
        goodput = got.get("l4s.goodput")
        found.append(
            CellResult(
                id=cell,
                factors=own,
                valid=len(values),
                left_out=counts[cell] - len(values),
                l4s=_group("l4s", l4s, own, got, baselines, looks),
                classic=_group("classic", classic, own, got, baselines, looks),
                share=goodput and goodput.percent_of(rate_mbps),
                bimodal=bimodal(values, MODES_FLOOR / 100 * rate_mbps),
                limit=limit(own, tables.entries),
                only_dropped=unmarked.get(cell),
            )
        )
    return tuple(found), baselines


def factors_of(tables: RunTables) -> dict[str, Factors]:
    """Return the factors of every cell of a run, in order, with the catalog's labels."""
    labels = {
        (kind, name): label
        for kind, name, label in tables.catalog.select("kind", "name", "label").iter_rows()
    }
    names = tables.factors
    kinds = {name: "queue" if name == "aqm" else "cc" if name_of(name).key == "cc" else "" for name in names}
    first = tables.trials.unique("cell", keep="first", maintain_order=True).select("cell", *names)
    return {
        row["cell"]: {
            name: Setting(column, row[name], labels.get((kinds[name], row[name]), ""))
            for name, column in names.items()
            if row[name] is not None
        }
        for row in first.iter_rows(named=True)
    }


def groups_of(factors: Mapping[str, Setting]) -> list[str]:
    """Return the flow groups of a cell, those without a congestion control as well."""
    names = map(name_of, factors)
    return [name.group for name in names if name.group and name.key == "count"]


def base_rtt_ms(factors: Factors, group: str) -> float:
    """Return the base RTT of a cell's flow group: its own, where it has one, or that of the cell."""
    own = f"{group}.rtt_ms"
    return factors[own if own in factors else "rtt_ms"].amount


def captured(tables: RunTables) -> pl.DataFrame:
    """Return the flows of table `packet_flows` that count; none where the run's tables are older than it."""
    try:
        flows = tables.packet_flows
    except InputError:
        return empty("packet_flows")
    return flows.join(tables.flows_left_out, on=["cell", "trial", "flow"], how="anti", maintain_order="left")


def _trials(tables: RunTables, cells: Iterable[str], groups: tuple[str, str], value: str) -> pl.DataFrame:
    """Return one row per valid trial that has both groups: `l4s.goodput`, `l4s.delay`, `l4s.sojourn` ..."""
    wide = tables.valid.filter(pl.col("cell").is_in(list(cells))).select("cell", "trial")
    named = list(zip(("l4s", "classic"), groups, strict=True))
    for name, group in named:
        own = tables.totals(group, value).rename({"mbps": f"{name}.goodput", "delay_ms": f"{name}.delay"})
        wide = wide.join(own, on=["cell", "trial"], maintain_order="left")
    for name, group in named:
        flows = captured(tables).filter(pl.col("group") == group)
        per_trial = flows.group_by("cell", "trial", maintain_order=True)
        p99 = per_trial.agg(pl.col("sojourn_p99_ms").mean().alias(f"{name}.sojourn"))
        wide = wide.join(p99, on=["cell", "trial"], how="left", maintain_order="left")
    return wide


def _estimates(trials: pl.DataFrame, factors: Mapping[str, Factors], looks: int = 1) -> dict[str, Estimates]:
    """Estimate every column of `trials`, goodputs (Mbit/s) and times (ms), by cell.

    A column's estimate has as many trials as have a value of it: packets may be captured in some of a cell's
    trials only. Intervals are cut at zero, and those of goodputs at the link's rate.
    """
    names = [name for name in trials.columns if name not in ("cell", "trial")]
    rows = trials.group_by("cell", maintain_order=True).agg(
        pl.struct(
            pl.col(name).mean().alias("mean"),
            pl.col(name).std().alias("sd"),
            pl.col(name).median().alias("median"),
            pl.col(name).count().alias("trials"),
        ).alias(name)
        for name in names
    )
    found: dict[str, Estimates] = {}
    for row in rows.iter_rows(named=True):
        own: dict[str, Estimate] = {}
        for name in names:
            mean, sd, median, count = (row[name][part] for part in ("mean", "sd", "median", "trials"))
            if mean is None:
                continue
            is_goodput = name.endswith("goodput")
            most = factors[row["cell"]]["rate_mbps"].amount if is_goodput else math.inf
            low, high = interval(mean, sd, count, least=0.0, most=most, looks=looks) or (None, None)
            unit = "Mbit/s" if is_goodput else "ms"
            own[name] = Estimate(mean, unit, count, low, high, sd, median)
        found[row["cell"]] = own
    return found


def _group(
    name: str, group: str, factors: Factors, estimates: Estimates, baselines: Baselines, looks: int
) -> GroupResult:
    goodput, delay = estimates.get(f"{name}.goodput"), estimates.get(f"{name}.delay")
    alone = baselines.alone(group, factors)
    same = baselines.beside_own_kind(factors) if name == "classic" else {}
    rate_mbps = factors["rate_mbps"].amount
    return GroupResult(
        flows=int(factors[f"{group}.count"].amount),
        goodput=goodput,
        delay=delay,
        sojourn_p99=estimates.get(f"{name}.sojourn"),
        alone=alone.get("goodput"),
        harm=_harm(alone.get("goodput"), goodput, rate_mbps, looks),
        delay_harm=_harm_to_rtt(alone.get("delay"), delay, base_rtt_ms(factors, group)),
        same_harm=_harm(alone.get("goodput"), same.get("goodput"), rate_mbps, 1),
    )


@dataclass(frozen=True)
class Baselines:
    """The baselines of a run, found by the factors of the cells that are measured against them.

    Where several have the same factors, the first one counts.
    """

    l4s: str
    classic: str
    solo: Mapping[tuple[str, _Key], Mapping[str, Estimates]]
    same: Mapping[_Key, Mapping[str, Estimates]]
    own_kind: frozenset[str]

    @classmethod
    def of(
        cls,
        tables: RunTables,
        factors: Mapping[str, Factors],
        groups: tuple[str, str],
        value: str,
        own_kind: frozenset[str],
    ) -> Baselines:
        """Find the baselines of a run.

        Args:
            tables: The run.
            factors: The factors of all its cells.
            groups: Names of the L4S and the classic flow group.
            value: Column of table `flows` that counts as goodput.
            own_kind: Ids of its cells that are baselines of a classic group beside its own kind.
        """
        l4s, classic = groups
        solo: dict[tuple[str, _Key], dict[str, Estimates]] = defaultdict(dict)
        same: dict[_Key, dict[str, Estimates]] = defaultdict(dict)
        for group in groups:
            trials = tables.totals(group, value).rename({"mbps": "goodput", "delay_ms": "delay"})
            estimates = _estimates(trials, factors)
            for cell, own in factors.items():
                if cell not in estimates:
                    continue
                if groups_of(own) == [group]:
                    solo[group, _key_alone(own, group)][cell] = estimates[cell]
                elif group == classic and cell in own_kind:
                    same[_key_same(own, l4s)][cell] = estimates[cell]
        return cls(l4s, classic, solo, same, own_kind)

    def alone(self, group: str, factors: Factors) -> Estimates:
        """Return `goodput` and `delay` of a cell's flow group alone; nothing if the run has no baseline."""
        return next(iter(self.solo.get((group, _key_alone(factors, group)), {}).values()), {})

    def beside_own_kind(self, factors: Factors) -> Estimates:
        """Return the same of a cell's classic group beside its own kind."""
        return next(iter(self.same.get(_key_same(factors, self.l4s), {}).values()), {})

    def cells(self, measured: Iterable[Factors]) -> frozenset[str]:
        """Return the ids of the baselines that cells with these factors are measured against."""
        keys = {(group, _key_alone(own, group)) for own in measured for group in (self.l4s, self.classic)}
        return self.own_kind | {cell for key in keys for cell in self.solo.get(key, ())}


def _own_kind(both: Mapping[str, Factors], l4s: str, classic: str, l4s_ccs: frozenset[str]) -> frozenset[str]:
    """Return the ids of cells that are baselines of a classic group beside its own kind.

    Such a cell is one only if another is measured against it; by itself it has a verdict like any other.
    """
    alike = {cell for cell, own in both.items() if _is_alike(own, l4s, classic, l4s_ccs)}
    measured = {_key_same(own, l4s) for cell, own in both.items() if cell not in alike}
    return frozenset(cell for cell in alike if _key_same(both[cell], l4s) in measured)


def _is_alike(factors: Factors, l4s: str, classic: str, l4s_ccs: frozenset[str]) -> bool:
    """Return True if a cell's classic group is beside its own kind.

    Both groups have the same settings, their sizes, starts and places aside, and they are not L4S.
    """
    cc = factors.get(f"{l4s}.cc")
    if cc is None or cc.value in l4s_ccs:
        return False
    named = [(name_of(setting.of.factor), setting.value) for setting in factors.values()]
    kinds = [
        {own.key: value for own, value in named if own.group == group and own.key not in _SIZE | _PLACE}
        for group in (l4s, classic)
    ]
    return kinds[0] == kinds[1]


def _harm(alone: Estimate | None, beside: Estimate | None, rate_mbps: float, looks: int) -> Estimate | None:
    """Return the harm to a goodput, in percent; None where something for it is not known."""
    value = None if alone is None or beside is None else harm_to_goodput(alone.value, beside.value)
    if alone is None or beside is None or value is None:
        return None
    ends = [
        interval(
            found.value,
            found.sd,
            found.trials,
            least=0.0,
            most=rate_mbps,
            looks=own_looks,
            confidence=1 - (1 - CONFIDENCE) * share,
        )
        for found, own_looks, share in ((alone, 1, _BASELINE_SHARE), (beside, looks, 1 - _BASELINE_SHARE))
    ]
    low = high = None
    if ends[0] is not None and ends[1] is not None and ends[0][1] > 0:
        low, high = (None if end is None else end * 100 for end in harm_interval(ends[0], ends[1]))
    return Estimate(value * 100, "%", beside.trials, low, high)


def _harm_to_rtt(alone: Estimate | None, beside: Estimate | None, rtt_ms: float) -> Estimate | None:
    """Return the harm to the smoothed RTT, in percent and without an interval; None where it is not known."""
    if alone is None or beside is None:
        return None
    value = harm_to_delay(rtt_ms + alone.value, rtt_ms + beside.value)
    return None if value is None else Estimate(value * 100, "%", beside.trials)


def _key_alone(factors: Factors, group: str) -> _Key:
    """Return the factors that a cell shares with that of the group alone: its own and those of no group."""
    groups = set(groups_of(factors)) - {group}
    places = {f"{group}.{end}" for end in _PLACE}
    return frozenset(
        (name, setting.value)
        for name, setting in factors.items()
        if name_of(name).group not in groups and name not in places
    )


def _key_same(factors: Factors, l4s: str) -> _Key:
    """Return the factors that a cell shares with that of its classic group beside its own kind."""
    named = ((name_of(setting.of.factor), setting) for setting in factors.values())
    return frozenset(
        (setting.column, setting.value) for own, setting in named if own.group != l4s or own.key in _SIZE
    )


def varying(cells: Iterable[CellResult], columns: Sequence[str], within: str | None = None) -> list[str]:
    """Return those of the columns that differ among cells with one value of `within`; None: among all cells.

    Not having a factor counts as a value. So a parameter that only some queues have does not differ because
    of that when `within` is the queue.
    """
    parts: dict[object, list[CellResult]] = defaultdict(list)
    for cell in cells:
        parts[None if within is None else cell.value(within)].append(cell)
    return [
        name for name in columns if any(len({cell.value(name) for cell in own}) > 1 for own in parts.values())
    ]


def columns_of(cells: Iterable[CellResult]) -> list[str]:
    """Return the columns of all factors that any of the cells has, sorted as in table `trials`."""
    return sorted({column for cell in cells for column in cell.factors})
