# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Claims of published studies about their schemes, checked against a run. Claims are data, in YAML files."""

from reports.published.claims.check import ClaimOutcome, ClaimsReport, Finding, check
from reports.published.claims.measures import MEASURES, least_of, measures
from reports.published.claims.model import Study, load_study, offered
from reports.published.claims.render import as_document, markdown

__all__ = [
    "MEASURES",
    "ClaimOutcome",
    "ClaimsReport",
    "Finding",
    "Study",
    "as_document",
    "check",
    "least_of",
    "load_study",
    "markdown",
    "measures",
    "offered",
]
