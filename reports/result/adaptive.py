# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Adaptive trials: a cell has enough of them as soon as its verdict is no longer in doubt.

The intervals are those of the report, so a cell that was left at three trials is decided there too. Baselines
do not count here: they are other cells, which may not have run yet, and no result may depend on the order in
which cells run. Goodput is measured by the link's rate instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from reports.result.judging import Measured, judge
from reports.result.stats import Estimate, estimate, interval

if TYPE_CHECKING:
    from reports.result.cells import CellResult, GroupResult
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
    """Return True if the valid trials of a cell leave no doubt about its verdict.

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
    l4s, classic = (
        estimate([mbps / rate_mbps * 100 for mbps in values], "%", least=0.0, most=100.0, looks=looks)
        for values in (l4s_mbps, classic_mbps)
    )
    cell = Measured(l4s, l4s, classic, l4s_flows=l4s_flows, classic_flows=classic_flows)
    return judge(rule, cell).decided


def forecast(rule: Rule, cells: Iterable[CellResult], looks: Sequence[int]) -> dict[str, int]:
    """Return the number of trials each cell will probably have in the end, by id.

    Args:
        rule: How verdicts are made.
        cells: Results so far; cells with fewer than two valid trials are left out.
        looks: The numbers of trials at which cells are looked at.
    """
    found: dict[str, int] = {}
    for cell in cells:
        if cell.valid > 1:
            ahead = [at for at in looks if at >= cell.valid + cell.left_out] or [looks[-1]]
            found[cell.id] = next((at for at in ahead if _would(rule, cell, at, len(looks))), looks[-1])
    return found


def _would(rule: Rule, cell: CellResult, trials: int, looks: int) -> bool:
    """Return True if so many trials with the mean and spread of a cell would decide it."""

    def after(group: GroupResult) -> Estimate:
        assert group.goodput is not None  # noqa: S101  (the cell has valid trials)
        now = group.goodput.percent_of(cell.rate_mbps)
        ends = interval(now.value, now.sd, trials, least=0.0, most=100.0, looks=looks)
        low, high = ends or (None, None)
        return Estimate(now.value, "%", trials, low, high)

    l4s, classic = after(cell.l4s), after(cell.classic)
    return judge(rule, Measured(l4s, l4s, classic, None, cell.l4s.flows, cell.classic.flows)).decided


def still_undecided(trials: int) -> float:
    """Return the part of cells without any trials yet that will be in doubt after so many trials."""
    known = [at for at in UNDECIDED_AFTER if at <= trials]
    return UNDECIDED_AFTER[max(known)] if known else 1.0
