# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workloads: distributions of the sizes and arrivals of many flows, as data with their source.

Each is a file `workloads/<name>.yml` (docs/matrix.md). Numbers are drawn by inversion: the quantile function
at a uniform number, so that one seed gives the same flows whatever the load.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import count, pairwise
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, model_validator

from l4sbench.disk import assets
from l4sbench.disk.document import Flaw, load_model
from l4sbench.errors import InputError, Problem, suggest
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from l4sbench.text.units import Duration, Percent, Rate

MOST_FLOWS: Final = 200_000
"""Number of connections that a group may have in a trial."""

_Positive = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
_Shape = Annotated[float, Field(gt=0.05, le=100, allow_inf_nan=False)]


class _Model(Strict):
    @model_validator(mode="after")
    def _one(self) -> _Model:
        given = [name for name, value in self if value]
        if isinstance(self, Sizes | Arrivals) and len(given) != 1:
            raise ValueError(f"state exactly one of {', '.join(type(self).model_fields)}")
        return self


class Lognormal(_Model):
    """Lognormal distribution by its mean (of sizes, in bytes) and the standard deviation of the logarithm."""

    mean: _Positive = 1.0
    sigma: _Shape

    def quantile(self, share: float) -> float:
        """Return the value that this share of all do not exceed, in means: exp(sigma z - sigma^2 / 2)."""
        from statistics import NormalDist  # slow to import, and few workloads need it

        return math.exp(self.sigma * NormalDist().inv_cdf(share) - self.sigma**2 / 2)


class Weibull(_Model):
    """Weibull distribution by its mean (of sizes, in bytes) and its shape."""

    mean: _Positive = 1.0
    shape: _Shape

    def quantile(self, share: float) -> float:
        """Return the same, in means: (-ln(1 - p))^(1/k) / Gamma(1 + 1/k)."""
        return float((-math.log1p(-share)) ** (1 / self.shape) / math.gamma(1 + 1 / self.shape))


class Sizes(_Model):
    """Payload of a flow: one of these.

    `table` is a cumulative distribution, bytes -> percent of flows that have no more, linear in between.
    """

    table: dict[Annotated[int, Field(ge=0, le=10**12)], Annotated[float, Field(ge=0, le=100)]] | None = None
    lognormal: Lognormal | None = None
    weibull: Weibull | None = None
    fixed: Annotated[int, Field(ge=1, le=10**12)] | None = None

    @model_validator(mode="after")
    def _rises(self) -> Sizes:
        points = list((self.table or {0: 0.0, 1: 100.0}).items())
        if any(a >= b or p > q for (a, p), (b, q) in pairwise(points)) or len(points) < 2:
            raise ValueError("sizes and percentages of a table must rise")
        if points[0][1] != 0 or points[-1][1] != 100:
            raise ValueError("a table goes from 0 to 100 percent")
        return self

    @property
    def mean_bytes(self) -> float:
        """Mean payload."""
        if self.table is not None:
            points = pairwise(self.table.items())
            return sum((q - p) / 100 * (a + b) / 2 for (a, p), (b, q) in points)
        drawn = self.lognormal or self.weibull
        return drawn.mean if drawn else float(self.fixed or 0)

    def quantile(self, share: float) -> float:
        """Return the payload that this share of all flows do not exceed."""
        if self.table is not None:
            for (a, p), (b, q) in pairwise(self.table.items()):
                if share * 100 < q:
                    return a + (b - a) * (share * 100 - p) / (q - p)
            return float(list(self.table)[-1])
        drawn = self.lognormal or self.weibull
        return drawn.mean * drawn.quantile(share) if drawn else float(self.fixed or 0)


class Arrivals(_Model):
    """Time between two flows, in means: one of these; the load gives the mean."""

    exponential: bool = False
    lognormal: Lognormal | None = None
    weibull: Weibull | None = None

    def quantile(self, share: float) -> float:
        """Return the time that this share of all do not exceed, in means."""
        drawn = self.lognormal or self.weibull
        return drawn.quantile(share) if drawn else -math.log1p(-share)


class Workload(_Model):
    """Sizes and arrivals of flows, and where they were printed."""

    workload: str
    about: str
    source: Annotated[str, Field(min_length=1)]
    sizes: Sizes
    arrivals: Arrivals

    def mean_gap_s(self, load: Percent, rate: Rate) -> float:
        """Return the mean time between two flows whose payload takes this share of the rate."""
        return self.sizes.mean_bytes * 8 / (rate.bits_per_s * load.ppb / 1e9)

    def schedule(
        self, load: Percent, rate: Rate, length: Duration, draw: Callable[[str, int], float]
    ) -> Iterator[tuple[int, int]]:
        """Yield when each flow begins, in ns from the start, and its payload in bytes.

        `draw` gives a uniform number from [0, 1) for a purpose, `arrival` or `size`, and a flow's number.
        """
        gap_ns = self.mean_gap_s(load, rate) * 1e9
        at_ns = 0.0
        for number in count():
            at_ns += gap_ns * self.arrivals.quantile(_inside(draw("arrival", number)))
            if at_ns >= length.ns:
                return
            share = _inside(draw("size", number))
            # whole microseconds: the last bits of a logarithm differ between machines
            yield round(at_ns / 1000) * 1000, max(1, round(self.sizes.quantile(share)))


def _inside(unit: float) -> float:
    """Return a number in (0, 1) for one in [0, 1): where quantile functions are finite."""
    return max(unit, 2.0**-53)


@lru_cache(maxsize=64)
def workload(name: str, path: str = "workload") -> Workload:
    """Return a workload by its name; `path` is the factor that names it.

    Raises:
        InputError: there is none, or its file is not valid.
    """
    files = assets.workloads()
    if name not in files:
        raise InputError([Problem("", path, f"unknown workload {quoted(name)}", suggest(name, files))])
    return read_workload(files[name])


def read_workload(path: Path) -> Workload:
    """Read a workload from its file, whose name is that of the workload.

    Raises:
        InputError: it is not valid; with the line and column of every problem.
    """

    def misnamed(found: Workload) -> Iterator[Flaw]:
        if found.workload != path.stem:
            message = f"expected {path.stem}, the name of the file, not {quoted(found.workload)}"
            yield Flaw(("workload",), message)

    return load_model(path, Workload, check=misnamed)


def digest(name: str) -> str:
    """Return a digest of a workload's file."""
    return assets.digest(assets.workloads()[name])
