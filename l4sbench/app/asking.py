# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Answers from the table of the atlas, without a lab.

A question is a point of the plane of rate, round-trip time and buffer, behind one queue and against one
competitor. Its neighbours are the corners of the smallest box of measured values around it. Those that are
decided must have the same verdict, and at most a quarter may be undecided; else the answer is "not known".
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from l4sbench.app.atlas import (
    ALONE,
    NOT_RUN,
    UNDECIDED,
    AtlasCell,
    AtlasColumn,
    AtlasInterval,
    AtlasSources,
    read_columns,
    shipped,
)
from l4sbench.app.question import AtlasQuestion, stated_by
from l4sbench.app.ranking import Ranking, ranking
from l4sbench.errors import InputError, suggest
from l4sbench.printable import html_text
from l4sbench.text.units import Duration, Rate

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.catalog import Catalog

NOT_KNOWN: Final = "not known"
OK: Final = "ok"
_MOST_UNDECIDED: Final = 0.25
"""Share of the cells around a question that may be undecided; chosen on 120 cells drawn with seed 11."""
_OPEN: Final = (UNDECIDED, "invalid", NOT_RUN)


@dataclass(frozen=True)
class Instead:
    """The smallest change of queue or buffer with which the answer is ok."""

    question: AtlasQuestion
    changes: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.changes)


@dataclass(frozen=True)
class AtlasAnswer:
    """The answer to a question.

    Attributes:
        question: The question.
        word: The verdict, or `NOT_KNOWN`.
        why: The reason, in words.
        sure: True if the confidence intervals of all neighbours give the verdict.
        neighbours: The cells around the question, the nearest first.
        distance: The factor between question and nearest cell, in rate, RTT and buffer together; 1 on a cell.
        old: True if a kernel, modules or a wire other than those of this version made some neighbours.
        instead: What to set instead where the answer is not ok.
    """

    question: AtlasQuestion
    word: str
    why: str
    sure: bool = False
    neighbours: tuple[AtlasCell, ...] = ()
    distance: float = 1.0
    old: bool = False
    instead: Instead | None = None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return f"{self.word}{self.reason}"

    @property
    def reason(self) -> str:
        """The rest of the sentence after its word: how sure it is, and why."""
        sure = "sure" if self.sure else "not sure"
        return f": {self.why}" if self.word == NOT_KNOWN else f" ({sure}): {self.why}"

    def compared(self, measured: str) -> str:
        """Return in words whether the verdict that was measured at the question bears the answer out."""
        if self.word == NOT_KNOWN:
            return "the table did not know"
        if measured in _OPEN:
            return f"the lab leaves it open; the table has {self.word}"
        return "the table was right" if self.word == measured else f"the table was wrong: it has {self.word}"

    def __repr__(self) -> str:
        return f"<Answer {self.question}: {self.sentence}>"

    def _repr_html_(self) -> str:
        """Return the answer for a notebook."""
        return html_text(
            str(self.question), self.sentence, f"set this instead: {self.instead}" if self.instead else ""
        )


@dataclass(frozen=True)
class _Plane:
    """The cells of a column."""

    rows: tuple[AtlasCell, ...]

    @cached_property
    def grids(self) -> tuple[list[float], list[float], list[float]]:
        """The values of rate, round-trip time and buffer that cells have."""
        return (
            sorted({row.rate_mbps for row in self.rows}),
            sorted({row.rtt_ms for row in self.rows}),
            sorted({row.buffer_bdp for row in self.rows}),
        )

    @cached_property
    def _points(self) -> dict[tuple[float, float], list[AtlasCell]]:
        found: dict[tuple[float, float], list[AtlasCell]] = {}
        for row in self.rows:
            found.setdefault((row.rate_mbps, row.rtt_ms), []).append(row)
        return found

    def at(self, rate_mbps: float, rtt_ms: float, buffer_bdp: float) -> AtlasCell | None:
        """Return the cell of a point, or that of a smaller buffer which holds for it; None without one."""
        rows = self._points.get((rate_mbps, rtt_ms), [])
        own = (row for row in rows if row.buffer_bdp == buffer_bdp)
        wider = (row for row in rows if row.holds_at(buffer_bdp))
        return next(own, None) or next(wider, None)

    def around(self, question: AtlasQuestion) -> tuple[tuple[AtlasCell, ...], str]:
        """Return the cells around a question, nearest first, and why it is outside of the plane, if it is."""
        place = (question.rate.mbps, question.rtt.ms, question.buffer_bdp)
        box: list[list[float]] = []
        for name, value, grid in zip(_AXES, place, self.grids, strict=True):
            if not grid[0] <= value <= grid[-1]:
                ends = f"{grid[0]:g} to {grid[-1]:g} {_UNITS[name]}"
                return (), f"{name} {value:g} {_UNITS[name]} is outside of {ends}"
            box.append(_around(value, grid))
        corners = [self.at(*corner) for corner in itertools.product(*box)]
        found = {row: _distance(question, row) for row in corners if row is not None}
        lacking = corners.count(None)
        if not found:
            why = "no buffer of this size near this point holds two packets, so the atlas leaves it out"
        else:
            why = f"neighbouring cells whose buffer holds less than two packets: {lacking} of {len(corners)}"
        return tuple(sorted(found, key=lambda row: found[row])), why if lacking else ""


