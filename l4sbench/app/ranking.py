# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Shares of a fair share that congestion controls leave to others, and keep, over the cells of the atlas.

A flow's fair share is half of the link's rate. What it keeps of it is capped at 100 % in each trial, since a
gain in one cell makes no loss in another good. Contentiousness and sensitivity are after Prudentia (Philip et
al., "An Internet Fairness Watchdog", SIGCOMM 2024), which has both from shares of the max-min throughput.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING, Final, NamedTuple

from l4sbench.app.atlas import AtlasInterval

if TYPE_CHECKING:
    from l4sbench.app.atlas import AtlasCell

_FAIR_PERCENT: Final = 50.0
_FEWEST_CELLS: Final = 10
_QUANTILE: Final = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, order=True)
class Contender:
    """A congestion control and its ECN where a column of the atlas states it."""

    cc: str
    ecn: str = "off"

    def __str__(self) -> str:
        return self.cc if self.ecn == "off" else f"{self.cc}, ECN {self.ecn}"


@dataclass(frozen=True)
class Ranked:
    """A congestion control in the ranking; percentages are of a fair share, means over cells and competitors.

    Attributes:
        contender: The congestion control.
        leaves_percent: What the others keep beside it: the less, the more contentious it is.
        keeps_percent: What it keeps beside the others: the less, the more sensitive it is.
        beside: What each other one keeps beside it.
    """

    contender: Contender
    leaves_percent: AtlasInterval
    keeps_percent: AtlasInterval
    beside: Mapping[Contender, AtlasInterval]


@dataclass(frozen=True)
class Ranking:
    """Congestion controls, the most contentious first.

    Attributes:
        cells: Number of cells of each pair: those that all pairs have.
        trials: Number of their valid trials, over all pairs.
        ranked: The congestion controls.
        queues: The queues of these cells; those that some pair did not run behind are not among them.
    """

    cells: int
    trials: int
    ranked: tuple[Ranked, ...]
    queues: tuple[str, ...] = ()


class _Kept(NamedTuple):
    """A mean over the trials of a cell, and the variance of that mean."""

    percent: float
    variance: float


class _Place(NamedTuple):
    aqm: str
    rate_mbps: float
    rtt_ms: float
    buffer_bdp: float


def ranking(cells: Iterable[AtlasCell], aqm: str | None = None) -> Ranking:
    """Rank the congestion controls by what they leave to others in the cells that all pairs of them have.

    Intervals are of 95 %, from the variance of trials alone: another plane of cells has another ranking.
    Those of fewer than ten cells have no ends. A column with a parameter of its queue does not count.

    Args:
        cells: The rows of the table.
        aqm: The only queue that counts; all if it is None.
    """
    places: dict[tuple[Contender, Contender], dict[_Place, AtlasCell]] = defaultdict(dict)
    for cell in cells:
        column = cell.column
        wanted = aqm in {None, column.aqm} and column.min_qlen_step is None
        if wanted and len(cell.l4s_each_percent) > 1 and len(cell.classic_each_percent) > 1:
            pair = Contender(column.l4s), Contender(column.classic, column.classic_ecn)
            places[pair][_Place(column.aqm, cell.rate_mbps, cell.rtt_ms, cell.buffer_bdp)] = cell
    if not places:
        return Ranking(0, 0, ())
    common = sorted(frozenset.intersection(*(frozenset(own) for own in places.values())))
    kept: dict[Contender, dict[Contender, list[_Kept]]] = defaultdict(dict)
    trials = 0
    for (first, second), own in places.items():
        rows = [own[place] for place in common]
        trials += sum(row.trials for row in rows)
        kept[first][second] = [_kept(row.classic_each_percent) for row in rows]
        kept[second][first] = [_kept(row.l4s_each_percent) for row in rows]
    found = list(_ranked(kept)) if common else []
    ranked = tuple(sorted(found, key=lambda one: one.leaves_percent.mean))
    return Ranking(len(common), trials, ranked, tuple(dict.fromkeys(place.aqm for place in common)))


def _ranked(kept: Mapping[Contender, Mapping[Contender, Sequence[_Kept]]]) -> Iterator[Ranked]:
    for one, others in kept.items():
        yield Ranked(
            one,
            _mean([value for values in others.values() for value in values]),
            _mean([value for other in others for value in kept[other][one]]),
            {other: _mean(values) for other, values in others.items()},
        )


def _kept(each_percent: Sequence[float]) -> _Kept:
    shares = [min(100.0, 100 * percent / _FAIR_PERCENT) for percent in each_percent]
    return _Kept(fmean(shares), variance(shares) / len(shares))


def _mean(values: Sequence[_Kept]) -> AtlasInterval:
    mean = fmean(value.percent for value in values)
    if len(values) < _FEWEST_CELLS:
        return AtlasInterval(mean)
    half = _QUANTILE * math.sqrt(sum(value.variance for value in values)) / len(values)
    return AtlasInterval(mean, max(0.0, mean - half), min(100.0, mean + half))
