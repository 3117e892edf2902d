# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""When a cell has enough trials: as soon as its verdict is no longer in doubt.

The same intervals decide that stand in the report, so a cell that was left at three trials is decided there
too. Baselines do not count here: they are other cells, which may not have run yet, and no result may depend
on the order in which cells run. Goodput is measured by the link's rate instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reports.result.judging import Measured, Range, judge
from reports.result.stats import estimate, half_width

if TYPE_CHECKING:
    import polars as pl

    from reports.result.rules import Rule

UNDECIDED_AFTER: Final = {3: 0.22, 5: 0.09}
"""Of the published cells, the part whose verdict by `pam25` is still in doubt after so many trials, looking
at 3, 5 and 10. `tools/calibrate.py forecast` computes it."""


def decided(
    rule: Rule,
    l4s_mbps: Sequence[float],
    classic_mbps: Sequence[float],
    rate_mbps: float,
    *,
    l4s_flows: int = 1,
    classic_flows: int = 1,
    looks: int = 1,
) -> bool:
    """Whether the valid trials of a cell leave no doubt about its verdict.

    Args:
        rule: How verdicts are made. Intervals count even where its verdicts go by means.
        l4s_mbps: Goodput of the L4S group in every valid trial.
        classic_mbps: The same of the classic group.
        rate_mbps: Of the link.
        l4s_flows: Flows of the L4S group.
        classic_flows: Flows of the classic group.
        looks: At how many numbers of trials the cell may be looked at.
    """
    if not l4s_mbps or not classic_mbps:
        return False
    l4s, classic = (_percent(values, rate_mbps, looks) for values in (l4s_mbps, classic_mbps))
    cell = Measured(l4s, l4s, classic, l4s_flows=l4s_flows, classic_flows=classic_flows)
    return judge(rule, cell).decided


def _percent(values: Sequence[float], rate_mbps: float, looks: int) -> Range:
    percent = [value / rate_mbps * 100 for value in values]
    found = estimate(percent, least=0.0, most=100.0, looks=looks)
    return Range(found.mean, found.low, found.high)


def forecast(rule: Rule, cells: pl.DataFrame, looks: Sequence[int]) -> dict[str, int]:
    """How many trials each cell will have got in the end, by id, if trials go on as they did.

    Args:
        rule: How verdicts are made.
        cells: Of `cell_means`; cells with fewer than two valid trials are left out.
        looks: The numbers of trials at which cells are looked at.
    """
    found: dict[str, int] = {}
    for row in cells.iter_rows(named=True):
        if row["valid"] > 1:
            had = row["valid"] + row["left_out"]
            ahead = [at for at in looks if at >= had] or [looks[-1]]
            found[row["cell"]] = next((at for at in ahead if _would(rule, row, at, len(looks))), looks[-1])
    return found


def _would(rule: Rule, row: dict[str, float], trials: int, looks: int) -> bool:
    """Whether a cell would be decided by so many trials with the mean and spread it has."""
    rate = row["rate_mbps"]

    def after(group: str) -> Range:
        mean, sd = (row[f"{group}{what}_mbps"] / rate * 100 for what in ("", "_sd"))
        half = half_width(trials, sd, looks)
        return Range(mean, max(0.0, mean - half), min(100.0, mean + half))

    l4s, classic = after("l4s"), after("classic")
    flows = (int(row[f"{group}.count"]) for group in (rule.l4s, rule.classic))
    return judge(rule, Measured(l4s, l4s, classic, None, *flows)).decided


def still_undecided(trials: int) -> float:
    """The part of cells of which nothing is known yet that will be in doubt after so many trials."""
    known = [at for at in UNDECIDED_AFTER if at <= trials]
    return UNDECIDED_AFTER[max(known)] if known else 1.0
