# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of the atlas: one row per cell of `matrices/atlas*.yaml`, whether it has run or not.

It is read without polars, whose import alone takes longer than an answer may.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from l4sbench.disk import assets
from l4sbench.disk.files import new_file
from l4sbench.errors import InputError
from l4sbench.text.units import Packets
from reports.result.judging import Word

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CongestionControl, Queue
    from l4sbench.facts.cell import Cell

PAIRS: Final = "atlas"
ALONE: Final = "atlas-alone"
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    PAIRS: ("atlas", "atlas-ecn", "atlas-step", "atlas-bbr"),
    ALONE: ("atlas-alone",),
}
"""The matrices whose cells are in a table, by the table's name: pairs of flows, and lone flows."""

NOT_RUN: Final = ""
"""The verdict of a cell without an ended trial."""

MEASURED: Final = "measured"
"""The verdict of a lone flow that has run: there is none."""

UNDECIDED: Final = "undecided"
"""The verdict of a cell whose trials do not settle the question."""

_DIGITS: Final = 12
_C: Final = (".c", ".h", "Kbuild")
_MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True)
class AtlasInterval:
    """A mean over the trials of a cell with the ends of its 95 % confidence interval, as far as known."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends, where both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class AtlasColumn:
    """Everything of a cell that is not its place on the plane: queue, and who meets whom.

    Attributes:
        aqm: The queue.
        min_qlen_step: DualPI2's parameter in packets; None where it is the queue's default.
        l4s: The congestion control that is switched to; empty for a lone flow.
        classic: The one it competes with, or the lone flow's.
        classic_ecn: How that one uses ECN.
    """

    aqm: str
    min_qlen_step: int | None
    l4s: str
    classic: str
    classic_ecn: str

    @classmethod
    def of(cls, cell: Cell) -> Self:
        """Return the column of a cell with the flow groups `l4s` and `classic`, or the latter alone."""
        step = cell.get("aqm.min_qlen_step")
        return cls(
            aqm=cell.aqm,
            min_qlen_step=step.count
            if isinstance(step, Packets) and "aqm.min_qlen_step" in cell.given
            else None,
            l4s=str(cell.get("l4s.cc") or ""),
            classic=str(cell.get("classic.cc")),
            classic_ecn=str(cell.get("classic.ecn")),
        )


@dataclass(frozen=True)
class AtlasCell:
    """One row of the table.

    Attributes:
        matrix: The matrix that has the cell.
        cell: The cell's id.
        column: Its queue and flows.
        rate_mbps: Rate of the link.
        rtt_ms: Round-trip time of the path.
        buffer_bdp: The queue's buffer.
        buffer_to_bdp: The largest buffer for which its result holds, too.
        duration_s: Length of a trial without its warm-up.
        warmup_s: Warm-up of a trial.
        trials: Number of valid trials.
        left_out: Number of invalid and failed ones.
        verdict: The verdict by the matrix's rule; `NOT_RUN` without a trial.
        sure: True if confidence intervals alone give the verdict.
        l4s_percent: Goodput of the flow that switches, in percent of the link's rate.
        classic_percent: Goodput of the other flow.
        l4s_each_percent: Goodput of the flow that switches in each valid trial, in the order of trials.
        classic_each_percent: Goodput of the other flow in the same trials.
        l4s_delay_ms: Smoothed RTT minus base RTT of the flow that switches.
        classic_delay_ms: That of the other flow.
        utilisation_percent: Goodput of both, in percent of the link's rate.
        cost_s: Wall-clock time of its trials.
        made_by: Digest of the kernel and the modules that ran.
        sources: Digest of the files that these were made from; empty if these files, or those of the lab's
            wire, were others when the row was made.
        wire: Digest of the files of the lab's wire; empty where it is not known.
    """

    matrix: str
    cell: str
    column: AtlasColumn
    rate_mbps: float
    rtt_ms: float
    buffer_bdp: float
    buffer_to_bdp: float
    duration_s: float
    warmup_s: float
    trials: int = 0
    left_out: int = 0
    verdict: str = NOT_RUN
    sure: bool = False
    l4s_percent: AtlasInterval | None = None
    classic_percent: AtlasInterval | None = None
    l4s_each_percent: tuple[float, ...] = ()
    classic_each_percent: tuple[float, ...] = ()
    l4s_delay_ms: AtlasInterval | None = None
    classic_delay_ms: AtlasInterval | None = None
    utilisation_percent: AtlasInterval | None = None
    cost_s: float = 0.0
    made_by: str = ""
    sources: str = ""
    wire: str = ""

    def holds_at(self, buffer_bdp: float) -> bool:
        """Return True if the result is that of a buffer, too."""
        return self.buffer_bdp <= buffer_bdp <= self.buffer_to_bdp

    def as_record(self) -> dict[str, str]:
        """Return the row as texts by column of the file."""
        record: dict[str, str] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, AtlasColumn):
                record |= {part.name: _text(getattr(value, part.name)) for part in fields(value)}
            elif one.name in _INTERVALS:
                ends = (None, None, None) if value is None else (value.mean, value.low, value.high)
                record |= dict(zip(_names(one.name), map(_text, ends), strict=True))
            else:
                record[one.name] = _text(value)
        return record

    @classmethod
    def of_record(cls, record: Mapping[str, str]) -> Self:
        """Return the row of a record.

        Raises:
            LookupError, ValueError: the record is damaged.
        """
        amounts: dict[str, Any] = {name: _number(record[name]) for name in _NUMBERS}
        if not all(amounts[name] > 0 for name in _PLACE):
            raise ValueError("a rate, a round-trip time or a buffer is not above zero")
        amounts |= {name: _interval(record, name) for name in _INTERVALS}
        amounts |= {name: tuple(map(_number, record[name].split())) for name in _EACH}
        if (verdict := record["verdict"]) not in _VERDICTS:
            raise ValueError(f"{verdict[:40]!r} is not a verdict")
        return cls(
            matrix=record["matrix"],
            cell=record["cell"],
            column=_column(*(record[one.name] for one in fields(AtlasColumn))),
            trials=int(record["trials"]),
            left_out=int(record["left_out"]),
            verdict=verdict,
            sure=record["sure"] == "yes",
            made_by=record["made_by"],
            sources=record["sources"],
            wire=record["wire"],
            **amounts,
        )


_VERDICTS: Final = frozenset((NOT_RUN, MEASURED, *Word))
_PLACE: Final = ("rate_mbps", "rtt_ms", "buffer_bdp")
_NUMBERS: Final = (*_PLACE, "buffer_to_bdp", "duration_s", "warmup_s", "cost_s")
_INTERVALS: Final = (
    "l4s_percent",
    "classic_percent",
    "l4s_delay_ms",
    "classic_delay_ms",
    "utilisation_percent",
)
_EACH: Final = ("l4s_each_percent", "classic_each_percent")


def _column(aqm: str, min_qlen_step: str, l4s: str, classic: str, classic_ecn: str) -> AtlasColumn:
    return AtlasColumn(aqm, int(min_qlen_step) if min_qlen_step else None, l4s, classic, classic_ecn)


@cache
def _names(quantity: str) -> tuple[str, str, str]:
    what, _, unit = quantity.rpartition("_")
    return quantity, f"{what}_low_{unit}", f"{what}_high_{unit}"


def _number(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text[:40]!r} is not a finite number")


def _interval(record: Mapping[str, str], name: str) -> AtlasInterval | None:
    mean, low, high = (_number(text) if (text := record[one]) else None for one in _names(name))
    if low is not None and high is not None and low > high:
        raise ValueError(f"the interval of {name} ends below its start")
    return None if mean is None else AtlasInterval(mean, low, high)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else ""
        case float():
            return f"{value:.5g}"
        case tuple():
            return " ".join(map(_text, value))
        case _:
            return str(value)


def shipped(table: str = PAIRS) -> Path:
    """Return the file of a table (`TABLES`) that ships with l4sbench."""
    return assets.folder("matrices") / f"{table}.csv.gz"


def read_atlas(file: Path) -> tuple[AtlasCell, ...]:
    """Return the rows of a table, column by column.

    Raises:
        InputError: the file is missing or damaged.
    """
    return tuple(chain.from_iterable(read_columns(file).values()))


def read_columns(file: Path) -> AtlasColumns:
    """Return the rows of a table by column.

    Raises:
        InputError: the file is missing or damaged.
    """
    with _damage_of(file):
        names, *records = _records(file) or [[]]
        found: dict[AtlasColumn, list[list[str]]] = {}
        if records:
            of = itemgetter(*(names.index(one.name) for one in fields(AtlasColumn)))
            alike: dict[tuple[str, ...], list[list[str]]] = {}
            for record in records:
                alike.setdefault(of(record), []).append(record)
            found = {_column(*texts): rows for texts, rows in alike.items()}
    return AtlasColumns(file, names, found)


class AtlasColumns(Mapping[AtlasColumn, tuple[AtlasCell, ...]]):
    """The rows of a table by column, made when a column is asked for, as an answer needs few of them."""

    def __init__(self, file: Path, names: Sequence[str], records: Mapping[AtlasColumn, list[list[str]]]):
        self._file, self._names, self._records = file, names, records
        self._made: dict[AtlasColumn, tuple[AtlasCell, ...]] = {}

    def __getitem__(self, column: AtlasColumn) -> tuple[AtlasCell, ...]:
        """Return the rows of a column.

        Raises:
            KeyError: the table has no such column.
            InputError: a row of it is damaged.
        """
        if column not in self._made:
            records = self._records[column]
            with _damage_of(self._file):
                rows = (dict(zip(self._names, record, strict=True)) for record in records)
                self._made[column] = tuple(map(AtlasCell.of_record, rows))
        return self._made[column]

    def __iter__(self) -> Iterator[AtlasColumn]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _records(file: Path) -> list[list[str]]:
    with gzip.open(file) as packed:
        content = packed.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InputError(f"{file} is larger than {_MOST_BYTES} bytes")
    return list(csv.reader(io.StringIO(content.decode())))


@contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, LookupError, ValueError, TypeError, csv.Error) as error:
        raise InputError(f"{file} is not a valid table of the atlas: {error}") from error


def write_atlas(cells: Iterable[AtlasCell], file: Path) -> None:
    """Write rows as a table; equal rows make equal files."""
    records = [cell.as_record() for cell in cells]
    text = io.StringIO()
    writer = csv.DictWriter(text, records[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    with new_file(file) as temporary:
        temporary.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


_SAME_WIRES: Final = {"f2a4675df32d": "4f95ff3df5b3"}
"""Digests of wires, and of later ones that change nothing for the queues of the atlas.

