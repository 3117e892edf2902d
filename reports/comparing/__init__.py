# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Two runs beside each other: which cells and verdicts changed by more than noise."""

from reports.comparing.changes import CellChange, Change, MetricChange, Presence
from reports.comparing.comparison import Comparison, EntryChange, Side, compare
from reports.comparing.margins import Margins, load_margins

__all__ = [
    "CellChange",
    "Change",
    "Comparison",
    "EntryChange",
    "Margins",
    "MetricChange",
    "Presence",
    "Side",
    "compare",
    "load_margins",
]
