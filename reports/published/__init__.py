# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Published results: their data, their look, and a run beside them: cells, printed verdicts and claims."""

from reports.published.comparison import Difference, EntryAgreement, StudyComparison, compare, difference_maps
from reports.published.data import (
    FACTORS,
    PrintedEntry,
    PublishedCell,
    errata,
    printed_table,
    published_cells,
)
from reports.published.render import as_document, markdown

__all__ = [
    "FACTORS",
    "Difference",
    "EntryAgreement",
    "PrintedEntry",
    "PublishedCell",
    "StudyComparison",
    "as_document",
    "compare",
    "difference_maps",
    "errata",
    "markdown",
    "printed_table",
    "published_cells",
]
