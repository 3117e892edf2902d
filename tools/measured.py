# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
r"""Print measures of the flow groups of a run as CSV, a row per cell and group, with 95 % intervals.

    .venv/bin/l4sbench run overload --jobs 1
    .venv/bin/python tools/measured.py runs/overload/latest \
        --factors aqm aqm.classic_protection l4s.count udp.rate_mbps udp.codepoint \
        --measures throughput_mbps lost_percent marked_percent sojourn_mean_ms sojourn_p99_ms

Measures are those of claims (docs/statistics.md), means over the valid trials of a cell. A cell without valid
trials is missing.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from reports.published.claims import MEASURES, least_of, measures
from reports.result.load import RunTables, load
from reports.result.stats import estimate

_PLACES = 4


def rows(
    tables: RunTables, factors: Sequence[str], groups: Sequence[str], names: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the head, then a row per cell and group, by the factors' values."""
    ends = [column for name in names for column in (name, f"{name}_low", f"{name}_high")]
    yield [*factors, "group", "trials", *ends]
    found = {group: measures(tables, group, names) for group in groups}
    cells = tables.valid.unique("cell").sort(factors, nulls_last=True)
    for cell in cells.iter_rows(named=True):
        for group, frame in found.items():
            own = frame.filter(pl.col("cell") == cell["cell"])
            shown = [_text(cell[name]) for name in factors]
            estimates = [text for name in names for text in _estimate(own[name], least_of(name))]
            yield [*shown, group, str(own.height), *estimates]


def _estimate(column: pl.Series, least: float) -> tuple[str, str, str]:
    """Write the mean of a measure and the ends of its interval; empty where there is none."""
    values = [float(value) for value in column.drop_nulls()]
    if not values:
        return "", "", ""
    found = estimate(values, least=least)
    return _text(found.value), _text(found.low), _text(found.high)


def _text(value: object) -> str:
    return "" if value is None else f"{value:.{_PLACES}g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--factors", nargs="+", required=True, help="columns of table trials")
    parser.add_argument("--measures", nargs="+", required=True, choices=sorted(MEASURES), metavar="MEASURE")
    parser.add_argument("--groups", nargs="+", help="flow groups (default: all, each by itself)")
    args = parser.parse_args()
    tables = load(args.run)
    groups = args.groups or sorted(tables.flows["group"].unique())
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows(tables, args.factors, groups, args.measures))


if __name__ == "__main__":
    main()
