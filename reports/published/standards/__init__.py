# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Requirements of standards as sheets of rows, and what trials say about them. Sheets are YAML files."""

from reports.published.standards.cases import Case, Place, RowOutcome
from reports.published.standards.judging import Conformance, RowVerdict, judge
from reports.published.standards.model import (
    LimitChanges,
    Requirement,
    RequirementSheet,
    load_margins,
    load_sheet,
    offered,
)

__all__ = [
    "Case",
    "Conformance",
    "LimitChanges",
    "Place",
    "Requirement",
    "RequirementSheet",
    "RowOutcome",
    "RowVerdict",
    "judge",
    "load_margins",
    "load_sheet",
    "offered",
]
