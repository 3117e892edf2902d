# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Comparison of two runs: cells and verdicts that changed by more than noise."""

from reports.compare.beside import NumberBeside
from reports.compare.changes import CellChange, ChangeKind, MetricChange, Presence
from reports.compare.comparison import Comparison, EntryChange, Side, compare
from reports.compare.margins import Margins, load_margins

__all__ = [
    "CellChange",
    "ChangeKind",
    "Comparison",
    "EntryChange",
    "Margins",
    "MetricChange",
    "NumberBeside",
    "Presence",
    "Side",
    "compare",
    "load_margins",
]
