# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Make a table of the atlas from run directories.

    .venv/bin/python tools/atlas_table.py RUNS [--table NAME] [-o FILE] [--keep]

RUNS is a folder of run directories (`l4sbench run atlas --dir RUNS`). The latest run of each matrix counts,
with all trials that have ended, also while it goes on; a cell with a failed trial counts as not run, as that
is a failure of the machine and the next run repeats it. The table is that of pairs of flows, or by `--table
atlas-alone` that of lone flows, and the default FILE is the one that ships. With --keep a row of FILE stays
unless RUNS has as many trials of its cell, or has some of now where the row is old, so a run may be deleted
once FILE has it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.app import api
from l4sbench.app.atlas import (
    MEASURED,
    PAIRS,
    TABLES,
    AtlasCell,
    AtlasColumn,
    AtlasInterval,
    AtlasSources,
    digest_of,
    read_atlas,
    shipped,
    write_atlas,
)
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.app.stored import StoredRun
from l4sbench.catalog import Catalog
from l4sbench.facts.events import Status
from l4sbench.program.uses import Uses, modules
from l4sbench.store import RunLocked
from reports.result.measured import Measurements

if TYPE_CHECKING:
    from l4sbench.app.prepare import Prepared
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import Identity
    from reports.result.load import RunTables
    from reports.result.measured import MeasuredCell
    from reports.result.stats import Estimate
    from reports.result.verdicts import JudgedCell

_MOST_BDP = 8.0
_GROUPS = ("l4s", "classic")


@dataclass(frozen=True)
class _Software:
    """The kernel and the modules of trials, and the files that make them now."""

    prepared: Prepared
    now: Identity

    def digest(self, cell: Cell, common: Mapping[str, str], own: Mapping[str, str]) -> str:
        """Return the digest of the kernel and of the modules that a cell loads."""
        used = Uses.of(cell, self.prepared.traits).entries(self.prepared.matrix.catalog)
        return digest_of([common["kernel"], *(own.get(name, "") for name in sorted(modules(used)))])

    def of_now(self, cell: Cell) -> str:
        """Return the digest that a trial of a cell would have now."""
        return self.digest(cell, self.now.common, self.now.modules)


def _blank(name: str, cell: Cell) -> AtlasCell:
    return AtlasCell(
        matrix=name,
        cell=cell.id,
        column=AtlasColumn.of(cell),
        rate_mbps=cell.rate.mbps,
        rtt_ms=cell.rtt.ms,
        buffer_bdp=cell.buffer_bdp,
        buffer_to_bdp=cell.buffer_bdp,
        duration_s=cell.duration.s,
        warmup_s=cell.warmup.s,
    )


def _interval(of: Estimate | None) -> AtlasInterval | None:
    return None if of is None else AtlasInterval(of.value, of.low, of.high)


def _goodputs_mbps(tables: RunTables, group: str) -> dict[str, tuple[float, ...]]:
    """Return the goodputs of a group in the valid trials of every cell that has any, in their order."""
    valid = tables.valid.select("cell", "trial")
    own = tables.totals(group, "goodput_mbps").join(valid, on=["cell", "trial"]).sort("trial")
    return {cell: tuple(mbps) for cell, mbps in own.group_by("cell").agg("mbps").iter_rows()}


def _filled(blank: AtlasCell, judged: JudgedCell, each_mbps: Sequence[Sequence[float]]) -> AtlasCell:
    result = judged.result
    both = result.l4s.goodput, result.classic.goodput
    used = None if None in both else sum(100 * one.value / blank.rate_mbps for one in both if one)
    l4s, classic = (tuple(100 * mbps / blank.rate_mbps for mbps in own_mbps) for own_mbps in each_mbps)
    return replace(
        blank,
        trials=result.valid,
        left_out=result.left_out,
        verdict=judged.word.value,
        sure=judged.sure,
        l4s_percent=_interval(result.share),
        classic_percent=_interval(both[1] and both[1].percent_of(blank.rate_mbps)),
        l4s_each_percent=l4s,
        classic_each_percent=classic,
        l4s_delay_ms=_interval(result.l4s.delay),
        classic_delay_ms=_interval(result.classic.delay),
        utilisation_percent=None if used is None else AtlasInterval(used),
    )


def _filled_alone(blank: AtlasCell, measured: MeasuredCell, each_mbps: Sequence[float]) -> AtlasCell:
    (flow,) = measured.groups
    return replace(
        blank,
        trials=measured.valid,
        left_out=measured.left_out,
        verdict=MEASURED,
        classic_percent=_interval(flow.share),
        classic_each_percent=tuple(100 * mbps / blank.rate_mbps for mbps in each_mbps),
        classic_delay_ms=_interval(flow.delay),
        utilisation_percent=_interval(flow.share),
    )


