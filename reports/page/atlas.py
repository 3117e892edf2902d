# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The page of the atlas: a map of rate by round-trip time for each queue, buffer and competitor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from l4sbench.text.units import Duration, Rate
from reports.page.page import as_script_data
from reports.page.sheet import sheet
from reports.render.words import GLYPHS
from reports.result.judging import Word

if TYPE_CHECKING:
    from l4sbench.app.atlas import AtlasCell, AtlasColumn, AtlasInterval
    from l4sbench.app.ranking import Ranking

_OPEN: Final = (Word.UNDECIDED, Word.INVALID)
_DIGITS: Final = 4


@dataclass(frozen=True)
class AtlasNames:
    """Labels of queues and of congestion controls by their names."""

    queues: Mapping[str, str]
    ccs: Mapping[str, str]


@dataclass(frozen=True)
class MapCell:
    """A cell of the map.

    Attributes:
        cell: The row of the table.
        old: True if a kernel, modules or a wire other than those of this version made it.
        instead: What to set instead where it is not ok, in words, by buffers for which the row holds; without
            those for which nothing is known.
        harm: Percent of its goodput alone that the competitor lacks; None where that is not known.
    """

    cell: AtlasCell
    old: bool = False
    instead: Mapping[float, str] = field(default_factory=dict)
    harm: AtlasInterval | None = None


@dataclass(frozen=True)
class _Flows:
    """Two flows in words, with the numbers of cells of each queue."""

    label: str
    queues: tuple[_Count, ...]


@dataclass(frozen=True)
class _Count:
    """Numbers of cells of a queue: those that are ok, those with a verdict, and all."""

    label: str
    ok: int
    decided: int
    cells: int


@dataclass(frozen=True)
class _Rank:
    """A congestion control in words, and percentages of a fair share; `beside` has one of each other one."""

    label: str
    leaves: str
    keeps: str
    beside: tuple[str, ...]


def atlas_page(cells: Sequence[MapCell], names: AtlasNames, ranking: Ranking) -> str:
    """Return the page as text; it loads nothing, and an address keeps what was chosen."""
    others = sorted({other for one in ranking.ranked for other in one.beside})
    ran = [one for one in cells if one.cell.verdict]
    columns: dict[AtlasColumn, list[MapCell]] = {}
    for one in cells:
        columns.setdefault(one.cell.column, []).append(one)
    return sheet(
        "atlas.html.j2",
        ("atlas.css",),
        ("base.js", "atlas.js"),
        data=as_script_data(_data(columns, names)),
        cells=len(cells),
        ran=len(ran),
        trials=sum(one.cell.trials for one in ran),
        left_out=sum(one.cell.left_out for one in ran),
        cost_h=sum(one.cell.cost_s for one in ran) / 3600,
        old=sum(one.old for one in ran),
        makers=sorted({one.cell.made_by for one in ran}),
        flows=_flows(columns, names),
        ranking=ranking,
        ranked_behind=", ".join(names.queues.get(name, name) for name in ranking.queues),
        beside=[_labelled(other.cc, other.ecn, names) for other in others],
        ranks=[
            _Rank(
                _labelled(one.contender.cc, one.contender.ecn, names),
                _percent(one.leaves_percent),
                _percent(one.keeps_percent),
                tuple(_percent(one.beside.get(other)) for other in others),
            )
            for one in ranking.ranked
        ],
    )


def _labelled(cc: str, ecn: str, names: AtlasNames) -> str:
    label = names.ccs.get(cc, cc)
    return label if ecn == "off" else f"{label} with ECN {ecn}"


def _percent(of: AtlasInterval | None) -> str:
    if of is None:
        return ""
    return f"{of.mean:.0f}" if of.low is None else f"{of.mean:.0f} ({of.low:.0f} to {of.high:.0f})"


def _flows(columns: Mapping[AtlasColumn, Sequence[MapCell]], names: AtlasNames) -> list[_Flows]:
    counts: dict[str, list[_Count]] = {}
    for column, cells in columns.items():
        counts.setdefault(_switch(column, names), []).append(_count(_queue(column, names), cells))
    return [_Flows(label, tuple(queues)) for label, queues in counts.items()]


def _count(label: str, cells: Sequence[MapCell]) -> _Count:
    decided = [one.cell for one in cells if one.cell.verdict and one.cell.verdict not in _OPEN]
    return _Count(label, sum(cell.verdict == Word.OK for cell in decided), len(decided), len(cells))


def _queue(column: AtlasColumn, names: AtlasNames) -> str:
    label = names.queues.get(column.aqm, column.aqm)
    return label if column.min_qlen_step is None else f"{label}, min_qlen_step {column.min_qlen_step}p"


def _switch(column: AtlasColumn, names: AtlasNames) -> str:
    other = _labelled(column.classic, column.classic_ecn, names)
    return f"{_labelled(column.l4s, 'off', names)} beside {other}"


def _data(columns: Mapping[AtlasColumn, Sequence[MapCell]], names: AtlasNames) -> dict[str, object]:
    """Return the cells for the script, by column; texts that many cells have are listed once."""
    cells = [one for own in columns.values() for one in own]
    instead = list(dict.fromkeys(text for one in cells for text in one.instead.values()))
    places = {text: place for place, text in enumerate(instead)}
    rates, rtts = _values(one.cell.rate_mbps for one in cells), _values(one.cell.rtt_ms for one in cells)
    return {
        "rates": [[mbps, str(Rate.of_mbps(mbps))] for mbps in rates],
        "rtts": [[ms, str(Duration.of_ms(ms))] for ms in rtts],
        "buffers": _values(one.cell.buffer_bdp for one in cells),
        "verdicts": {word.value: GLYPHS[word] for word in Word},
        "instead": instead,
        "columns": [_column(column, own, names, places) for column, own in columns.items()],
    }


def _column(
    column: AtlasColumn, cells: Iterable[MapCell], names: AtlasNames, places: Mapping[str, int]
) -> dict[str, object]:
    return {
        "aqm": column.aqm,
        "queue": _queue(column, names),
        "flows": _switch(column, names),
        "step": column.min_qlen_step,
        "to": column.l4s,
        "against": column.classic,
        "ecn": column.classic_ecn,
        "labels": [names.ccs.get(name, name) for name in (column.l4s, column.classic)],
        "cells": [_cell(one, places) for one in cells],
    }


def _cell(one: MapCell, places: Mapping[str, int]) -> list[object]:
    """Return the values of a cell in the order that the script names."""
    cell = one.cell
    where: list[object] = [cell.rate_mbps, cell.rtt_ms, cell.buffer_bdp, cell.buffer_to_bdp]
    if not cell.verdict:
        return where
    return [
        *where,
        cell.verdict,
        int(cell.sure),
        cell.trials,
        cell.left_out,
        int(one.old),
        [[buffer, places[text]] for buffer, text in one.instead.items()],
        _ends(cell.l4s_percent),
        _ends(cell.classic_percent),
        _ends(cell.l4s_delay_ms),
        _ends(cell.classic_delay_ms),
        _ends(cell.utilisation_percent),
        _ends(one.harm),
        [[_short(value) for value in each] for each in (cell.l4s_each_percent, cell.classic_each_percent)],
    ]


def _ends(of: AtlasInterval | None) -> list[float | None] | None:
    if of is None:
        return None
    return [None if end is None else _short(end) for end in (of.mean, of.low, of.high)]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _values(of: Iterable[float]) -> list[float]:
    return sorted(set(of))
