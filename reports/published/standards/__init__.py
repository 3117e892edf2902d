# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requirements of standards as sheets of rows, and what trials say about them. Sheets are YAML files."""

from reports.published.standards.cases import Case, Outcome, Place
from reports.published.standards.judging import Conformance, RowVerdict, judge
from reports.published.standards.model import Margins, Row, Sheet, load_margins, load_sheet, offered

__all__ = [
    "Case",
    "Conformance",
    "Margins",
    "Outcome",
    "Place",
    "Row",
    "RowVerdict",
    "Sheet",
    "judge",
    "load_margins",
    "load_sheet",
    "offered",
]
