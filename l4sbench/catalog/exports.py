# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""State that a congestion control or a kind of queue reports, and the columns of tables that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Table = Literal["sockets", "queues"]
ColumnKind = Literal["str", "int", "float"]

SHARED: Final[Mapping[Table, tuple[str, ...]]] = {
    "sockets": ("alpha",),
    "queues": (
        *("marks_packets", "threshold_marks_packets", "delay_ms", "prob"),
        *("delay_classic_ms", "delay_l4s_ms", "classic_packets", "l4s_packets", "flows"),
    ),
}
"""Columns that the tables have for every entry; each says of itself what it fills them with."""

MemberType = Literal["u8", "u16", "u32", "s32", "u64", "s64", "share32", "share64"]
"""Type of a member of statistics; a share is of all ones. kernels/lab/guest/sampler-queues.c reads them."""

UNITS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "_ms": {"ns": (1, 1e6), "us": (1, 1e3), "ms": (1, 1), "s": (1e3, 1)},
    "_mbps": {"bit/s": (1, 1e6), "B/s": (8, 1e6)},
}
"""End of a column's name -> units its counters may have -> what they are multiplied with and divided by."""

_AS_IT_IS: Final = (1.0, 1.0)


@dataclass(frozen=True)
class Column:
    """A column of a table and the counters behind it.

    Attributes:
        name: In the table; its end tells the unit.
        counters: Names of what the kernel reports, added up. One whose name begins with `-` is subtracted;
            those that are absent count as nothing.
        unit: Of the counters, where it is not the column's.
        kind: None for a shared column.
        doc: Its meaning, for the documentation of the tables; not part of programs.
    """

    name: str
    counters: tuple[str, ...]
    unit: str | None = None
    kind: ColumnKind | None = None
    doc: str = field(default="", compare=False)

    @property
    def scale(self) -> tuple[float, float]:
        """The factor and divisor from the counters' unit to the column's."""
        if self.unit is None:
            return _AS_IT_IS
        return units_of(self.name)[self.unit]


@dataclass(frozen=True)
class Exports:
    """Counters that a congestion control or a kind of queue reports.

    Attributes:
        table: Gets the columns: `sockets` or `queues`.
        source: The kernel module that lists its sockets in `/proc/net/<module>`, or the kind of queue.
        columns: In the table's order.
        statistics: Of a queue: the members of its statistics in the kernel, in order, with their types.
        panels: Of a congestion control: title -> columns that reports draw over time, together; not part of
            programs.
    """

    table: Table
    source: str
    columns: tuple[Column, ...] = ()
    statistics: tuple[tuple[str, str], ...] = ()
    panels: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)

    def counter(self, name: str) -> str:
        """Return the name under which samplers write a counter; for sockets it begins with the module's."""
        return f"{self.source.removeprefix('tcp_')}_{name}" if self.table == "sockets" else name


def units_of(column: str) -> Mapping[str, tuple[float, float]]:
    """Return the units that the counters of a column may have; empty when only the column's own will do."""
    return next((units for end, units in UNITS.items() if column.endswith(end)), {})