@dataclass(frozen=True)
class Atlas:
    """The table, with what finds cells in it.

    Attributes:
        columns: Its rows by queue and flows; a row that is not asked for need not be made.
        catalog: The queues and congestion controls that questions name.
        alone: Rows of lone flows, by queue and flow; None stands for those that ship.
    """

    columns: Mapping[AtlasColumn, Sequence[AtlasCell]]
    catalog: Catalog
    alone: Mapping[AtlasColumn, Sequence[AtlasCell]] | None = None

    @classmethod
    def load(cls, file: Path | None = None) -> Self:
        """Return the table in a file, by default the one that ships.

        Raises:
            InputError: the file is missing or damaged, or it has no cells.
        """
        from l4sbench.catalog import Catalog

        file = file or shipped()
        if not (columns := read_columns(file)):
            raise InputError(f"{file} is a table of the atlas without cells")
        return cls(columns, Catalog.load())

    @cached_property
    def cells(self) -> tuple[AtlasCell, ...]:
        """All cells, column by column."""
        return tuple(itertools.chain.from_iterable(self.columns.values()))

    @property
    def usual(self) -> AtlasColumn:
        """The column whose flows a question means that states none: the first."""
        return next(iter(self.columns))

    @cached_property
    def current(self) -> tuple[AtlasCell, ...]:
        """The cells with trials that the kernel, the modules and the wire of now made."""
        return tuple(filter(self._sources.made, self.cells))

    @property
    def competitors(self) -> tuple[str, ...]:
        """The congestion controls that the usual one competes with, the usual one first."""
        usual = self.usual.l4s
        return tuple(dict.fromkeys(column.classic for column in self.columns if column.l4s == usual))

    def ask(self, *words: str) -> AtlasAnswer:
        """Answer a question (`AtlasQuestion.parse`).

        Raises:
            InputError: it is not valid, or the table has no such queue or competitor.
        """
        return self.answer(AtlasQuestion.parse(words, self.catalog, self.columns))

    def answer(self, question: AtlasQuestion) -> AtlasAnswer:
        """Answer a question, and find what to set instead.

        Raises:
            InputError: the table has no such queue or competitor.
        """
        self._require(question.column)
        found = self._judged(question)
        if found.word == OK:
            return found
        return replace(found, instead=self._instead(question))

    def ranking(self, *words: str) -> Ranking:
        """Rank the congestion controls over all cells that are not old, or over those of the queue stated.

        Raises:
            InputError: the table has no such queue, or the words state more.
        """
        stated = stated_by(words, self.catalog)
        if stated.keys() - {"aqm"}:
            raise InputError("--ranking takes no question, but a queue", "for example `--ranking aqm=fifo`")
        wanted = self.catalog.queue_name(stated["aqm"]) if stated else None
        queues = list(dict.fromkeys(column.aqm for column in self.columns))
        if wanted is not None and wanted not in queues:
            raise InputError(f"the atlas has no queue {wanted}", suggest(wanted, queues))
        return ranking(self.current, wanted)

    def page(self) -> str:
        """Return the page of the whole table, with what to set instead at each cell that is not ok."""
        from reports.page import AtlasNames, MapCell, atlas_page

        queues = {name: queue.label for name, queue in self.catalog.queues.items()}
        ccs = {name: cc.label for name, cc in self.catalog.congestion_controls.items()}
        return atlas_page(
            [MapCell(row, self._is_old(row), self._advice(row), self.harm(row)) for row in self.cells],
            AtlasNames(queues, ccs),
            self.ranking(),
        )

    def map(self, form: str) -> bytes:
        """Return the map of rate and RTT, of the flows that a question means which states none.

        A panel is a family of queues against one competitor. Rows that are old do not count.

        Args:
            form: One of `svg`, `png` and `pdf`.

        Raises:
            InputError: the table has fewer than two rates or round-trip times with trials.
        """
        from reports.figures import PlaneCell, plane_map, render, specification
        from reports.result.judging import Word
        from reports.result.rules import load_rule

        rule, queues, ccs = load_rule(_RULE), self.catalog.queues, self.catalog.congestion_controls
        flows = replace(self.usual, aqm="", classic="")
        rows = [row for row in self.current if replace(row.column, aqm="", classic="") == flows]
        cells = [
            PlaneCell(
                rule.row_of(row.column.aqm, queues[row.column.aqm].family),
                ccs[row.column.classic].label,
                row.rate_mbps,
                row.rtt_ms,
                Word(row.verdict),
            )
            for row in rows
        ]
        chart = plane_map(cells, sum(row.trials for row in rows), rule.rule)
        return render(specification(chart), form)

    def _advice(self, row: AtlasCell) -> dict[float, str]:
        """Return what to set instead, by the buffers of the plane for which a row holds."""
        if row.verdict in (NOT_RUN, OK):
            return {}
        place = Rate.of_mbps(row.rate_mbps), Duration.of_ms(row.rtt_ms)
        sizes = filter(row.holds_at, self._buffers)
        found = {size: self._instead(AtlasQuestion(*place, size, row.column)) for size in sizes}
        return {size: str(instead) for size, instead in found.items() if instead is not None}

    @cached_property
    def _buffers(self) -> list[float]:
        return sorted({row.buffer_bdp for row in self.cells})

    def harm(self, row: AtlasCell) -> AtlasInterval | None:
        """Return the harm to the competitor of a cell: how much of its goodput alone it lacks, in percent.

        Negative harm is gain. The interval holds with a confidence of at least 90 %, as those of both
        goodputs have 95 %. None where a lone flow has not run, or by another kernel, modules or wire.
        """
        from reports.result.stats import harm_interval, harm_to_goodput

        plane = self._alone.get(replace(row.column, l4s="", min_qlen_step=None))
        alone = plane and plane.at(row.rate_mbps, row.rtt_ms, row.buffer_bdp)
        solo, beside = alone and alone.classic_percent, row.classic_percent
        if not solo or not beside or (harm := harm_to_goodput(solo.mean, beside.mean)) is None:
            return None
        if not solo.ends or not beside.ends:
            return AtlasInterval(100 * harm)
        low, high = harm_interval(solo.ends, beside.ends)
        return AtlasInterval(100 * harm, None if low is None else 100 * low, 100 * high)

    @cached_property
    def _alone(self) -> dict[AtlasColumn, _Plane]:
        columns = read_columns(shipped(ALONE)) if self.alone is None else self.alone
        return {column: _Plane(tuple(filter(self._sources.made, rows))) for column, rows in columns.items()}

    def _is_old(self, row: AtlasCell) -> bool:
        return row.verdict != NOT_RUN and not self._sources.made(row)

    def timing(self, question: AtlasQuestion) -> AtlasCell:
        """Return a cell with the duration and the warm-up for the question's round-trip time."""
        rows = self.columns[question.column]
        longer = [row for row in rows if row.rtt_ms >= question.rtt.ms]
        return min(longer, key=lambda row: row.rtt_ms) if longer else max(rows, key=lambda row: row.rtt_ms)

    def _plane(self, column: AtlasColumn) -> _Plane:
        if column not in self._planes:
            self._planes[column] = _Plane(tuple(self.columns[column]))
        return self._planes[column]

    @cached_property
    def _planes(self) -> dict[AtlasColumn, _Plane]:
        return {}

    def _require(self, column: AtlasColumn) -> None:
        """Raise InputError if the table has no such column; name the first part that it lacks."""
        known = list(self.columns)
        for one in fields(AtlasColumn):
            asked = getattr(column, one.name)
            offered = list(dict.fromkeys(getattr(of, one.name) for of in known))
            if asked not in offered:
                unit = "p" if one.name == "min_qlen_step" else ""
                hint = suggest(str(asked), [f"{value}{unit}" for value in offered if value is not None])
                if one.name == "classic_ecn" and not self.catalog.queue(column.aqm).marks:
                    hint = f"leave it out: {column.aqm} marks nothing, so ECN changes nothing"
                raise InputError(
                    f"the atlas has no {_CALLED[one.name]} {asked}{unit}" + _besides(column, one.name), hint
                )
            known = [of for of in known if getattr(of, one.name) == asked]

    def covers(self, question: AtlasQuestion) -> bool:
        """Return True if the question is within the plane of its queue and flows, run or not."""
        return question.column in self.columns and not self._plane(question.column).around(question)[1]

    def _judged(self, question: AtlasQuestion) -> AtlasAnswer:
        found, why = self._plane(question.column).around(question)
        known = AtlasAnswer(question, NOT_KNOWN, why, neighbours=found)
        if found:
            known = replace(known, distance=_distance(question, found[0]), old=any(map(self._is_old, found)))
        return known if why else _agreed(known)

    @cached_property
    def _sources(self) -> AtlasSources:
        return AtlasSources(self.catalog)

    def _instead(self, question: AtlasQuestion) -> Instead | None:
        """Return the smallest change with which the answer is ok: of buffer, of parameter, of queue.

        Of changes that are as small, the one counts that leaves the flow that gets less the most.
        """
        own = question.column
        columns = [
            column
            for column in self.columns
            if (column.l4s, column.classic, column.classic_ecn) == (own.l4s, own.classic, own.classic_ecn)
        ]
        sizes = {question.buffer_bdp, *(size for column in columns for size in self._plane(column).grids[2])}

        def effort(changed: AtlasQuestion) -> tuple[bool, bool, float]:
            column = changed.column
            ratio = abs(math.log(changed.buffer_bdp / question.buffer_bdp))
            return column.aqm != own.aqm, column.min_qlen_step != own.min_qlen_step, ratio

        candidates = [
            replace(question, column=column, buffer_bdp=size) for column in columns for size in sizes
        ]
        for _, alike in itertools.groupby(sorted(candidates, key=effort), effort):
            found = [judged for judged in map(self._judged, alike) if judged.word == OK]
            if found:
                best = max(found, key=_least_percent).question
                return Instead(best, tuple(_changes(question, best)))
        return None


