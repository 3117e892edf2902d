# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run the cells that the table of the atlas lacks, or has of older sources, and add them to it.

    .venv/bin/python tools/atlas_campaign.py RUNS [-o FILE] [--matrix NAME] [--jobs N] [--points N]

One point of the plane, a rate and a round-trip time of one matrix, is run at a time, those with the fewest
bytes to send first. Then the table gets its rows, and its run directory below RUNS is deleted. A campaign
that is interrupted goes on where it was: trials that have ended count. With --points it ends after so many.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.atlas import MATRICES, AtlasCell, read_atlas, shipped, sources_of, wire_sources
from l4sbench.catalog import Catalog
from l4sbench.disk import assets
from l4sbench.matrix import Matrix

if TYPE_CHECKING:
    from l4sbench.text.units import Duration, Rate

_TRIALS = 3
_TABLE = Path(__file__).with_name("atlas_table.py")


@dataclass(frozen=True, order=True)
class _Point:
    """Cells of one matrix at one rate and round-trip time, ordered by the bytes of a trial."""

    megabits: float
    matrix: str
    rate: Rate
    rtt: Duration

    def __str__(self) -> str:
        return f"{self.matrix} at {self.rate} and {self.rtt}"


def _is_done(row: AtlasCell, catalog: Catalog) -> bool:
    current = (row.sources, row.wire) == (sources_of(catalog, row.column), wire_sources())
    return current and row.trials + row.left_out >= _TRIALS


def _points(name: str, kept: dict[str, AtlasCell], catalog: Catalog) -> Iterator[tuple[_Point, int]]:
    """Yield the points of a matrix with cells to run, and how many these are."""
    found: dict[_Point, int] = {}
    for cell in Matrix.load(assets.folder("matrices") / f"{name}.yaml", catalog).asked:
        row = kept.get(cell.id)
        if row and _is_done(row, catalog):
            continue
        point = _Point(cell.rate.mbps * (cell.warmup.s + cell.duration.s), name, cell.rate, cell.rtt)
        found[point] = found.get(point, 0) + 1
    yield from found.items()


def _run(point: _Point, runs: Path, jobs: int | None) -> None:
    command = ["l4sbench", "run", point.matrix, f"rate={point.rate}", f"rtt={point.rtt}", "--dir", str(runs)]
    command += ["--trials", str(_TRIALS), *(["--jobs", str(jobs)] if jobs else [])]
    subprocess.run([sys.executable, "-m", *command], check=True)


def main() -> None:
    """Run points, and add their rows to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=Path)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=shipped())
    parser.add_argument("--matrix", choices=MATRICES, action="append")
    parser.add_argument("--jobs", metavar="N", type=int)
    parser.add_argument("--points", metavar="N", type=int)
    args = parser.parse_args()
    kept = {row.cell: row for row in read_atlas(args.output)}
    catalog = Catalog.load()
    points = dict(one for name in args.matrix or MATRICES for one in _points(name, kept, catalog))
    print(f"{sum(points.values())} cells of {len(points)} points to run", flush=True)
    for point, cells in sorted(points.items())[: args.points]:
        print(f"{cells} cells of {point}", flush=True)
        _run(point, args.runs, args.jobs)
        table = [str(_TABLE), str(args.runs), "-o", str(args.output), "--keep"]
        subprocess.run([sys.executable, *table], check=True)
        shutil.rmtree(args.runs / point.matrix)


if __name__ == "__main__":
    main()
