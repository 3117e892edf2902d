# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Print how many cells of the atlas are okay, by queue and competitor, as a table for a document.

    .venv/bin/python tools/atlas_counts.py [--rate LOW HIGH] [--rtt LOW HIGH] [--buffer LOW HIGH]

An entry has the cells that are okay, of those with a verdict, and after `▼`, `▲` and `◆` those in which the
flow that switches, its competitor, or either is starved. Rows that are old and cells that have not run do not
count. Buffers are in bandwidth-delay products.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from typing import TYPE_CHECKING

from l4sbench.app.asking import Atlas
from l4sbench.text.units import Duration, Rate
from reports.render.words import GLYPHS
from reports.result.judging import Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from l4sbench.app.atlas import AtlasCell

_STARVED = (Word.L4S_STARVED, Word.CLASSIC_STARVED, Word.BOTH)


def _entry(cells: Iterable[AtlasCell]) -> str:
    words = Counter(Word(cell.verdict) for cell in cells)
    decided = words[Word.OK] + sum(words[word] for word in _STARVED)
    others = [f"{GLYPHS[word]}{words[word]}" for word in _STARVED if words[word]]
    open_ = words.total() - decided
    text = f"{words[Word.OK]} of {decided}" + (f" ({', '.join(others)})" if others else "")
    return text + (f", {open_} undecided" if open_ else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", nargs=2, type=Rate.parse, default=(Rate(0), Rate(10**12)))
    parser.add_argument("--rtt", nargs=2, type=Duration.parse, default=(Duration(0), Duration(10**12)))
    parser.add_argument("--buffer", nargs=2, type=float, default=(0, math.inf))
    args = parser.parse_args()
    atlas = Atlas.load()
    (low, high), (near, far), (least, most) = args.rate, args.rtt, args.buffer
    cells = [
        cell
        for cell in atlas.current
        if low.mbps <= cell.rate_mbps <= high.mbps
        and near.ms <= cell.rtt_ms <= far.ms
        and least <= cell.buffer_bdp <= most
    ]
    queues, ccs = atlas.catalog.queues, atlas.catalog.congestion_controls
    places: dict[tuple[str, str], list[AtlasCell]] = {}
    for cell in cells:
        own = cell.column
        step = "" if own.min_qlen_step is None else f", `min_qlen_step {own.min_qlen_step}`"
        ecn = "" if own.classic_ecn in ("off", ccs[own.classic].ecn_default) else f", ECN {own.classic_ecn}"
        pair = f"{ccs[own.l4s].label} beside {ccs[own.classic].label}{ecn}"
        places.setdefault((queues[own.aqm].label + step, pair), []).append(cell)
    rows = list(dict.fromkeys(row for row, _ in places))
    columns = list(dict.fromkeys(column for _, column in places))
    print(f"| queue | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for row in rows:
        entries = [_entry(places[row, column]) if (row, column) in places else "" for column in columns]
        print(f"| {row} | {' | '.join(entries)} |")
    trials, others = sum(cell.trials for cell in cells), sum(cell.left_out for cell in cells)
    print(f"\n{len(cells)} cells, {trials} valid trials and {others} others")


if __name__ == "__main__":
    main()
