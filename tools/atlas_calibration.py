# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ask the atlas at random places off its grid, run these cells, and count how often its answer was right.

    .venv/bin/python tools/atlas_calibration.py draw FILE --seed N [--rate LOW HIGH] [--rtt LOW HIGH]
    l4sbench run FILE --dir RUNS
    .venv/bin/python tools/atlas_calibration.py score FILE RUNS

Rate, round-trip time and buffer are drawn evenly by their logarithms within the plane of the table, or within
the limits given, and queue and flows evenly among its columns. FILE is a matrix of these cells. The answers
are those of the table that ships when they are scored.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from l4sbench.app.asking import NOT_KNOWN, OK, Atlas, AtlasAnswer
from l4sbench.app.atlas import UNDECIDED
from l4sbench.app.prepare import RunOptions, prepare
from l4sbench.app.question import AtlasQuestion, factors_of
from l4sbench.app.stored import StoredRun
from l4sbench.text.units import Duration, Rate

_HEAD: Final = """\
matrix: {name}
description: Cells off the grid of the atlas, drawn with seed {seed}, to test what it answers.
topology: line6
trials: {{min: 3, max: 10, until: decided}}
rule: l4sbench1
flows: {{l4s: {{cc: prague}}, classic: {{}}}}
include:
"""


@dataclass(frozen=True)
class _Limits:
    """The ends of a quantity between which places are drawn."""

    low: float
    high: float

    def draw(self, random_: random.Random) -> float:
        """Return a value, evenly by its logarithm, of three digits."""
        value = math.exp(random_.uniform(math.log(self.low), math.log(self.high)))
        return float(f"{value:.3g}")


def _drawn(atlas: Atlas, random_: random.Random, rate: _Limits, rtt: _Limits) -> Iterator[AtlasQuestion]:
    """Yield questions within the plane without end."""
    columns = sorted(atlas.columns, key=str)
    while True:
        place = Rate.of_mbps(rate.draw(random_)), Duration.of_ms(rtt.draw(random_))
        question = AtlasQuestion(*place, _Limits(0.5, 8).draw(random_), random_.choice(columns))
        if atlas.covers(question):
            yield question


def _draw(args: argparse.Namespace) -> None:
    atlas, file = Atlas.load(), Path(args.file)
    rates, rtts = ([getattr(row, name) for row in atlas.cells] for name in ("rate_mbps", "rtt_ms"))
    rate = _Limits(*([one.mbps for one in args.rate] or (min(rates), max(rates))))
    rtt = _Limits(*([one.ms for one in args.rtt] or (min(rtts), max(rtts))))
    drawn = _drawn(atlas, random.Random(args.seed), rate, rtt)  # noqa: S311  (no secrets)
    questions = itertools.islice(drawn, args.cells)
    entries = [f"  - {json.dumps(factors_of(one, atlas.timing(one)))}\n" for one in questions]
    file.write_text(_HEAD.format(name=file.stem, seed=args.seed) + "".join(entries), encoding="utf-8")


def _answers(file: Path, runs: Path, atlas: Atlas) -> Iterator[tuple[AtlasAnswer, str]]:
    """Yield the answer at each cell that has a verdict, and that verdict."""
    prepared = prepare(str(file), (), RunOptions(runs=runs))
    if prepared.latest is None:
        raise SystemExit(f"{file} has no run below {runs}; run it first")
    decision = StoredRun(prepared.latest.path, prepared.whole).decide()
    judged = {cell.id: cell.word.value for entry in decision.verdicts for cell in entry.cells}
    for cell in prepared.matrix.asked:
        if (word := judged.get(cell.id)) is not None:
            yield atlas.answer(AtlasQuestion.of(cell)), word


def _interval(number: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share (E. B. Wilson, JASA 22, 1927)."""
    if not of:
        return 0.0, 1.0
    share, z = number / of, 1.96
    middle = share + z**2 / (2 * of)
    reach = z * math.sqrt(share * (1 - share) / of + z**2 / (4 * of**2))
    return (middle - reach) / (1 + z**2 / of), (middle + reach) / (1 + z**2 / of)


def _score(args: argparse.Namespace) -> None:
    found = list(_answers(Path(args.file), args.runs, Atlas.load()))
    pairs = Counter((answer.word, word) for answer, word in found)
    for (answer, word), number in sorted(pairs.items()):
        print(f"{number:4} answered {answer}, were {word}")
    own = [word for answer, word in found if answer.word == OK]
    print(f"{len(found)} cells")
    for what, number, of in (
        ("answered ok and were ok", own.count(OK), len(own)),
        ("the same, without those that stay undecided", own.count(OK), len(own) - own.count(UNDECIDED)),
        ("not known", sum(answer.word == NOT_KNOWN for answer, _ in found), len(found)),
    ):
        low, high = _interval(number, of)
        print(f"{what}: {number} of {of}, {low:.1%} to {high:.1%}")
    for why, number in Counter(answer.why for answer, _ in found if answer.word == NOT_KNOWN).most_common(10):
        print(f"{number:4} not known: {why}")


def main() -> None:
    """Draw cells, or score the answers at those that have run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    draw = commands.add_parser("draw")
    draw.add_argument("file", metavar="FILE")
    draw.add_argument("--seed", type=int, required=True)
    draw.add_argument("--cells", type=int, default=300)
    draw.add_argument("--rate", nargs=2, type=Rate.parse, default=(), metavar=("LOW", "HIGH"))
    draw.add_argument("--rtt", nargs=2, type=Duration.parse, default=(), metavar=("LOW", "HIGH"))
    draw.set_defaults(does=_draw)
    score = commands.add_parser("score")
    score.add_argument("file", metavar="FILE")
    score.add_argument("runs", metavar="RUNS", type=Path)
    score.set_defaults(does=_score)
    args = parser.parse_args()
    args.does(args)


if __name__ == "__main__":
    main()
