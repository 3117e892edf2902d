# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Welch's unequal-variances t-test (Welch 1947) of two estimates, and the correction for many tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reports.result.stats import CONFIDENCE

if TYPE_CHECKING:
    from reports.result.stats import Estimate

_ROUNDING: Final = 1e-12
"""Part of a number that rounding may change: trials that vary by less leave no room for chance."""


@dataclass(frozen=True)
class MeanDifference:
    """The difference of two means, new minus base.

    Attributes:
        value: The difference.
        error: Its standard error; 0 where no trial differs from another of its run.
        freedom: Degrees of freedom (Welch and Satterthwaite); infinite without an error.
    """

    value: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of its confidence interval."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.freedom, (1 + CONFIDENCE) / 2)) * self.error if self.error else 0.0
        return self.value - half, self.value + half

    def p_above(self, limit: float) -> float:
        """Return the p value of the one-sided test that it is above a limit."""
        return self._p(self.value - limit)

    def p_below(self, limit: float) -> float:
        """Return the p value of the one-sided test that it is below a limit."""
        return self._p(limit - self.value)

    @property
    def p_differs(self) -> float:
        """The p value of the two-sided test that there is a difference."""
        return min(1.0, 2 * self._p(abs(self.value)))

    def _p(self, beyond: float) -> float:
        from scipy.special import stdtr

        if not self.error:
            return 0.0 if beyond > 0 else 1.0
        return float(stdtr(self.freedom, -beyond / self.error))


def difference(base: Estimate, new: Estimate) -> MeanDifference | None:
    """Return the difference of two estimates; None where one of them has fewer than two trials."""
    if base.sd is None or new.sd is None:
        return None
    size = max(abs(base.value), abs(new.value), 1.0)
    parts = base.sd**2 / base.trials, new.sd**2 / new.trials
    value, error = new.value - base.value, math.sqrt(sum(parts))
    if error <= _ROUNDING * size:
        return MeanDifference(value if abs(value) > _ROUNDING * size else 0.0, 0.0, math.inf)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (base.trials - 1) + parts[1] ** 2 / (new.trials - 1))
    return MeanDifference(value, error, freedom)


def largest_p(tested: Sequence[float], rate: float) -> float:
    """Return the largest p value that counts among so many tests; -1 if none does.

    Of those up to it the expected share of false ones is at most `rate` (Benjamini and Hochberg 1995).
    """
    ranked = enumerate(sorted(tested), start=1)
    return max((p for rank, p in ranked if p * (len(tested) / rank) <= rate), default=-1.0)
