# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Workloads: what is drawn has the printed distribution and the load that was asked for."""

from __future__ import annotations

import math

import pytest

from l4sbench.disk import assets
from l4sbench.disk.workloads import Arrivals, Lognormal, Sizes, Weibull, Workload, workload
from l4sbench.errors import InputError
from l4sbench.program.trial import draw_unit
from l4sbench.text.units import Duration, Percent, Rate

SHARES = [(number + 0.5) / 20_000 for number in range(20_000)]


def draw(purpose: str, number: int) -> float:
    return draw_unit(7, purpose, number)


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(fixed=1500),
        Sizes(lognormal=Lognormal(mean=20_000, sigma=0.8)),
        Sizes(weibull=Weibull(mean=20_000, shape=0.7)),
        *(workload(name).sizes for name in assets.workloads()),
    ],
)
def test_the_mean_is_that_of_the_distribution(sizes: Sizes) -> None:
    drawn = [sizes.quantile(share) for share in SHARES]
    assert drawn == sorted(drawn)
    assert sum(drawn) / len(drawn) == pytest.approx(sizes.mean_bytes, rel=0.01)


@pytest.mark.parametrize(
    "arrivals",
    [
        Arrivals(exponential=True),
        Arrivals(lognormal=Lognormal(sigma=0.8)),
        Arrivals(weibull=Weibull(shape=0.7)),
    ],
)
def test_the_mean_time_between_arrivals_is_one(arrivals: Arrivals) -> None:
    drawn = [arrivals.quantile(share) for share in SHARES]
    assert sum(drawn) / len(drawn) == pytest.approx(1, rel=0.01)


def test_sizes_are_those_of_the_printed_points() -> None:
    sizes = workload("web-search").sizes
    assert sizes.quantile(0.15) == pytest.approx(10_000)
    assert sizes.quantile(0.535) == pytest.approx(80_000 + 0.5 / 7 * 120_000)
    assert sizes.quantile(1 - 2**-53) <= 30_000_000
    assert sizes.mean_bytes == pytest.approx(1_711_250)


def test_fitted_sizes_have_the_printed_scale() -> None:
    """Weibull's scale is what a share of 1 - 1/e does not exceed."""
    sizes = workload("facebook-weibull").sizes
    assert sizes.quantile(1 - math.exp(-1)) == pytest.approx(21_000)
    assert sizes.quantile(0.5) == pytest.approx(21_000 * math.log(2) ** 2)


def test_a_schedule_has_its_load() -> None:
    own = Workload(
        workload="x", about="", source="y", sizes=Sizes(fixed=5000), arrivals=Arrivals(exponential=True)
    )
    length = Duration(100 * 10**9)
    flows = list(own.schedule(Percent.parse("80%"), Rate(10_000_000), length, draw))
    assert flows == sorted(flows)
    assert all(0 <= at_ns < length.ns and at_ns % 1000 == 0 for at_ns, _ in flows)
    assert sum(size for _, size in flows) * 8 / 100 == pytest.approx(8e6, rel=0.03)
    half = list(own.schedule(Percent.parse("40%"), Rate(10_000_000), length, draw))
    assert [at_ns for at_ns, _ in half[:5]] == pytest.approx([2 * at_ns for at_ns, _ in flows[:5]], abs=2000)


def test_an_unknown_workload_is_an_error() -> None:
    with pytest.raises(
        InputError, match=r"mice\.workload: unknown workload web-serch; did you mean web-search"
    ):
        workload("web-serch", "mice.workload")