The later one clears departure times of packets. Of all queuing disciplines only fq, etf and taprio read
them, and no queue of the atlas is made of these. All 45 cells of 10 Mbit/s, 20 ms and 1 BDP have the same
shares and delays with both, trial by trial.
"""


@dataclass(frozen=True)
class AtlasSources:
    """The files from which the kernel, the modules and the wire are made now, as rows have their digests."""

    catalog: Catalog

    def made(self, row: AtlasCell) -> bool:
        """Return True if a row has trials, and these files made what they ran on."""
        wire = _SAME_WIRES.get(row.wire, row.wire)
        return row.verdict != NOT_RUN and (row.sources, wire) == (self.of(row.column), self.wire)

    @cached_property
    def wire(self) -> str:
        """Digest of the files of the lab's wire, which carries the packets of every cell."""
        return assets.digest(assets.folder("kernels") / "lab" / "wire", suffixes=_C)[:_DIGITS]

    def of(self, column: AtlasColumn) -> str:
        """Return the digest of the files that make the kernel and the modules of a column."""
        if column not in self._known:
            self._known[column] = self._of(column)
        return self._known[column]

    @cached_property
    def _known(self) -> dict[AtlasColumn, str]:
        return {}

    def _of(self, column: AtlasColumn) -> str:
        names = filter(None, (column.l4s, column.classic))
        ccs = map(self.catalog.congestion_control, names)
        entries: list[Queue | CongestionControl] = [self.catalog.queue(column.aqm), *ccs]
        lab = assets.folder("kernels") / "lab"
        files = [lab / "kernel.config", *sorted((lab / "patches").glob("*.patch"))]
        total = hashlib.sha256("\0".join(entry.digest for entry in entries).encode())
        for entry in entries:
            if entry.module is not None and entry.module.source is not None:
                total.update(assets.digest(entry.module.source, suffixes=_C).encode())
        for file in files:
            total.update(assets.digest(file).encode())
        return total.hexdigest()[:_DIGITS]


def digest_of(parts: Iterable[str]) -> str:
    """Return one digest, as rows have it, of the digests of a kernel and modules."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
