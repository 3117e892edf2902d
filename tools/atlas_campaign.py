# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run the cells that a table of the atlas lacks, or has of older sources, and add them to it.

    .venv/bin/python tools/atlas_campaign.py RUNS [FILTER ...] [--table NAME] [-o FILE] [--matrix NAME]

Filters are those of `l4sbench run`, such as `rate=10mbit,30mbit`; all cells count without them. One point of
the plane, a rate and a round-trip time of one matrix, is run at a time, those with the fewest bytes to send
first. Then the table gets its rows, and its run directory below RUNS is deleted. A campaign that is
interrupted goes on where it was: trials that have ended count, and invalid ones are in the table; cells with
failed ones are not, and the next campaign runs them again.
With --points it ends after so many. With --sure undecided cells get more trials, as many as the matrix
allows, and count as lacking without these.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app.api import run
from l4sbench.app.asking import Atlas
from l4sbench.app.atlas import PAIRS, TABLES, UNDECIDED, AtlasCell, shipped
from l4sbench.cli.progress import run_progress
from l4sbench.disk import assets
from l4sbench.engine.loop import RunInterrupted
from l4sbench.errors import InputError
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


def _lacking(
    matrix: Matrix, filters: Sequence[str], current: Sequence[AtlasCell], *, sure: bool
) -> Iterator[tuple[_Point, str]]:
    """Yield the ids of a matrix's cells that lack trials of now, with their points.

    Raises:
        InputError: the matrix has none of the values that a filter names.
    """
    of_undecided = matrix.trials.max if sure else _TRIALS
    done = {
        row.cell
        for row in current
        if row.trials + row.left_out >= (of_undecided if row.verdict == UNDECIDED else _TRIALS)
    }
    for cell in matrix.select(filters).asked:
        if cell.id not in done:
            yield _Point(cell.rate.mbps * cell.length.s, matrix.name, cell.rate, cell.rtt), cell.id


def _run(point: _Point, cells: Sequence[str], runs: Path, jobs: int | None, *, sure: bool) -> None:
    """Run cells of a point, without the page that nobody reads: it would take a fifth of the time."""
    chosen = f"cell={','.join(cells)}"
    trials = None if sure else _TRIALS
    with run_progress() as on_event:
        ended = run(point.matrix, chosen, on_event=on_event, runs=runs, jobs=jobs, trials=trials)
    result = ended.result
    if result.error is not None:
        print(f"error: {result.error}", file=sys.stderr)
    if result.error is not None or result.interrupted:  # after invalid or failed trials it goes on
        raise SystemExit(result.exit_code)


def main() -> None:
    """Run points, and add their rows to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=Path)
    parser.add_argument("filters", metavar="FILTER", nargs="*")
    parser.add_argument("--table", choices=TABLES, default=PAIRS)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path)
    parser.add_argument("--matrix", action="append")
    parser.add_argument("--jobs", metavar="N", type=int)
    parser.add_argument("--sure", action="store_true")
    parser.add_argument("--points", metavar="N", type=int)
    args = parser.parse_intermixed_args()  # filters may follow options
    names = TABLES[args.table]
    if wrong := set(args.matrix or ()).difference(names):
        parser.error(
            f"{min(wrong)} is not a matrix of the table {args.table}; choose from {', '.join(names)}"
        )
    output = args.output or shipped(args.table)
    atlas = Atlas.load(output)
    points: dict[_Point, list[str]] = defaultdict(list)
    refused: list[InputError] = []
    chosen = args.matrix or names
    for name in chosen:
        matrix = Matrix.load(assets.folder("matrices") / f"{name}.yaml", atlas.catalog)
        try:
            for point, cell in _lacking(matrix, args.filters, atlas.current, sure=args.sure):
                points[point].append(cell)
        except InputError as error:  # it may lack a rate that others have
            refused.append(error)
    if len(refused) == len(chosen):
        sys.exit(f"error: {refused[0]}")
    print(f"{sum(map(len, points.values()))} cells of {len(points)} points to run", flush=True)
    for point, cells in sorted(points.items())[: args.points]:
        print(f"{len(cells)} cells of {point}", flush=True)
        try:
            _run(point, cells, args.runs, args.jobs, sure=args.sure)
        except RunInterrupted as stopped:
            raise SystemExit(stopped.result.exit_code) from None
        table = [str(_TABLE), str(args.runs), "--table", args.table, "-o", str(output), "--keep"]
        subprocess.run([sys.executable, *table], check=True)
        shutil.rmtree(args.runs / point.matrix)


if __name__ == "__main__":
    main()