def _least_percent(of: AtlasAnswer) -> float:
    """Return the least share of the link, in percent, that a flow surely has in neighbouring cells."""
    sides = (side for row in of.neighbours for side in (row.l4s_percent, row.classic_percent))
    return min((side.low or 0.0 for side in sides if side is not None), default=0.0)


def _agreed(known: AtlasAnswer) -> AtlasAnswer:
    """Return the answer with the verdict of its neighbours, of which `_MOST_UNDECIDED` may be undecided."""
    found = known.neighbours
    words = {row.verdict for row in found}
    trials = sum(row.trials for row in found)
    if len(found) == 1:
        (word,) = words
        if word in _OPEN:
            return replace(known, why=f"the cell is {word or _NOT_YET}")
        return replace(known, word=word, why=f"the cell was measured ({trials} trials)", sure=found[0].sure)
    of = f"{len(found)} neighbouring cells"
    number = Counter(row.verdict for row in found)
    for word in reversed(_OPEN):
        most = len(found) * _MOST_UNDECIDED if word == UNDECIDED else 0
        if number[word] > most:
            return replace(
                known, why=f"neighbouring cells that are {word or _NOT_YET}: {number[word]} of {len(found)}"
            )
    decided = words - {UNDECIDED}
    if len(decided) > 1:
        return replace(known, why=f"{of} disagree: {', '.join(sorted(decided))}")
    if undecided := number[UNDECIDED]:
        why = f"{len(found) - undecided} of {of} agree, the others are undecided ({trials} trials)"
    else:
        why = f"all {of} agree ({trials} trials)"
    return replace(known, word=decided.pop(), why=why, sure=not undecided and all(row.sure for row in found))


