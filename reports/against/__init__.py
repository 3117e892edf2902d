# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run beside published results: cells, maps of differences, and printed verdicts."""

from reports.against.agreement import EntryAgreement
from reports.against.comparison import Comparison, compare
from reports.against.maps import Difference, DifferenceMap, difference_maps
from reports.against.render import as_document, markdown

__all__ = [
    "Comparison",
    "Difference",
    "DifferenceMap",
    "EntryAgreement",
    "as_document",
    "compare",
    "difference_maps",
    "markdown",
]
