# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Check the statistics of docs/statistics.md by simulation, with the same numbers each time.

.venv/bin/python tools/calibrate.py coverage   how often 95 % intervals contain the mean
.venv/bin/python tools/calibrate.py looks      how often adaptive trials decide wrongly
.venv/bin/python tools/calibrate.py modes      how often one group passes for two, and two for one
.venv/bin/python tools/calibrate.py forecast   how many published cells stay in doubt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

import itertools

from reports.result.adaptive import decided
from reports.result.rules import load_rule
from reports.result.stats import GAP_LIMITS, bimodal, half_width, widest_gap

Numbers: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
Draw: TypeAlias = Callable[[np.random.Generator, int, int], Numbers]

LOOKS: Final = (3, 5, 10)
ROUNDS: Final = 20_000
SEED: Final = 1


def _two_modes(part: float) -> Draw:
    """Return a cell in one of two modes that are nine standard deviations apart."""

    def draw(source: np.random.Generator, rows: int, n: int) -> Numbers:
        upper = source.random((rows, n)) < part
        values = 9.0 * (upper - part) + source.standard_normal((rows, n))
        return np.asarray(values / np.sqrt(81 * part * (1 - part) + 1))

    return draw


SHAPES: Final[dict[str, Draw]] = {
    "normal": lambda source, rows, n: source.standard_normal((rows, n)),
    "uniform": lambda source, rows, n: (source.random((rows, n)) - 0.5) * np.sqrt(12),
    "exponential": lambda source, rows, n: source.exponential(size=(rows, n)) - 1,
    "two modes, 1:1": _two_modes(0.5),
    "two modes, 1:4": _two_modes(0.2),
}
"""Trials of a cell, each of mean 0 and standard deviation 1."""


def coverage() -> None:
    """Print how often 95 % intervals by Student's t and by a percentile bootstrap contain the mean."""
    _line("trials", *(f"{n}, {kind}" for n in LOOKS for kind in ("t", "bootstrap")))
    for shape, draw in SHAPES.items():
        source = np.random.default_rng(SEED)
        shown: list[str] = []
        for n in LOOKS:
            values = draw(source, ROUNDS, n)
            half = half_width(n, 1.0) * values.std(axis=1, ddof=1)
            shown.append(_percent((np.abs(values.mean(axis=1)) <= half).mean()))
            shown.append(_percent(_bootstrap_holds(source, values[:2000])))
        _line(shape, *shown)


def _bootstrap_holds(source: np.random.Generator, values: Numbers) -> float:
    n = values.shape[1]
    holds = 0
    for row in values:
        means = row[source.integers(0, n, (1000, n))].mean(axis=1)
        low, high = np.quantile(means, (0.025, 0.975))
        holds += bool(low <= 0 <= high)
    return holds / len(values)


def looks() -> None:
    """Print how often a cell whose mean is at a limit is declared outside, with and without correction."""
    _line("trials", "outside, corrected", "outside, uncorrected", "trials per cell")
    for shape, draw in SHAPES.items():
        values = draw(np.random.default_rng(SEED), ROUNDS, LOOKS[-1])
        wrong = {1: 0, len(LOOKS): 0}
        spent = 0
        for count in wrong:
            open_ = np.ones(ROUNDS, dtype=bool)
            for n in LOOKS:
                seen = values[:, :n]
                mean = seen.mean(axis=1)
                half = half_width(n, 1.0, count) * seen.std(axis=1, ddof=1)
                if count > 1:
                    spent += int(open_.sum()) * (n - ([0, *LOOKS][LOOKS.index(n)]))
                wrong[count] += int((open_ & (mean + half < 0)).sum())
                open_ &= np.abs(mean) <= half
        shown = (_percent(wrong[count] / ROUNDS) for count in (len(LOOKS), 1))
        _line(shape, *shown, f"{spent / ROUNDS:.1f}")


def modes() -> None:
    """Print the widest gap that 99 % of samples of one group do not exceed, and how often two are found."""
    import diptest  # type: ignore[import-untyped]

    one_group = ("uniform", "normal", "exponential")
    apart = (8, 16, 32)
    _line("trials", *one_group, "limit", *(f"{d} sd apart, ours / dip test" for d in apart))
    for n, limit in GAP_LIMITS.items():
        source = np.random.default_rng(SEED)
        shown: list[str] = []
        for shape in one_group:
            values = np.sort(SHAPES[shape](source, 20 * ROUNDS, n), axis=1)
            gaps = np.diff(values, axis=1)[:, 1 : n - 2].max(axis=1) / (values[:, -1] - values[:, 0])
            shown.append(f"{np.quantile(gaps, 0.99):.3f}")
        for distance in apart:
            upper = source.random((2000, n)) < 0.5
            values = distance * upper + source.standard_normal((2000, n))
            ours = np.mean([bool(bimodal(row.tolist())) for row in values])
            theirs = np.mean([diptest.diptest(np.ascontiguousarray(row))[1] < 0.01 for row in values])
            shown.append(f"{_percent(float(ours))} / {_percent(float(theirs))}")
        _line(str(n), *shown[:3], f"{limit:.2f}", *shown[3:])
    assert widest_gap([0, 1, 9, 10]) == (8, 10)  # noqa: S101  (the statistic of the columns above)


def forecast() -> None:
    """Print how many published cells are in doubt after a look; trials are drawn from mean and spread."""
    rule = load_rule("pam25")
    cells = pl.read_csv(Path(__file__).parents[1] / "reports" / "published" / "cells.csv")
    found = cells.select("l4s_mbps", "l4s_sd_mbps").drop_nulls()
    source = np.random.default_rng(SEED)
    open_ = dict.fromkeys(LOOKS, 0)
    rounds = 20
    for mean, sd in found.iter_rows():
        for _ in range(rounds):
            values = np.clip(source.normal(mean, sd, LOOKS[-1]), 0, 100).tolist()
            for n in LOOKS:
                seen = values[:n]
                if decided(rule, seen, [95 - x for x in seen], 100.0, looks=len(LOOKS)):
                    break
                open_[n] += 1
    whole = found.height * rounds
    _line("trials", "in doubt")
    for n in LOOKS:
        _line(str(n), _percent(open_[n] / whole))
    extra = sum((after - before) * open_[before] / whole for before, after in itertools.pairwise(LOOKS))
    _line("per cell", f"{LOOKS[0] + extra:.2f} trials")


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _line(*cells: str) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


COMMANDS: Final = {"coverage": coverage, "looks": looks, "modes": modes, "forecast": forecast}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=COMMANDS)
    COMMANDS[parser.parse_args().what]()
