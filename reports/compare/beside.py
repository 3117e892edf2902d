# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two runs side by side, number by number: for runs without verdicts.

Nobody knows of a program's number if more of it is better, or how much of it matters. So a number is not
worse or better here: it differs or not, by a two-sided Welch's t-test, corrected for all numbers of the
comparison (Benjamini and Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.compare.welch import MeanDifference, difference, largest_p
from reports.result.measured import measure

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.stats import Estimate


@dataclass(frozen=True)
class NumberBeside:
    """A number of a flow group of a cell in both runs.

    Attributes:
        cell: Id of the cell.
        label: The cell in words.
        group: The flow group.
        number: Name of the number, as in `MeasuredGroup.numbers`.
        base, new: Mean and interval in either run.
        difference: New minus base; None where a run has fewer than two trials.
        differs: True if the difference is more than noise.
    """

    cell: str
    label: str
    group: str
    number: str
    base: Estimate
    new: Estimate
    difference: MeanDifference | None
    differs: bool = False

    @property
    def p(self) -> float | None:
        """The p value of the test, before the correction; None where there is no test."""
        return self.difference.p_differs if self.difference else None


def beside(base: RunTables, new: RunTables, false_discovery_percent: float) -> tuple[NumberBeside, ...]:
    """Return every number that both runs have, cell by cell in the order of the base's."""
    now = {
        (cell.id, group.name, number): found
        for cell in measure(new).cells
        for group in cell.groups
        for number, found in group.numbers.items()
    }
    numbers = [
        NumberBeside(cell.id, str(cell.label), group.name, number, was, found, difference(was, found))
        for cell in measure(base).cells
        for group in cell.groups
        for number, was in group.numbers.items()
        if (found := now.get((cell.id, group.name, number))) is not None
    ]
    return _corrected(numbers, false_discovery_percent / 100)


def _corrected(numbers: Sequence[NumberBeside], rate: float) -> tuple[NumberBeside, ...]:
    limit = largest_p([number.p for number in numbers if number.p is not None], rate)
    return tuple(
        number if number.p is None else replace(number, differs=number.p <= limit) for number in numbers
    )
