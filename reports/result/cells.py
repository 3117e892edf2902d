# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The result of every cell, made once from the tables of a run; everything that reports print starts here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.tables import empty
from reports.result.baselines import Baselines, harm, harm_to_rtt, is_own_kind
from reports.result.labels import Setting
from reports.result.stats import MODES_FLOOR, Estimate, bimodal, interval

if TYPE_CHECKING:
    from l4sbench.units import Plain
    from reports.result.load import RunTables


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
    """

    id: str
    factors: Mapping[str, Setting]
    valid: int
    left_out: int
    l4s: GroupResult
    classic: GroupResult
    share: Estimate | None
    bimodal: bool | None

    def value(self, column: str) -> Plain | None:
        """Return the value of a factor by its column; None if the cell does not have it."""
        setting = self.factors.get(column)
        return None if setting is None else setting.value

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
    """Return the results of the cells that have both flow groups, in order, without those that are baselines.

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
    both = {
        cell: own
        for cell, own in factors.items()
        if f"{l4s}.cc" in own
        and f"{classic}.cc" in own
        and not is_own_kind(own, l4s, classic, tables.l4s_ccs)
    }
    if not both:
        raise InputError(f"no cell has both flow groups {l4s} and {classic}")
    measured = _measured(tables, list(both), (l4s, classic), value)
    counts = dict(tables.trials.group_by("cell").len().iter_rows())
    baselines = Baselines.of(tables, factors, (l4s, classic), value)
    return tuple(
        _result(cell, own, counts[cell], measured.get(cell, {}), (l4s, classic), looks, baselines)
        for cell, own in both.items()
    )


def factors_of(tables: RunTables) -> dict[str, dict[str, Setting]]:
    """Return the factors of every cell of a run, in order, with the catalog's labels."""
    labels = {
        (kind, name): label
        for kind, name, label in tables.catalog.select("kind", "name", "label").iter_rows()
    }
    names = tables.factors
    kinds = {name: "queue" if name == "aqm" else "cc" if name.endswith(".cc") else "" for name in names}
    first = tables.trials.unique("cell", keep="first", maintain_order=True).select("cell", *names)
    return {
        row["cell"]: {
            name: Setting(name, row[name], labels.get((kinds[name], row[name]), ""))
            for name in names
            if row[name] is not None
        }
        for row in first.iter_rows(named=True)
    }


def captured(tables: RunTables) -> pl.DataFrame:
    """Return the table `packet_flows`; without rows where the run's tables are older than it."""
    try:
        return tables.packet_flows
    except InputError:
        return empty("packet_flows")


def _measured(
    tables: RunTables, ids: Sequence[str], groups: tuple[str, str], value: str
) -> Mapping[str, Mapping[str, Any]]:
    """Return mean, sd and median over the valid trials that have both groups, by cell and quantity."""
    ok = tables.trials.filter((pl.col("status") == "ok") & pl.col("cell").is_in(ids))
    wide = ok.select("cell", "trial")
    for name, group in zip(("l4s", "classic"), groups, strict=True):
        own = tables.totals(group, value).rename({"mbps": f"{name}.goodput", "delay_ms": f"{name}.delay"})
        wide = wide.join(own, on=["cell", "trial"])
    for name, group in zip(("l4s", "classic"), groups, strict=True):
        own = captured(tables).filter(pl.col("group") == group)
        p99 = own.group_by("cell", "trial").agg(pl.col("sojourn_p99_ms").mean().alias(f"{name}.sojourn"))
        wide = wide.join(p99, on=["cell", "trial"], how="left", maintain_order="left")
    quantities = [name for name in wide.columns if "." in name]
    found = wide.group_by("cell", maintain_order=True).agg(
        pl.len().alias("valid"),
        pl.col("l4s.goodput").alias("trials"),
        *[
            pl.struct(
                pl.col(name).mean().alias("mean"),
                pl.col(name).std().alias("sd"),
                pl.col(name).median().alias("median"),
            ).alias(name)
            for name in quantities
        ],
    )
    return {row["cell"]: row for row in found.iter_rows(named=True)}


def _result(
    cell: str,
    factors: Mapping[str, Setting],
    trials: int,
    measured: Mapping[str, Any],
    groups: tuple[str, str],
    looks: int,
    baselines: Baselines,
) -> CellResult:
    rate_mbps, valid = factors["rate_mbps"].amount, int(measured.get("valid", 0))

    def estimated(name: str, unit: str, most: float | None = None) -> Estimate | None:
        found = measured.get(name)
        if found is None or found["mean"] is None:
            return None
        bounds = {} if most is None else {"least": 0.0, "most": most}
        low, high = interval(found["mean"], found["sd"], valid, looks=looks, **bounds) or (None, None)
        return Estimate(found["mean"], unit, valid, low, high, found["sd"], found["median"])

    results: list[GroupResult] = []
    for name, group in zip(("l4s", "classic"), groups, strict=True):
        goodput, delay = estimated(f"{name}.goodput", "Mbit/s", rate_mbps), estimated(f"{name}.delay", "ms")
        alone = baselines.alone(group, factors)
        same = baselines.beside_own_kind(factors) if name == "classic" else None
        results.append(
            GroupResult(
                flows=int(factors[f"{group}.count"].amount),
                goodput=goodput,
                delay=delay,
                sojourn_p99=estimated(f"{name}.sojourn", "ms"),
                alone=alone and alone.goodput,
                harm=harm(alone, goodput, rate_mbps, looks),
                delay_harm=harm_to_rtt(alone, delay, factors["rtt_ms"].amount),
                same_harm=harm(alone, same and same.goodput, rate_mbps, 1),
            )
        )
    l4s, classic = results
    return CellResult(
        id=cell,
        factors=factors,
        valid=valid,
        left_out=trials - valid,
        l4s=l4s,
        classic=classic,
        share=l4s.goodput and l4s.goodput.percent_of(rate_mbps),
        bimodal=bimodal(measured.get("trials", ()), MODES_FLOOR / 100 * rate_mbps),
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