_NOT_YET: Final = "not run yet"
_RULE: Final = "l4sbench1"
"""The rule of the matrices whose cells are in the table."""
_AXES: Final = ("rate", "rtt", "buffer")
_UNITS: Final = {"rate": "Mbit/s", "rtt": "ms", "buffer": "BDP"}
_CALLED: Final = {
    "aqm": "queue",
    "min_qlen_step": "min_qlen_step",
    "l4s": "switch to",
    "classic": "competitor",
    "classic_ecn": "competitor with ECN",
}


def _besides(column: AtlasColumn, name: str) -> str:
    return "" if name == "aqm" else f" behind {column.aqm}"


def _around(value: float, grid: Sequence[float]) -> list[float]:
    """Return the value itself where it is on the grid, else the values of the grid below and above it."""
    for one in grid:
        if math.isclose(one, value, rel_tol=1e-6):
            return [one]
    return [max(one for one in grid if one < value), min(one for one in grid if one > value)]


def _distance(question: AtlasQuestion, row: AtlasCell) -> float:
    """Return the product of the factors between a question and a cell."""
    size = question.buffer_bdp
    nearest = min(max(size, row.buffer_bdp), row.buffer_to_bdp)
    pairs = ((question.rate.mbps, row.rate_mbps), (question.rtt.ms, row.rtt_ms), (size, nearest))
    return math.prod(max(one / other, other / one) for one, other in pairs)


def _changes(old: AtlasQuestion, new: AtlasQuestion) -> Iterator[str]:
    if new.column.aqm != old.column.aqm:
        yield f"aqm={new.column.aqm}"
    step = new.column.min_qlen_step
    other = new.column.aqm != old.column.aqm and step is None  # another queue need not have this parameter
    if step != old.column.min_qlen_step and not other:
        yield f"aqm.min_qlen_step={'default' if step is None else f'{step}p'}"
    if new.buffer_bdp != old.buffer_bdp:
        yield f"buffer_bdp={new.buffer_bdp:g}"
