# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Numbers of the cells of a run, from its tables: goodput and delay of each flow group, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from l4sbench.app.rules import require_rule
from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.app.stored import StoredRun
    from reports.result.rules import Rule
    from reports.result.verdicts import JudgedCell


@dataclass(frozen=True)
class GroupMeans:
    """Means over the valid trials of a cell: all goodput of a group, and its smoothed RTT minus base RTT.

    `delay_first_5s_ms` and `delay_after_5s_ms` part the delay into start-up and the rest, for flows of 10 s
    and more.
    """

    goodput_mbps: float
    delay_ms: float | None
    delay_first_5s_ms: float | None = None
    delay_after_5s_ms: float | None = None


@dataclass(frozen=True)
class Numbers:
    """The numbers of a run.

    Attributes:
        groups: Its flow groups; those that rules compare come first.
        means: What each group of a cell got, by the cell's id and the group; only cells with a valid trial.
        judged: Its cells with a verdict, by their ids.
        trials: Number of trials in its tables, valid or not.
    """

    groups: tuple[str, ...] = ()
    means: Mapping[str, Mapping[str, GroupMeans]] = field(default_factory=dict)
    judged: Mapping[str, JudgedCell] = field(default_factory=dict)
    trials: int = 0


def numbers_of(run: StoredRun) -> Numbers:
    """Return the numbers of all cells in a run's tables, former ones too; nothing if it has no tables yet.

    Raises:
        InputError: a table is damaged.
    """
    from l4sbench import tables

    folder = run.path / tables.FOLDER
    if not (folder / "trials.parquet").is_file():
        return Numbers()
    with tables.blaming(folder):
        return _numbers(run)


def _numbers(run: StoredRun) -> Numbers:
    from reports.result.metrics import starts

    found = run.tables(every=True)
    rule = _rule_of(run)
    compared = [run.matrix.roles.get(role, role) for role in ("l4s", "classic")]
    groups = found.groups["group"].unique(maintain_order=True).to_list()
    groups.sort(key=lambda group: compared.index(group) if group in compared else len(compared))
    means: dict[str, dict[str, GroupMeans]] = {}
    started = starts(found)
    for group in groups:
        per_trial = found.totals(group, "goodput_mbps" if rule is None else rule.value)
        own = started.filter(pl.col("group") == group).drop("group")
        every = per_trial.join(own, on=["cell", "trial"], how="left", maintain_order="left")
        delays = ("delay_ms", "delay_first_5s_ms", "delay_after_5s_ms")
        of_cell = every.group_by("cell", maintain_order=True).agg(pl.col("mbps", *delays).mean())
        for cell, *values in of_cell.iter_rows():
            means.setdefault(cell, {})[group] = GroupMeans(*values)
    return Numbers(tuple(groups), means, {} if rule is None else _judged(run), found.trials.height)


def _rule_of(run: StoredRun) -> Rule | None:
    try:
        return require_rule(run.matrix, None)
    except InputError:  # it has no verdicts
        return None


def _judged(run: StoredRun) -> dict[str, JudgedCell]:
    try:
        return {cell.id: cell for cell in run.decide().cells}
    except InputError:  # nothing to decide on yet
        return {}