def _results(stored: StoredRun, blanks: Mapping[str, AtlasCell]) -> dict[str, AtlasCell]:
    """Return the rows of a run's cells that have trials, without what made them."""
    result, tables = stored.result(), stored.tables()
    l4s, classic = (_goodputs_mbps(tables, group) for group in _GROUPS)
    if isinstance(result, Measurements):
        return {
            one.id: _filled_alone(blanks[one.id], one, classic.get(one.id, ()))
            for one in result.cells
            if one.id in blanks
        }
    return {
        one.id: _filled(blanks[one.id], one, [own.get(one.id, ()) for own in (l4s, classic)])
        for entry in result.verdicts
        for one in entry.cells
        if one.id in blanks
    }


def _collected(run: Path, folder: Path) -> Path:
    """Return where the tables of all ended trials are: in the run, or in `folder` while the run goes on."""
    try:
        api.collect(run)
    except RunLocked:
        api.collect(run, into=folder)
        return folder
    return run


def _rows(name: str, runs: Path) -> Iterator[AtlasCell]:
    """Yield the rows of one matrix."""
    prepared = prepare(name, (), RunOptions(runs=runs))
    software = _Software(prepared, prepared.open_testbed(contact=False).identity())
    cells = {cell.id: cell for cell in prepared.matrix.asked}
    blanks = {cell.id: _blank(name, cell) for cell in cells.values()}
    run = prepared.latest
    if run is None:
        yield from blanks.values()
        return
    with tempfile.TemporaryDirectory() as folder:
        results = _results(StoredRun(_collected(run.path, Path(folder)), prepared.whole), blanks)
    # read after the tables, so that the software of each of their trials is known
    made: dict[str, set[str]] = defaultdict(set)
    wires: dict[str, set[str]] = defaultdict(set)
    cost_s: dict[str, float] = defaultdict(float)
    failed: set[str] = set()
    for ending in run.endings(cells):
        if ending.status is Status.FAILED:
            failed.add(ending.cell_id)
        found = json.loads((ending.raw.parent / "trial.json").read_bytes())["identity"]
        made[ending.cell_id].add(software.digest(cells[ending.cell_id], found["common"], found["modules"]))
        wires[ending.cell_id].add(found["common"]["wire"])
        cost_s[ending.cell_id] += ending.wall_s
    sources = AtlasSources(prepared.matrix.catalog)
    for cell_id, blank in blanks.items():
        if cell_id not in results or cell_id in failed:
            yield blank
            continue
        current = made[cell_id] == {software.of_now(cells[cell_id])}
        current = current and wires[cell_id] == {software.now.common["wire"]}
        yield replace(
            results[cell_id],
            cost_s=cost_s[cell_id],
            made_by="+".join(sorted(made[cell_id])),
            sources=sources.of(blank.column) if current else "",
            wire=sources.wire if current else "",
        )


def _with_larger_buffers(rows: list[AtlasCell]) -> list[AtlasCell]:
    """Return rows of which those with the largest buffer of a point hold for all larger ones of the plane."""
    largest: dict[tuple[AtlasColumn, float, float], float] = {}
    for row in rows:
        point = (row.column, row.rate_mbps, row.rtt_ms)
        largest[point] = max(largest.get(point, 0.0), row.buffer_bdp)
    return [
        replace(row, buffer_to_bdp=_MOST_BDP)
        if row.buffer_bdp == largest[row.column, row.rate_mbps, row.rtt_ms]
        else row
        for row in rows
    ]


def _with_kept(
    rows: Sequence[AtlasCell], kept: Iterable[AtlasCell], sources: AtlasSources
) -> list[AtlasCell]:
    """Return rows, of which those that are worth less than a kept row of their cell are that row.

    A row of now is worth more than an old one, however many trials that has; else trials count.
    """

    def worth(row: AtlasCell) -> tuple[bool, int]:
        return sources.made(row), row.trials + row.left_out

    known = {(row.matrix, row.cell): row for row in kept}
    return [
        old if (old := known.get((row.matrix, row.cell))) and worth(old) > worth(row) else row for row in rows
    ]


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=Path)
    parser.add_argument("--table", choices=TABLES, default=PAIRS)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    output = args.output or shipped(args.table)
    rows: list[AtlasCell] = []
    for name in TABLES[args.table]:
        rows += _rows(name, args.runs)
    sources = AtlasSources(Catalog.load())
    if args.keep:
        rows = _with_kept(rows, read_atlas(output), sources)
    rows = _with_larger_buffers(rows)
    write_atlas(rows, output)
    ran = [row for row in rows if row.verdict]
    old = sum(not sources.made(row) for row in ran)
    trials, left_out = sum(row.trials for row in ran), sum(row.left_out for row in ran)
    print(
        f"{output}: {len(ran)} of {len(rows)} cells, {old} of them old; {trials} valid trials and "
        f"{left_out} others, {sum(row.cost_s for row in ran) / 3600:.2f} h; "
        f"{output.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
