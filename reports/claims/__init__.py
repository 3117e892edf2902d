# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a published study claims of its schemes, checked against a run. Claims are data, in YAML files."""

from reports.claims.check import Finding, Outcome, Report, check
from reports.claims.measures import MEASURES, measures
from reports.claims.model import Study, load_study, offered
from reports.claims.render import as_document, markdown

__all__ = [
    "MEASURES",
    "Finding",
    "Outcome",
    "Report",
    "Study",
    "as_document",
    "check",
    "load_study",
    "markdown",
    "measures",
    "offered",
]
